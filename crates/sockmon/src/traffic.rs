//! The traffic of each application, as the kernel half counted it (docs/design/0013).

use std::collections::BTreeMap;

use crate::abi;

/// A number of packets, with their octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The number of packets as on the wire; each piece of a super-packet counts.
    pub packets: u64,
    /// The octets of these packets, from the IP header on.
    pub octets: u64,
}

impl Amount {
    /// The sum of both amounts.
    #[must_use]
    pub fn and(self, other: Amount) -> Amount {
        Amount {
            packets: self.packets.wrapping_add(other.packets),
            octets: self.octets.wrapping_add(other.octets),
        }
    }
}

/// The traffic of one application since the instance was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppTraffic {
    /// Traffic that left in clear past the data path.
    pub out_clear: Amount,
    /// Traffic that was handed to the data path to be authenticated.
    pub out_authenticated: Amount,
    /// Traffic that was handed to the data path to be encrypted.
    pub out_encrypted: Amount,
    /// Outbound traffic that was refused. A refused call counts no octets.
    pub out_refused: Amount,
    /// Traffic that was handed to the data path and that the data path sent in clear.
    pub out_returned: Amount,
    /// Traffic that arrived in clear and was accepted.
    pub in_clear: Amount,
    /// Traffic that arrived authenticated and was accepted.
    pub in_authenticated: Amount,
    /// Traffic that arrived encrypted and was accepted.
    pub in_encrypted: Amount,
    /// Traffic that arrived and was refused.
    pub in_refused: Amount,
    /// Clear outbound traffic of observed networks that would have been refused. `out_clear` has it too.
    pub would_refuse: Amount,
    /// Clear outbound traffic of observed networks that would have been authenticated. `out_clear` has it too.
    pub would_authenticate: Amount,
    /// Clear outbound traffic of observed networks that would have been encrypted. `out_clear` has it too.
    pub would_encrypt: Amount,
    /// Clear inbound traffic of observed networks that would have been refused. `in_clear` has it too.
    pub in_would_refuse: Amount,
    /// The number of refusals by the name of their counter, including those that no event reported.
    pub reasons: BTreeMap<&'static str, u64>,
    /// The number of calls to observed networks that would have been refused, by the name of their counter.
    pub would_reasons: BTreeMap<&'static str, u64>,
}

impl AppTraffic {
    /// The octets of both directions, without those that were refused.
    #[must_use]
    pub fn octets(&self) -> u64 {
        let passed = [
            self.out_clear,
            self.out_authenticated,
            self.out_encrypted,
            self.in_clear,
            self.in_authenticated,
            self.in_encrypted,
        ];
        passed.iter().fold(0, |sum, amount| sum.wrapping_add(amount.octets))
    }

    pub(crate) fn of(&mut self, kind: u16) -> Option<&mut Amount> {
        let all: [&mut Amount; abi::TRAFFIC_KINDS] = [
            &mut self.out_clear,
            &mut self.out_authenticated,
            &mut self.out_encrypted,
            &mut self.out_refused,
            &mut self.out_returned,
            &mut self.in_clear,
            &mut self.in_authenticated,
            &mut self.in_encrypted,
            &mut self.in_refused,
            &mut self.would_refuse,
            &mut self.would_authenticate,
            &mut self.would_encrypt,
            &mut self.in_would_refuse,
        ];
        all.into_iter().nth(usize::from(kind))
    }
}
