//! Graphs exchanged while packets wait and are in flight: nothing is lost, and order holds.

use std::collections::BTreeMap;

use qos::graph::description::HookPoint;
use qos::graph::{Graph, House, PRESETS, compile, preset, print};
use qos::{AggregateId, Direction, Meta};

use crate::common::Random;
use crate::running::{BE, EF, US, Works, described, example, graph_of, house, of_dscp};

const COST: u64 = 10 * US;

/// A graph of the same instance, with the numbers of classes that the running one has.
fn compiled(text: &str, running: &Graph<u64>) -> Graph<u64> {
    let house = House { catalogue: running.aggregates().clone(), ..house(COST) };
    compile(&described(text, &house), &house, Direction::Outbound, 7).unwrap()
}

impl Works {
    /// Exchange the graph, and offer again what comes back. The answer is the number of those.
    fn exchange(&mut self, text: &str) -> usize {
        let mut new = compiled(text, &self.graph);
        let mut back = Vec::new();
        std::mem::swap(&mut self.graph, &mut new);
        self.graph.adopt(new, &mut back);
        assert!(self.graph.conserved(), "{:?}", self.graph.counts());
        let context = self.context();
        let count = back.len();
        for packet in back {
            self.graph.offer(packet.at, packet.item, packet.meta, &context, &mut self.ended);
        }
        assert!(self.graph.conserved(), "{:?}", self.graph.counts());
        count
    }
}

const TWO: &str = "[class.ef]\nmatch = [{ dscp = \"EF\" }]\npriority = true\nunpoliced = true\n\
                   [class.rest]\nmatch = \"rest\"\n[unit.one]\nkind = \"worker\"\n[unit.two]\nkind = \"worker\"\n";
const ONE: &str = "[class.rest]\nmatch = \"rest\"\n[unit.two]\nkind = \"worker\"\n";

#[test]
fn queues_keep_their_packets_by_name_and_units_what_is_in_flight() {
    let mut works = Works::new(graph_of(&described(TWO, &house(COST)), &house(COST)));
    for ticket in 0..100 {
        works.offer(ticket, Meta { association: ticket as u32 % 5, ..of_dscp(BE, COST) });
    }
    works.forward();
    let given = works.given.len();
    assert!((2..100).contains(&given));
    assert_eq!(works.exchange(TWO), 0);
    works.forward();
    assert_eq!((works.given.len(), works.ended.len()), (given, 0));
    // The answers to what the old graph gave are right in the new one.
    works.drain();
    assert_eq!(works.left.len(), 100);
}

#[test]
fn a_unit_that_stays_costs_what_was_learned_and_one_that_comes_what_start_up_measured() {
    let amount = of_dscp(BE, COST).amount;
    let cost = |works: &Works| works.graph.expected(0, Direction::Outbound, &amount);
    let mut works = Works::new(graph_of(&described(ONE, &house(COST)), &house(COST)));
    let measured = cost(&works);
    for ticket in 0..40 {
        works.offer(ticket, of_dscp(BE, COST));
        works.forward();
        // Each takes three times what the first was expected to.
        let (unit, job) = works.given.pop().map(|given| (given.unit, given.job)).unwrap();
        let context = works.context();
        works.graph.done(unit, job, 3 * measured, &context).unwrap();
    }
    let learned = cost(&works);
    assert!(2 * learned > 3 * measured, "{learned} of {measured}");
    assert_eq!(works.exchange(ONE), 0);
    assert_eq!(cost(&works), learned);
    // Another one takes its number over, and another kind of work its name.
    works.exchange(&ONE.replace("[unit.two]", "[unit.three]"));
    assert_eq!(cost(&works), measured);
}

