use super::*;

const HOST: &str = "host.example";

fn book() -> Book {
    let seconds = Duration::from_secs;
    let mut book = Book::new(NameLimits {
        floor: seconds(1),
        ceiling: seconds(100),
        grace: seconds(10),
        retry: seconds(2),
    });
    book.watch(at(0), [HOST.to_owned()]);
    book
}

fn at(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

fn v4(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn v6(last: u16) -> IpAddr {
    IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last])
}

fn some(list: &[(IpAddr, u32)]) -> Reply {
    Reply::Addresses(list.to_vec())
}

fn failed() -> Reply {
    Reply::Failed("timed out".to_owned())
}

fn has(book: &Book, now: u64, addr: IpAddr) -> Option<Source> {
    book.names(at(now)).source(HOST, addr)
}

fn nobody(_: &str, _: IpAddr) -> bool {
    false
}

#[test]
fn a_name_is_asked_for_when_its_answer_ends_and_not_twice_at_a_time() {
    let mut book = book();
    let patience = Duration::from_secs(3);
    assert_eq!(book.due(at(0), patience), [HOST]);
    assert!(book.due(at(1), patience).is_empty());
    book.answer(at(1), HOST, some(&[(v4(1), 20), (v4(2), 5)]), Reply::Nothing);
    assert!(book.due(at(5), patience).is_empty());
    assert_eq!(book.due(at(6), patience), [HOST]);
    // Lost on its way: asked again all the same.
    assert!(book.due(at(11), patience).is_empty());
    assert_eq!(book.due(at(12), patience), [HOST]);
    // Bounds of the time, both ways.
    book.answer(at(12), HOST, some(&[(v4(1), 0)]), Reply::Nothing);
    assert_eq!((book.due(at(12), patience).len(), book.due(at(13), patience).len()), (0, 1));
    book.answer(at(13), HOST, some(&[(v4(1), u32::MAX)]), Reply::Nothing);
    assert_eq!((book.due(at(112), patience).len(), book.due(at(113), patience).len()), (0, 1));
}

#[test]
fn failures_are_asked_again_less_and_less_often() {
    let mut book = book();
    let patience = Duration::from_secs(3);
    let mut now = 0;
    for wait in [2, 4, 6, 8] {
        assert_eq!(book.due(at(now), patience), [HOST]);
        book.answer(at(now), HOST, failed(), failed());
        assert!(book.due(at(now + wait - 1), patience).is_empty());
        now += wait;
    }
    assert_eq!(book.entries()[HOST].last_error.as_deref(), Some("timed out"));
    book.answer(at(now), HOST, Reply::Nothing, Reply::Nothing);
    assert_eq!(book.entries()[HOST].last_error.as_deref(), Some("the name has no address"));
    assert_eq!(book.entries()[HOST].failures, 5);
}

#[test]
fn an_address_that_the_name_left_goes_after_time_flow_and_grace() {
    let mut book = book();
    book.answer(at(0), HOST, some(&[(v4(1), 20)]), Reply::Nothing);
    book.answer(at(5), HOST, some(&[(v4(2), 100)]), Reply::Nothing);
    book.sweep(at(29), nobody);
    assert_eq!(has(&book, 29, v4(1)), Some(Source::Resolver));
    assert!(!book.is_ending(at(30)) && book.is_ending(at(31)));
    // A flow keeps it.
    for now in [31, 42, 53] {
        // Until the sockets are looked at nobody knows; it was so that clear text failed for a moment each grace.
        assert_eq!(has(&book, now, v4(1)), Some(Source::Resolver));
        book.sweep(at(now), |name, addr| name == HOST && addr == v4(1));
        assert_eq!(has(&book, now, v4(1)), Some(Source::Resolver));
    }
    book.sweep(at(63), nobody);
    assert!(has(&book, 63, v4(1)).is_some());
    book.sweep(at(64), nobody);
    assert_eq!((has(&book, 64, v4(1)), has(&book, 64, v4(2))), (None, Some(Source::Resolver)));
}

#[test]
fn without_an_answer_the_last_one_is_kept_but_not_as_fresh() {
    let mut book = book();
    book.answer(at(0), HOST, some(&[(v4(1), 5)]), some(&[(v6(1), 5)]));
    for now in [5, 7, 11, 500] {
        for reply in [failed(), Reply::Nothing, some(&[(IpAddr::from([127, 0, 0, 1]), 9)])] {
            book.answer(at(now), HOST, reply.clone(), reply);
            book.sweep(at(now), nobody);
            let want = if now <= 15 { Source::Resolver } else { Source::Kept };
            assert_eq!((has(&book, now, v4(1)), has(&book, now, v6(1))), (Some(want), Some(want)), "{now}");
        }
    }
    assert_eq!(has(&book, 500, IpAddr::from([127, 0, 0, 1])), None);
    // One family failing keeps its own only; none of one family means that it is gone.
    book.answer(at(501), HOST, some(&[(v4(2), 5)]), failed());
    book.sweep(at(501), nobody);
    assert_eq!((has(&book, 501, v4(1)), has(&book, 501, v6(1))), (None, Some(Source::Kept)));
    book.answer(at(502), HOST, some(&[(v4(2), 5)]), Reply::Nothing);
    book.sweep(at(502), nobody);
    assert_eq!((has(&book, 502, v4(2)), has(&book, 502, v6(1))), (Some(Source::Resolver), None));
}

