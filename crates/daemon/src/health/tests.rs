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

fn dropped(app: AppId) -> Dropped {
    Dropped {
        at: at(0),
        reason: DropReason::NoSa,
        app,
        rule: 0,
        spi: 0,
        sequence: 0,
        cookie: 0,
        mark: 0,
        len: 60,
        flow: None,
        outer: None,
        flow_label: 0,
        scrub: None,
    }
}

fn ends_of(book: &mut HealthBook, app: AppId, flow: Flow, reason: DropReason, spi: u32, now: u64) {
    let dropped = Dropped { at: at(now), reason, spi, flow: Some(flow), ..dropped(app) };
    book.note(Ended { id: 1, at: Duration::ZERO, direction: Direction::Outbound, dropped }, at(now));
}

fn causes(book: &HealthBook, now: u64) -> Vec<Cause> {
    book.causes(at(now))
}

fn question(flow: Flow) -> Question {
    Question { who: TroubleOwner::App(CURL), app: CURL, flow, by_class: false }
}

fn outlook(spi: Option<u32>, answered: bool) -> [Outlook; 1] {
    [Outlook { protect: true, spi: spi.map(Spi), answered, ..Outlook::default() }]
}

#[test]
fn a_flow_that_gets_nothing_through_for_ten_seconds_is_a_problem_until_associations_serve_both_directions() {
    let mut book = HealthBook::default();
    ends(&mut book, DropReason::NoSa, 0, 100);
    assert_eq!(causes(&book, 109), []);
    // Its last attempt was seven seconds before: it got nothing through all the same.
    ends(&mut book, DropReason::NoSa, 0, 103);
    assert_eq!(causes(&book, 110), [Cause::NoAssociation]);
    assert_eq!(book.questions(), [question(flow())]);
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
        let not_protected = [Outlook::default()];
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
    book.judge(&[Outlook::default()], at(21));
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
    assert_eq!(book.questions(), [question(flow()), question(other)]);
    let served = Outlook { protect: true, spi: Some(Spi(7)), answered: true, ..Outlook::default() };
    let not = Outlook { protect: true, ..Outlook::default() };
    book.judge(&[served, not], at(102));
    ends_of(&mut book, CURL, other, DropReason::NoSa, 0, 109);
    assert_eq!(causes(&book, 110), [Cause::NoAssociation]);
    assert_eq!(book.questions(), [question(other)]);
}

