//! Compiled graphs behave as they are described: each preset, and each figure of the paper.

use qos::graph::description::HookPoint;
use qos::graph::{PRESETS, compile, preset};
use qos::node::Wake;
use qos::{AggregateId, Cause, Direction, Meta};

use crate::running::{BE, EF, US, Works, described, example, graph, house, of_dscp, of_preset};

const COST: u64 = 10 * US;

fn works(text: &str) -> Works {
    Works::new(graph(text, &house(COST)))
}

/// The share of the first 100 packets that are of expedited forwarding, while both classes have packets.
fn share_of_ef(mut works: Works) -> usize {
    for ticket in 0..60 {
        works.offer(2 * ticket, of_dscp(EF, COST));
        works.offer(2 * ticket + 1, of_dscp(BE, COST));
    }
    works.drain();
    assert!(works.ended.is_empty(), "{:?}", works.ended);
    assert_eq!(works.left.len(), 120);
    works.tickets().iter().take(60).filter(|ticket| *ticket % 2 == 0).count()
}

#[test]
fn every_preset_and_every_figure_compiles_in_both_directions() {
    let house = house(COST);
    let figures =
        ["figure-1", "figure-3", "figure-4", "figure-5", "figure-6-rr", "figure-6-wfq", "figure-6-sp"];
    let figures = figures.map(|name| (name, described(&example(&format!("{name}.toml")), &house)));
    let presets = PRESETS.iter().map(|(name, _)| (*name, preset(name).unwrap()));
    for (name, description) in presets.chain(figures) {
        for direction in [Direction::Outbound, Direction::Inbound] {
            let graph = compile::<u64>(&description, &house, direction, 1);
            let mut works = Works::new(graph.unwrap_or_else(|faults| panic!("{name}: {faults:#?}")));
            for (ticket, dscp) in (0..).zip([EF, BE, 34, 48, 10, 1, BE, EF]) {
                works.offer(ticket, Meta { direction, ..of_dscp(dscp, COST) });
            }
            works.drain();
            assert_eq!(works.left.len(), 8, "{name} {direction:?}: {:?}", works.ended);
            assert_eq!(works.graph.wake(&works.context()), Wake::Packet, "{name}");
        }
    }
}

/// One queue behind 5a, with these parts in front and in it.
fn one_queue(chain: &str, queue: &str) -> String {
    format!(
        "[class.rest]\nmatch = \"rest\"\n[[hook]]\nat = \"1a\"\nchain = [{{ kind = \"classify\" }}{chain}]\n[[hook]]\nat = \
         \"5b\"\nfrom = \"rest\"\n[queue.rest]\nclasses = [\"rest\"]\n{queue}\n[unit.inline]\nkind = \"inline\"\n"
    )
}

#[test]
fn a_dual_queue_lets_low_latency_packets_go_ahead_and_marks_them_when_they_wait() {
    let text = one_queue(
        "",
        "limit = { packets = 1000 }\ndequeue = { kind = \"dualpi2\", ramp_start = \"50us\", ramp_range = \"1us\" }",
    );
    let mut works = works(&text);
    let meta =
        |ecn| Meta { ecn, amount: qos::Amount { packets: 1, octets: 1000, ns: COST }, ..of_dscp(BE, COST) };
    for ticket in 0..100 {
        // Classic packets first, and one of low latency behind each.
        works.offer(2 * ticket, meta(2));
        works.offer(2 * ticket + 1, meta(1));
    }
    works.drain();
    assert_eq!(works.left.len(), 200, "{:?}", works.ended);
    // 15 of 16 octets are of low latency while both wait.
    let ahead = works.tickets().iter().take(100).filter(|ticket| *ticket % 2 == 1).count();
    assert!((90..=98).contains(&ahead), "{ahead} of the first 100");
    let marked = works.left.iter().filter(|(_, meta)| meta.ecn == 3).count();
    assert!(marked > 50, "{marked} are marked");
}

#[test]
fn an_empty_queue_lets_one_packet_in_whatever_it_is_expected_to_cost() {
    let mut works = works(&one_queue("", "limit = { packets = 100, time = \"100us\" }"));
    // A super-packet of 40 pieces: 400 us of work.
    let amount = qos::Amount { packets: 40, octets: 40 * 1400, ns: 0 };
    let large = Meta { amount, ..of_dscp(BE, COST) };
    works.offer(0, large);
    works.offer(1, large);
    works.forward();
    assert_eq!(works.ended.len(), 1);
    assert_eq!(works.ended[0].cause, Cause::QueueFull);
    works.drain();
    assert!(works.tickets().iter().all(|ticket| *ticket == 0) && !works.left.is_empty());
    // It has left, so the next one finds the queue empty.
    works.offer(2, large);
    works.drain();
    assert_eq!(works.tickets().last(), Some(&2));
    assert_eq!(works.ended.len(), 1);
}

