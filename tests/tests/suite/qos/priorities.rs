//! The class of a packet as the priority of what leaves, read by HTB at the uplink: with and without UDP, in bursts, over
//! an exchange of graphs while packets go on.

use lab::rig::{Pair, Rig};
use lab::{Program, Side};
use tests::{PATIENCE, associate, binary, one_line, tcp_server};

use super::exchange::{begin_stream, end_stream};
use super::{COUNT, GraphFile, TCP, build, datagrams, echo_server};

/// Calls leave in `1:10` of HTB and the rest in `1:20`.
const TWO: &str = "[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\nsocket_priority = \"1:10\"\n\n\
                   [class.rest]\nmatch = \"rest\"\nsocket_priority = \"1:20\"\n";

fn tc(rig: &Rig, args: &str) -> Result<String, String> {
    let program = Program::new("tc").args(args.split(' '));
    let done = rig.lab.alice().run_program(program, PATIENCE).unwrap();
    if done.status.success() { Ok(done.out()) } else { Err(done.err()) }
}

/// HTB at alice's uplink with three classes, of which `1:30` has what names no class; `false` if this kernel cannot.
fn shape(rig: &Rig) -> bool {
    if !netio::udp::takes_priorities() {
        println!("skipped: this kernel takes no priority beside a packet");
        return false;
    }
    if let Err(why) = tc(rig, "qdisc add dev eth0 root handle 1: htb default 30") {
        println!("skipped: no HTB here: {why}");
        return false;
    }
    for class in ["10", "20", "30"] {
        tc(rig, &format!("class add dev eth0 parent 1: classid 1:{class} htb rate 1gbit quantum 60000"))
            .unwrap();
    }
    true
}

/// The packets that `1:10`, `1:20` and `1:30` have sent.
fn sent(rig: &Rig) -> [u64; 3] {
    let text = tc(rig, "-s class show dev eth0").unwrap();
    ["1:10", "1:20", "1:30"].map(|class| {
        let (_, of_class) = text.split_once(&format!("class htb {class} ")).unwrap();
        let (_, sent) = of_class.split_once(" bytes ").unwrap();
        sent.split(' ').next().unwrap().parse().unwrap()
    })
}

/// The packets that each class has sent in the course of `work`.
fn counted(rig: &Rig, work: impl FnOnce()) -> [u64; 3] {
    let before = sent(rig);
    work();
    let after = sent(rig);
    [0, 1, 2].map(|class| after[class] - before[class])
}

#[test]
fn calls_leave_in_their_class_of_htb_and_an_exchange_of_graphs_gives_them_another() {
    let file = GraphFile::new("rvl-qosprio", TWO);
    let (mut rig, app) = build("rvl-qosprio", &file.configuration());
    if !shape(&rig) {
        return;
    }
    rig.start_both().unwrap();
    associate(&rig).unwrap();
    let _server = tcp_server(&rig, &app, TCP);
    let _echo = echo_server(&rig, &app);

    let [calls, rest, _] = counted(&rig, || datagrams(&rig, &app, 46 << 2));
    assert!(calls == COUNT && rest < COUNT / 2, "{calls} calls, {rest} of the rest");
    let [calls, rest, _] = counted(&rig, || datagrams(&rig, &app, 0));
    assert!(calls == 0 && rest >= COUNT, "{calls} calls, {rest} of the rest");
    // Bursts, in both families.
    for address in [Side::Bob.v4().to_string(), Side::Bob.v6().to_string()] {
        let [calls, rest, _] = counted(&rig, || {
            let (same, wrong) = one_line(&rig, &app, &address, TCP, 3_000_000);
            assert_eq!(same.trim(), "same", "{address}: {wrong}");
        });
        assert!(calls == 0 && rest > 2_000, "{address}: {calls} calls, {rest} of the rest");
    }
    let graph = rig.ravelin(Side::Alice, &["qos", "show", "--graph"], "").unwrap();
    assert!(
        graph.contains("socket_priority = \"1:10\"") && graph.contains("socket_priority = \"1:20\""),
        "{graph}"
    );
    let config = rig.config_file(Side::Alice).display().to_string();
    let doctor = Program::new(binary()).args(["doctor", "--config", &config]);
    let doctor = rig.lab.alice().run_program(doctor, PATIENCE).unwrap().out();
    assert!(doctor.contains("qdisc priorities"), "{doctor}");

    // Other priorities, while packets go on.
    let other = file.beside("other.toml", &TWO.replace("1:10", "1:30").replace("1:20", "1:10"));
    let stream = begin_stream(&rig, &app, file.0.with_file_name("end"));
    for _ in 0..5 {
        rig.ravelin(Side::Alice, &["qos", "apply", &other, "--confirm-within", "60s"], "").unwrap();
        rig.ravelin(Side::Alice, &["qos", "rollback"], "").unwrap();
    }
    rig.ravelin(Side::Alice, &["qos", "apply", &other, "--confirm-within", "60s"], "").unwrap();
    let [rest, nobody, _] = counted(&rig, || datagrams(&rig, &app, 0));
    assert!(rest >= COUNT && nobody == 0, "{rest} of the rest, {nobody} in the class before");
    end_stream(&rig, stream);
    let [_, nobody, calls] = counted(&rig, || datagrams(&rig, &app, 46 << 2));
    assert!(calls >= COUNT && nobody == 0, "{calls} calls, {nobody} in the class before");
    rig.ravelin(Side::Alice, &["qos", "rollback"], "").unwrap();
    // A graph without priorities leaves them to the kernel, which knows no class of HTB.
    let none = file.beside("none.toml", "preset = \"two-classes\"\n");
    rig.ravelin(Side::Alice, &["qos", "apply", &none, "--confirm-within", "60s"], "").unwrap();
    let [one, two, default] = counted(&rig, || datagrams(&rig, &app, 46 << 2));
    assert!((one, two) == (0, 0) && default >= COUNT, "{one}, {two}, {default}");
    rig.ravelin(Side::Alice, &["qos", "rollback"], "").unwrap();
    // The successor goes on with them.
    rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    assert_eq!(counted(&rig, || datagrams(&rig, &app, 46 << 2))[0], COUNT);
}

#[test]
fn bare_packets_leave_in_their_class_of_htb() {
    let file = GraphFile::new("rvl-qospbare", TWO);
    let (mut rig, app) = build("rvl-qospbare", &file.configuration());
    if !shape(&rig) {
        return;
    }
    rig.start_both().unwrap();
    let args = || ["--encapsulation", "none"].map(str::to_owned).to_vec();
    rig.associate(&Pair { alice: args(), bob: args(), ..Pair::default() }).unwrap();
    let _echo = echo_server(&rig, &app);
    let [calls, rest, _] = counted(&rig, || datagrams(&rig, &app, 46 << 2));
    assert!(calls == COUNT && rest < COUNT / 2, "{calls} calls, {rest} of the rest");
    let [calls, rest, _] = counted(&rig, || datagrams(&rig, &app, 0));
    assert!(calls == 0 && rest >= COUNT, "{calls} calls, {rest} of the rest");
}
