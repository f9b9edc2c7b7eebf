//! What the kernel answers to an encrypted packet (echo replies, unreachables) quotes it, so it leaves encrypted as well, also
//! where an association that only authenticates has the same selectors.

use lab::rig::{Pair, Rig, RigOptions};
use lab::{CaptureOptions, Program, Side};
use tests::{PATIENCE, binary, copy_of_python, program, protect};

/// What must not be on the wire: two of `ping -p`'s patterns, one of the datagram's.
const SECRET: &[u8] = b"SECRET!!SECRET!!";
const CLOSED: u16 = 7055;

/// A datagram with the secret to a closed port (address, port); what the socket is told.
const TO_A_CLOSED_PORT: &str = r#"
import errno, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.settimeout(20)
s.connect((sys.argv[1], int(sys.argv[2])))
s.send(b"SECRET!!" * 40)
try:
    s.recv(1)
except OSError as error:
    print(errno.errorcode.get(error.errno, error))
"#;

/// Alice answers, bob asks under `encryption mandatory`; between them is an association of each strength.
fn build(name: &str, asking: &[&std::path::Path]) -> Rig {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        let policy: String = asking.iter().map(|program| protect(program, peer)).collect();
        rig.set_policy(side, &policy).unwrap();
    }
    rig.start_both().unwrap();
    for v6 in [false, true] {
        let mode = if v6 { "tunnel" } else { "transport" };
        for suite in ["aes128gcm", "sha256"] {
            rig.associate(&Pair { v6, mode, suite, ..Pair::default() }).unwrap();
        }
    }
    rig
}

#[test]
fn answers_to_encrypted_packets_are_encrypted() {
    let scratch = tests::Scratch::new("answers");
    let (ping, python) = (program("ping"), copy_of_python(&scratch, "asks"));
    let rig = build("rvl-answers", &[&ping, &python]);
    let wire = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: vec![SECRET.to_vec()] }).unwrap();
    for address in [Side::Alice.v4().to_string(), Side::Alice.v6().to_string()] {
        // The pattern of `ping -p`: SECRET!!SECRET!!.
        let asks =
            ["-c", "3", "-i", "0.2", "-W", "20", "-s", "200", "-p", "53454352455421215345435245542121"];
        let asks = Program::new(&ping).args(asks).args([address.as_str()]);
        let done = rig.lab.bob().run_program(asks, PATIENCE).unwrap();
        assert!(done.out().contains("3 received"), "{address}: {} {}", done.out(), done.err());

        let port = CLOSED.to_string();
        let asks = Program::new(&python).args(["-c", TO_A_CLOSED_PORT, &address, &port]);
        let done = rig.lab.bob().run_program(asks, PATIENCE).unwrap();
        assert_eq!(done.out().trim(), "ECONNREFUSED", "{address}: {}", done.err());
    }
    let evidence = wire.finish().unwrap();
    assert!(evidence.is_complete());
    // Questions and answers of both families.
    assert!(evidence.esp >= 16, "{}", evidence.esp);
    assert!(!evidence.contains_bytes(SECRET), "what was encrypted came back in plain text");
}
