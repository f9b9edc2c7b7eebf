use super::*;
use wire::Prefix;

const CURL: AppId = AppId(3);

fn at(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

fn peer() -> IpAddr {
    IpAddr::from([192, 0, 2, 2])
}

fn flow() -> Flow {
    Flow {
        local: [192, 0, 2, 1].into(),
        remote: peer(),
        local_port: 40000,
        remote_port: 443,
        protocol: 6,
        opaque: false,
    }
}

fn ends(book: &mut HealthBook, reason: DropReason, spi: u32, now: u64) {
    ends_of(book, CURL, flow(), reason, spi, now);
}

fn ends_of(book: &mut HealthBook, app: AppId, flow: Flow, reason: DropReason, spi: u32, now: u64) {
    let dropped = Dropped {
        at: at(now),
        reason,
        app,
        rule: 0,
        spi,
        sequence: 0,
        cookie: 0,
        mark: 0,
        len: 60,
        flow: Some(flow),
        outer: None,
        flow_label: 0,
        scrub: None,
    };
    book.note(Ended { id: 1, at: Duration::ZERO, direction: Direction::Outbound, dropped }, at(now));
}

fn causes(book: &HealthBook, now: u64) -> Vec<Cause> {
    book.causes(at(now))
}

fn outlook(spi: Option<u32>, answered: bool) -> [Outlook; 1] {
    [Outlook { protect: true, spi: spi.map(Spi), answered, by_uplink: false }]
}

#[test]
fn a_flow_that_gets_nothing_through_for_ten_seconds_is_a_problem_until_associations_serve_both_directions() {
    let mut book = HealthBook::default();
    ends(&mut book, DropReason::NoSa, 0, 100);
    assert_eq!(causes(&book, 109), []);
    // Its last attempt was seven seconds before: it got nothing through all the same.
    ends(&mut book, DropReason::NoSa, 0, 103);
    assert_eq!(causes(&book, 110), [Cause::NoAssociation]);
    assert_eq!(book.questions(), [(CURL, flow())]);
    book.judge(&outlook(None, false), at(111));
    assert_eq!(causes(&book, 111), [Cause::NoAssociation]);
    // The remedy in one direction is half of it.
    book.judge(&outlook(Some(7), false), at(112));
    assert_eq!(causes(&book, 112), [Cause::OneDirection]);
    book.judge(&outlook(Some(7), true), at(113));
    assert_eq!(causes(&book, 113), []);
}

#[test]
fn the_reason_is_said_and_goes_with_the_policy_or_with_whoever_tried() {
    for (reason, cause) in [
        (DropReason::HoldExpired, Cause::AcquireUnanswered),
        (DropReason::AcquireRefused, Cause::AcquireRefused),
        (DropReason::SaTooWeak, Cause::TooWeak),
    ] {
        let mut book = HealthBook::default();
        ends(&mut book, reason, 0, 10);
        assert_eq!(causes(&book, 20), [cause]);
        let not_protected = [Outlook { protect: false, spi: None, answered: false, by_uplink: false }];
        book.judge(&not_protected, at(21));
        assert_eq!(causes(&book, 21), []);
        ends(&mut book, reason, 0, 30);
        book.judge(&outlook(None, true), at(30 + 299));
        assert_eq!(causes(&book, 329), [cause]);
        book.judge(&outlook(None, true), at(30 + 301));
        assert_eq!(causes(&book, 331), []);
    }
    let mut book = HealthBook::default();
    for reason in [DropReason::PolicyDiscard, DropReason::TooBig, DropReason::Backpressure] {
        ends(&mut book, reason, 0, 10);
    }
    assert_eq!((causes(&book, 60), book.drops().count()), (vec![], 3));
}

#[test]
fn a_limit_is_named_until_another_association_serves_the_flow() {
    let mut book = HealthBook::default();
    book.reached_limit(peer(), at(5));
    ends(&mut book, DropReason::NoSa, 0, 6);
    assert_eq!(causes(&book, 16), [Cause::LimitReached]);
    book.judge(&outlook(Some(9), true), at(17));
    assert_eq!(causes(&book, 17), []);
    // One without sequence numbers is still there, and is found.
    ends(&mut book, DropReason::SequenceExhausted, 9, 20);
    book.judge(&outlook(Some(9), true), at(31));
    assert_eq!(causes(&book, 31), [Cause::LimitReached]);
    book.judge(&outlook(Some(10), true), at(32));
    assert_eq!(causes(&book, 32), []);
}

fn sample(direction: Direction, packets: u64, replayed: u64) -> Sample {
    let selectors = Selectors { remote: Prefix::host(peer()), ..Selectors::ANY };
    Sample { direction, spi: Spi(4096), peer: peer(), selectors, packets, replayed, forged: 0 }
}

#[test]
fn what_leaves_and_is_never_taken_in_is_one_direction() {
    let mut book = HealthBook::default();
    for now in 0..6 {
        book.compare(vec![sample(Direction::Outbound, now + 1, 0)], at(2 * now));
    }
    assert_eq!((causes(&book, 9), causes(&book, 10)), (vec![], vec![Cause::OneDirection]));
    // The inbound association comes, and packets by it.
    book.compare(vec![sample(Direction::Outbound, 9, 0), sample(Direction::Inbound, 1, 0)], at(12));
    assert_eq!(causes(&book, 60), []);
}

#[test]
fn silence_is_a_problem_only_of_those_who_wait_for_an_answer() {
    let mut book = HealthBook::default();
    let both = |out| vec![sample(Direction::Outbound, out, 0), sample(Direction::Inbound, 5, 0)];
    book.compare(both(0), at(0));
    for now in 1..=6 {
        book.compare(both(now), at(2 * now));
    }
    // A log that is sent by datagrams, say.
    assert!(book.wants_sockets(at(12)));
    assert_eq!(causes(&book, 13), []);
    book.waiting(&[(CURL, flow())], at(12));
    assert_eq!(causes(&book, 13), [Cause::Unanswered]);
    assert_eq!(causes(&book, 12 + 15), []);
    book.waiting(&[(CURL, flow())], at(28));
    book.compare(vec![sample(Direction::Outbound, 9, 0), sample(Direction::Inbound, 6, 0)], at(30));
    assert_eq!(causes(&book, 30), []);
}

#[test]
fn a_peer_whose_packets_are_all_replays_is_named_until_one_passes() {
    let mut book = HealthBook::default();
    book.compare(vec![sample(Direction::Inbound, 5, 0)], at(0));
    for now in 1..=6 {
        book.compare(vec![sample(Direction::Inbound, 5, now)], at(2 * now));
    }
    assert_eq!(causes(&book, 12), [Cause::Replayed]);
    // Now and then one is a replay, as others pass.
    book.compare(vec![sample(Direction::Inbound, 6, 9)], at(14));
    assert_eq!(causes(&book, 14), []);
    for now in 8..=16 {
        book.compare(vec![sample(Direction::Inbound, now, now + 9)], at(2 * now));
    }
    assert_eq!(causes(&book, 40), []);
}

#[test]
fn a_group_that_no_association_serves_is_a_problem_until_nothing_is_refused() {
    let mut book = HealthBook::default();
    let group = |port| SocketAddr::new([239, 1, 2, 3].into(), port);
    for second in (0..=10).step_by(5) {
        book.refused(CURL, group(9), 17, Cause::NoGroup, at(second));
        // Whatever the engine says of associations: the kernel half refuses.
        book.judge(&outlook(Some(7), false), at(second));
    }
    assert_eq!(causes(&book, 10), [Cause::NoGroup]);
    book.judge(&outlook(Some(7), false), at(18));
    assert_eq!(causes(&book, 18), [Cause::NoGroup]);
    book.judge(&outlook(Some(7), false), at(19));
    assert_eq!(causes(&book, 19), []);
    // What is refused to no application is not its trouble, and one that policy protects no more has none.
    book.refused(AppId::NONE, group(9), 17, Cause::NoGroup, at(20));
    book.refused(CURL, group(9), 17, Cause::NoGroup, at(20));
    book.judge(&[Outlook { protect: false, spi: None, answered: false, by_uplink: false }], at(21));
    assert_eq!(causes(&book, 40), []);
}

#[test]
fn an_association_to_a_group_needs_none_for_answers() {
    let to = |remote: Prefix, packets| Sample {
        direction: Direction::Outbound,
        spi: Spi(7),
        peer: peer(),
        selectors: Selectors { remote, ..Selectors::ANY },
        packets,
        replayed: 0,
        forged: 0,
    };
    for (remote, expected) in [
        (Prefix::host([239, 1, 2, 3].into()), vec![]),
        (Prefix::new([224, 0, 0, 0].into(), 4).unwrap(), vec![]),
        (Prefix::host(peer()), vec![Cause::OneDirection]),
        (Prefix::ANY, vec![Cause::OneDirection]),
    ] {
        let mut book = HealthBook::default();
        for second in 0..=12 {
            book.compare(vec![to(remote, second)], at(second));
        }
        assert_eq!(causes(&book, 12), expected, "{remote}");
    }
}

/// One of two addresses of this host's is served, the other one is not, and both are tried in turns.
#[test]
fn what_is_served_from_one_address_hides_nothing_that_is_not_from_another() {
    let mut book = HealthBook::default();
    let other = Flow { local: [192, 0, 2, 9].into(), ..flow() };
    ends_of(&mut book, CURL, other, DropReason::NoSa, 0, 100);
    ends_of(&mut book, CURL, flow(), DropReason::NoSa, 0, 101);
    assert_eq!(book.questions(), [(CURL, flow()), (CURL, other)]);
    let served = Outlook { protect: true, spi: Some(Spi(7)), answered: true, by_uplink: false };
    let not = Outlook { protect: true, spi: None, answered: false, by_uplink: false };
    book.judge(&[served, not], at(102));
    ends_of(&mut book, CURL, other, DropReason::NoSa, 0, 109);
    assert_eq!(causes(&book, 110), [Cause::NoAssociation]);
    assert_eq!(book.questions(), [(CURL, other)]);
}

/// A program that tries the whole network has its share of the book and no more.
#[test]
fn an_application_with_many_troubles_leaves_room_for_others() {
    let mut book = HealthBook::default();
    for n in 0..2000u32 {
        let remote = std::net::Ipv4Addr::from(0xc633_6400 + n).into();
        ends_of(&mut book, CURL, Flow { remote, ..flow() }, DropReason::NoSa, 0, 100);
    }
    assert_eq!(book.troubles_of(CURL), TROUBLES_EACH);
    ends_of(&mut book, AppId(4), flow(), DropReason::NoSa, 0, 100);
    assert_eq!((book.troubles_of(AppId(4)), book.troubles.len()), (1, TROUBLES_EACH + 1));
}

/// Anybody on the wire can send one packet with a wrong check value. It is a problem where nothing else comes for long.
#[test]
fn one_forged_packet_on_an_idle_association_is_no_problem() {
    let mut book = HealthBook::default();
    let forged = |n| Sample { forged: n, ..sample(Direction::Inbound, 5, 0) };
    book.compare(vec![forged(0)], at(0));
    book.compare(vec![forged(1)], at(2));
    for now in 2..40 {
        book.compare(vec![forged(1)], at(2 * now));
        assert_eq!(causes(&book, 2 * now), [], "{now}");
    }
    // One every five seconds, and nothing else, is one.
    for now in 0..4 {
        book.compare(vec![forged(2 + now)], at(100 + 5 * now));
    }
    assert_eq!(causes(&book, 115), [Cause::NotAuthentic]);
    book.compare(vec![forged(5)], at(131));
    assert_eq!(causes(&book, 131), []);
}

/// The kernel half refuses it by a device that is no uplink, every time anew. TCP asks again after 1, 2, 4, ... 64,
/// 120 seconds.
#[test]
fn what_is_refused_at_another_device_than_an_uplink_is_a_problem_until_the_routes_lead_by_one() {
    let mut book = HealthBook::default();
    let to = SocketAddr::new(peer(), 443);
    let elsewhere = outlook(Some(7), true);
    let by_uplink = elsewhere.map(|outlook| Outlook { by_uplink: true, ..outlook });
    let mut attempts = vec![0, 1, 3, 7, 15, 31, 63, 127, 247];
    for second in 0..=300 {
        if attempts.first() == Some(&second) {
            attempts.remove(0);
            book.refused(CURL, to, 6, Cause::NoUplink, at(second));
        }
        book.judge(&elsewhere, at(second));
        let expected = if second < 10 { vec![] } else { vec![Cause::NoUplink] };
        assert_eq!(causes(&book, second), expected, "second {second}: an association changes nothing");
    }
    assert_eq!(book.refused_at_devices().into_iter().collect::<Vec<_>>(), [peer()]);
    // The routes were changed: all is well at once, since nothing was refused for a while.
    book.judge(&by_uplink, at(301));
    assert_eq!(causes(&book, 301), []);
    assert!(book.refused_at_devices().is_empty());

    // Or nobody tries any more.
    book.refused(CURL, to, 6, Cause::NoUplink, at(400));
    book.judge(&elsewhere, at(700));
    assert_eq!(causes(&book, 700), [Cause::NoUplink]);
    book.judge(&elsewhere, at(701));
    assert_eq!(causes(&book, 701), []);
}

/// A program that is bound to a device goes by that one, whatever the routes say.
#[test]
fn routes_by_an_uplink_do_not_hide_a_program_that_goes_by_another_device() {
    let mut book = HealthBook::default();
    let to = SocketAddr::new(peer(), 443);
    let by_uplink = outlook(Some(7), true).map(|outlook| Outlook { by_uplink: true, ..outlook });
    for second in 0..=300 {
        if [0, 1, 3, 7, 15, 31, 63, 127, 247].contains(&second) {
            book.refused(CURL, to, 6, Cause::NoUplink, at(second));
        }
        book.judge(&by_uplink, at(second));
        assert_eq!(causes(&book, second).len(), usize::from(second >= 10), "second {second}");
    }
    book.judge(&by_uplink, at(247 + 301));
    assert_eq!(causes(&book, 247 + 301), []);
}
