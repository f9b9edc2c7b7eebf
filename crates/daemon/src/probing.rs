//! Whether long packets arrive at the peers: probes of the paths that associations go by (docs/design/0029).
//!
//! What enters: twice a second, by which paths long packets left; what peers say of theirs. What leaves: orders for the outbound
//! thread, path MTUs, and problems for `status`, `/v1/health` and `doctor`. Nothing is added to a packet's way.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use api::Problem;
use engine::{Act, Order, Path, PathMessage, Prober, Seen, SeenPath};
use netio::clock;
use sadb::Spi;
use sadb::sa::{SaProtocol, Selectors};
use tokio::time::Instant;
use wire::probe::Message;
use wire::{AppId, Time};

use crate::datapath::OutboundHalf;
use crate::plane::Plane;
use crate::refused::Refused;

/// From one look to the next.
const TURN: Duration = Duration::from_millis(500);
/// An answer has come: more of them may be here at once.
const TOGETHER: Duration = Duration::from_millis(2);
/// Looks are not more frequent than that.
const LEAST: Duration = Duration::from_millis(10);
/// Associations that one look asks.
const ASSOCIATIONS: usize = 4096;
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
/// Who sends is looked for again.
const WHO: Duration = Duration::from_secs(3);

/// What is known of all paths.
#[derive(Debug, Default)]
pub struct Probing {
    paths: BTreeMap<Path, Known>,
    /// Where the next look at associations begins.
    from: usize,
    /// Whose turn it is first, where there are more probes than may leave.
    first: usize,
    answers: Answers,
}

/// One path.
#[derive(Debug)]
struct Known {
    prober: Prober,
    /// By which association it is probed, and what that carries.
    spi: Spi,
    selectors: Selectors,
    /// The association that answers come by, and the packets that it had carried; `None`: there is none.
    back: Option<(Spi, u64)>,
    /// An application that sends by it, and when that was looked at.
    app: (AppId, Option<Time>),
}

/// What is to be sent, and the path MTUs that were found.
type Found = (Vec<Order>, Vec<(Path, u16)>);

/// Answers given in a second.
#[derive(Debug, Default)]
struct Answers {
    second: u64,
    all: u32,
    peers: BTreeMap<IpAddr, u32>,
}

