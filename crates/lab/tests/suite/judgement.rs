//! The judge itself: it must see what is there and fail when it should. Needs root.

use lab::{Corpus, Eavesdropper, Lab, PATIENCE, Side, lab};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn send(lab: &Lab, from: Side, local: u16, to: u16, octets: &[u8]) {
    let socket = lab.host(from).run(|| std::net::UdpSocket::bind((from.v4(), local)).unwrap()).unwrap();
    let peer = if from == Side::Alice { Side::Bob } else { Side::Alice };
    socket.send_to(octets, (peer.v4(), to)).unwrap();
}

fn fails(judgement: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(judgement)).expect_err("it must fail");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn it_fails_exactly_when_it_should() {
    let lab = lab("tk-judge");
    let ear = Eavesdropper::listen(&lab, &[b"a secret"]);
    // Without a taker bob would refuse it, in clear.
    let _taker = lab.bob().run(|| std::net::UdpSocket::bind((Side::Bob.v4(), 4500)).unwrap()).unwrap();
    send(&lab, Side::Alice, 4500, 4500, b"like an ESP packet");
    ear.wait_for("ESP", |e| e.esp == 1);
    ear.assert_only_esp("before anything clear");
    ear.assert_no_clear("before anything clear", |_| true);
    ear.assert_unreadable("before anything clear", b"a secret");

    send(&lab, Side::Alice, 0, 9, b"this is a secret");
    ear.assert_readable("a clear packet", b"a secret");
    ear.assert_no_clear("another flow", |flow| flow.remote_port == 10);
    let why = fails(|| ear.assert_no_clear("the flow", |flow| flow.remote_port == 9));
    assert!(why.starts_with("the flow: 1 clear packets") && why.contains("-> 198.51.100.2:9/udp"), "{why}");
    assert!(fails(|| ear.assert_only_esp("now")).starts_with("now: "));
    assert!(fails(|| ear.assert_unreadable("now", b"a secret")).contains("`a secret` is readable"));

    // Bob's port unreachable comes when it comes; then all is forgotten.
    let refused = |e: &lab::Evidence| !e.clear_packets(|f| f.protocol == 1).is_empty();
    ear.wait_for("the refusal", refused);
    ear.forget();
    assert!(fails(|| ear.assert_only_esp("nothing at all")).contains("no ESP either"));
    assert_eq!(ear.evidence().frames.len(), 0);
}

#[test]
fn a_server_is_ready_when_it_listens() {
    let lab = lab("tk-ready");
    let server = lab::Program::new("iperf3").args(["-s", "-1"]);
    let mut server = lab.bob().spawn(server).unwrap();
    lab.bob().wait_for_listener(lab::Transport::Tcp, 5201, &mut server, PATIENCE).unwrap();
    let ear = Eavesdropper::listen(&lab, &[]);
    let client = lab::Program::new("iperf3").args(["-c", "198.51.100.2", "-n", "1M"]);
    let done = lab.alice().run_program(client, PATIENCE).unwrap();
    assert!(done.status.success(), "{}{}", done.out(), done.err());
    assert!(server.finish(PATIENCE).unwrap().status.success());
    ear.wait_for("the transfer", |e| !e.clear_packets(|f| f.remote_port == 5201).is_empty());
}

#[test]
fn the_corpus_is_the_whole_of_it() {
    let Some(corpus) = Corpus::tcpdump() else { return };
    assert!(corpus.files().len() > 500);
    assert!(corpus.frames().filter(|(_, frame)| frame.ip().is_some()).count() > 2_500);
}
