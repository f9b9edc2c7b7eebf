//! `ravelin debug` and `ravelin stats`: the log says more while it is asked to, and everything that is counted is shown.

use lab::rig::{Rig, RigOptions};
use lab::{Program, Side};
use tests::{PATIENCE, associate, binary, counted, program, protect, wait_for, wait_until};

/// Sends a datagram to nobody every 50 ms.
const DATAGRAMS: &str = "import socket, sys, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nwhile True:\n    \
                         s.sendto(b'x', (sys.argv[1], 9))\n    time.sleep(0.05)  # the rate\n";

#[test]
fn the_log_says_more_for_a_while_and_statistics_say_what_happened() {
    let python = program("python3");
    let options =
        RigOptions { name: "rvl-debug".to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    let side = Side::Alice;
    rig.set_policy(side, &protect(&python, Side::Bob)).unwrap();
    rig.set_policy(Side::Bob, &protect(&python, side)).unwrap();
    rig.start_both().unwrap();
    let bob = Side::Bob.v4().to_string();
    let _sending = [(side, Side::Bob), (Side::Bob, side)].map(|(side, peer)| {
        let sender = Program::new(&python).args(["-c", DATAGRAMS, &peer.v4().to_string()]);
        rig.lab.host(side).spawn(sender).unwrap()
    });
    let log = |rig: &Rig| rig.daemon(side).unwrap().output();
    // Bob's daemon loses packets likewise, and says so: by his log it can be told that alice's had the time to.
    rig.ravelin(Side::Bob, &["debug", "daemon=debug"], "").unwrap();
    let said_by_bob = |what: &str| rig.daemon(Side::Bob).unwrap().output().matches(what).count();
    let bob_says = |what: &str, times: usize| {
        let before = said_by_bob(what);
        wait_until(what, PATIENCE, || said_by_bob(what) >= before + times);
    };
    let debug = |args: &[&str]| {
        let args: Vec<&str> = ["debug"].into_iter().chain(args.iter().copied()).collect();
        rig.command(side, &args, "").unwrap()
    };
    assert_eq!(debug(&[]).out(), "info\n");
    wait_until("alice's lost packets", PATIENCE, || counted(&rig, side, "outbound", "no_sa") > 0);
    bob_says("packets ended", 3);
    assert!(!log(&rig).contains("packets ended"), "{}", log(&rig));
    let switched = debug(&["daemon=debug", "--for", "4s"]).out();
    assert!(switched.starts_with("daemon=debug, then info in "), "{switched}");
    rig.daemon(side)
        .unwrap()
        .wait_for_output("packets ended way=\"outbound\" reason=no_sa count=", PATIENCE)
        .unwrap();
    rig.daemon(side).unwrap().wait_for_output("the log shows info again", PATIENCE).unwrap();
    assert_eq!(debug(&[]).out(), "info\n");
    let before = log(&rig).matches("packets ended").count();
    bob_says("packets ended", 3);
    assert_eq!(log(&rig).matches("packets ended").count(), before);
    assert!(log(&rig).contains("log_filter_changed") && log(&rig).contains("uid=0"), "{}", log(&rig));
    // A change that comes in between outlives the end that was set before it.
    debug(&["debug", "--for", "1s"]);
    debug(&["warn"]);
    rig.ravelin(Side::Bob, &["debug", "debug", "--for", "1s"], "").unwrap();
    bob_says("the log shows info again", 1);
    assert_eq!(debug(&[]).out(), "warn (started with info)\n");
    assert_eq!(debug(&["default"]).out(), "info\n");
    for wrong in ["hyper=trace", "loud", ""] {
        let refused = debug(&[wrong]);
        assert_eq!(
            (refused.status.code(), refused.out()),
            (Some(2), String::new()),
            "{wrong}: {}",
            refused.err()
        );
    }
    assert_eq!(debug(&[]).out(), "info\n");

    let stats = |args: &[&str]| {
        let args: Vec<&str> = ["stats"].into_iter().chain(args.iter().copied()).collect();
        rig.ravelin(side, &args, "").unwrap()
    };
    let text = stats(&[]);
    let no_sa =
        "outbound packets: the policy demands protection and no security association serves this flow";
    assert!(text.contains("\nsad:\n") && text.contains(no_sa), "{text}");
    assert!(!text.contains(" 0 ") && !text.contains("\nesp:\n"), "{text}");
    assert!(stats(&["-a"]).contains("    0 outbound associations\n"), "{}", stats(&["-a"]));
    associate(&rig).unwrap();
    wait_for("sealed packets", PATIENCE, || {
        let text = stats(&[]);
        if text.contains("packets that these have sealed") { Ok(()) } else { Err(text) }
    });
    let list = rig.json(side, &["sa", "list"]).unwrap();
    let sas = list["sas"].as_array().unwrap();
    let sa = sas.iter().find(|sa| sa["direction"] == "out" && sa["remote"] == bob.as_str()).unwrap();
    let of_one = stats(&["--sa", sa["spi"].as_str().unwrap()]);
    assert!(of_one.contains("packets carried") && of_one.contains("is the last sequence number"), "{of_one}");
    // What changes is watched.
    let watch = Program::new(binary()).args(["stats", "--watch", "1", "--instance"]).arg(rig.instance(side));
    let watch = rig.lab.host(side).spawn(watch).unwrap();
    watch.wait_for_output("packets left under protection", PATIENCE).unwrap();
    let seen = watch.kill().unwrap().out();
    assert!(seen.lines().any(|line| line.starts_with("esp ") && line.contains('+')), "{seen}");
    assert_eq!(rig.json(side, &["counters"]).unwrap()["sections"][0]["name"], "ip");
}
