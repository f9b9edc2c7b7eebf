//! Units that answer later: a worker thread or an accelerator, played by the test, which answers late, out of order, or
//! not at all (paper 002 section III.E; docs/design/0045).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::behind::every_hook_and;
use crate::inbound_queued::{self, EF};
use crate::queued::{self, TWO, WORKER, datagram, gcm, left, reasons};
use crate::support;

use engine::{Delivery, OpenWork, Outcome, SealWork};
use proptest::prelude::*;
use sadb::sa::SaOptions;
use sadb::{SaConfig, Spi};
use support::*;
use wire::{DropReason, Time};

/// An inline unit for the expedited class, and one that answers later for the rest.
const INLINE_FOR_EF: &str = "[unit.here]\nkind = \"inline\"\nreserved = [\"ef\"]\n\
    [unit.thread]\nkind = \"worker\"\nreserved = [\"be\"]\nlow = \"50us\"\nhigh = \"200us\"\n";

/// Two units that answer later, each for every class.
const TWO_WORKERS: &str = "[unit.one]\nkind = \"worker\"\n[unit.two]\nkind = \"async\"\ndepth = 256\n";

/// The time in which a unit has to answer, and a little more.
const TOO_LATE: Duration = Duration::from_millis(101);

fn alice(units: &str) -> Sender {
    queued::sender(mandatory(), &[gcm()], &format!("{TWO}\n{units}"))
}

fn bob(units: &str) -> (Sender, Receiver) {
    let (alice, mut bob) = inbound_queued::ends();
    inbound_queued::set(&mut bob, Some(inbound_queued::with_units(units)));
    (alice, bob)
}

/// Look up, take a turn at this time, and take the work for units.
fn turn_at(alice: &mut Sender, now: Time) -> (Vec<Outcome>, Vec<SealWork>) {
    let (Sender { engine, pool }, mut out) = (alice, Vec::new());
    engine.look_up(now, 1000, pool, &mut out);
    engine.turn(now, pool, &mut out);
    engine.settle(now);
    (out, std::iter::from_fn(|| engine.take_work()).collect())
}

fn turn(alice: &mut Sender) -> (Vec<Outcome>, Vec<SealWork>) {
    turn_at(alice, NOW)
}

fn answer_at(alice: &mut Sender, now: Time, mut work: SealWork) -> Vec<Outcome> {
    let mut out = Vec::new();
    work.compute();
    work.set_spent(work.expected());
    alice.engine.answer(now, work, &mut alice.pool, &mut out);
    out
}

fn answer(alice: &mut Sender, work: SealWork) -> Vec<Outcome> {
    answer_at(alice, NOW, work)
}

fn conserved(alice: &Sender) -> bool {
    alice.engine.graph().unwrap().graph().conserved()
}

/// The same for the inbound half.
fn turn_in(bob: &mut Receiver, now: Time) -> (Delivery, Vec<OpenWork>) {
    let (Receiver { engine, pool }, mut out, mut delivery) = (bob, Vec::new(), Delivery::new());
    engine.look_up(now, 1000, pool, &mut out, &mut delivery);
    engine.turn(now, pool, &mut out, &mut delivery);
    engine.settle(now);
    (delivery, std::iter::from_fn(|| engine.take_work()).collect())
}

fn answer_in(bob: &mut Receiver, now: Time, mut work: OpenWork) -> Delivery {
    let (mut out, mut delivery) = (Vec::new(), Delivery::new());
    work.compute();
    work.set_spent(work.expected());
    bob.engine.answer(now, work, &mut bob.pool, &mut out, &mut delivery);
    delivery
}

#[test]
fn an_inline_unit_serves_its_class_while_the_other_one_is_away() {
    let mut alice = alice(INLINE_FOR_EF);
    for _ in 0..20 {
        queued::receive(&mut alice, datagram(0, 1000));
    }
    let (out, works) = turn(&mut alice);
    assert_eq!(left(&out), []);
    assert!(!works.is_empty());
    queued::receive(&mut alice, datagram(EF, 100));
    let (out, more) = turn(&mut alice);
    let expedited = left(&out);
    assert_eq!(expedited.len(), 1);
    assert_eq!(expedited[0].0, EF);
    let mut rest = Vec::new();
    for work in works.into_iter().chain(more) {
        rest.extend(answer(&mut alice, work));
    }
    queued::work(&mut alice, NOW, &mut rest);
    let rest = left(&rest);
    assert_eq!(rest.len(), 20);
    assert!(rest.is_sorted_by_key(|(_, sequence)| *sequence), "{rest:?}");
    let numbers: BTreeSet<u64> = rest.iter().chain(&expedited).map(|(_, sequence)| *sequence).collect();
    assert_eq!(numbers, (1..=21).collect(), "each number once");
    assert!(conserved(&alice) && alice.engine.is_landed());
}

