//! The associations: their keys, the SPIs that were promised, and what they serve.
//!
//! What enters: requests to add, change, replace and delete associations, ends of associations, news of routes. What leaves: the
//! associations, for the data thread of their direction, and the flows that they serve, for the kernel half ([`live`]).

mod changes;
mod classes;
mod live;
mod name;
mod query;
mod sa_classes;
mod served;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::{Direction, SaAdd, SaInfo};
use crypto::{Provider, Registry, Secret};
use netio::link::Links;
use sadb::handover::HandOver;
use sadb::sa::Padding;
use sadb::{InboundSa, OutboundSa, SaConfig, Spi};
use wire::Time;

use super::context::Context;
use super::halves::Halves;
use crate::datapath::{InboundHalf, OutboundHalf};
use crate::handover::{UsedCipher, UsedCiphers};
use crate::keys::Keys;
use crate::paths::look;
use control::channel::AskError;
use documents::api_error::{ApiError, Blame};
use documents::associations::{self, Defaults, SaView};
use documents::ciphers::fingerprints;

pub use query::SaQuery;
use sa_classes::{SaClasses, classed};
use served::Served;

/// How long an SPI is kept for a key manager.
const PROMISE: std::time::Duration = std::time::Duration::from_secs(60);

/// Seconds after which a cipher of one's own gets its known answers again.
const KNOWN_ANSWERS: u32 = 600;

/// What is known of associations beside the data threads, which own them.
pub struct Associations {
    /// The registry of suites and the book of used keys.
    keys: Keys,
    /// SPIs that were promised to key managers, and until when.
    promised: Vec<(Spi, Time)>,
    /// The flows that associations serve, as the kernel half knows them.
    live: Served,
    /// Their classes, as the kernel half knows them where outer packets are split among sockets.
    classes: SaClasses,
}

impl Associations {
    /// The owner of these keys, without associations yet.
    pub(crate) fn new(keys: Keys) -> Associations {
        Associations { keys, promised: Vec::new(), live: Served::default(), classes: SaClasses::default() }
    }

    /// The suites that associations may have.
    pub(crate) fn registry(&self) -> &Registry {
        &self.keys.registry
    }

    /// The cipher of one's own to which known answers are to be put in this second, counted from the start: each one's
    /// turn comes every ten minutes.
    pub(super) fn cipher_to_check(&mut self, second: u32) -> Option<Arc<dyn Provider>> {
        let count = self.registry().fingerprints().count();
        let every = u32::try_from(count).ok().and_then(|count| KNOWN_ANSWERS.checked_div(count))?;
        if second.is_multiple_of(every.max(1)) { self.keys.registry.next_to_check() } else { None }
    }

    /// What is wrong with the book of used keys, if anything.
    pub(crate) fn key_fault(&self) -> Option<ApiError> {
        self.keys.fault()
    }

    /// The number of SPIs that are promised.
    pub(crate) fn promised(&self) -> usize {
        self.promised.len()
    }

    /// The key of the book's fingerprints, and the fingerprints of all used keys, for the next daemon.
    pub(super) fn export_keys(&self) -> (Secret, Vec<[u8; 32]>) {
        self.keys.export()
    }

