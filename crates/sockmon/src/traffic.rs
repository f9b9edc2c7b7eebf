//! What each application's packets came to, as the kernel half counted it (docs/design/0013).

use std::collections::BTreeMap;

use crate::abi;

/// Packets, and octets of them from the IP header on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Packets, as on the wire: pieces of a super-packet one by one.
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

/// Traffic of one application since the instance was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppTraffic {
    /// Left in clear past the data path.
    pub out_clear: Amount,
    /// Handed to the data path, which is to authenticate it.
    pub out_authenticated: Amount,
    /// Handed to the data path, which is to encrypt it.
    pub out_encrypted: Amount,
    /// Refused; without octets where the call was.
    pub out_refused: Amount,
    /// Handed to the data path, which sent it in clear.
    pub out_returned: Amount,
    /// Arrived in clear and was accepted.
    pub in_clear: Amount,
    /// Arrived authenticated, and was accepted.
    pub in_authenticated: Amount,
    /// Arrived encrypted, and was accepted.
    pub in_encrypted: Amount,
    /// Arrived and was refused.
    pub in_refused: Amount,
    /// Among what left in clear: an observed network's, which would have been refused.
    pub would_refuse: Amount,
    /// Among what left in clear: an observed network's, which would have been authenticated.
    pub would_authenticate: Amount,
    /// Among what left in clear: an observed network's, which would have been encrypted.
    pub would_encrypt: Amount,
    /// Among what arrived in clear: an observed network's, which would have been refused.
    pub in_would_refuse: Amount,
    /// Refusals by the name of their counter. No event need have told of them.
    pub reasons: BTreeMap<&'static str, u64>,
    /// Calls to observed networks that would have been refused, likewise.
    pub would_reasons: BTreeMap<&'static str, u64>,
}

impl AppTraffic {
    /// Octets in both directions, without those that were refused.
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