#[test]
fn answers_out_of_order_are_counted_and_leave_in_order() {
    // It gets more before it answers.
    let mut alice = alice(&format!("{WORKER}low = \"100us\"\nhigh = \"200us\"\n"));
    for _ in 0..300 {
        queued::receive(&mut alice, datagram(0, 1000));
    }
    let mut works: Vec<SealWork> = (0..3).flat_map(|_| turn(&mut alice).1).collect();
    assert!(works.len() >= 2, "{} pieces of work", works.len());
    let first = works.remove(0);
    let mut sent = Vec::new();
    for work in works {
        let out = answer(&mut alice, work);
        assert_eq!(left(&out), [], "what is before it is not answered yet");
    }
    sent.extend(answer(&mut alice, first));
    let numbers: Vec<u64> = left(&sent).iter().map(|(_, sequence)| *sequence).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert!(alice.engine.graph().unwrap().unit_faults().disordered > 0);
    assert!(conserved(&alice));
}

#[test]
fn a_unit_that_hangs_is_taken_out_and_the_other_one_goes_on() {
    let mut alice = alice(TWO_WORKERS);
    for _ in 0..300 {
        queued::receive(&mut alice, datagram(0, 1000));
    }
    let (_, works) = turn(&mut alice);
    let dead = works[0].unit();
    let (mut kept, mut out): (Vec<SealWork>, Vec<Outcome>) = (Vec::new(), Vec::new());
    for work in works {
        if work.unit() == dead { kept.push(work) } else { out.extend(answer(&mut alice, work)) }
    }
    let late = NOW + TOO_LATE;
    // Nobody waits longer than the time that a unit has.
    assert!(matches!(alice.engine.settle(NOW), qos::node::Wake::At(at) if at < late));
    let mut rounds = 0;
    loop {
        let (outcomes, works) = turn_at(&mut alice, late);
        let is_idle = works.is_empty();
        out.extend(outcomes);
        for work in works {
            assert_ne!(work.unit(), dead, "it gets no more work");
            out.extend(answer_at(&mut alice, late, work));
        }
        rounds += 1;
        if is_idle || rounds > 1000 {
            break;
        }
    }
    let lost = alice.engine.stats().drops_for(DropReason::UnitFailed);
    assert!(lost > 0);
    assert_eq!(left(&out).len() as u64 + lost, 300);
    let faults = alice.engine.graph().unwrap().unit_faults();
    assert_eq!((faults.failed, faults.late), (1, 0));
    let count = kept.len() as u64;
    for work in kept {
        assert!(answer_at(&mut alice, late, work).is_empty(), "what was given up does not leave");
    }
    assert_eq!(alice.engine.graph().unwrap().unit_faults().late, count);
    let numbers: Vec<u64> = left(&out).iter().map(|(_, sequence)| *sequence).collect();
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len(), "no number is used twice");
    assert!(conserved(&alice));
    // It has answered everything, so it lives, and takes work again.
    for _ in 0..300 {
        queued::receive(&mut alice, datagram(0, 1000));
    }
    let units: Vec<_> = alice.engine.graph().unwrap().graph().dispatcher().units().collect();
    assert!(units.contains(&dead), "{units:?}");
    let mut out = Vec::new();
    queued::work(&mut alice, late, &mut out);
    assert_eq!(left(&out).len(), 300);
    assert!(conserved(&alice));
}

#[test]
fn without_another_unit_what_waits_is_refused_by_name() {
    let mut alice = alice(WORKER);
    for _ in 0..300 {
        queued::receive(&mut alice, datagram(0, 1000));
    }
    let (_, works) = turn(&mut alice);
    let mut out = Vec::new();
    alice.engine.fail_unit(NOW, works[0].unit(), &mut alice.pool, &mut out);
    let (lost, refused) = reasons(&out).iter().fold((0, 0), |(lost, refused), reason| match reason {
        DropReason::UnitFailed => (lost + 1, refused),
        DropReason::NoUnit => (lost, refused + 1),
        other => panic!("{other:?}"),
    });
    assert!(lost > 0 && refused > 0);
    assert_eq!(alice.engine.stats().drops_for(DropReason::UnitFailed) + refused, 300);
    queued::receive(&mut alice, datagram(0, 1000));
    assert_eq!(reasons(&turn(&mut alice).0), [DropReason::NoUnit]);
    assert!(conserved(&alice));
}

