//! Components from outside, as the graph sees them: what they are shown, what of their verdicts is carried out, and what
//! becomes of a component that breaks a rule. The instances here are in Rust; `qos-loader` tests those of libraries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use qos::behaviour::AggregateSet;
use qos::behaviour::foreign::{
    Answer, BrokenRule, Call, Detached, Foreign, ForeignSettings, Instance, Libraries, Library, LibraryState,
    MOST_PACKETS, Maker, OnFault, PacketView, SharedMaker, Times,
};
use qos::graph::description::HookPoint;
use qos::graph::{Code, Graph, House, check_compiled, compile, print, read};
use qos::{AggregateId, Behaviour, Cause, Colour, Direction, Entry, HeaderKind, Meta, Verdict};
use wire::{AppId, Time};

use crate::common::{at, entry, leaves_dropped_alone, packet, run};

const PASS: Answer = Answer { action: 0, value: 0, changes: 0, colour: 0, dscp: 0, reserved: 0 };

/// An instance that answers what a function says, and counts its calls.
struct Scripted<F> {
    answer: F,
    calls: Arc<AtomicU32>,
}

impl<F: FnMut(&PacketView) -> Result<Answer, Detached> + Send> Instance for Scripted<F> {
    fn judge(&mut self, _: &Call, seen: &[PacketView], answers: &mut [Answer]) -> Result<(), Detached> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        assert!(seen.len() <= MOST_PACKETS && seen.len() == answers.len());
        for (seen, to) in seen.iter().zip(answers) {
            assert_eq!(*to, Answer::NONE);
            *to = (self.answer)(seen)?;
        }
        Ok(())
    }

    fn times(&self) -> Times {
        Times { over_budget: 3, longest_ns: 77 }
    }

    fn abandon(&mut self) {}
}

fn settings() -> ForeignSettings {
    ForeignSettings {
        library: "quota".to_owned(),
        ports: vec![AggregateId(5), AggregateId(9)],
        ..ForeignSettings::default()
    }
}

fn foreign(
    settings: ForeignSettings,
    answer: impl FnMut(&PacketView) -> Result<Answer, Detached> + Send + 'static,
) -> (Foreign, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let scripted = Scripted { answer, calls: Arc::clone(&calls) };
    (Foreign::new(settings, Box::new(scripted)), calls)
}

/// What becomes of a packet by one answer.
fn by(answer: Answer) -> (Entry, Foreign) {
    let (mut foreign, _) = foreign(settings(), move |_| Ok(answer));
    let entry = run(&mut foreign, &at(1), packet(100));
    (entry, foreign)
}

#[test]
fn each_verdict_does_what_the_header_says() {
    let (entry, _) = by(PASS);
    assert_eq!((entry.verdict, entry.meta), (Verdict::Pass, packet(100)));
    assert_eq!(by(Answer { action: 1, ..PASS }).0.verdict, Verdict::Mark);
    let reasons = [Cause::Component, Cause::Policed, Cause::EarlyDrop, Cause::NotAdmitted];
    for (value, cause) in (0..).zip(reasons) {
        let (entry, foreign) = by(Answer { action: 2, value, ..PASS });
        assert_eq!(entry.verdict, Verdict::Drop(cause));
        assert_eq!((foreign.report().dropped, foreign.report().packets), (1, 1));
    }
    let (entry, _) = by(Answer { action: 3, value: 1, ..PASS });
    assert_eq!((entry.verdict, entry.meta.aggregate), (Verdict::Pass, AggregateId(9)));
    let (entry, _) = by(Answer { changes: 3, colour: 2, dscp: 46, ..PASS });
    assert_eq!((entry.meta.colour, entry.meta.dscp), (Colour::Red, [46, 0]));
    // What is not to be changed stays.
    let (entry, _) = by(Answer { changes: 0, colour: 2, dscp: 46, ..PASS });
    assert_eq!(entry.meta, packet(100));
}