    /// At most so many octets a hand-over takes, beside the associations' `rules` octets of rules.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(super) async fn octets_to_hand_over(&self, rules: usize, halves: &Halves) -> Result<usize, ApiError> {
        let octets_of = sadb::handover::octets_of;
        let inbound = move |half: &mut InboundHalf| {
            half.engine.sad().list().map(|sa| octets_of(sa.config())).sum::<usize>()
        };
        let outbound = move |half: &mut OutboundHalf| {
            half.engine.sad().list().map(|(_, sa)| octets_of(sa.config())).sum::<usize>()
        };
        let associations = halves.ask_inbound(inbound).await? + halves.ask_outbound(outbound).await?;
        Ok(associations + HandOver::octets_beside(self.keys.used(), rules))
    }

    /// The ciphers of one's own that associations use, each with what the next daemon must have for it.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(super) async fn ciphers(&self, halves: &Halves) -> Result<UsedCiphers, ApiError> {
        let inbound = |half: &mut InboundHalf| {
            half.engine.sad().list().filter_map(|sa| sa.config().suite.custom()).collect::<Vec<_>>()
        };
        let outbound = |half: &mut OutboundHalf| {
            half.engine.sad().list().filter_map(|(_, sa)| sa.config().suite.custom()).collect::<Vec<_>>()
        };
        let modes = [halves.ask_inbound(inbound).await?, halves.ask_outbound(outbound).await?].concat();
        let used = fingerprints(self.registry()).into_iter().filter_map(|(name, fingerprint)| {
            let keys = modes.iter().filter(|mode| mode.cipher() == name).count();
            (keys > 0).then_some((name, UsedCipher { fingerprint, keys }))
        });
        Ok(used.collect())
    }

    /// Every association, inbound first, by SPI.
    ///
    /// # Errors
    /// If a data thread does not answer.
    pub(super) async fn list(&self, context: Context<'_>) -> Result<Vec<SaInfo>, ApiError> {
        let (halves, now) = (context.halves, netio::clock::monotonic());
        let inbound = |half: &mut InboundHalf| half.engine.sad().list().map(SaView::inbound).collect();
        let mut views: Vec<SaView> = halves.ask_inbound(inbound).await?;
        let outbound = halves.ask_outbound(move |half| {
            half.engine.sad().list().map(|(_, sa)| SaView::outbound(sa, now)).collect::<Vec<_>>()
        });
        views.extend(outbound.await?);
        let mut infos: Vec<SaInfo> = views.into_iter().map(|view| context.named(view)).collect();
        infos.sort_by_key(|sa| (sa.direction, sa.spi, sa.remote));
        Ok(infos)
    }

    /// Add an association as requested, under a new SPI unless the request names one. It is in its data thread first; the kernel half
    /// learns of what it serves behind that.
    ///
    /// # Errors
    /// What is wrong with the request, or why it does not go with those there are.
    pub(super) async fn add(&mut self, request: SaAdd, context: Context<'_>) -> Result<SaInfo, ApiError> {
        let asked = associations::requested_spi(&request)?;
        let spi = match asked {
            Some(spi) => spi,
            None => allocate_spi(context.halves).await?,
        };
        let added = self.add_as(request, spi, context).await;
        if added.is_err() && asked.is_none() {
            let _ = context.halves.ask_inbound(move |half| half.engine.release_spi(spi)).await;
        }
        let view = added?;
        let served = view.served();
        let sa = context.named(view);
        match sa.direction {
            Direction::In => self.begin_live(&sa, served, context).await?,
            Direction::Out => self.begin_groups(&sa, served, context.monitor),
        }
        Ok(sa)
    }

    async fn add_as(&mut self, request: SaAdd, spi: Spi, context: Context<'_>) -> Result<SaView, ApiError> {
        let Context { config: settings, halves, policy, host, classes, .. } = context;
        let (direction, takes_over) = (request.direction, request.takes_over);
        if request.sequence.is_some() {
            return Err(ApiError::new(Blame::BadRequest, "a daemon counts from 1, never from elsewhere")
                .remedy("leave \"sequence\" out; only `ravelin replay` takes it"));
        }
        let config = {
            let app = |name: &str| policy.app(name);
            let classes = classes.of_documents();
            let defaults = Defaults {
                suites: self.keys.registry.suites(),
                classes: &classes,
                path_mtu: Some(settings.esp.path_mtu.unwrap_or(match direction {
                    // The route says how much less.
                    Direction::Out => u16::MAX,
                    Direction::In => host.path_mtu_to(request.local, request.remote),
                })),
                keepalive: settings.esp.keepalive,
                app: &app,
                random: random()?,
                padding: Padding::Blocks,
            };
            associations::configuration(request, spi, &defaults)?
        };
        policy.admits(&config)?;
        let now = netio::clock::monotonic();
        let admission = self.keys.admit(&config)?;
        let added = match direction {
            Direction::In => self.begin_inbound(config, context).await,
            Direction::Out => match OutboundSa::new(config, &self.keys.registry) {
                Ok(sa) => {
                    let mut sa = sa.starting(now);
                    let ends = &sa.config().endpoints;
                    sa.follow_route(host.path_mtu_to(ends.local, ends.remote));
                    let view = SaView::outbound(&sa, now);
                    let added = halves.ask_outbound(move |half| {
                        if let Some(rival) = half.engine.sad().rival(sa.config()).filter(|_| !takes_over) {
                            return Err(rival.is_rival());
                        }
                        half.engine.add_sa(sa).map(|_| ())
                    });
                    let added = added.await;
                    settle(added, view)
                }
                Err(error) => Err((error.into(), true)),
            },
        };
        added.map_err(|(refused, never_used)| {
            if never_used {
                self.keys.withdraw(admission);
            }
            refused
        })
    }

    /// Let the inbound thread have an association. The kernel half knows its class before. With an error, whether its key
    /// was certainly never used.
    async fn begin_inbound(
        &mut self,
        config: SaConfig,
        context: Context<'_>,
    ) -> Result<SaView, (ApiError, bool)> {
        let sa = match InboundSa::new(config, &self.keys.registry) {
            Ok(sa) => sa.starting(netio::clock::monotonic()),
            Err(error) => return Err((error.into(), true)),
        };
        let (view, class) = (SaView::inbound(&sa), classed(sa.config()));
        self.begin_class(class, context);
        let added = context.halves.ask_inbound(move |half| half.engine.add_sa(sa)).await;
        if !matches!(added, Ok(Ok(()))) {
            self.end_class(class, context);
        }
        settle(added, view)
    }

    /// Delete the association with this SPI; what else names it is needed where several have it.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub(super) async fn delete(
        &mut self,
        spi: api::Spi,
        which: &SaQuery,
        context: Context<'_>,
    ) -> Result<SaInfo, ApiError> {
        let sa = self.find(spi, which, context).await?;
        let (name, remote) = (name::name_of(&sa), sa.remote);
        match sa.direction {
            Direction::In => {
                context.halves.ask_inbound(move |half| half.engine.remove_sa(name).map(drop)).await??;
                self.end_live(&sa, context).await?;
            }
            Direction::Out => {
                let remove = move |half: &mut OutboundHalf| half.engine.remove_sa(name.spi, remote).map(drop);
                context.halves.ask_outbound(remove).await??;
                self.end_groups(&sa, context).await?;
            }
        }
        Ok(sa)
    }

    /// An SPI for an association that a key manager is about to agree on with a peer. It is taken back after a minute.
    ///
    /// # Errors
    /// If there is none, or the thread does not answer.
    pub(super) async fn promise_spi(&mut self, halves: &Halves) -> Result<Spi, ApiError> {
        let spi = allocate_spi(halves).await?;
        self.promised.push((spi, netio::clock::monotonic() + PROMISE));
        Ok(spi)
    }

    /// Take an SPI back that was promised and not used.
    ///
    /// # Errors
    /// If it was not promised, or the thread does not answer.
    pub(super) async fn release_spi(&mut self, spi: Spi, halves: &Halves) -> Result<(), ApiError> {
        let Some(at) = self.promised.iter().position(|(promised, _)| *promised == spi) else {
            return Err(ApiError::new(
                Blame::NotFound,
                format!("SPI {spi} was not promised, or is in use, or it was too long ago"),
            )
            .remedy("ask for one with POST /v1/spi"));
        };
        self.promised.remove(at);
        Ok(halves.ask_inbound(move |half| half.engine.release_spi(spi)).await?)
    }

    /// Take back what was promised too long ago.
    pub(super) async fn expire_promises(&mut self, now: Time, halves: &Halves) {
        while let Some(at) = self.promised.iter().position(|(_, until)| *until <= now) {
            let (spi, _) = self.promised.remove(at);
            // No effect on an SPI that an association uses by now.
            let _ = halves.ask_inbound(move |half| half.engine.release_spi(spi)).await;
        }
    }

    /// There will be no association for this acquire: what waits for it ends.
    ///
    /// # Errors
    /// If nothing asks by this number any more, or the thread does not answer.
    pub(super) async fn refuse_acquire(&self, id: wire::AcquireId, halves: &Halves) -> Result<(), ApiError> {
        let refuse = move |half: &mut OutboundHalf| {
            let awaits = half.engine.awaits(id);
            half.refused.extend(awaits.then_some(id));
            awaits
        };
        if halves.ask_outbound(refuse).await? {
            return Ok(());
        }
        Err(ApiError::new(Blame::NotFound, format!("no acquire {} waits for an answer", id.0)).remedy(
            "it has been answered, refused or forgotten; GET /v1/events tells the numbers of new ones",
        ))
    }

    /// Let every association have the MTU of its route as it is now.
    ///
    /// # Errors
    /// If the routes cannot be asked for, or the data thread does not answer.
    pub(super) async fn follow_routes(&self, halves: &Halves) -> Result<(), ApiError> {
        let ends = halves.ask_outbound(|half| half.engine.ends()).await?;
        if ends.is_empty() {
            return Ok(());
        }
        let mut links = Links::open().map_err(|error| ApiError::new(Blame::Failed, error.to_string()))?;
        let routes: BTreeMap<(IpAddr, IpAddr), u16> = ends
            .into_iter()
            .filter_map(|(local, remote)| Some(((local, remote), look(&mut links, local, remote)?)))
            .collect();
        let follow = move |half: &mut OutboundHalf| {
            half.engine.follow_routes(&routes);
            let now = netio::clock::monotonic();
            for unfit in std::mem::take(&mut half.unfit) {
                half.engine.refused_by_route(now, unfit.spi, unfit.remote, unfit.len);
            }
        };
        Ok(halves.ask_outbound(follow).await?)
    }
}

async fn allocate_spi(halves: &Halves) -> Result<Spi, ApiError> {
    let random = random()?;
    Ok(halves.ask_inbound(move |half| half.engine.allocate_spi(random)).await??)
}

fn random() -> Result<u32, ApiError> {
    netio::random::number().map_err(|error| ApiError::new(Blame::Failed, error.to_string()))
}

/// What became of an association that was sent to its thread; with an error, whether its key was certainly never used.
fn settle(
    added: Result<Result<(), sadb::SadError>, AskError>,
    view: SaView,
) -> Result<SaView, (ApiError, bool)> {
    match added {
        Ok(Ok(())) => Ok(view),
        Ok(Err(error)) => Err((error.into(), true)),
        Err(AskError::Busy) => Err((AskError::Busy.into(), true)),
        Err(AskError::Stopped) => Err((AskError::Stopped.into(), false)),
    }
}