#[test]
fn what_a_meter_makes_red_is_dropped_by_colour() {
    let chain = ", { kind = \"srtcm\", class = \"rest\", cir = \"8kbit\", cbs = \"3000B\", ebs = \"2000B\" }, \
                 { kind = \"drop_colour\", class = \"rest\" }";
    let mut works = works(&one_queue(chain, "limit = { packets = 100 }"));
    for ticket in 0..10 {
        let amount = qos::Amount { packets: 1, octets: 1000, ns: COST };
        works.offer(ticket, Meta { amount, ..of_dscp(BE, COST) });
    }
    works.drain();
    // Three are green and two are yellow; the bucket holds no more.
    assert_eq!(works.tickets(), (0..5).collect::<Vec<_>>());
    assert_eq!(works.ended.len(), 5);
    assert!(works.ended.iter().all(|ended| ended.cause == Cause::Policed));
}

#[test]
fn a_fault_comes_back_with_its_place() {
    let description =
        described("[class.web]\nmatch = [{ uid = 1000 }]\n[class.rest]\nmatch = \"rest\"\n", &house(COST));
    let faults = compile::<u64>(&description, &house(COST), Direction::Outbound, 1).err().unwrap();
    assert_eq!(faults.len(), 1);
    assert!(faults[0].span.start > 0, "{faults:?}");
}

#[test]
fn fifo_keeps_the_order_of_arrival_and_drops_what_is_beyond_its_limit() {
    let mut works = Works::new(of_preset("fifo", &house(COST)));
    for ticket in 0..50 {
        works.offer(ticket, of_dscp(if ticket % 3 == 0 { EF } else { BE }, COST));
    }
    works.drain();
    assert_eq!(works.tickets(), (0..50).collect::<Vec<_>>());
    // 1,000 packets and 20 ms of work: 2,000 of 10 us. What is committed is beside that.
    for ticket in 0..1_100 {
        works.offer(ticket, of_dscp(BE, COST));
    }
    works.forward();
    assert!(works.ended.iter().all(|ended| ended.cause == Cause::QueueFull));
    assert_eq!(works.ended.len(), 100);
    works.drain();
    assert!(works.graph.conserved());
}

#[test]
fn figure_1_pushes_in_the_order_of_arrival() {
    let mut works = works(&example("figure-1.toml"));
    for ticket in 0..100 {
        works.offer(ticket, of_dscp(if ticket % 2 == 0 { EF } else { BE }, COST));
    }
    works.forward();
    // Every packet is in flight at once.
    assert_eq!(works.given.len(), 100);
    works.drain();
    assert_eq!(works.tickets(), (0..100).collect::<Vec<_>>());
}

#[test]
fn figure_3_polices_meters_marks_and_schedules() {
    let mut works = works(&example("figure-3.toml"));
    // The policer holds 2 ms of work at 30 %: 200 packets of 10 us; then its queue of 64 packets is full.
    for ticket in 0..300 {
        works.offer(ticket, of_dscp(EF, COST));
        works.forward();
    }
    let policed = works.ended.iter().filter(|ended| ended.cause == Cause::Policed).count();
    assert_eq!(policed, 100);
    works.drain();
    works.left.clear();
    // 40 kB of the peak bucket are green or yellow, 20 kB of them green.
    for ticket in 0..50 {
        works.offer(ticket, of_dscp(10, COST));
    }
    works.drain();
    let marked = |dscp: u8| works.left.iter().filter(|(_, meta)| meta.dscp[0] == dscp).count();
    assert_eq!((marked(10), marked(12), marked(14)), (20, 20, 10));
}

#[test]
fn figure_4_lets_both_units_work_and_expedited_packets_go_first() {
    let mut works = works(&example("figure-4.toml"));
    for ticket in 0..100 {
        works.offer(ticket, Meta { association: ticket as u32 + 1, ..of_dscp(BE, COST) });
    }
    works.forward();
    let units: Vec<u8> = works.given.iter().map(|assignment| assignment.unit.0).collect();
    assert!(units.contains(&0) && units.contains(&1), "{units:?}");
    works.offer(1_000, Meta { association: 7_777, ..of_dscp(EF, COST) });
    let committed = works.given.len();
    works.drain();
    let place = works.tickets().iter().position(|ticket| *ticket == 1_000).unwrap();
    assert!(place <= committed + 2, "{place} of {committed}");
}