#[test]
fn nothing_leaves_by_an_association_that_was_removed_meanwhile() {
    for alone in [false, true] {
        // What is padded to hide its length leaves alone.
        let mut config = gcm();
        if alone {
            config.options = SaOptions { tfc: sadb::sa::Tfc::Multiple(64), ..SaOptions::default() };
        }
        let text = format!("{TWO}\n{WORKER}");
        let mut alice = queued::sender(mandatory(), std::slice::from_ref(&config), &text);
        for _ in 0..3 {
            queued::receive(&mut alice, datagram(0, 1000));
        }
        let (_, works) = turn(&mut alice);
        alice.engine.remove_sa(Spi(SPI), config.endpoints.remote).unwrap();
        let out: Vec<Outcome> = works.into_iter().flat_map(|work| answer(&mut alice, work)).collect();
        assert_eq!(left(&out), []);
        assert_eq!(alice.engine.stats().drops_for(DropReason::NoSa), 3, "alone: {alone}");
        assert!(conserved(&alice));
    }
}

#[test]
fn an_exchange_that_removes_a_unit_loses_nothing_that_it_has() {
    let mut alice = alice(WORKER);
    for _ in 0..300 {
        queued::receive(&mut alice, datagram(0, 1000));
    }
    let (_, works) = turn(&mut alice);
    assert!(!works.is_empty());
    let mut out = queued::set(&mut alice, Some(queued::graph(TWO)));
    queued::work(&mut alice, NOW, &mut out);
    for work in works {
        out.extend(answer(&mut alice, work));
    }
    queued::work(&mut alice, NOW, &mut out);
    assert_eq!(reasons(&out), []);
    assert_eq!(left(&out).len(), 300);
    assert!(conserved(&alice) && alice.engine.is_landed());
}

#[test]
fn leaving_the_graph_ends_what_a_unit_still_has() {
    let mut alice = alice(WORKER);
    for _ in 0..300 {
        queued::receive(&mut alice, datagram(0, 1000));
    }
    let (_, works) = turn(&mut alice);
    let out = queued::set(&mut alice, None);
    let lost = alice.engine.stats().drops_for(DropReason::UnitFailed);
    assert!(lost > 0);
    // What waited for the unit found none.
    assert_eq!(left(&out).len() as u64 + lost + alice.engine.stats().drops_for(DropReason::NoUnit), 300);
    for work in works {
        assert!(answer(&mut alice, work).is_empty());
    }
}