impl Answers {
    /// Whether this peer may have one more.
    fn may(&mut self, peer: IpAddr, now: Time) -> bool {
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

/// When the next look is due.
#[derive(Debug)]
pub(crate) struct Turns {
    at: Instant,
}

impl Turns {
    pub(crate) fn new() -> Turns {
        Turns { at: Instant::now() + TURN }
    }

    /// It is time to look. Whoever does not wait for the end of this loses nothing.
    pub(crate) async fn ready(&self) {
        tokio::time::sleep_until(self.at).await;
    }

    /// Look.
    pub(crate) async fn look(&mut self, plane: &mut Plane) {
        let next = match plane.probe_paths().await {
            Ok(next) => next,
            Err(refused) => {
                tracing::debug!("it is not known whether long packets arrive: {refused}");
                TURN
            }
        };
        self.at = Instant::now() + next;
    }

    /// An answer has come.
    pub(crate) fn soon(&mut self) {
        self.at = self.at.min(Instant::now() + TOGETHER);
    }
}

impl Plane {
    /// What a peer says of the path; whether it is an answer to what was asked, for the first time.
    pub(crate) async fn hear_of_path(&mut self, said: PathMessage) -> bool {
        let now = clock::monotonic();
        match said.message {
            Message::Answer { token } => {
                let of_peer = |path: &Path| (path.local, path.remote) == (said.local, said.remote);
                let mut is_new = false;
                for (_, known) in self.probing.paths.iter_mut().filter(|(path, _)| of_peer(path)) {
                    is_new |= known.prober.answered(token, now);
                }
                is_new
            }
            Message::Probe { token, answer_by } => {
                if self.config.icmp.probe && self.probing.answers.may(said.remote, now) {
                    let order = Order {
                        spi: Spi(answer_by),
                        local: said.local,
                        remote: said.remote,
                        message: Message::Answer { token },
                        size: 0,
                    };
                    // One that is not sent is as one that was lost.
                    let _ = self.outbound.ask(move |half| half.engine.order(order)).await;
                }
                false
            }
        }
    }

    /// Let time pass for all paths; when the next look is due.
    async fn probe_paths(&mut self) -> Result<Duration, Refused> {
        if !self.config.icmp.probe {
            return Ok(TURN);
        }
        let now = clock::monotonic();
        let from = self.probing.from;
        let wanted: Vec<(Spi, IpAddr)> =
            self.probing.paths.iter().map(|(path, known)| (known.spi, path.remote)).collect();
        let look = move |half: &mut OutboundHalf| half.engine.look_at_paths(from, ASSOCIATIONS, &wanted);
        let (seen, next) = self.outbound.ask(look).await?;
        self.probing.from = next;
        let seen = self.probing.meet(seen);
        if seen.is_empty() {
            return Ok(TURN);
        }
        let back = self.come_back(&seen).await?;
        let (orders, proved) = self.probing.turn(now, &seen, &back)?;
        if !orders.is_empty() || !proved.is_empty() {
            let carry_out = move |half: &mut OutboundHalf| {
                proved.iter().for_each(|(path, mtu)| half.engine.prove(now, path, *mtu));
                orders.into_iter().for_each(|order| half.engine.order(order));
            };
            self.outbound.ask(carry_out).await?;
        }
        self.look_for_senders(now);
        let next = self.probing.paths.values().filter_map(|known| known.prober.next_turn(now)).min();
        Ok(next.map_or(TURN, |next| next.since(now).clamp(LEAST, TURN)))
    }

    /// The associations that answers come by, and the packets that each has carried.
    async fn come_back(
        &self,
        seen: &BTreeMap<Path, SeenPath>,
    ) -> Result<BTreeMap<Path, (Spi, u64)>, Refused> {
        type Asked = (Path, Selectors, Option<Spi>);
        let asked = |(path, one): (&Path, &SeenPath)| -> Asked {
            let known = self.probing.paths.get(path).and_then(|known| known.back);
            (*path, one.selectors, known.map(|(spi, _)| spi))
        };
        let asked: Vec<Asked> = seen.iter().map(asked).collect();
        let look = move |half: &mut crate::datapath::InboundHalf| {
            let sad = half.engine.sad();
            let serves = |path: &Path, sa: &sadb::InboundSa| {
                let (ends, options) = (&sa.config().endpoints, &sa.config().options);
                options.protocol == SaProtocol::Esp && (ends.local, ends.remote) == (path.local, path.remote)
            };
            let mut found = BTreeMap::new();
            let mut missing = Vec::new();
            for (path, selectors, known) in asked {
                let known = known.and_then(|spi| sad.find(spi, path.remote, path.local));
                match known.filter(|sa| serves(&path, sa)) {
                    Some(sa) => {
                        found.insert(path, (sa.spi(), sa.counters.packets));
                    }
                    None => missing.push((path, Selectors { app: None, ..selectors })),
                }
            }
            if missing.is_empty() {
                return found;
            }
            for sa in sad.list().take(ASSOCIATIONS) {
                let own = Selectors { app: None, ..sa.config().effective_selectors() };
                for (path, selectors) in missing.iter().filter(|(path, _)| serves(path, sa)) {
                    // The one of the same pair, or any other from there.
                    if !found.contains_key(path) || own.meets(selectors) {
                        found.insert(*path, (sa.spi(), sa.counters.packets));
                    }
                }
            }
            found
        };
        Ok(self.inbound.ask(look).await?)
    }

    /// Whose packets do not arrive, where they do not: for people.
    fn look_for_senders(&mut self, now: Time) {
        let due = |known: &Known| {
            known.prober.eaten_since().is_some() && known.app.1.is_none_or(|at| now.since(at) >= WHO)
        };
        if !self.probing.paths.values().any(due) {
            return;
        }
        let sockets = match self.monitor.as_ref().map(|monitor| monitor.get().sockets()) {
            Some(Ok(sockets)) => sockets,
            Some(Err(_)) | None => Vec::new(),
        };
        for (path, known) in self.probing.paths.iter_mut().filter(|(_, known)| due(known)) {
            let sends = |socket: &&sockmon::SocketInfo| {
                socket.app != AppId::NONE
                    && socket.flow().is_some_and(|flow| {
                        (flow.local, flow.remote) == (path.local, path.remote)
                            && known.selectors.covers(&flow)
                            && known.selectors.serves(socket.app)
                    })
            };
            let found = sockets.iter().find(sends).map(|socket| socket.app);
            known.app = (found.or(known.selectors.app).unwrap_or(known.app.0), Some(now));
        }
    }

    /// Paths by which long packets do not arrive.
    pub(crate) fn path_problems(&self) -> Vec<Problem> {
        let (now, wall) = (clock::monotonic(), clock::wall());
        let eaten = |(path, known): (&Path, &Known)| {
            let age = now.since(known.prober.eaten_since()?);
            let application =
                Some(known.app.0).filter(|app| *app != AppId::NONE).map(|app| self.policy.app_name(app));
            let who = application
                .as_ref()
                .map_or_else(|| "traffic".to_owned(), |name| format!("application {name}"));
            let least = if path.remote.is_ipv4() {
                self.config.icmp.outer.path.floor_v4.max(sadb::sa::MIN_PATH_MTU_V4)
            } else {
                sadb::sa::MIN_PATH_MTU_V6
            };
            let allow = if path.remote.is_ipv4() { "icmp/3/4" } else { "icmpv6/2" };
            Some(Problem {
                code: "long_packets".to_owned(),
                message: format!(
                    "{who} gets no long packets through to {}, for {} s: short ones arrive, packets of {least} octets, the least \
                     path MTU, do not, and no ICMP error says why",
                    path.remote,
                    age.as_secs()
                ),
                remedy: Some(format!(
                    "let the routers and firewalls between {} and {} pass packets of {least} octets, and {allow}; \
                     `ravelin sa list` shows the path MTU in force, `ravelin sa monitor` each change",
                    path.local, path.remote
                )),
                application,
                peer: Some(path.remote),
                since_unix_seconds: Some(wall.saturating_sub(age).as_secs()),
            })
        };
        self.probing.paths.iter().filter_map(eaten).collect()
    }
}

impl Probing {
    /// One view of each path; those that are new are known from now on, as far as there is room.
    fn meet(&mut self, seen: Vec<SeenPath>) -> BTreeMap<Path, SeenPath> {
        let mut all: BTreeMap<Path, SeenPath> = BTreeMap::new();
        for one in seen {
            if !self.paths.contains_key(&one.path) {
                if self.paths.len() >= PATHS {
                    continue;
                }
                self.paths.insert(
                    one.path,
                    Known {
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
    fn turn(
        &mut self,
        now: Time,
        seen: &BTreeMap<Path, SeenPath>,
        back: &BTreeMap<Path, (Spi, u64)>,
    ) -> Result<Found, Refused> {
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
            let seen = Seen {
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
        let forgotten = |known: &Known| {
            known.prober.eaten_since().is_none() && now.since(known.prober.last_long()) >= FORGOTTEN
        };
        self.paths.retain(|_, known| !forgotten(known));
        match failed {
            Some(error) => Err(Refused::new(crate::refused::Fault::Failed, error.to_string())),
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
