//! A policy with every verdict in it, who answers, and a run that has them all.

use std::path::{Path, PathBuf};

use lab::rig::{Rig, RigOptions};
use lab::{Program, Running, Side};

use crate::{PATIENCE, associate, binary, copy_of_python, one_line, programs, tcp_server};

/// Octets of the line that goes in clear there and back: large pieces, which the device cuts.
pub const LINE: usize = 300_000;

/// The ports of bob's servers.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// TCP in clear, by the network: over IPv6.
    pub clear: u16,
    /// UDP that is protected.
    pub protected: u16,
    /// UDP in clear by an item: the engine sends it.
    pub never: u16,
}

impl Ports {
    /// Two hosts with that policy for one program, which is given too, and with keys. `configure` says what alice's configuration
    /// has beside the usual, by the rig's folder.
    ///
    /// # Panics
    /// If it cannot be built.
    pub fn rig(&self, name: &str, configure: impl FnOnce(&Path) -> String) -> (Rig, PathBuf) {
        let options =
            RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: false };
        let mut rig = Rig::build(&options).unwrap();
        let app = copy_of_python(rig.folder(), "app");
        let lines = configure(rig.folder());
        rig.configure(Side::Alice, &lines);
        for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
            rig.set_policy(side, &policy(&app, peer, self.never)).unwrap();
        }
        rig.start_both().unwrap();
        associate(&rig).unwrap();
        (rig, app)
    }

    /// Start bob's three servers, for the ports in the order of the fields.
    ///
    /// # Panics
    /// If one does not run.
    pub fn serve(&self, rig: &Rig, app: &Path) -> [Running; 3] {
        [tcp_server(rig, app, self.clear), echo(rig, app, self.protected), echo(rig, app, self.never)]
    }

    /// A line in clear to its server and back, then `datagrams`, then a call that is refused.
    ///
    /// # Panics
    /// If one of them does not go as the policy says.
    pub fn run(&self, rig: &Rig, app: &Path, datagrams: impl FnOnce()) {
        let (same, wrong) = one_line(rig, app, &Side::Bob.v6().to_string(), self.clear, LINE);
        assert_eq!(same.trim(), "same", "{wrong}");
        datagrams();
        let refused = ["-c", "import socket; socket.create_connection(('203.0.113.9', 9))"];
        let refused = rig.lab.alice().run_program(Program::new(app).args(refused), PATIENCE).unwrap();
        assert!(refused.err().contains("Operation not permitted"), "{}", refused.err());
    }
}

/// The policy of a program: the peer's IPv4 address is protected but for port `never`, its IPv6 address trusted,
/// 203.0.113.0/24 refused.
pub fn policy(app: &Path, peer: Side, never: u16) -> String {
    format!(
        "application \"{}\" {{\n  network {} protected P;\n  network {} trusted;\n  network 203.0.113.0/24 untrusted;\n  protection P {{\n    \
         localport=any remoteport={never} never;\n    localport={never} remoteport=any never;\n    localport=any remoteport=any \
         encryption mandatory;\n  }}\n}}\n",
        app.display(),
        peer.v4(),
        peer.v6()
    )
}

/// A program on bob that sends datagrams back.
///
/// # Panics
/// If it does not run.
pub fn echo(rig: &Rig, app: &Path, port: u16) -> Running {
    let server = Program::new(app).args(["-c", programs::UDP_ECHO, &port.to_string()]);
    let server = rig.lab.bob().spawn(server).unwrap();
    server.wait_for_output("ready", PATIENCE).unwrap();
    server
}