#[test]
fn figure_5_reserves_the_accelerator_for_best_effort() {
    let mut works = works(&example("figure-5.toml"));
    for ticket in 0..60 {
        let dscp = if ticket % 2 == 0 { EF } else { BE };
        works.offer(ticket, Meta { association: ticket as u32, ..of_dscp(dscp, COST) });
        works.forward();
    }
    for assignment in &works.given {
        assert!(assignment.unit.0 == 0 || assignment.item % 2 == 1, "EF on the accelerator");
    }
    assert!(works.given.iter().any(|assignment| assignment.unit.0 == 1));
    works.drain();
    assert_eq!(works.left.len(), 60);
}

#[test]
fn figure_6_lets_an_expedited_packet_leave_behind_what_is_committed() {
    for name in ["figure-6-rr.toml", "figure-6-wfq.toml", "figure-6-sp.toml"] {
        let mut works = works(&example(name));
        for ticket in 0..500 {
            works.offer(ticket, of_dscp(BE, COST));
        }
        works.forward();
        works.offer(9_999, of_dscp(EF, COST));
        // 200 us are committed; of those behind them the packet is the first, or the second by turns.
        let committed = works.given.len();
        assert_eq!(committed, 20, "{name}");
        works.drain();
        let place = works.tickets().iter().position(|ticket| *ticket == 9_999).unwrap();
        assert!(place <= committed + 1, "{name}: {place}");
        // Best effort is limited inside, by 256 packets at the main queue.
        assert_eq!(works.ended.len(), 500 - 256, "{name}");
        assert!(works.ended.iter().all(|ended| ended.cause == Cause::QueueFull));
    }
}

#[test]
fn figure_6_shares_as_its_schedulers_say() {
    // The share of expedited forwarding among the first 60 packets is one to one, then four to one, then all of them. What
    // is committed before comes in the order of the main queue, which is the same scheduler's.
    assert_eq!(share_of_ef(works(&example("figure-6-rr.toml"))), 30);
    let weighted = share_of_ef(works(&example("figure-6-wfq.toml")));
    assert!((47..=49).contains(&weighted), "{weighted}");
    assert_eq!(share_of_ef(works(&example("figure-6-sp.toml"))), 60);
}

#[test]
fn a_limit_counts_what_is_inside_and_forgets_what_left() {
    let text = example("figure-6-sp.toml").replace("most = \"20ms\"", "most = 30");
    let mut works = works(&text);
    for round in 0..20 {
        works.ended.clear();
        for ticket in 0..50 {
            works.offer(ticket, of_dscp(BE, COST));
            works.forward();
        }
        assert_eq!(works.ended.len(), 20, "round {round}");
        works.drain();
    }
}

#[test]
fn a_class_that_the_policy_named_stays() {
    let mut works = Works::new(of_preset("voice", &house(COST)));
    let ef = works.class("ef");
    works.offer(1, Meta { aggregate: ef, ..of_dscp(BE, COST) });
    works.offer(2, of_dscp(34, COST));
    works.drain();
    assert_eq!(works.left[0].1.aggregate, ef);
    assert_eq!(works.left[1].1.aggregate, works.class("af4"));
    assert_eq!(works.graph.counts().of(HookPoint::Out2b, ef).gone, 1);
    assert_eq!(works.graph.counts().of(HookPoint::Out2b, AggregateId(63)).come, 0);
}

#[test]
fn the_next_member_of_a_bundle_goes_ahead_of_new_work_and_keeps_its_order() {
    let mut works = Works::new(of_preset("fifo", &house(COST)));
    for ticket in 0..100 {
        works.offer(ticket, of_dscp(BE, COST));
    }
    works.forward();
    let committed = works.given.len() as u64;
    // The first two members are done, and their packets go back to 3a.
    for ticket in [0, 1] {
        let done = works.given.remove(0);
        let context = works.context();
        works.graph.done(done.unit, done.job, COST, &context).unwrap();
        let meta = Meta { index: 1, association: 9, ..done.meta };
        works.graph.offer(HookPoint::In3a, ticket, meta, &context, &mut works.ended);
    }
    works.drain();
    let left = works.tickets();
    let expected: Vec<u64> = (2..committed).chain([0, 1]).chain(committed..100).collect();
    assert_eq!(left, expected);
}

#[test]
fn started_work_goes_before_new_work() {
    let mut works = Works::new(of_preset("fifo", &house(COST)));
    works.offer(1, of_dscp(BE, COST));
    works.forward();
    works.offer(2, of_dscp(BE, COST));
    works.finish(0);
    let context = works.context();
    let points: Vec<(HookPoint, u64)> = std::iter::from_fn(|| works.graph.serve(&context, &mut works.ended))
        .map(|due| (due.at, due.item))
        .collect();
    assert_eq!(points, [(HookPoint::Out4b, 1), (HookPoint::Out1b, 2)]);
}