#[test]
fn observed_addresses_come_beside_and_go_by_themselves() {
    let mut book = book();
    book.answer(at(0), HOST, some(&[(v4(1), 5)]), Reply::Nothing);
    assert!(book.observe(at(0), HOST, &[(v4(1), 100), (v4(9), 5), (IpAddr::from([127, 0, 0, 1]), 5)]));
    assert!(!book.observe(at(1), HOST, &[(v4(9), 5)]), "not new");
    assert!(!book.observe(at(1), "other.example", &[(v4(9), 5)]));
    assert_eq!(has(&book, 1, v4(9)), Some(Source::Observed));
    assert_eq!(book.entries()[HOST].refused, 1);
    // The resolver's own is no longer good for having been observed.
    assert_eq!((has(&book, 20, v4(1)), has(&book, 21, v4(1))), (Some(Source::Resolver), Some(Source::Kept)));
    book.answer(at(2), HOST, failed(), failed());
    book.sweep(at(17), nobody);
    assert_eq!(has(&book, 17, v4(9)), None, "kept by nobody");
    // What the resolver says too is the resolver's.
    book.observe(at(20), HOST, &[(v4(8), 5)]);
    book.answer(at(21), HOST, some(&[(v4(8), 5)]), Reply::Nothing);
    assert_eq!(has(&book, 21, v4(8)), Some(Source::Resolver));
}

#[test]
fn a_liar_with_many_addresses_gets_as_many_as_there_is_room_for() {
    let mut book = book();
    let many = |first: u32| -> Vec<(IpAddr, u32)> {
        (first..first + 10_000).map(|n| (IpAddr::from((0x0a00_0000 + n).to_be_bytes()), 60)).collect()
    };
    book.answer(at(0), HOST, some(&many(1)), Reply::Nothing);
    assert_eq!(book.entries()[HOST].addresses.len(), MAX_ADDRESSES);
    assert_eq!(book.entries()[HOST].refused, 10_000 - MAX_ADDRESSES as u64);
    for round in 1..20 {
        book.answer(at(round), HOST, some(&many(round as u32 * 10_000)), Reply::Nothing);
        book.observe(at(round), HOST, &many(2_000_000 + round as u32 * 10_000));
        assert!(book.entries()[HOST].addresses.len() <= 3 * MAX_ADDRESSES);
    }
    // Those of the last answer are never put out by others.
    let last = many(190_000);
    assert!(last[..MAX_ADDRESSES].iter().all(|(addr, _)| has(&book, 20, *addr) == Some(Source::Resolver)));
}

#[test]
fn names_that_leave_the_policy_are_forgotten_and_others_stay() {
    let mut book = book();
    book.answer(at(0), HOST, some(&[(v4(1), 5)]), Reply::Nothing);
    book.watch(at(1), [HOST.to_owned(), "b.example".to_owned()]);
    assert_eq!(book.due(at(1), Duration::from_secs(1)), ["b.example"]);
    assert_eq!(has(&book, 1, v4(1)), Some(Source::Resolver));
    book.watch(at(2), ["b.example".to_owned()]);
    assert!(has(&book, 2, v4(1)).is_none() && !book.has(HOST));
    // An answer that comes too late changes nothing.
    book.answer(at(3), HOST, some(&[(v4(1), 5)]), Reply::Nothing);
    assert!(!book.has(HOST));
}

#[test]
fn what_an_earlier_daemon_knew_is_kept_until_there_is_an_answer() {
    let mut known = Names::default();
    known.insert(HOST, v4(1), Source::Resolver);
    known.insert(HOST, v4(2), Source::Observed);
    known.insert("gone.example", v4(3), Source::Resolver);
    let mut book = book();
    book.restore(at(100), &known, [HOST.to_owned()]);
    assert_eq!((has(&book, 100, v4(1)), has(&book, 111, v4(1))), (Some(Source::Kept), Some(Source::Kept)));
    book.sweep(at(111), nobody);
    assert_eq!((has(&book, 111, v4(1)), has(&book, 111, v4(2))), (Some(Source::Kept), None));
    assert!(!book.has("gone.example"));
    assert_eq!(book.due(at(111), Duration::from_secs(1)), [HOST]);
    book.answer(at(112), HOST, some(&[(v4(1), 5)]), failed());
    assert_eq!(has(&book, 112, v4(1)), Some(Source::Resolver));
}
