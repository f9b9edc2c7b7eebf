//! When a flow is over.

use std::time::Duration;

use api::FlowEnd;
use sockmon::CountedFlow;
use wire::Time;

/// The silence after which a connection is over that both sides have closed, or one broke off: stragglers belong to it.
const LINGER: Duration = Duration::from_secs(2);
/// The silence after which a flow of refused calls is over.
const CALLS: Duration = Duration::from_secs(1);
/// Silence that is enough when the table is nearly full.
const SHORT: Duration = Duration::from_secs(5);

/// Whether room is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    None,
    High,
}

impl Pressure {
    /// The pressure on a table with so many flows and room for so many.
    pub(crate) fn of(flows: usize, room: usize) -> Pressure {
        if flows > room / 4 * 3 { Pressure::High } else { Pressure::None }
    }
}

/// Why the flow is over by now; `None`: it may go on.
pub(crate) fn end_of(flow: &CountedFlow, now: Time, idle: Duration, pressure: Pressure) -> Option<FlowEnd> {
    // The last packet may be later than the clock was read.
    let silent = Duration::from_nanos(now.0.saturating_sub(flow.last.0));
    let f = flow.id.flow();
    let calls = f.local.is_unspecified() && f.local_port == 0;
    if flow.reset && silent >= LINGER {
        Some(FlowEnd::Reset)
    } else if flow.closed_here && flow.closed_there && silent >= LINGER {
        Some(FlowEnd::Closed)
    } else if calls && silent >= CALLS {
        Some(FlowEnd::Refused)
    } else if silent >= idle {
        Some(FlowEnd::Idle)
    } else if pressure == Pressure::High && silent >= SHORT {
        Some(FlowEnd::Room)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockmon::{AppTraffic, FlowId};
    use wire::{AppId, Flow};

    fn flow(local: [u8; 4], port: u16) -> CountedFlow {
        let flow = Flow {
            opaque: false,
            local: local.into(),
            remote: [192, 0, 2, 2].into(),
            local_port: port,
            remote_port: 443,
            protocol: 6,
        };
        CountedFlow {
            id: FlowId::of(AppId(1), &flow),
            traffic: AppTraffic::default(),
            first: Time::from_secs(1),
            last: Time::from_secs(100),
            begun: None,
            closed_here: false,
            closed_there: false,
            reset: false,
            sender: None,
        }
    }

    #[test]
    fn a_flow_ends_by_its_own_word_or_by_silence() {
        let open = flow([192, 0, 2, 1], 5);
        let half = CountedFlow { closed_here: true, ..open.clone() };
        let closed = CountedFlow { closed_there: true, ..half.clone() };
        let reset = CountedFlow { reset: true, ..open.clone() };
        let calls = flow([0, 0, 0, 0], 0);
        let idle = Duration::from_secs(60);
        let table = [
            (&open, 99, Pressure::High, None),
            (&open, 104, Pressure::High, None),
            (&open, 105, Pressure::High, Some(FlowEnd::Room)),
            (&open, 105, Pressure::None, None),
            (&open, 160, Pressure::None, Some(FlowEnd::Idle)),
            (&half, 110, Pressure::None, None),
            (&closed, 101, Pressure::None, None),
            (&closed, 102, Pressure::None, Some(FlowEnd::Closed)),
            (&reset, 102, Pressure::None, Some(FlowEnd::Reset)),
            (&calls, 100, Pressure::None, None),
            (&calls, 101, Pressure::None, Some(FlowEnd::Refused)),
        ];
        for (flow, now, pressure, want) in table {
            assert_eq!(end_of(flow, Time::from_secs(now), idle, pressure), want, "{flow:?} at {now}");
        }
        assert_eq!(Pressure::of(49_152, 65_536), Pressure::None);
        assert_eq!(Pressure::of(49_153, 65_536), Pressure::High);
    }
}
