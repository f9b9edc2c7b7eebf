//! How long packets were in the gateway until they left a queue, what of a class waits, and how many were lost in a row.

use proptest::prelude::*;

use qos::Amount;
use qos::graph::description::HookPoint;
use qos::graph::sojourn::{BUCKETS, bound, bucket};

use super::running::{BE, EF, US, Works, graph, house, of_dscp, of_preset};

#[test]
fn each_bound_is_the_last_time_of_its_bucket() {
    assert_eq!((bucket(0), bucket(1)), (0, 0));
    for at in 0..BUCKETS - 1 {
        let last = bound(at).unwrap();
        assert_eq!((bucket(last), bucket(last + 1)), (at, at + 1), "{last} ns");
    }
    assert_eq!((bound(0), bound(BUCKETS - 1), bound(usize::MAX - 1)), (Some(256), None, None));
    assert_eq!(bucket(u64::MAX), BUCKETS - 1);
}

proptest! {
    #[test]
    fn a_time_is_in_the_first_bucket_that_is_wide_enough(ns in any::<u64>(), shift in 0_u32..64) {
        let ns = ns >> shift;
        let first = (0..BUCKETS).find(|at| bound(*at).is_none_or(|last| ns <= last));
        prop_assert_eq!(Some(bucket(ns)), first);
    }
}

#[test]
fn the_sojourn_of_each_packet_is_counted_where_it_leaves_a_queue() {
    let mut works = Works::new(of_preset("two-classes", &house(100 * US)));
    for ticket in 0..6 {
        works.offer(ticket, of_dscp(if ticket % 2 == 0 { EF } else { BE }, 100 * US));
    }
    // They wait for 3 us at 1a.
    let arrived = works.now;
    works.now += 3 * US;
    let mut expected = [0_u64; BUCKETS];
    let mut sums = 0;
    let mut seen = 0;
    works.forward();
    loop {
        for _ in seen..works.given.len() {
            expected[bucket(works.now - arrived)] += 1;
            sums += works.now - arrived;
        }
        if works.given.is_empty() {
            break;
        }
        works.finish(0);
        seen = works.given.len();
        works.forward();
    }
    let (ef, be) = (works.class("ef"), works.class("be"));
    let counts = works.graph.counts();
    for class in [ef, be] {
        let main = counts.sojourn(HookPoint::In1a, class);
        assert_eq!((main.buckets()[bucket(3 * US)], main.count(), main.sum()), (3, 3, 9 * US));
    }
    let [first, second] = [ef, be].map(|class| counts.sojourn(HookPoint::In5a, class));
    let both: Vec<u64> =
        first.buckets().iter().zip(second.buckets()).map(|(one, other)| one + other).collect();
    assert_eq!(both, expected);
    assert_eq!(first.sum() + second.sum(), sums);
    assert!(sums > 0 && first.sum() < second.sum(), "EF goes first: {first:?} {second:?}");
}

/// Two classes, of which one has room for two packets at 1b.
const NARROW: &str = "stages = [1]\n[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\nlimit = { packets = 64 }\n\
                      [class.be]\nmatch = \"rest\"\nlimit = { packets = 2 }\n";

#[test]
fn the_longest_run_of_losses_ends_where_a_packet_of_the_class_is_queued() {
    let mut works = Works::new(graph(NARROW, &house(1_000)));
    let (ef, be) = (works.class("ef"), works.class("be"));
    let longest = |works: &Works, class| works.graph.counts().longest_loss(HookPoint::In1a, class);
    for ticket in 0..5 {
        works.offer(ticket, of_dscp(BE, 1_000));
        // Another class does not end the run.
        works.offer(100 + ticket, of_dscp(EF, 1_000));
    }
    assert_eq!((longest(&works, be), longest(&works, ef)), (3, 0));
    works.drain();
    for ticket in 5..9 {
        works.offer(ticket, of_dscp(BE, 1_000));
    }
    assert_eq!(longest(&works, be), 3, "two lost, behind two that were queued");
    for ticket in 9..11 {
        works.offer(ticket, of_dscp(BE, 1_000));
    }
    assert_eq!(longest(&works, be), 4, "none was queued in between");
    assert_eq!(works.ended.len(), 7);
}

#[test]
fn the_backlog_of_a_class_is_what_its_packets_are_together() {
    let mut works = Works::new(of_preset("two-classes", &house(1_000)));
    for ticket in 0..40 {
        works.offer(ticket, of_dscp(if ticket < 30 { EF } else { BE }, 500));
    }
    let (ef, be) = (works.class("ef"), works.class("be"));
    assert_eq!(works.graph.backlog(HookPoint::In1a, ef), Amount { packets: 30, octets: 30_000, ns: 15_000 });
    assert_eq!(works.graph.backlog(HookPoint::In1a, be), Amount { packets: 10, octets: 10_000, ns: 5_000 });
    works.forward();
    assert_eq!(works.graph.backlog(HookPoint::In1a, ef), Amount::default());
    let waiting = 40 - works.given.len() as u64;
    let mut both = works.graph.backlog(HookPoint::In5a, ef);
    both += works.graph.backlog(HookPoint::In5a, be);
    // For a unit they count as what they cost there.
    assert_eq!(both, Amount { packets: waiting, octets: 1_000 * waiting, ns: 1_000 * waiting });
    let unit = works.graph.dispatcher().units().next().unwrap();
    assert_eq!(works.graph.dispatcher().busy(unit), 0);
    works.drain();
    assert_eq!(works.graph.backlog(HookPoint::In5a, ef), Amount::default());
    assert_eq!(works.graph.backlog(HookPoint::In5a, be), Amount::default());
    assert_eq!(works.graph.dispatcher().busy(unit), 40_000, "40 packets of 1 us");
    assert_eq!((works.graph.counts().served(ef), works.graph.counts().served(be)), (30_000, 10_000));
}

#[test]
fn pieces_of_a_super_packet_are_counted_as_they_are_given() {
    let mut works = Works::new(of_preset("two-classes", &house(10 * US)));
    let mut meta = of_dscp(BE, 10 * US);
    meta.amount = Amount { packets: 60, octets: 60_000, ns: 600 * US };
    works.offer(1, meta);
    works.now += 3 * US;
    works.forward();
    let be = works.class("be");
    let [assignment] = &works.given[..] else { panic!("{:?}", works.given) };
    let (job, given, mut rest) = (assignment.job, assignment.budget, assignment.meta);
    assert!(given.packets < 60, "{given:?}");
    rest.amount.packets -= given.packets;
    rest.amount.octets -= given.octets;
    let context = works.context();
    works.graph.rest(job, 1, rest, &context);
    assert!(works.graph.conserved(), "{:?}", works.graph.counts());
    let sojourn = works.graph.counts().sojourn(HookPoint::In5a, be);
    assert_eq!((sojourn.count(), sojourn.sum()), (given.packets, given.packets * 3 * US));
    assert_eq!(works.graph.counts().served(be), given.ns);
    assert_eq!(works.graph.backlog(HookPoint::In5a, be).octets, rest.amount.octets);
}
