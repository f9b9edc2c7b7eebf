//! No packet allocates, in any component of this program.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use qos::behaviour::shape::ShapeSettings;
use qos::behaviour::srtcm::SrTcmSettings;
use qos::behaviour::trtcm::TrTcmSettings;
use qos::behaviour::trtcm4115::TrTcm4115Settings;
use qos::behaviour::{
    AggregateLimit, AggregateSet, AuthBudget, Classifier, Codepoints, Demotion, Excess, Field, Headers,
    Marker, Mode, Only, Pacer, Police, Precolour, Profile, Rule, Shape, SrTcm, Target, TrTcm, TrTcm4115,
    UserLimit, Users,
};
use qos::dequeue::{Cobalt, Codel, CodelSettings, DualPi2, DualPi2Settings, DualQueue, Give, Shaped};
use qos::red::{Curve, Red, RedSettings};
use qos::store::FlowBy;
use qos::{
    AggregateId, Amount, Backlog, Behaviour, Colour, Context, Dequeue, Enqueue, Entry, Limit, Measure, Meta,
    Store, Verdict,
};
use wire::Time;

use crate::common::{MS, Random, SECOND, packet};

/// The system's allocator, which counts for each thread.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn behaviours() -> Vec<Box<dyn Behaviour>> {
    let (measure, mode) = (Measure::Octets, Mode::ColourAware);
    let shape = ShapeSettings { rate: 1_000_000, burst: 5000, overhead: 38, limit_ns: SECOND };
    let srtcm = SrTcmSettings { cir: 1_000_000, cbs: 5000, ebs: 5000, measure, mode };
    let trtcm = TrTcmSettings { pir: 2_000_000, pbs: 9000, cir: 1_000_000, cbs: 5000, measure, mode };
    let of_4115 = TrTcm4115Settings { cir: 1_000_000, cbs: 5000, eir: 1_000_000, ebs: 5000, measure, mode };
    let rule = |number: u32| Rule {
        conditions: vec![Field::User.is(number), Field::InnerDscp.within(0..=63)],
        target: Target::Aggregate(AggregateId(number as u8)),
    };
    let rules: Vec<Rule> = (0..100).map(rule).collect();
    let limit = UserLimit { rate: 100_000, burst: 5000, measure, excess: Excess::Drop };
    let everybody = Profile { limit: Some(limit), ..Profile::default() };
    let users = Users::new(64, 7, FlowBy::User, everybody, &[]).unwrap();
    let mut budget = AuthBudget::new(1000, 0, Demotion::Recolour(Colour::Yellow), 64, 7).unwrap();
    budget.charge(1, 1, 1, Time(0));
    let limit = Limit { packets: 100, ..Limit::NONE };
    let only = AggregateSet::of(&[AggregateId(1)]);
    vec![
        Box::new(Classifier::new(&rules).unwrap()),
        Box::new(Precolour::new(false, Colour::Green)),
        Box::new(SrTcm::new(srtcm).unwrap()),
        Box::new(TrTcm::new(trtcm).unwrap()),
        Box::new(TrTcm4115::new(of_4115).unwrap()),
        Box::new(Only::new(only, Police::new(1000, 1000, measure, Excess::Drop).unwrap())),
        Box::new(users),
        Box::new(budget),
        Box::new(Shape::new(shape).unwrap()),
        Box::new(AggregateLimit::new(&[(AggregateId(1), limit)])),
        Box::new(Marker::new(&[(AggregateId(1), Codepoints::Assured(1))], Headers::Both).unwrap()),
    ]
}

#[test]
fn no_packet_allocates() {
    let mut behaviours = behaviours();
    let curve = Curve { min: 5, max: 500, probability: 0.5 };
    let measure = Measure::Packets;
    let red = RedSettings { measure, curves: [curve; 3], weight: 2, packet_ns: MS, ecn: true };
    let mut red = Red::new(red).unwrap();
    let shape = ShapeSettings { rate: 1_000_000, burst: 5000, overhead: 38, limit_ns: SECOND };
    let mut parts: Vec<Box<dyn Dequeue>> = vec![
        Box::new(Give),
        Box::new(Shaped::new(Pacer::new(shape).unwrap(), Box::new(Give))),
        Box::new(Codel::new(CodelSettings::default()).unwrap()),
        Box::new(Cobalt::new(CodelSettings::default()).unwrap()),
    ];
    let mut queue = DualQueue::new(DualPi2::new(DualPi2Settings::default()).unwrap(), 200);
    let mut random = Random(9);
    let before = COUNT.get();
    assert!(before > 0);
    for round in 0..5000_u64 {
        let context = Context { now: Time(round * MS), random: random.next() };
        let arrived = Time((round * MS).saturating_sub(random.next() % (50 * MS)));
        let mut batch = [Entry { meta: packet(1000), verdict: Verdict::Pass }; 16];
        for entry in &mut batch {
            let bits = random.next();
            entry.meta.user = (bits % 1000) as u32;
            entry.meta.ecn = bits as u8 & 3;
            entry.meta.arrived = arrived;
        }
        for behaviour in &mut behaviours {
            behaviour.run(&mut batch, &context);
        }
        let backlog = Backlog { now: Amount { packets: 100, octets: 100_000, ns: 0 }, limit: Limit::NONE };
        for Entry { meta, .. } in batch {
            red.admit(&meta, &backlog, &context);
            for part in &mut parts {
                part.decide(&meta, &backlog, &context);
            }
            if queue.admit(&meta, &backlog, &context) == qos::Admit::Take {
                queue.put(round, meta);
            }
        }
        for _ in 0..15 {
            let Some(head) = queue.peek().copied() else { break };
            queue.decide(&head, &backlog, &context);
            assert_eq!(queue.get().map(|(_, meta): (u64, Meta)| meta), Some(head));
        }
    }
    assert_eq!(COUNT.get(), before);
}
