//! A policy with every verdict in it, and who answers.

use std::path::Path;

use netio::lab::{Program, Running, Side};
use ravelin::rig::Rig;

use crate::{PATIENCE, programs};

/// Of a program: the peer's IPv4 address is protected but for port `never`, its IPv6 address trusted, 203.0.113.0/24 refused.
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