#[test]
fn a_verdict_out_of_range_detaches_the_component_by_its_rule() {
    let rows = [
        (Answer::NONE, BrokenRule::Unwritten),
        (Answer { action: 4, ..PASS }, BrokenRule::Action(4)),
        (Answer { action: 2, value: 4, ..PASS }, BrokenRule::Reason(4)),
        (Answer { action: 3, value: 2, ..PASS }, BrokenRule::Port { port: 2, ports: 2 }),
        (Answer { action: 3, value: u32::MAX, ..PASS }, BrokenRule::Port { port: u32::MAX, ports: 2 }),
        (Answer { value: 1, ..PASS }, BrokenRule::Value(1)),
        (Answer { changes: 4, ..PASS }, BrokenRule::Changes(4)),
        (Answer { changes: 1, colour: 3, ..PASS }, BrokenRule::Colour(3)),
        (Answer { changes: 2, dscp: 64, ..PASS }, BrokenRule::Dscp(64)),
        (Answer { reserved: 1, ..PASS }, BrokenRule::Reserved(1)),
    ];
    for (answer, rule) in rows {
        let (entry, mut foreign) = by(answer);
        assert_eq!((entry.verdict, entry.meta), (Verdict::Pass, packet(100)), "{answer:?}");
        assert_eq!(foreign.report().detached, Some(Detached::Answer(rule)), "{answer:?}");
        // Its packets go on, and its code does not run again.
        let entry = run(&mut foreign, &at(2), packet(100));
        assert_eq!(entry.verdict, Verdict::Pass);
        let report = foreign.report();
        assert_eq!((report.calls, report.packets, report.unjudged), (1, 0, 2), "{answer:?}");
    }
}

#[test]
fn packets_of_a_detached_component_end_if_the_graph_says_so() {
    let settings = ForeignSettings { on_fault: OnFault::Drop, ..settings() };
    let (mut foreign, calls) = foreign(settings, |_| Ok(Answer { action: 7, ..PASS }));
    for _ in 0..3 {
        let entry = run(&mut foreign, &at(1), packet(100));
        assert_eq!(entry.verdict, Verdict::Drop(Cause::Component));
    }
    assert_eq!((calls.load(Ordering::Relaxed), foreign.report().unjudged), (1, 3));
}

#[test]
fn what_a_slow_call_answered_is_carried_out_before_the_component_is_detached() {
    struct Slow;
    impl Instance for Slow {
        fn judge(&mut self, _: &Call, _: &[PacketView], answers: &mut [Answer]) -> Result<(), Detached> {
            answers.fill(Answer { action: 3, value: 0, ..PASS });
            Err(Detached::Slow { calls: 4, budget_ns: 10, took_ns: 11 })
        }
        fn times(&self) -> Times {
            Times::default()
        }
        fn abandon(&mut self) {}
    }
    let mut foreign = Foreign::new(settings(), Box::new(Slow));
    assert_eq!(run(&mut foreign, &at(1), packet(100)).meta.aggregate, AggregateId(5));
    let why = foreign.report().detached.unwrap();
    assert_eq!(why.to_string(), "4 calls took longer than its budget of 10 ns, the last one 11 ns");
    assert_eq!(run(&mut foreign, &at(2), packet(100)).meta.aggregate, AggregateId::DEFAULT);
}

#[test]
fn a_batch_beyond_the_longest_array_is_shown_in_parts_and_in_order() {
    let (mut foreign, calls) =
        foreign(settings(), |seen| Ok(Answer { changes: 2, dscp: (seen.spi % 64) as u8, ..PASS }));
    let mut batch: Vec<Entry> = (0..150).map(|spi| entry(Meta { spi, ..packet(100) })).collect();
    batch[70].verdict = Verdict::Drop(Cause::NoUnit);
    foreign.run(&mut batch, &at(1));
    for (spi, entry) in (0_u32..).zip(&batch) {
        let dscp = if spi == 70 { 0 } else { (spi % 64) as u8 };
        assert_eq!(entry.meta.dscp, [dscp, 0]);
    }
    assert_eq!((calls.load(Ordering::Relaxed), foreign.report().packets), (3, 149));
    leaves_dropped_alone(&mut foreign);
}

