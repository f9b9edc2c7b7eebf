//! Figure 11 of paper 000: a login and a file by FTP between unmodified programs, as an eavesdropper sees them. Without protection
//! both can be read. Under the fast policy (Figure 9) the control connection is ESP and the data connection AH; under the
//! secure policy everything is ESP.

use lab::rig::{Pair, Rig, RigOptions};
use lab::{CaptureOptions, Evidence, Program, Side};
use tests::{PATIENCE, binary, ftp, program};
use wire::protocol;

const PASSWORD: &str = "correct-horse-battery";
const LETTER: &[u8] = b"what the data connection carries";

/// Figure 9's policies, of the server on bob and of the client on alice.
fn policy(side: Side, data: &str) -> String {
    let (app, peer, control) = match side {
        Side::Alice => ("curl", Side::Bob, "localport=any remoteport=21"),
        Side::Bob => ("vsftpd", Side::Alice, "localport=21 remoteport=any"),
    };
    format!(
        "application \"{}\" {{\n  network {} protected P;\n  protection P {{\n    {control} encryption mandatory;\n    \
         localport=any remoteport=any {data} mandatory;\n  }}\n}}\n",
        program(app).display(),
        peer.v4(),
    )
}

/// Fetch the letter once; what the wire showed.
fn fetch(rig: &Rig) -> Evidence {
    let capture = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap();
    let url = format!("ftp://anonymous:{PASSWORD}@{}/letter", Side::Bob.v4());
    let curl = Program::new(program("curl")).args([
        "--silent",
        "--show-error",
        "--disable-epsv",
        "--max-time",
        "15",
        &url,
    ]);
    let done = rig.lab.alice().run_program(curl, PATIENCE).unwrap();
    assert_eq!(done.out().as_bytes(), LETTER, "{}", done.err());
    let wire = capture.finish().unwrap();
    assert!(wire.is_complete());
    wire
}

/// Frames between the hosts that anybody can read, by IP protocol: whether all of them are of this one, and some are.
fn readable(wire: &Evidence, wanted: u8) -> bool {
    let clear = wire.all_clear();
    !clear.is_empty() && clear.iter().all(|seen| seen.flow.is_some_and(|flow| flow.protocol == wanted))
}

#[test]
fn ftp_is_readable_before_and_esp_and_ah_after() {
    let options =
        RigOptions { name: "rvl-figure11".to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    for side in Side::BOTH {
        // Of a program that nobody runs.
        rig.set_policy(side, "application \"/bin/sleep\" { network 0.0.0.0/0 untrusted; }\n").unwrap();
    }
    rig.start_both().unwrap();
    // The order in which they are added says nothing: each kind of traffic gets what gives no more than is asked.
    let bare = || ["--encapsulation", "none"].map(str::to_owned).to_vec();
    let ah = || ["--type", "ah", "--encapsulation", "none"].map(str::to_owned).to_vec();
    rig.associate(&Pair { suite: "sha256", alice: ah(), bob: ah(), ..Pair::default() }).unwrap();
    rig.associate(&Pair { alice: bare(), bob: bare(), ..Pair::default() }).unwrap();
    let _server = ftp::serve(rig.lab.bob(), rig.folder(), "letter", LETTER);

    let wire = fetch(&rig);
    assert!(readable(&wire, protocol::TCP), "{:?}", wire.all_clear());
    assert!(wire.contains_bytes(PASSWORD.as_bytes()) && wire.contains_bytes(LETTER));

    let protect = |data: &str| {
        for side in Side::BOTH {
            rig.set_policy(side, &policy(side, data)).unwrap();
            rig.reload(side).unwrap();
        }
    };
    protect("authentication");
    // The server of before has no policy: its sockets are older than that. One of now has.
    drop(_server);
    let _server = ftp::serve(rig.lab.bob(), rig.folder(), "letter", LETTER);
    let wire = fetch(&rig);
    assert!(wire.esp > 10, "{}", wire.esp);
    assert!(readable(&wire, protocol::AH), "{:?}", wire.all_clear());
    assert!(!wire.contains_bytes(PASSWORD.as_bytes()), "the password can be read");
    assert!(!wire.contains_bytes(b"USER anonymous"), "the control connection can be read");
    // Authenticated is not hidden: the letter is in AH, as the policy says.
    assert!(wire.contains_bytes(LETTER));

    protect("encryption");
    let wire = fetch(&rig);
    assert_eq!(wire.clear, 0, "{:?}", wire.all_clear());
    assert!(wire.esp > 20, "{}", wire.esp);
    assert!(!wire.contains_bytes(PASSWORD.as_bytes()) && !wire.contains_bytes(LETTER));
}