#[test]
fn a_vanished_class_is_classified_anew_and_a_vanished_unit_answers_what_it_has() {
    let mut works = Works::new(graph_of(&described(TWO, &house(COST)), &house(COST)));
    for ticket in 0..60 {
        let dscp = if ticket % 2 == 0 { EF } else { BE };
        works.offer(ticket, Meta { association: ticket as u32 % 6, ..of_dscp(dscp, COST) });
    }
    works.forward();
    assert!(works.exchange(ONE) > 0);
    let rest = works.class("rest");
    works.drain();
    assert_eq!((works.left.len(), works.ended.len()), (60, 0), "{:?}", works.ended);
    let counts = works.graph.counts();
    assert!(counts.at(HookPoint::Out5b).any(|(class, tally)| class != rest && tally.back > 0));
    assert_eq!(works.graph.dispatcher().units().count(), 1);
}

#[test]
fn an_administrator_adds_a_class_while_a_call_goes_on() {
    let mut works = Works::new(graph_of(&preset("fifo").unwrap(), &house(COST)));
    for ticket in 0..200 {
        works.offer(ticket, of_dscp(BE, COST));
    }
    works.forward();
    works.exchange("preset = \"voice\"");
    works.offer(1_000, of_dscp(EF, COST));
    let committed = works.given.len();
    works.drain();
    let place = works.tickets().iter().position(|ticket| *ticket == 1_000).unwrap();
    assert!(place <= committed + 1, "{place}");
    assert_eq!(works.left.len(), 201);
}

#[test]
fn limits_go_on_counting_over_an_exchange() {
    let text = example("figure-6-sp.toml").replace("most = \"20ms\"", "most = 30");
    let mut works = Works::new(graph_of(&described(&text, &house(COST)), &house(COST)));
    for ticket in 0..30 {
        works.offer(ticket, of_dscp(BE, COST));
    }
    works.forward();
    works.exchange(&text);
    works.offer(30, of_dscp(BE, COST));
    assert_eq!(works.ended.len(), 1);
    works.drain();
    (0..30).for_each(|ticket| works.offer(ticket, of_dscp(BE, COST)));
    assert_eq!(works.ended.len(), 1);
}

#[test]
fn sojourns_losses_in_a_row_and_the_time_of_units_go_on_over_an_exchange() {
    let mut works = Works::new(graph_of(&described(TWO, &house(COST)), &house(COST)));
    (0..2_000).for_each(|ticket| works.offer(ticket, of_dscp(BE, COST)));
    works.drain();
    (0..2_000).for_each(|ticket| works.offer(ticket, of_dscp(BE, COST)));
    let class = works.class("rest");
    let figures = |works: &Works| {
        let (counts, dispatcher) = (works.graph.counts(), works.graph.dispatcher());
        let sojourns = [HookPoint::In1a, HookPoint::In5a].map(|at| *counts.sojourn(at, class));
        let losses = counts.longest_loss(HookPoint::In5a, class);
        let busy: Vec<u64> = dispatcher.units().map(|unit| dispatcher.busy(unit)).collect();
        (sojourns, losses, busy, works.graph.backlog(HookPoint::In1a, class))
    };
    let before = figures(&works);
    assert!(before.0[1].sum() > 0 && before.1 > 0 && before.2[0] > 0 && before.3.ns > 0, "{before:?}");
    assert_eq!(works.exchange(TWO), 0);
    assert_eq!(figures(&works), before);
}

/// The texts that are exchanged at random.
fn texts() -> Vec<String> {
    let mut texts = vec![TWO.to_owned(), ONE.to_owned()];
    texts.extend(["[1, 3, 5]", "[3, 5]", "[1]"].map(|stages| format!("stages = {stages}\n{TWO}")));
    texts.push(TWO.replace("[class.rest]", "[class.af]\nmatch = [{ dscp = [10, 18] }]\n[class.rest]"));
    texts.push(TWO.replace("unit.one", "unit.three"));
    let figures = ["figure-1", "figure-4", "figure-6-rr", "figure-6-wfq", "figure-6-sp"];
    texts.extend(figures.map(|name| example(&format!("{name}.toml"))));
    let shaped = |name: &&str| *name != "edge";
    texts.extend(
        PRESETS.iter().map(|(name, _)| *name).filter(shaped).map(|name| print(&preset(name).unwrap())),
    );
    texts
}