#[test]
fn a_component_of_one_class_sees_no_packet_of_another() {
    let only = Some(AggregateSet::of(&[AggregateId(2)]));
    let (mut foreign, calls) =
        foreign(ForeignSettings { only, ..settings() }, |_| Ok(Answer { action: 2, value: 1, ..PASS }));
    let mut of = |class| {
        let meta = Meta { aggregate: AggregateId(class), ..packet(100) };
        run(&mut foreign, &at(1), meta).verdict
    };
    assert_eq!((of(1), of(2)), (Verdict::Pass, Verdict::Drop(Cause::Policed)));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn a_component_is_shown_every_field_but_no_octet() {
    let meta = Meta {
        arrived: Time(11),
        association: 1,
        spi: 2,
        mark: 3,
        user: 4,
        flow: 5,
        key: 6,
        app: AppId(7),
        suite: 8,
        peer: 9,
        source: 18,
        destination: 20,
        ports: [21, 22],
        protocol: 23,
        peer_hash: 19,
        weight: qos::Weight::ONE,
        units: qos::UnitMask(10),
        aggregate: AggregateId(12),
        colour: Colour::Yellow,
        dscp: [13, 14],
        is_marked: false,
        ecn: 2,
        header: HeaderKind::IcmpError,
        direction: Direction::Inbound,
        index: 15,
        amount: qos::Amount { packets: 16, octets: u64::MAX, ns: 17 },
    };
    let seen = PacketView {
        arrived_ns: 11,
        cost_ns: 17,
        packets: 16,
        octets: u32::MAX,
        association: 1,
        spi: 2,
        mark: 3,
        user: 4,
        flow: 5,
        key: 6,
        app: 7,
        suite: 8,
        peer: 9,
        units: 10,
        class: 12,
        colour: 1,
        dscp_outer: 13,
        dscp_inner: 14,
        ecn: 2,
        header: 6,
        direction: 1,
        index: 15,
    };
    assert_eq!(PacketView::of(&meta), seen);
    assert_eq!((size_of::<PacketView>(), size_of::<Answer>(), size_of::<Call>()), (64, 16, 16));
}

/// A gateway with one library, whose instances drop what has an odd SPI.
struct OddMaker;

impl Maker for OddMaker {
    fn make(&self, parameters: &str, _: u32, _: u64, _: u64) -> Result<Box<dyn Instance>, String> {
        let calls = Arc::default();
        let answer = |seen: &PacketView| match seen.spi % 2 {
            0 => Ok(PASS),
            _ => Ok(Answer { action: 2, value: 1, ..PASS }),
        };
        match parameters {
            "odd" => Ok(Box::new(Scripted { answer, calls })),
            other => Err(format!("{other:?} is no parameter of it")),
        }
    }
}

fn house(state: LibraryState) -> House {
    let library = Library { name: "quota".to_owned(), state };
    House { libraries: Libraries::Named(vec![library]), ..House::default() }
}

fn loaded() -> House {
    house(LibraryState::Loaded(SharedMaker(Arc::new(OddMaker))))
}

fn graph(parameters: &str) -> String {
    format!(
        "[class.all]\nmatch = \"rest\"\n[[hook]]\nat = \"1a\"\ndirection = \"out\"\nchain = [{{ kind = \"classify\" }}, \
         {{ kind = \"foreign\", library = \"quota\", class = \"all\", parameters = \"{parameters}\", ports = [\"all\"], \
         budget = \"20us\", on_fault = \"drop\" }}]\n[[hook]]\nat = \"5b\"\nfrom = \"all\"\n[queue.all]\nclasses = \
         [\"all\"]\nlimit = {{ packets = 100, time = \"20ms\" }}\n[unit.inline]\nkind = \"inline\"\n"
    )
}

#[test]
fn a_graph_attaches_the_component_of_a_loaded_library() {
    let text = graph("odd");
    let description = check_compiled(&text, &loaded()).unwrap();
    assert_eq!(read(&print(&description)).unwrap().hooks.len(), description.hooks.len());
    assert!(print(&description).contains(
        "{ kind = \"foreign\", library = \"quota\", class = \"all\", parameters = \"odd\", ports = [\"all\"], \
         budget = \"20us\", on_fault = \"drop\" }"
    ));
    let mut graph: Graph<u32> = compile(&description, &loaded(), Direction::Outbound, 1).unwrap();
    let mut ended = Vec::new();
    for spi in 0..10 {
        graph.offer(HookPoint::In1a, spi, Meta { spi, ..packet(100) }, &at(1), &mut ended);
    }
    assert_eq!(ended.iter().map(|ended| ended.item).collect::<Vec<_>>(), [1, 3, 5, 7, 9]);
    assert!(ended.iter().all(|ended| ended.cause == Cause::Policed) && graph.conserved());
    let reports: Vec<_> = graph.foreign().collect();
    let [(HookPoint::In1a, report)] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!((report.library.as_str(), report.packets, report.dropped), ("quota", 10, 5));
    let inbound: Graph<u32> = compile(&description, &loaded(), Direction::Inbound, 1).unwrap();
    assert_eq!(inbound.foreign().count(), 0);
}

#[test]
fn a_library_that_is_not_loaded_is_checked_by_name_and_runs_no_graph() {
    let text = graph("odd");
    for house in [house(LibraryState::Named), House::default()] {
        let description = check_compiled(&text, &house).unwrap();
        let faults = compile::<u32>(&description, &house, Direction::Outbound, 1).err().unwrap();
        assert_eq!(faults.len(), 1);
        assert_eq!((faults[0].code, &text[faults[0].span.clone()]), (Code::NoLibrary, "\"quota\""));
        assert!(faults[0].remedy.contains("[[qos.component]]"), "{}", faults[0].remedy);
    }
    let none = House { libraries: Libraries::Named(Vec::new()), ..House::default() };
    let faults = check_compiled(&text, &none).unwrap_err();
    assert_eq!(faults[0].code, Code::NoLibrary);
    assert!(faults[0].remedy.contains("run --take-over"), "{}", faults[0].remedy);
}

#[test]
fn parameters_that_a_library_refuses_are_a_fault_at_their_place() {
    let text = graph("even");
    let faults = check_compiled(&text, &loaded()).unwrap_err();
    assert_eq!((faults[0].code, &text[faults[0].span.clone()]), (Code::RefusedParameters, "\"even\""));
    assert_eq!(
        faults[0].message,
        "the library `quota` refuses these parameters: \"even\" is no parameter of it"
    );
}

#[test]
fn the_bound_grows_by_the_budget_of_each_packet() {
    let bound = |text: &str| {
        let description = check_compiled(text, &loaded()).unwrap();
        let bounds = qos::bound::bounds(&description, &loaded());
        let out = bounds.find("all", Direction::Outbound).unwrap();
        out.terms.kernel
    };
    let without = graph("odd").replace(
        ", { kind = \"foreign\", library = \"quota\", class = \"all\", parameters = \"odd\", ports = [\"all\"], \
         budget = \"20us\", on_fault = \"drop\" }",
        "",
    );
    let packets = qos::graph::kernel::KERNEL_PACKETS;
    assert!(bound(&graph("odd")) >= bound(&without) + 20_000 * packets.min(100));
}

proptest! {
    /// Whatever a library writes, a packet comes out as one that the rest of the graph knows, or the component is
    /// detached and the packet is as it was.
    #[test]
    fn no_answer_makes_a_packet_that_the_graph_does_not_know(
        action in prop_oneof![0..6_u32, any::<u32>()],
        value in prop_oneof![0..6_u32, any::<u32>()],
        changes in prop_oneof![0..8_u32, any::<u32>()],
        colour in prop_oneof![0..4_u8, any::<u8>()],
        dscp in prop_oneof![0..66_u8, any::<u8>()],
        reserved in prop_oneof![Just(0_u16), any::<u16>()],
    ) {
        let (entry, foreign) = by(Answer { action, value, changes, colour, dscp, reserved });
        prop_assert!(entry.meta.dscp[0] < 64);
        prop_assert!([0, 5, 9].contains(&entry.meta.aggregate.0));
        prop_assert!(!matches!(entry.verdict, Verdict::To(_)));
        if foreign.report().detached.is_some() {
            prop_assert_eq!((entry.verdict, entry.meta), (Verdict::Pass, packet(100)));
        }
    }
}
