//! The enc device (paper 001 section 2.2, docs/enc.md): tcpdump sees protected packets in clear, and a packet filter admits
//! only what came out of protection.

use lab::rig::{Rig, RigOptions};
use lab::{Program, Side};
use tests::{
    PATIENCE, Scratch, associate, binary, copy_of_python, counted, one_line, program, protect, protected_rig,
    tcp_server, wait_for, wait_until,
};

const PORT: u16 = 7040;

#[test]
fn tcpdump_sees_protected_packets_in_clear_and_no_others() {
    let scratch = Scratch::new("enc");
    let app = copy_of_python(&scratch, "app");
    let rig = protected_rig("rvl-enc", true, &[&app]).unwrap();
    let plain = program("python3");
    let _server = tcp_server(&rig, &app, PORT);
    let _plain_server = tcp_server(&rig, &plain, PORT + 1);
    let mirrored = || counted(&rig, Side::Alice, "kernel", "enc_mirrored");
    let v4 = Side::Bob.v4().to_string();
    // Nobody listens: nothing is copied.
    assert_eq!(one_line(&rig, &app, &v4, PORT, 10).0, "same\n");
    assert_eq!(mirrored(), 0);

    let dump = Program::new(program("tcpdump")).args(["-i", "rvle0", "-n", "-vv", "-A", "-l", "-s", "0"]);
    let dump = rig.lab.alice().spawn(dump).unwrap();
    dump.wait_for_output("listening on rvle0, link-type RAW", PATIENCE).unwrap();
    // The daemon looks once a second.
    wait_for("the first copies", PATIENCE, || {
        assert_eq!(one_line(&rig, &app, &v4, PORT, 3).0, "same\n");
        let seen = dump.output();
        if seen.contains("line-xxx") { Ok(()) } else { Err(format!("{seen} {}", mirrored())) }
    });
    // Super-packets are cut before anybody sees them; IPv6 too; and the clear port is never there.
    assert_eq!(one_line(&rig, &app, &v4, PORT, 50_000).0, "same\n");
    assert_eq!(one_line(&rig, &app, &Side::Bob.v6().to_string(), PORT, 3000).0, "same\n");
    assert_eq!(one_line(&rig, &plain, &v4, PORT + 1, 700).0, "same\n");
    // The last that it is to see, and it sees packets in their order: a line of a length that no other has, and its end.
    assert_eq!(one_line(&rig, &app, &v4, PORT, 778).0, "same\n");
    let last = |line: &&str| line.contains(&format!("{v4}.{PORT} > ")) && line.ends_with("length 784");
    wait_for("the marker in tcpdump's output", PATIENCE, || {
        let seen = dump.output();
        let found = seen.lines().any(|line| last(&line));
        if found { Ok(()) } else { Err(seen) }
    });
    dump.signal(libc::SIGINT).unwrap();
    let seen = dump.finish(PATIENCE).unwrap().out();
    let count = |text: &str| seen.matches(text).count();
    let (alice, bob) = (Side::Alice.v4().to_string(), Side::Bob.v4().to_string());
    let from_alice =
        |line: &&str| line.contains(&format!("{alice}.")) && line.contains(&format!("> {bob}.{PORT}:"));
    assert!(seen.lines().filter(from_alice).count() > 3, "{seen}");
    assert!(count(&format!("{bob}.{PORT} > {alice}.")) > 3, "{seen}");
    assert!(
        count(&format!("> {}.{PORT}:", Side::Bob.v6())) > 1
            && count(&format!("{}.{PORT} >", Side::Bob.v6())) > 1
    );
    assert!(count("(correct)") > 10, "{seen}");
    assert_eq!(count("(incorrect"), 0, "{seen}");
    assert_eq!(count(&format!(".{}:", PORT + 1)) + count(&format!(".{} >", PORT + 1)), 0, "clear traffic");
    assert_eq!(count("ESP") + count("IP6 (hlim 255") + count("truncated"), 0, "{seen}");
    // Both directions carry the whole line: 50,000 octets there and back.
    let octets: usize = seen
        .lines()
        .filter(|l| l.contains("seq ") && l.contains("length "))
        .filter_map(|l| l.rsplit("length ").next()?.parse::<usize>().ok())
        .sum();
    assert!(octets >= 2 * 53_000, "{octets}");
    // And when tcpdump has gone, copying ends.
    wait_until("the end of copying", PATIENCE, || {
        let before = mirrored();
        assert_eq!(one_line(&rig, &app, &v4, PORT, 10).0, "same\n");
        mirrored() == before
    });
}

/// Admit the port only for what came out of protection (docs/enc.md has the same rules).
const RULES: &str = r#"
table inet admit {
  chain input {
    type filter hook input priority 0;
    tcp dport 7042 iifname "rvl0" meta mark & 0x81000000 == 0x81000000 accept
    tcp dport 7042 reject with tcp reset
  }
}
"#;

#[test]
fn a_packet_filter_admits_only_authenticated_traffic() {
    let scratch = Scratch::new("nft");
    let app = copy_of_python(&scratch, "app");
    let port = 7042;
    let options =
        RigOptions { name: "rvl-nft".to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    rig.set_policy(Side::Alice, &protect(&app, Side::Bob)).unwrap();
    // Bob's server takes what it gets; the packet filter is what demands more.
    rig.set_policy(Side::Bob, &protect(&app, Side::Alice).replace("mandatory", "optional")).unwrap();
    rig.start_both().unwrap();
    let _server = tcp_server(&rig, &app, port);
    let (v4, v6) = (Side::Bob.v4().to_string(), Side::Bob.v6().to_string());
    let plain = program("python3");
    for address in [&v4, &v6] {
        assert_eq!(
            one_line(&rig, &plain, address, port, 9).0,
            "same\n",
            "the control: admitted without the rule"
        );
    }
    let nft = Program::new(program("nft")).args(["-f", "-"]).input(RULES);
    let loaded = rig.lab.bob().run_program(nft, PATIENCE).unwrap();
    assert!(loaded.status.success(), "{}", loaded.err());
    for address in [&v4, &v6] {
        let (_, refused) = one_line(&rig, &plain, address, port, 9);
        assert!(refused.contains("ConnectionRefusedError"), "{refused}");
    }
    associate(&rig).unwrap();
    for address in [&v4, &v6] {
        let (answer, fault) = one_line(&rig, &app, address, port, 9);
        assert_eq!(answer, "same\n", "{fault}");
    }
}