/// A program that tries the whole network has its share of the book and no more.
#[test]
fn an_application_with_many_troubles_leaves_room_for_others() {
    let mut book = HealthBook::default();
    for n in 0..2000u32 {
        let remote = std::net::Ipv4Addr::from(0xc633_6400 + n).into();
        ends_of(&mut book, CURL, Flow { remote, ..flow() }, DropReason::NoSa, 0, 100);
    }
    assert_eq!(book.troubles_of(TroubleOwner::App(CURL)), TROUBLES_EACH);
    ends_of(&mut book, AppId(4), flow(), DropReason::NoSa, 0, 100);
    assert_eq!((book.troubles_of(TroubleOwner::App(AppId(4))), book.troubles.len()), (1, TROUBLES_EACH + 1));
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

/// The kernel half tells no local port of what it refuses: a policy by local ports must not seem to refuse it.
#[test]
fn what_the_kernel_half_refuses_is_judged_by_the_class_of_the_network() {
    let mut book = HealthBook::default();
    let to = SocketAddr::new(peer(), 443);
    for (cause, by_class) in [(Cause::NoUplink, true), (Cause::NoGroup, true), (Cause::NoAssociation, false)]
    {
        book.troubles.clear();
        book.refused(CURL, to, 6, cause, at(0));
        assert_eq!(book.questions()[0].by_class, by_class, "{cause:?}");
    }
}

fn ends_by_rule(book: &mut HealthBook, rule: u32, reason: DropReason, now: u64) {
    // Without a rule it is an answer of the kernel's.
    let (flow, mark) = (Some(flow()), if rule == 0 { record::PROOF } else { 0 });
    let dropped = Dropped { rule, flow, mark, reason, at: at(now), ..dropped(AppId::NONE) };
    book.note(Ended { id: 1, at: Duration::ZERO, direction: Direction::Outbound, dropped }, at(now));
}

/// A gateway, or programs for which rules of the SPD speak: there is no application.
#[test]
fn traffic_of_no_application_is_named_by_its_rule() {
    let mut book = HealthBook::default();
    ends_by_rule(&mut book, SPD_RULE | 7, DropReason::NoSa, 100);
    ends_by_rule(&mut book, 0, DropReason::NoSa, 100);
    ends_by_rule(&mut book, SPD_RULE | 7, DropReason::NoSa, 110);
    let who = |book: &HealthBook, now| book.found(at(now)).iter().map(|one| one.who).collect::<Vec<_>>();
    assert_eq!(who(&book, 110), [Some(TroubleOwner::Rule(SPD_RULE | 7)), Some(TroubleOwner::Answers)]);
    assert_eq!(causes(&book, 110), [Cause::NoAssociation; 2]);
    let questions = book.questions();
    assert_eq!(questions.iter().map(|one| one.app).collect::<Vec<_>>(), [AppId::NONE; 2]);
    // Associations for both directions, and a rule that is gone.
    book.judge(&[Outlook::default(), outlook(None, false)[0]], at(111));
    assert_eq!(who(&book, 111), [Some(TroubleOwner::Answers)]);
    book.judge(&outlook(Some(7), true), at(112));
    assert_eq!(who(&book, 112), []);
}

/// An association serves the flow, and its packets end all the same.
#[test]
fn what_cannot_be_protected_is_a_problem_until_something_gets_through() {
    let outlook = |left, carried| {
        let progress = Progress { left, carried, by: Some(Spi(7)) };
        [Outlook { progress, ..outlook(Some(7), true)[0] }]
    };
    for reason in [
        DropReason::ChainEncapsulation,
        DropReason::ChainUnkeyed,
        DropReason::ChainTooLong,
        DropReason::ChainDead,
        DropReason::ChainMissing,
        DropReason::TransportAddress,
        DropReason::TransportOptions,
        DropReason::BeetAddress,
        DropReason::PfpUnavailable,
        DropReason::TooLong,
        DropReason::NoRoom,
    ] {
        let mut book = HealthBook::default();
        for second in 100..=110 {
            ends(&mut book, reason, 0, second);
            // Other applications get through by this association, and this one does by another.
            let (left, carried) = if second % 2 == 0 { (50, 50 + second) } else { (50, 50) };
            book.judge(&outlook(left, carried), at(second));
        }
        assert_eq!(causes(&book, 110), [Cause::CannotProtect(reason)]);
        let found = book.found(at(110))[0];
        assert_eq!(found.cause.code(), "cannot_protect");
        assert!(found.cause.text().contains(reason.name()), "{}", found.cause.text());
        // A new association serves the flow now, and counts from the beginning.
        let mut new = outlook(51, 3);
        new[0].progress.by = Some(Spi(8));
        let mut other = book.troubles.clone();
        book.judge(&new, at(111));
        assert_eq!(causes(&book, 111), []);
        std::mem::swap(&mut book.troubles, &mut other);
        book.judge(&outlook(51, 400), at(111));
        assert_eq!(causes(&book, 111), []);
    }
}

/// What policy says, what nobody can read, and what comes from outside.
#[test]
fn packets_that_were_to_end_are_no_problem() {
    let mut book = HealthBook::default();
    for reason in [
        DropReason::PolicyDiscard,
        DropReason::RuleDiscard,
        DropReason::NoSpdEntry,
        DropReason::ClearRefused,
        DropReason::Scrubbed,
        DropReason::BadChecksum,
        DropReason::GsoInvalid,
        DropReason::FragmentOverlap,
        DropReason::TooBig,
        DropReason::IcmpUnrelated,
        DropReason::HandOver,
    ] {
        ends(&mut book, reason, 0, 10);
        ends_by_rule(&mut book, SPD_RULE | 1, reason, 10);
    }
    assert_eq!(causes(&book, 60), []);
}

/// Anybody can send packets that end for twenty reasons.
#[test]
fn a_flood_of_many_kinds_leaves_the_ends_of_others_in_the_history() {
    let mut book = HealthBook::default();
    for second in 0..20 {
        ends(&mut book, DropReason::NoSa, 0, second);
    }
    for n in 0..10_000usize {
        let reason = DropReason::ALL[n % 20];
        ends_of(&mut book, AppId::NONE, flow(), reason, 0, 30);
    }
    assert_eq!(book.drops().filter(|ended| ended.dropped.app == CURL).count(), 20);
    assert_eq!((book.drops().count(), book.kinds.values().sum::<usize>()), (DROPS, DROPS));
    assert_eq!(book.drops().next().unwrap().dropped.at, at(30));
}

#[test]
fn a_peer_to_whom_the_kernel_sends_nothing_is_a_problem_until_it_does() {
    let mut book = HealthBook::default();
    let way = (peer(), sample(Direction::Outbound, 0, 0).spi);
    book.unsent.refused(way, DropReason::Unroutable, Some(libc::EPERM), at(100));
    // That nothing comes back is no wonder.
    for now in 0..8 {
        book.compare(vec![sample(Direction::Outbound, now + 1, 0)], at(100 + 2 * now));
    }
    assert_eq!((causes(&book, 109), causes(&book, 110)), (vec![], vec![Cause::NotSent(Some(libc::EPERM))]));
    let found = book.found(at(110))[0];
    assert_eq!((found.cause.code(), found.peer, found.by), ("not_sent", peer(), Some(way.1)));
    assert!(found.cause.text().contains("not permitted"), "{}", found.cause.text());
    assert!(found.cause.remedy("").contains("firewall"));
    book.unsent.sent(way);
    assert_eq!(causes(&book, 111), [Cause::OneDirection]);
    // Another association with the peer hides nothing of this one.
    book.unsent.refused((peer(), Spi(1)), DropReason::Unroutable, None, at(101));
    assert_eq!(causes(&book, 111), [Cause::NotSent(None), Cause::OneDirection]);
}

/// Any user may ask for what no association gives (docs/socket-api.md), and be told so by its counter.
#[test]
fn a_socket_that_asks_for_itself_is_no_trouble_and_hides_none() {
    let mut book = HealthBook::default();
    let asks = Dropped { mark: record::STAMPED, flow: Some(flow()), ..dropped(AppId::NONE) };
    let ended = |dropped| Ended { id: 1, at: Duration::ZERO, direction: Direction::Outbound, dropped };
    for now in 0..60 {
        book.note(ended(Dropped { at: at(now), ..asks }), at(now));
    }
    assert_eq!(causes(&book, 60), []);
    // What one application suffers hides nothing of what another one does.
    ends_of(&mut book, AppId(9), flow(), DropReason::NoSa, 0, 60);
    let bound = Sample {
        selectors: Selectors { app: Some(CURL), ..Selectors::ANY },
        ..sample(Direction::Outbound, 0, 0)
    };
    for now in 0..8 {
        book.compare(vec![Sample { packets: now + 1, ..bound.clone() }], at(60 + 2 * now));
    }
    let found: Vec<_> = book.found(at(74)).iter().map(|one| (one.who, one.cause)).collect();
    let one_direction = (Some(TroubleOwner::App(CURL)), Cause::OneDirection);
    assert_eq!(found, [(Some(TroubleOwner::App(AppId(9))), Cause::NoAssociation), one_direction]);
}

/// A rule may take a connection in clear and protect the answer: anybody opens one.
#[test]
fn who_knocks_at_a_listener_makes_no_trouble_of_a_rule() {
    let mut book = HealthBook::default();
    let rule = SPD_RULE | 7;
    ends_by_rule(&mut book, rule, DropReason::NoSa, 100);
    assert_eq!(causes(&book, 200), [], "one attempt");
    // A SYN-ACK is sent again; so is the SYN of a connection of this host's.
    [101, 103, 107].into_iter().for_each(|now| ends_by_rule(&mut book, rule, DropReason::NoSa, now));
    assert!(!book.wants_sockets(at(104)) && book.wants_sockets(at(107)));
    book.listening(&BTreeSet::from([80]), &[]);
    ends_by_rule(&mut book, rule, DropReason::NoSa, 115);
    assert_eq!(causes(&book, 115), [Cause::NoAssociation]);
    // Who listens on the port of somebody else's connection hides nothing of it.
    let listened = BTreeSet::from([80, flow().local_port]);
    book.listening(&listened, &[flow()]);
    assert_eq!(causes(&book, 115), [Cause::NoAssociation]);
    book.listening(&listened, &[Flow { remote_port: 1, ..flow() }]);
    assert_eq!(causes(&book, 115), []);
}
