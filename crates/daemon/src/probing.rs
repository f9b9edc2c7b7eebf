//! Whether long packets arrive at the peers: probes of the paths that associations go by (docs/design/0029).
//!
//! What enters: twice a second, by which paths long packets left; what peers say of theirs. What leaves: orders for the outbound
//! thread, path MTUs, and problems for `status`, `/v1/health` and `doctor`. Nothing is added to a packet's way.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use engine::{Act, Order, Path, PathReport, Prober, SeenPath};
use sadb::Spi;
use sadb::sa::Selectors;
use wire::probe::Message;
use wire::{AppId, Time};

use documents::api_error::ApiError;

/// Paths that are probed at most.
const PATHS: usize = 1024;
/// Probes that leave with one look.
const PROBES: usize = 64;
/// Answers in a second, to one peer and to all together.
const ANSWERS: (u32, u32) = (32, 256);
/// Peers whose answers are counted in a second.
const COUNTED: usize = 256;
/// A path by which nobody sends long packets is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(900);

/// What is known of all paths.
#[derive(Debug, Default)]
pub struct Probing {
    pub(crate) paths: BTreeMap<Path, PathKnowledge>,
    /// Where the next look at associations begins.
    pub(crate) from: usize,
    /// The index of the path whose turn it is first, where there are more probes than may leave.
    first: usize,
    pub(crate) answers: Answers,
}

/// What is known of one path.
#[derive(Debug)]
pub(crate) struct PathKnowledge {
    pub(crate) prober: Prober,
    /// The SPI of the association by which the path is probed; `selectors` is what that one carries.
    pub(crate) spi: Spi,
    pub(crate) selectors: Selectors,
    /// The association that answers come by, and the packets that it had carried; `None`: there is none.
    pub(crate) back: Option<(Spi, u64)>,
    /// An application that sends by it, and when that was looked at.
    pub(crate) app: (AppId, Option<Time>),
}

/// What is to be sent, and the path MTUs that were found.
pub(crate) type ProbeOrders = (Vec<Order>, Vec<(Path, u16)>);

/// Answers given in a second.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    second: u64,
    all: u32,
    peers: BTreeMap<IpAddr, u32>,
}

impl Answers {
    /// Whether this peer may have one more.
    pub(crate) fn may(&mut self, peer: IpAddr, now: Time) -> bool {
        let second = now.0 / 1_000_000_000;
        if second != self.second {
            *self = Answers { second, ..Answers::default() };
        }
        if self.all >= ANSWERS.1 || !self.peers.contains_key(&peer) && self.peers.len() >= COUNTED {
            return false;
        }
        let own = self.peers.entry(peer).or_default();
        if *own >= ANSWERS.0 {
            return false;
        }
        *own += 1;
        self.all += 1;
        true
    }
}

impl Probing {
    /// One view of each path; those that are new are known from now on, as far as there is room.
    pub(crate) fn meet(&mut self, seen: Vec<SeenPath>) -> BTreeMap<Path, SeenPath> {
        let mut all: BTreeMap<Path, SeenPath> = BTreeMap::new();
        for one in seen {
            if !self.paths.contains_key(&one.path) {
                if self.paths.len() >= PATHS {
                    continue;
                }
                self.paths.insert(
                    one.path,
                    PathKnowledge {
                        prober: Prober::default(),
                        spi: one.spi,
                        selectors: one.selectors,
                        back: None,
                        app: (AppId::NONE, None),
                    },
                );
            }
            match all.get_mut(&one.path) {
                Some(known) => {
                    known.long |= one.long;
                    known.in_force = known.in_force.max(one.in_force);
                    known.configured = known.configured.max(one.configured);
                }
                None => {
                    all.insert(one.path, one);
                }
            }
        }
        // Associations that are gone take their paths along, unless others go by them.
        self.paths.retain(|path, _| all.contains_key(path));
        all
    }

    /// Everybody's turn: what is to be sent, and the path MTUs that were found.
    pub(crate) fn turn(
        &mut self,
        now: Time,
        seen: &BTreeMap<Path, SeenPath>,
        back: &BTreeMap<Path, (Spi, u64)>,
    ) -> Result<ProbeOrders, ApiError> {
        let (mut orders, mut proved) = (Vec::new(), Vec::new());
        let mut octets = [0; 8];
        let mut failed = None;
        let mut token = || {
            if let Err(error) = netio::random::fill(&mut octets) {
                failed = Some(error);
            }
            u64::from_ne_bytes(octets)
        };
        // Who had no turn is first the next time.
        let count = self.paths.len();
        let first = if count == 0 { 0 } else { self.first % count };
        let order: Vec<Path> =
            self.paths.keys().skip(first).chain(self.paths.keys().take(first)).copied().collect();
        for path in order {
            let (Some(known), Some(one)) = (self.paths.get_mut(&path), seen.get(&path)) else { continue };
            if orders.len() >= PROBES {
                break;
            }
            self.first = (self.first + 1) % count;
            (known.spi, known.selectors) = (one.spi, one.selectors);
            let before = known.back;
            known.back = back.get(&path).copied();
            // Nobody could answer.
            let Some((answer_by, packets)) = known.back else { continue };
            let came = before.is_some_and(|before| before.0 == answer_by && before.1 < packets);
            let seen = PathReport {
                in_force: one.in_force,
                configured: one.configured,
                floor: one.floor.min(one.configured),
                lengths: one.lengths,
                long: one.long,
                back: came,
            };
            let eaten = known.prober.eaten_since();
            for act in known.prober.turn(now, &seen, &mut token) {
                match act {
                    Act::Send { token, size } => orders.push(Order {
                        spi: known.spi,
                        local: path.local,
                        remote: path.remote,
                        message: Message::Probe { token, answer_by: answer_by.0 },
                        size,
                    }),
                    Act::Use(mtu) => {
                        if mtu < one.in_force {
                            let remote = path.remote;
                            tracing::warn!(
                                "packets of more than {mtu} octets do not arrive at {remote}, and no ICMP error says so"
                            );
                        }
                        proved.push((path, mtu));
                    }
                }
            }
            if eaten.is_some() != known.prober.eaten_since().is_some() {
                let so = if eaten.is_some() { "arrive again" } else { "do not arrive" };
                tracing::warn!("long packets to {} {so}", path.remote);
            }
        }
        let forgotten = |known: &PathKnowledge| {
            known.prober.eaten_since().is_none() && now.since(known.prober.last_long()) >= FORGOTTEN
        };
        self.paths.retain(|_, known| !forgotten(known));
        match failed {
            Some(error) => Err(ApiError::new(documents::api_error::Blame::Failed, error.to_string())),
            None => Ok((orders, proved)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_bounded_for_each_peer_and_for_all() {
        let mut answers = Answers::default();
        let now = Time::from_secs(7);
        let peer = |n: u8| IpAddr::from([192, 0, 2, n]);
        let given = (0..1000).filter(|_| answers.may(peer(1), now)).count();
        assert_eq!(given, ANSWERS.0 as usize);
        let all: usize = (2..=255).map(|n| (0..40).filter(|_| answers.may(peer(n), now)).count()).sum();
        assert_eq!(all + given, ANSWERS.1 as usize);
        assert!(answers.may(peer(1), Time::from_secs(8)), "another second");
    }
}