/// A packet as the test follows it. Packets of several classes that an exchange makes one are no pair.
struct Packet {
    meta: Meta,
    class: AggregateId,
    /// The class in which it was given, which binds it to a unit.
    given_as: Option<AggregateId>,
    /// Each of its classes, with the exchange that gave it.
    classes: Vec<(u64, AggregateId)>,
}

impl Packet {
    fn follow(&mut self, graph: &Graph<u64>, exchange: u64) {
        if !graph.has(self.class) {
            self.class = graph.classify(&self.meta);
            self.classes.push((exchange, self.class));
        }
    }

    fn pair(&self) -> (u32, u8, Vec<(u64, AggregateId)>) {
        (self.meta.association, self.meta.dscp[1], self.classes.clone())
    }
}

/// Flow queues do not keep the order of an association, but of a flow; so each association is a flow here.
#[test]
fn random_exchanges_keep_every_packet_and_the_order_of_each_pair() {
    let texts = texts();
    let (mut exchanges, mut returned) = (0, 0);
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut works = Works::new(graph_of(&described(&texts[0], &house(COST)), &house(COST)));
        let mut order: BTreeMap<_, u64> = BTreeMap::new();
        let mut packets: Vec<Packet> = Vec::new();
        let (mut tickets, mut given) = (0, 0);
        for _ in 0..600 {
            match random.next() % 16 {
                0..8 => {
                    let number = (random.next() % 6) as u32 + 1;
                    let dscp = [EF, BE, 10, 18][(random.next() % 4) as usize];
                    let meta =
                        Meta { association: number, flow: number, user: number, ..of_dscp(dscp, COST) };
                    let class = works.graph.classify(&meta);
                    packets.push(Packet { meta, class, given_as: None, classes: vec![(0, class)] });
                    works.offer(tickets, meta);
                    tickets += 1;
                }
                8 | 9 => works.forward(),
                10..14 => {
                    // The oldest job of some unit.
                    if !works.given.is_empty() {
                        let some = works.given[random.next() as usize % works.given.len()].unit;
                        let oldest = works.given.iter().position(|job| job.unit == some).unwrap();
                        works.finish(oldest);
                        given -= usize::from(oldest < given);
                    }
                }
                14 => works.now += random.next() % (20 * COST),
                _ => {
                    returned += works.exchange(&texts[random.next() as usize % texts.len()]);
                    exchanges += 1;
                    packets.iter_mut().for_each(|packet| packet.follow(&works.graph, exchanges));
                }
            }
            for assignment in &works.given[given..] {
                let packet = &mut packets[assignment.item as usize];
                assert_eq!(assignment.meta.aggregate, packet.class, "seed {seed}");
                let pair = packet.pair();
                packet.given_as = Some(packet.class);
                let before = order.insert(pair.clone(), assignment.item);
                assert!(before.is_none_or(|before| before < assignment.item), "seed {seed}: {pair:?}");
            }
            given = works.given.len();
            assert!(works.graph.conserved(), "seed {seed}: {:?}", works.graph.counts());
        }
        works.drain();
        assert_eq!((works.left.len() + works.ended.len()) as u64, tickets, "seed {seed}");
        let mut last = BTreeMap::new();
        for (ticket, _) in &works.left {
            let packet = &packets[*ticket as usize];
            let pair = (packet.pair(), packet.given_as.unwrap_or(packet.class));
            let before = last.insert(pair.clone(), *ticket);
            assert!(
                before.is_none_or(|before: u64| before < *ticket),
                "seed {seed}: {pair:?} left out of order: {before:?} before {ticket}"
            );
        }
    }
    assert!(exchanges > 1_000 && returned > 1_000, "{exchanges} exchanges, {returned} packets came back");
}