#[test]
fn a_capture_sees_each_packet_beside_what_its_unit_made_of_it() {
    let mut alice = alice(WORKER);
    alice.engine.copy_packets(true);
    for n in 0..5 {
        queued::receive(&mut alice, datagram(0, 100 + n));
    }
    let (mut out, works) = turn(&mut alice);
    assert_eq!(works.len(), 5);
    for work in works {
        let mut work = work;
        work.compute();
        alice.engine.answer(NOW, work, &mut alice.pool, &mut out);
    }
    let copies = alice.engine.take_copies();
    assert_eq!(copies.iter().map(|copy| copy.from).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    for (n, copy) in copies.iter().enumerate() {
        assert_eq!(copy.octets.len(), 28 + 100 + n);
        assert!(matches!(&out[copy.from], Outcome::Burst(burst) if burst.meta.sequence == n as u64 + 1));
    }
}

#[test]
fn a_packet_that_comes_twice_while_its_unit_has_it_is_delivered_once() {
    let (mut alice, mut bob) = bob(WORKER);
    let packet = inbound_queued::sealed(&mut alice, 0, 100);
    for _ in 0..3 {
        inbound_queued::receive(&mut bob, &packet);
    }
    let (_, works) = turn_in(&mut bob, NOW);
    let mut delivered = 0;
    for work in works {
        delivered += inbound_queued::tos(&answer_in(&mut bob, NOW, work)).len();
    }
    assert_eq!(delivered, 1);
    assert_eq!(inbound_queued::drops(&bob), [(DropReason::Replayed, 2)]);
}

#[test]
fn datagrams_of_a_burst_that_are_forged_end_and_the_others_are_delivered() {
    let (mut alice, mut bob) = bob(WORKER);
    let mut packets: Vec<_> = (0..40).map(|_| inbound_queued::sealed(&mut alice, 0, 100)).collect();
    for at in [3, 17, 39] {
        packets[at][60] ^= 1;
    }
    inbound_queued::burst(&mut bob, &packets);
    let mut delivered = 0;
    for _ in 0..10 {
        let (_, works) = turn_in(&mut bob, NOW);
        for work in works {
            delivered += inbound_queued::tos(&answer_in(&mut bob, NOW, work)).len();
        }
    }
    assert_eq!(delivered, 37);
    assert_eq!(inbound_queued::drops(&bob), [(DropReason::AuthFailed, 3)]);
    assert!(bob.engine.is_landed());
}

#[test]
fn an_inbound_unit_that_hangs_delivers_nothing_late() {
    let (mut alice, mut bob) = bob(TWO_WORKERS);
    let packets: Vec<_> = (0..5).map(|_| inbound_queued::sealed(&mut alice, 0, 100)).collect();
    packets.iter().for_each(|packet| drop(inbound_queued::receive(&mut bob, packet)));
    let (_, works) = turn_in(&mut bob, NOW);
    let late = NOW + TOO_LATE;
    turn_in(&mut bob, late);
    let lost = bob.engine.stats().drops_for(DropReason::UnitFailed);
    assert_eq!(lost, works.len() as u64);
    for work in works {
        assert_eq!(inbound_queued::tos(&answer_in(&mut bob, late, work)).len(), 0);
    }
    // The window has not moved: what comes again is new, and the other unit opens it.
    packets.iter().for_each(|packet| drop(inbound_queued::receive(&mut bob, packet)));
    let (_, works) = turn_in(&mut bob, late);
    let mut delivered = 0;
    for work in works {
        delivered += inbound_queued::tos(&answer_in(&mut bob, late, work)).len();
    }
    assert_eq!(delivered as u64, 5);
}

#[test]
fn nothing_is_delivered_of_an_association_that_was_removed_meanwhile() {
    for (is_burst, again) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut alice, mut bob) = bob(WORKER);
        let packets: Vec<_> = (0..4).map(|_| inbound_queued::sealed(&mut alice, 0, 100)).collect();
        if is_burst {
            inbound_queued::burst(&mut bob, &packets);
        } else {
            packets.iter().for_each(|packet| drop(inbound_queued::receive(&mut bob, packet)));
        }
        let (_, works) = turn_in(&mut bob, NOW);
        assert!(!works.is_empty());
        bob.engine.remove_sa(Spi(SPI)).unwrap();
        // Another one may have its SPI by then.
        if again {
            let config = mirror(&SaConfig { replay_window: 1024, ..gcm() });
            let registry = crypto_std::registry().unwrap();
            bob.engine.add_sa(sadb::InboundSa::new(config, &registry).unwrap()).unwrap();
        }
        for work in works {
            assert_eq!(inbound_queued::tos(&answer_in(&mut bob, NOW, work)).len(), 0);
        }
        assert_eq!(inbound_queued::drops(&bob), [(DropReason::UnknownSpi, 4)]);
        if again {
            assert_eq!(bob.engine.sad().list().next().unwrap().replay.top(), 0);
        }
    }
}

