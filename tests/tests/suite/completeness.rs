//! Completeness (paper 000 section 3.4): every packet of a protected program is protected, whatever the program and the
//! network do, and whatever happens to the daemon. The eavesdropper counts clear packets; there must be none.

use lab::rig::Rig;
use lab::{Capture, CaptureOptions, Program, Running, Side, Transport};
use std::path::PathBuf;
use std::time::Duration;
use tests::{PATIENCE, associate, forget_keys, program, programs, protected_rig, retransmitted, wait_until};

const UDP_PORT: u16 = 7001;
const TCP_PORT: u16 = 7002;
const TLS_PORT: u16 = 7003;
const BULK_PORT: u16 = 7004;

/// Octets in a page that a browser would fetch.
const BULK: u64 = 64 << 20;

struct Scene {
    rig: Rig,
    capture: Capture,
    servers: Vec<Running>,
    python: PathBuf,
    curl: PathBuf,
}

impl Scene {
    fn build(name: &str, segmentation: bool) -> Scene {
        let (python, curl, openssl) = (program("python3"), program("curl"), program("openssl"));
        let rig = protected_rig(name, segmentation, &[&python, &curl, &openssl]).unwrap();
        let capture = rig.lab.capture(CaptureOptions { keep: 16 << 20, watch: Vec::new() }).unwrap();
        let mut scene = Scene { rig, capture, servers: Vec::new(), python, curl };
        scene.serve(Transport::Udp, UDP_PORT, programs::UDP_ECHO, &[]);
        scene.serve(Transport::Tcp, TCP_PORT, programs::TCP_SERVER, &[]);
        scene.serve(Transport::Tcp, BULK_PORT, programs::BULK_SERVER, &[&BULK.to_string()]);
        scene.serve_tls(&openssl);
        scene
    }

    fn serve(&mut self, transport: Transport, port: u16, script: &str, args: &[&str]) {
        let server = Program::new(&self.python).args(["-c", script, &port.to_string()]).args(args);
        let mut server = self.rig.lab.bob().spawn(server).unwrap();
        self.rig.lab.bob().wait_for_listener(transport, port, &mut server, PATIENCE).unwrap();
        self.servers.push(server);
    }

    /// An unmodified `openssl s_server` with a certificate made here.
    fn serve_tls(&mut self, openssl: &PathBuf) {
        let folder = self.rig.folder().join("tls");
        std::fs::create_dir_all(&folder).unwrap();
        let page: Vec<u8> =
            b"a page behind TLS, line after line\n".iter().copied().cycle().take(4 << 20).collect();
        std::fs::write(folder.join("page"), page).unwrap();
        let request =
            Program::new(openssl).directory(&folder).args(["req", "-x509", "-newkey", "rsa:2048", "-nodes"]);
        let request = request.args(["-keyout", "key", "-out", "cert", "-days", "1", "-subj", "/CN=bob"]);
        let made = self.rig.lab.bob().run_program(request, PATIENCE).unwrap();
        assert!(made.status.success(), "{}", made.err());
        let server = Program::new(openssl).directory(&folder).args(["s_server", "-quiet", "-WWW", "-port"]);
        let server = server.arg(TLS_PORT.to_string()).args(["-key", "key", "-cert", "cert"]);
        let mut server = self.rig.lab.bob().spawn(server).unwrap();
        self.rig.lab.bob().wait_for_listener(Transport::Tcp, TLS_PORT, &mut server, PATIENCE).unwrap();
        self.servers.push(server);
    }

    fn client(&self, script: &str, args: &[&str]) -> Program {
        Program::new(&self.python).args(["-c", script]).args(args)
    }

    fn run(&self, script: &str, args: &[&str]) -> String {
        let done =
            self.rig.lab.alice().run_program(self.client(script, args), Duration::from_secs(120)).unwrap();
        assert!(done.status.success(), "{}{}", done.out(), done.err());
        done.out()
    }

    /// Start a transfer and return when it is under way.
    fn transfer(&self, address: &str) -> Running {
        let before = self.capture.look(|wire| wire.esp).unwrap();
        let client = self.client(programs::BULK_CLIENT, &[address, &BULK_PORT.to_string()]);
        let client = self.rig.lab.alice().spawn(client).unwrap();
        let moving = self.capture.wait_for(PATIENCE, |wire| (wire.esp > before + 200).then_some(())).unwrap();
        assert!(moving.is_some(), "the transfer does not start: {}", client.output());
        client
    }

