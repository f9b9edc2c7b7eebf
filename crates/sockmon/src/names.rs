//! Networks that are names (docs/design/0014): changes of single addresses, and the answers of the DNS that programs receive.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use libbpf_rs::RingBufferBuilder;
use sadb::spd::{AppPolicy, Order, Spd};
use std::os::fd::AsFd;
use wire::{AppId, addr};

use crate::abi::{self, Network, NetworkKey, OrderKey, Wire};
use crate::error::SockmonError;
use crate::monitor::Sockmon;
use crate::policy::{entry, order_entries};
use crate::programs::Maps;

/// An answer of the DNS that a socket got, to a question that it had asked this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsAnswer {
    /// The socket's application; [`AppId::NONE`]: none that the policy names.
    pub app: AppId,
    /// Who answered.
    pub server: IpAddr,
    /// The message.
    pub message: Vec<u8>,
}

/// How each two applications compare.
type Orders<'o> = &'o [((AppId, AppId), Order)];
type Entries = BTreeMap<(u16, u32, [u8; 16]), (NetworkKey, Network)>;

impl Sockmon {
    /// From `before`, which is in force, to `after`, which differs in networks of host prefixes alone: entry by entry, each of
    /// which is right by itself. Pairs of applications that do not compare any more come first, so that no socket changes hands by an order
    /// that is over.
    ///
    /// # Errors
    /// [`SockmonError::Answer`] if they differ in more than that; then, or if the kernel refuses an entry, the policy is to be loaded
    /// as a whole.
    pub fn change_networks(
        &self,
        before: (&Spd, Orders<'_>),
        after: (&Spd, Orders<'_>),
    ) -> Result<(), SockmonError> {
        let maps = &self.loaded.maps;
        let generation = maps.config()?.generation;
        if generation == 0 || !alike(before.0, after.0) {
            return Err(SockmonError::Answer("a change of networks alone"));
        }
        let max = maps.capacity("order")? / 2;
        let (old, new) = (order_entries(before.1, max)?, order_entries(after.1, max)?);
        let key = |(from, to): (AppId, AppId)| OrderKey {
            generation: generation as u16,
            from: from.0,
            to: to.0,
            zero: 0,
        };
        for pair in old.keys().filter(|pair| old.get(pair) != new.get(pair)) {
            maps.delete("order", &key(*pair))?;
        }
        let (gone, here) = (entries(before.0, generation), entries(after.0, generation));
        for (place, (key, value)) in &here {
            if gone.get(place).map(|(_, value)| value) != Some(value) {
                maps.write("networks", key, value)?;
            }
        }
        for (_, (key, _)) in gone.iter().filter(|(place, _)| !here.contains_key(*place)) {
            maps.delete("networks", key)?;
        }
        for (pair, value) in new.iter().filter(|(pair, value)| old.get(pair) != Some(value)) {
            maps.write("order", &key(*pair), value)?;
        }
        Ok(())
    }

    /// Whether answers of the DNS are told of from now on.
    ///
    /// # Errors
    /// [`SockmonError::Bpf`].
    pub fn set_observe(&self, observe: bool) -> Result<(), SockmonError> {
        let config = self.loaded.maps.config()?;
        self.loaded.maps.set_config(&abi::Config { observe: u32::from(observe), ..config })
    }

    /// The answers since the last call, at most `most` of them; the others are lost. Does not wait.
    ///
    /// # Errors
    /// [`SockmonError::Bpf`] if the ring cannot be read.
    pub fn dns_answers(&self, most: usize) -> Result<Vec<DnsAnswer>, SockmonError> {
        let mut out = Vec::new();
        {
            let fail = || SockmonError::bpf("read map answers");
            let mut ring = RingBufferBuilder::new();
            ring.add(self.loaded.maps.get("answers")?, |bytes| {
                if out.len() < most {
                    out.extend(abi::Answer::read(bytes).and_then(|answer| from_kernel(&answer)));
                }
                0
            })
            .map_err(fail())?;
            ring.build().map_err(fail())?.consume().map_err(fail())?;
        }
        Ok(out)
    }

    /// Readable (poll, epoll) when there are answers; of one's own, so that it can be given to a runtime.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn dns_answers_fd(&self) -> Result<OwnedFd, SockmonError> {
        let map = self.loaded.maps.get("answers")?;
        map.as_fd().try_clone_to_owned().map_err(SockmonError::system("copy a descriptor"))
    }
}

fn from_kernel(answer: &abi::Answer) -> Option<DnsAnswer> {
    let message = answer.message.get(..usize::from(answer.length))?.to_vec();
    let server = addr::from_bits(u128::from_be_bytes(answer.server));
    Some(DnsAnswer { app: AppId(answer.app), server, message })
}

/// Whether two policies have the same applications with the same protections: their places in the tables are the same then.
fn alike(a: &Spd, b: &Spd) -> bool {
    let of = |spd: &Spd| -> Vec<(AppId, Vec<Vec<sadb::spd::Item>>)> {
        spd.apps().map(|(app, policy): (AppId, &AppPolicy)| (app, policy.protections().to_vec())).collect()
    };
    of(a) == of(b)
}

fn entries(spd: &Spd, generation: u32) -> Entries {
    let mut out = Entries::new();
    let mut slot = Maps::first_slot(generation);
    for (app, policy) in spd.apps() {
        for network in policy.networks() {
            let (key, value) = entry(generation, app, network, policy.would(network), slot);
            out.insert((key.app, key.prefixlen, key.addr), (key, value));
        }
        slot += policy.protections().len() as u32;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sadb::spd::{Class, Item, Level, PortRange, RuleId};
    use wire::{Prefix, Services};

    #[test]
    fn an_answer_of_the_kernel_is_read_with_its_length() {
        let mut answer = abi::Answer {
            cookie: 1,
            app: 7,
            length: 12,
            zero: 0,
            server: [0; 16],
            message: [5; abi::ANSWER],
        };
        answer.server[10..12].fill(0xff);
        answer.server[12..].copy_from_slice(&[192, 0, 2, 53]);
        let got = from_kernel(&answer).unwrap();
        assert_eq!(
            (got.app, got.server, got.message),
            (AppId(7), IpAddr::from([192, 0, 2, 53]), vec![5; 12])
        );
        assert!(from_kernel(&abi::Answer { length: 1233, ..answer }).is_none());
    }

    #[test]
    fn places_are_those_of_a_whole_load() {
        let item =
            Item::new(PortRange::ANY, PortRange::ANY, Services::ENCRYPTED, Level::Mandatory, RuleId(2));
        let network = |last: u8, class| sadb::spd::Network {
            prefix: Prefix::host([192, 0, 2, last].into()),
            class,
            rule: RuleId(1),
        };
        let mut spd = Spd::new(1);
        spd.insert(AppId(1), AppPolicy::new(vec![network(1, Class::Protected(1))], vec![vec![item]; 2]));
        spd.insert(AppId(4), AppPolicy::new(vec![network(1, Class::Protected(0))], vec![vec![item]]));
        let got: Vec<u16> = entries(&spd, 3).values().map(|(_, value)| value.protection).collect();
        let half = (abi::PROTECTIONS / 2) as u16;
        assert_eq!(got, [half + 1, half + 2]);
        let mut other = spd.clone();
        other.insert(AppId(1), AppPolicy::new(vec![network(9, Class::Protected(1))], vec![vec![item]; 2]));
        assert!(alike(&spd, &other));
        other.insert(AppId(4), AppPolicy::new(Vec::new(), vec![vec![item]; 2]));
        assert!(!alike(&spd, &other));
    }
}