/// What a played accelerator does with the oldest work that it has.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// It answers the oldest work.
    Answer,
    /// It answers the newest instead.
    AnswerNewest,
    /// It drops the oldest work and never answers it.
    Lose,
    /// It takes its time.
    Wait,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        5 => Just(Deed::Answer),
        2 => Just(Deed::AnswerNewest),
        1 => Just(Deed::Lose),
        3 => Just(Deed::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whatever a unit does: each packet leaves once or is accounted for, numbers are used once and in order, and the
    /// receiver takes all that left.
    #[test]
    fn whatever_a_unit_does_each_packet_is_accounted_for(
        deeds in prop::collection::vec(deed(), 1..60),
        sizes in prop::collection::vec(1_usize..1400, 1..120),
    ) {
        let mut alice = alice(TWO_WORKERS);
        let mut bob = Receiver::new(&[SaConfig { replay_window: 4096, ..gcm() }]);
        let (mut out, mut away): (Vec<Outcome>, Vec<SealWork>) = (Vec::new(), Vec::new());
        let (mut sizes, mut now, mut count) = (sizes.into_iter(), NOW, 0_u64);
        for deed in deeds {
            for size in sizes.by_ref().take(5) {
                count += 1;
                out.extend(queued::receive(&mut alice, datagram(if size % 3 == 0 { EF } else { 0 }, size)));
            }
            let (outcomes, works) = turn_at(&mut alice, now);
            out.extend(outcomes);
            away.extend(works);
            let work = match deed {
                Deed::Answer if !away.is_empty() => Some(away.remove(0)),
                Deed::AnswerNewest => away.pop(),
                Deed::Lose if !away.is_empty() => { away.remove(0); None }
                _ => None,
            };
            if let Some(work) = work {
                out.extend(answer_at(&mut alice, now, work));
            }
            now = now + Duration::from_millis(1);
        }
        for size in sizes {
            count += 1;
            out.extend(queued::receive(&mut alice, datagram(0, size)));
        }
        // Everything that is away comes too late now.
        now = now + TOO_LATE;
        for _ in 0..1000 {
            let (outcomes, works) = turn_at(&mut alice, now);
            out.extend(outcomes);
            if works.is_empty() && !away.is_empty() {
                away.pop();
            } else if works.is_empty() {
                break;
            }
            for work in works {
                out.extend(answer_at(&mut alice, now, work));
            }
        }
        let numbers: Vec<u64> = left(&out).iter().map(|(_, sequence)| *sequence).collect();
        let drops: u64 = alice.engine.stats().drops().map(|(_, count)| count).sum();
        prop_assert_eq!(numbers.len() as u64 + drops, count);
        prop_assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len());
        prop_assert!(conserved(&alice) && alice.engine.is_landed());
        let sent = numbers.len();
        prop_assert_eq!(crate::bursts::delivered(out, &mut alice, &mut bob).len(), sent);
    }
}

/// A unit of an accelerator's kind takes no more pieces of work than its depth.
#[test]
fn an_accelerator_gets_no_more_than_its_depth() {
    let mut alice = alice("[unit.card]\nkind = \"async\"\ndepth = 3\n");
    for _ in 0..50 {
        queued::receive(&mut alice, datagram(0, 1000));
    }
    let (_, works) = turn(&mut alice);
    let graph = alice.engine.graph().unwrap().graph();
    assert_eq!(graph.dispatcher().in_flight(), 3);
    let out: Vec<Outcome> = works.into_iter().flat_map(|work| answer(&mut alice, work)).collect();
    assert_eq!(left(&out).len(), 3);
    let mut out = Vec::new();
    queued::work(&mut alice, NOW, &mut out);
    assert_eq!(left(&out).len(), 47);
}

/// Work and its answers go from thread to thread.
#[test]
#[expect(clippy::disallowed_methods, reason = "the daemon computes it in threads")]
fn work_is_computed_in_another_thread() {
    let mut alice = alice(WORKER);
    for _ in 0..10 {
        queued::receive(&mut alice, datagram(0, 1000));
    }
    let (_, mut works) = turn(&mut alice);
    std::thread::scope(|scope| {
        scope.spawn(|| works.iter_mut().for_each(SealWork::compute));
    });
    let mut out = Vec::new();
    for work in works {
        alice.engine.answer(NOW, work, &mut alice.pool, &mut out);
    }
    let mut bob = Receiver::new(&[gcm()]);
    assert_eq!(crate::bursts::delivered(out, &mut alice, &mut bob).len(), 10);
}

#[test]
fn a_flood_that_takes_every_place_costs_nothing_that_a_unit_has_sealed() {
    let unit = "[unit.thread]\nkind = \"worker\"\n";
    let mut alice = alice(unit);
    queued::set(&mut alice, Some(every_hook_and(unit).0));
    for _ in 0..64 {
        queued::receive(&mut alice, datagram(0, 100));
    }
    let (mut out, works) = turn(&mut alice);
    assert!(!works.is_empty());
    // More than can wait.
    for _ in 0..5000 {
        queued::receive(&mut alice, datagram(0, 100));
    }
    let refused = alice.engine.graph().unwrap().no_place();
    assert!(refused > 0, "every place is taken");
    for work in works {
        out.extend(answer(&mut alice, work));
    }
    let numbers: Vec<u64> = left(&out).into_iter().map(|(_, number)| number).collect();
    assert!(!numbers.is_empty());
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(alice.engine.graph().unwrap().no_place(), refused);
    assert!(conserved(&alice));
}
