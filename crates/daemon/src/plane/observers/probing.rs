//! Whether long packets arrive at the peers ([`crate::probing`]): asking the data threads, and the problems that are told.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use api::Problem;
use engine::{Order, Path, PathMessage, SeenPath};
use netio::clock;
use sadb::Spi;
use sadb::sa::{SaProtocol, Selectors};
use tokio::time::Instant;
use wire::probe::Message;
use wire::{AppId, Time};

use super::Observers;
use crate::datapath::OutboundHalf;
use crate::plane::context::Context;
use crate::plane::{Halves, Plane};
use crate::probing::PathKnowledge;
use config::Config;
use documents::api_error::ApiError;

/// From one look to the next.
const TURN: Duration = Duration::from_millis(500);
/// An answer has come: more of them may be here at once.
const TOGETHER: Duration = Duration::from_millis(2);
/// Looks are not more frequent than that.
const LEAST: Duration = Duration::from_millis(10);
/// Associations that one look asks.
const ASSOCIATIONS: usize = 4096;
/// Who sends is looked for again.
const WHO: Duration = Duration::from_secs(3);

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

    /// Let time pass for all paths now, and set when the next look is due.
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

impl Observers {
    /// What a peer says of the path; whether it is an answer to what was asked, for the first time.
    pub(in crate::plane) async fn hear_of_path(
        &mut self,
        said: PathMessage,
        config: &Config,
        halves: &Halves,
    ) -> bool {
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
                if config.icmp.probe && self.probing.answers.may(said.remote, now) {
                    let order = Order {
                        spi: Spi(answer_by),
                        local: said.local,
                        remote: said.remote,
                        message: Message::Answer { token },
                        size: 0,
                    };
                    // One that is not sent is as one that was lost.
                    let _ = halves.ask_outbound(move |half| half.engine.order(order)).await;
                }
                false
            }
        }
    }

    /// Let time pass for all paths; when the next look is due.
    pub(in crate::plane) async fn probe_paths(&mut self, context: Context<'_>) -> Result<Duration, ApiError> {
        if !context.config.icmp.probe {
            return Ok(TURN);
        }
        let now = clock::monotonic();
        let from = self.probing.from;
        let wanted: Vec<(Spi, IpAddr)> =
            self.probing.paths.iter().map(|(path, known)| (known.spi, path.remote)).collect();
        let look = move |half: &mut OutboundHalf| half.engine.look_at_paths(from, ASSOCIATIONS, &wanted);
        let (seen, next) = context.halves.ask_outbound(look).await?;
        self.probing.from = next;
        let seen = self.probing.meet(seen);
        if seen.is_empty() {
            return Ok(TURN);
        }
        let back = self.come_back(&seen, context.halves).await?;
        let (orders, proved) = self.probing.turn(now, &seen, &back)?;
        if !orders.is_empty() || !proved.is_empty() {
            let carry_out = move |half: &mut OutboundHalf| {
                proved.iter().for_each(|(path, mtu)| half.engine.prove(now, path, *mtu));
                orders.into_iter().for_each(|order| half.engine.order(order));
            };
            context.halves.ask_outbound(carry_out).await?;
        }
        self.look_for_senders(now, context);
        let next = self.probing.paths.values().filter_map(|known| known.prober.next_turn(now)).min();
        Ok(next.map_or(TURN, |next| next.since(now).clamp(LEAST, TURN)))
    }

    /// The associations that answers come by, and the packets that each has carried.
    async fn come_back(
        &self,
        seen: &BTreeMap<Path, SeenPath>,
        halves: &Halves,
    ) -> Result<BTreeMap<Path, (Spi, u64)>, ApiError> {
        type PathRequest = (Path, Selectors, Option<Spi>);
        let asked = |(path, one): (&Path, &SeenPath)| -> PathRequest {
            let known = self.probing.paths.get(path).and_then(|known| known.back);
            (*path, one.selectors, known.map(|(spi, _)| spi))
        };
        let asked: Vec<PathRequest> = seen.iter().map(asked).collect();
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
        Ok(halves.ask_inbound(look).await?)
    }

    /// The problems of paths on which long packets are lost, with the applications that they are of.
    fn look_for_senders(&mut self, now: Time, context: Context<'_>) {
        let due = |known: &PathKnowledge| {
            known.prober.eaten_since().is_some() && known.app.1.is_none_or(|at| now.since(at) >= WHO)
        };
        if !self.probing.paths.values().any(due) {
            return;
        }
        let sockets = match context.monitor.get().sockets() {
            Ok(sockets) => sockets,
            Err(error) => {
                tracing::debug!("it is not known who sends on paths that lose long packets: {error}");
                Vec::new()
            }
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
    pub(in crate::plane) fn path_problems(&self, context: Context<'_>) -> Vec<Problem> {
        let (now, wall) = (clock::monotonic(), clock::wall());
        let eaten = |(path, known): (&Path, &PathKnowledge)| {
            let age = now.since(known.prober.eaten_since()?);
            let application =
                Some(known.app.0).filter(|app| *app != AppId::NONE).map(|app| context.policy.app_name(app));
            let who = application
                .as_ref()
                .map_or_else(|| "traffic".to_owned(), |name| format!("application {name}"));
            let least = if path.remote.is_ipv4() {
                context.config.icmp.outer.path.floor_v4.max(sadb::sa::MIN_PATH_MTU_V4)
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
                rule: None,
                peer: Some(path.remote),
                since_unix_seconds: Some(wall.saturating_sub(age).as_secs()),
            })
        };
        self.probing.paths.iter().filter_map(eaten).collect()
    }
}
