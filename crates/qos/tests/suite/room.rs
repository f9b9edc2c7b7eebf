//! The room that a running graph tells for a class: as many packets as that find no queue full, and not one more.

use qos::graph::house::House;
use qos::node::Ended;
use qos::{AggregateId, Amount, Cause};

use crate::running::{BE, EF, Works, graph, house, of_dscp, of_preset};

fn class(works: &Works, name: &str) -> AggregateId {
    works.graph.aggregates().find(name).unwrap()
}

fn room(works: &Works, class: AggregateId) -> u64 {
    works.graph.room(class, Amount { packets: 1, octets: 1_000, ns: 100_000 })
}

fn dropped(works: &mut Works) -> Vec<Cause> {
    works.ended.drain(..).map(|Ended { cause, .. }| cause).collect()
}

/// Offer packets as long as there is room; the number of them. The next one is dropped.
fn fill(works: &mut Works, name: &str, dscp: u8, forward: bool) -> u64 {
    let class = class(works, name);
    let (mut offered, mut before) = (0, room(works, class));
    while before > 0 {
        works.offer(offered, of_dscp(dscp, 100_000));
        offered += 1;
        if forward {
            works.forward();
        }
        assert_eq!(dropped(works), [], "{name}: {offered} offered with room for {before}");
        let now = room(works, class);
        // A unit that takes one makes room again.
        assert!(now < before || forward, "{name}: {before}, {now}");
        before = now;
    }
    works.offer(offered, of_dscp(dscp, 100_000));
    works.forward();
    assert_eq!(dropped(works), [Cause::QueueFull], "{name}");
    offered
}

#[test]
fn as_many_packets_fit_as_are_told_and_no_class_takes_the_room_of_another() {
    let house: House = house(100_000);
    let mut works = Works::new(of_preset("two-classes", &house));
    let ef = class(&works, "ef");
    // 20 ms of packets of 100 us each, 2 ms of the other class.
    assert_eq!(fill(&mut works, "be", BE, false), 200);
    assert_eq!(room(&works, ef), 20);
    works.drain();
    assert_eq!(room(&works, class(&works, "be")), 200);
    // Two are committed to the unit, and the others wait in front of it.
    assert_eq!(fill(&mut works, "ef", EF, true), 2 + 20);
}

#[test]
fn what_waits_in_front_is_taken_off_the_room_behind() {
    let text = "stages = [3]\n[class.ef]\nmatch = [{ dscp = [\"EF\"] }]\nlimit = { packets = 3 }\n\
                [class.be]\nmatch = \"rest\"\nlimit = { packets = 5 }\n";
    let mut works = Works::new(graph(text, &house(100_000)));
    let be = class(&works, "be");
    for ticket in 0..4 {
        works.offer(ticket, of_dscp(BE, 100_000));
    }
    assert_eq!(room(&works, be), 1);
    works.offer(4, of_dscp(BE, 100_000));
    assert_eq!((room(&works, be), room(&works, class(&works, "ef"))), (0, 3));
}

#[test]
fn a_class_whose_packets_end_for_others_always_has_room() {
    let mut works = Works::new(of_preset("voice", &house(100_000)));
    let rest = class(&works, "rest");
    for ticket in 0..2_000 {
        works.offer(ticket, of_dscp(BE, 100_000));
        works.forward();
    }
    assert!(room(&works, rest) > 1_000);
    assert!(dropped(&mut works).len() > 1_000);
}
