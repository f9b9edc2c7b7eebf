//! The flows that the kernel half counts (docs/design/0018): reading the table, and removing flows that have ended.

use std::fmt;

use wire::{AppId, Flow, Time, addr};

use crate::abi::{self, FlowKey, FlowValue};
use crate::error::SockmonError;
use crate::model::{FlowCounting, Identity};
use crate::programs::Maps;
use crate::traffic::{Amount, AppTraffic};

/// The bits that tell the BPF programs this choice, in their configuration.
pub(crate) fn bits(counted: FlowCounting) -> u32 {
    match counted {
        FlowCounting::Nothing => 0,
        FlowCounting::Applications => abi::FLOWS_APPS,
        FlowCounting::Everything => abi::FLOWS_APPS | abi::FLOWS_ALL,
    }
}

/// Empty the table of flows: nobody will take its entries out.
pub(crate) fn forget(maps: &Maps) -> Result<(), SockmonError> {
    maps.retain("flows", |_: &FlowKey| true).map(drop)
}

/// The end that sent the first packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowInitiator {
    /// This host sent the first packet.
    Here,
    /// The peer sent the first packet.
    There,
}

/// The process that was first seen sending on a flow: to be shown, for a process can give itself any name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The number of the process.
    pub pid: u32,
    /// The name of the process (its `comm`).
    pub comm: String,
    /// The file that the process executed.
    pub identity: Identity,
}

/// Names one entry of the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowId(pub(crate) FlowKey);

impl fmt::Debug for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.flow(), self.0.app)
    }
}

impl FlowId {
    /// The application; [`AppId::NONE`]: a program without policy.
    pub fn app(&self) -> AppId {
        AppId(self.0.app)
    }

    /// The addresses, ports and protocol. Where a call was refused the local ones are unspecified; a later fragment of
    /// a datagram has no ports.
    pub fn flow(&self) -> Flow {
        let at = |bytes| addr::from_bits(u128::from_be_bytes(bytes));
        Flow {
            opaque: false,
            local: at(self.0.local),
            remote: at(self.0.remote),
            local_port: self.0.local_port,
            remote_port: self.0.remote_port,
            protocol: self.0.protocol,
        }
    }

    /// The name that the kernel half would give a flow, for tests of those who read the table.
    pub fn of(app: AppId, flow: &Flow) -> FlowId {
        FlowId(FlowKey {
            local: addr::to_bits(flow.local).to_be_bytes(),
            remote: addr::to_bits(flow.remote).to_be_bytes(),
            local_port: flow.local_port,
            remote_port: flow.remote_port,
            app: app.0,
            protocol: flow.protocol,
            zero: 0,
        })
    }
}

/// The counts of one flow since its entry was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedFlow {
    /// The name of the flow's entry in the table.
    pub id: FlowId,
    /// The packets of the flow, by the places that count them for applications too; no reasons.
    pub traffic: AppTraffic,
    /// The time when the first packet was counted (monotonic clock).
    pub first: Time,
    /// The time when the last packet was counted (monotonic clock).
    pub last: Time,
    /// The end that began the flow; `None` if the flow was not seen from its start.
    pub begun: Option<FlowInitiator>,
    /// TCP: this side has said that it will send no more.
    pub closed_here: bool,
    /// TCP: the other side has said that it will send no more.
    pub closed_there: bool,
    /// TCP: either side has broken it off.
    pub reset: bool,
    /// The process that sends, if one was seen sending.
    pub sender: Option<Sender>,
}

/// A flow as the kernel half counted it.
pub(crate) fn from_kernel(key: FlowKey, value: &FlowValue) -> CountedFlow {
    let mut traffic = AppTraffic::default();
    for (kind, sum) in (0u16..).zip(&value.kinds) {
        traffic
            .of(kind)
            .into_iter()
            .for_each(|amount| *amount = Amount { packets: sum.packets, octets: sum.octets });
    }
    let is = |bit: u8| value.ended & bit != 0;
    CountedFlow {
        id: FlowId(key),
        traffic,
        // Another processor may be about to write the first one.
        first: Time(if value.first == 0 { value.last } else { value.first }),
        last: Time(value.last.max(value.first)),
        begun: match value.begun {
            abi::FLOW_OUT => Some(FlowInitiator::Here),
            abi::FLOW_IN => Some(FlowInitiator::There),
            _ => None,
        },
        closed_here: is(abi::FLOW_OUT),
        closed_there: is(abi::FLOW_IN),
        reset: is(abi::FLOW_RESET),
        sender: (value.pid != 0).then(|| Sender {
            pid: value.pid,
            comm: abi::text(&value.comm),
            identity: value.identity,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_its_flow() {
        let flow = Flow {
            opaque: false,
            local: [192, 0, 2, 1].into(),
            remote: [192, 0, 2, 2].into(),
            local_port: 40_000,
            remote_port: 443,
            protocol: 6,
        };
        let id = FlowId::of(AppId(7), &flow);
        assert_eq!((id.app(), id.flow()), (AppId(7), flow));
        assert_eq!(id.0.local[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    }

    #[test]
    fn an_entry_whose_beginning_is_not_written_yet_began_when_it_ended() {
        let id = FlowId::of(
            AppId(1),
            &Flow {
                opaque: false,
                local: [192, 0, 2, 1].into(),
                remote: [192, 0, 2, 2].into(),
                local_port: 0,
                remote_port: 0,
                protocol: 1,
            },
        );
        let none = abi::Traffic { packets: 0, octets: 0 };
        let mut value = FlowValue {
            kinds: [none; abi::TRAFFIC_KINDS],
            first: 0,
            last: 9,
            identity: Identity { inode: 0, device: 0, generation: 0 },
            pid: 0,
            begun: abi::FLOW_IN,
            ended: abi::FLOW_RESET,
            zero: 0,
            comm: [0; 16],
        };
        value.kinds[5] = abi::Traffic { packets: 2, octets: 56 };
        let flow = from_kernel(id.0, &value);
        assert_eq!((flow.first, flow.last), (Time(9), Time(9)));
        assert_eq!(flow.traffic.in_clear, Amount { packets: 2, octets: 56 });
        assert_eq!((flow.begun, flow.sender, flow.reset), (Some(FlowInitiator::There), None, true));
    }
}
