//! A state of queue management for each flow queue (RFC 8290): what a flood does to its own queue costs others nothing.

use qos::dequeue::{Cobalt, Codel, CodelSettings, PerFlow};
use qos::enqueue::DropLongest;
use qos::node::{Node, Pull, Queue};
use qos::store::{FlowBy, FlowQueues, FlowSettings, UserFlows};
use qos::{About, Backlog, Cause, Context, Dequeue, Leave, Limit, Measure, Meta, Store};
use wire::Time;

use crate::common::MS;
use crate::queueing::{amount, at};

const FLOOD: u32 = 7;
const CALL: u32 = 8;
const QUEUES: usize = 1024;

/// The packets of the flood and of the call that ended, of ten seconds in which a packet leaves in each millisecond. The flood
/// sends ten packets in that time, the call one in ten of them.
fn lost(dequeue: impl Dequeue + 'static) -> (u64, u64) {
    lost_of(FlowQueues::with_capacity(settings(FlowBy::Flow), 256), dequeue)
}

fn settings(by: FlowBy) -> FlowSettings {
    FlowSettings { by, queues: QUEUES as u32, measure: Measure::Octets, quantum: 1500, seed: 5 }
}

/// The same of any store.
fn lost_of(store: impl Store<u32> + 'static, dequeue: impl Dequeue + 'static) -> (u64, u64) {
    let limit = Limit { packets: 200, ..Limit::NONE };
    let mut node: Node<u32> =
        Queue::new(Box::new(DropLongest), Box::new(store), Box::new(dequeue), limit).into();
    let (mut ended, mut flood, mut call) = (Vec::new(), 0, 0);
    for number in 0..10_000_u64 {
        let now = number * MS;
        let context = at(now);
        let meta = |flow, octets| Meta {
            flow,
            arrived: Time(now),
            amount: amount(1, octets, MS),
            ..Meta::default()
        };
        (0..10).for_each(|_| {
            let _ = node.offer(0, meta(FLOOD, 1400), &context, &mut ended);
        });
        if number % 10 == 0 {
            let _ = node.offer(1, meta(CALL, 200), &context, &mut ended);
        }
        let _ = node.take(&context, &mut ended);
        for one in ended.drain(..) {
            if one.meta.flow == CALL { call += 1 } else { flood += 1 }
        }
    }
    (flood, call)
}

#[test]
fn a_flood_costs_the_flow_beside_it_no_packet() {
    let settings = CodelSettings { ecn: false, ..CodelSettings::default() };
    let cobalt = Cobalt::new(settings).unwrap();
    for (flood, call) in
        [lost(PerFlow::new(cobalt, QUEUES)), lost(PerFlow::new(Codel::new(settings).unwrap(), QUEUES))]
    {
        assert_eq!(call, 0);
        assert!(flood > 80_000, "{flood} of 100,000 packets of the flood ended");
    }
    // One state for all flows makes the call pay for the flood.
    let (_, call) = lost(cobalt);
    assert!(call > 100, "{call}");
}

#[test]
fn a_flood_costs_another_flow_of_its_user_no_packet() {
    let settings = CodelSettings { ecn: false, ..CodelSettings::default() };
    let cobalt = Cobalt::new(settings).unwrap();
    // All packets are of one user.
    let within = self::settings(FlowBy::User);
    let queues = UserFlows::<u32>::queues(&within, 64);
    let store = UserFlows::with_capacity(within, 64, 256);
    let (flood, call) = lost_of(store, PerFlow::new(cobalt, queues));
    assert_eq!(call, 0);
    assert!(flood > 80_000, "{flood} of 100,000 packets of the flood ended");
    // In one queue for the user the call pays for the flood.
    let store = FlowQueues::with_capacity(within, 256);
    let (_, call) = lost_of(store, PerFlow::new(cobalt, QUEUES));
    assert!(call > 100, "{call}");
}

#[test]
fn a_flow_does_not_pay_for_packets_that_ended() {
    /// Ends every second packet of a flow.
    struct EverySecond(u64);

    impl Dequeue for EverySecond {
        fn decide(&mut self, head: &Meta, _: &Backlog, _: &Context) -> Leave {
            if head.flow == FLOOD {
                self.0 += 1;
            }
            if head.flow == FLOOD && self.0.is_multiple_of(2) { Leave::Drop(Cause::Aqm) } else { Leave::Give }
        }

        fn about(&self) -> About {
            About { kind: "every-second", settings: String::new() }
        }
    }

    let settings =
        FlowSettings { by: FlowBy::Flow, queues: 64, measure: Measure::Octets, quantum: 1000, seed: 5 };
    let store = FlowQueues::with_capacity(settings, 1000);
    let mut node: Node<u32> =
        Queue::new(Box::new(DropLongest), Box::new(store), Box::new(EverySecond(0)), Limit::NONE).into();
    let mut ended = Vec::new();
    for flow in [FLOOD, CALL] {
        for _ in 0..400 {
            let meta = Meta { flow, amount: amount(1, 1000, 1), ..Meta::default() };
            let _ = node.offer(flow, meta, &at(0), &mut ended);
        }
    }
    let mut left = [0, 0];
    for _ in 0..200 {
        if let Pull::Packet(flow, _) = node.take(&at(0), &mut ended) {
            left[usize::from(flow == CALL)] += 1;
        }
    }
    assert_eq!(left, [100, 100]);
}

#[test]
fn a_store_with_more_queues_than_states_is_served_all_the_same() {
    let (flood, _) = lost(PerFlow::new(Codel::new(CodelSettings::default()).unwrap(), 0));
    assert!(flood > 80_000, "{flood}");
}