    fn assert_nothing_clear(&self, when: &str) {
        let (clear, first, complete) = self
            .capture
            .look(|wire| (wire.clear, wire.all_clear().first().map(ToString::to_string), wire.is_complete()))
            .unwrap();
        assert_eq!(clear, 0, "{when}: first clear packet: {}", first.unwrap_or_default());
        assert!(complete, "{when}: the eavesdropper missed packets");
    }
}

fn every_kind_of_packet(name: &str, segmentation: bool, address: &str) {
    let scene = Scene::build(name, segmentation);

    let echoed = scene.run(programs::UDP_CLIENT, &[address, &UDP_PORT.to_string()]);
    assert_eq!(echoed.trim(), "echoed 18 of 18");
    scene.assert_nothing_clear("UDP of every size, connected and not");

    let said = scene.run(programs::TCP_CLIENT, &[address, &TCP_PORT.to_string()]);
    assert_eq!(said, "reset by peer\nrefused\ndone\n");
    scene.assert_nothing_clear("keepalive, FIN, RST, a closed port");

    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let curl = Program::new(&scene.curl)
        .args(["-sSk", "--max-time", "20"])
        .arg(format!("https://{host}:{TLS_PORT}/page"));
    let page = scene.rig.lab.alice().run_program(curl, Duration::from_secs(30)).unwrap();
    assert!(page.status.success(), "{}", page.err());
    assert_eq!(page.stdout.len(), 4 << 20);
    scene.assert_nothing_clear("a TLS download");

    let client = scene.transfer(address);
    cut_the_wire(&scene);
    let done = client.finish(Duration::from_secs(120)).unwrap();
    assert!(done.out().trim().ends_with(&BULK.to_string()), "{}{}", done.out(), done.err());
    scene.assert_nothing_clear("retransmission after the wire was cut");
    let octets = scene.capture.look(|wire| wire.esp_octets).unwrap();
    assert!(octets > BULK, "only {octets} octets of ESP were seen");
}

/// Cut the wire until the server has sent something again, twice.
fn cut_the_wire(scene: &Scene) {
    let set = |up: bool| {
        let port = Side::Bob.name();
        scene
            .rig
            .lab
            .wire()
            .run(|| {
                let mut links = netio::link::Links::open().unwrap();
                let index = links.index(port).unwrap();
                links.set_up(index, up).unwrap();
            })
            .unwrap();
    };
    set(false);
    let before = retransmitted(&scene.rig, Side::Bob);
    wait_until("retransmissions", PATIENCE, || retransmitted(&scene.rig, Side::Bob) >= before + 2);
    set(true);
}

#[test]
fn every_kind_of_packet_over_ipv4() {
    every_kind_of_packet("rvl-all-v4", true, &Side::Bob.v4().to_string());
}

#[test]
fn every_kind_of_packet_over_ipv6_without_offload() {
    every_kind_of_packet("rvl-all-v6", false, &Side::Bob.v6().to_string());
}

#[test]
fn the_daemon_dies_under_load_and_comes_back() {
    let mut scene = Scene::build("rvl-kill", true);
    let address = Side::Bob.v4().to_string();
    for side in Side::BOTH {
        let client = scene.transfer(&address);
        scene.rig.kill(side).unwrap();
        let before = Side::BOTH.map(|side| retransmitted(&scene.rig, side));
        // Retransmissions of the old connection, and a program that knows nothing of all this.
        let late = scene.client(programs::BULK_CLIENT, &[&address, &BULK_PORT.to_string()]);
        let late = scene.rig.lab.alice().spawn(late).unwrap();
        wait_until("both send again what is not answered", PATIENCE, || {
            Side::BOTH
                .into_iter()
                .zip(before)
                .all(|(side, before)| retransmitted(&scene.rig, side) >= before + 2)
        });
        scene.assert_nothing_clear(&format!("{}'s daemon was killed", side.name()));

        scene.rig.start(side).unwrap();
        scene.assert_nothing_clear(&format!("{}'s daemon started again, without keys", side.name()));
        forget_keys(&scene.rig);
        associate(&scene.rig).unwrap();
        let done = late.finish(Duration::from_secs(120)).unwrap();
        assert!(done.out().trim().ends_with(&BULK.to_string()), "{}{}", done.out(), done.err());
        let done = client.finish(Duration::from_secs(120)).unwrap();
        assert!(done.out().trim().ends_with(&BULK.to_string()), "{}{}", done.out(), done.err());
        scene.assert_nothing_clear(&format!("{}'s daemon carries traffic again", side.name()));
    }
}
