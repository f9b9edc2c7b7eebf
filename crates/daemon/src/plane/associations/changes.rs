//! The control plane's verbs for associations that live: limits, replay windows, successors, and their keys for Wireshark.

use api::{Direction, Keymat, ReplaceOne, SaInfo, SaReplace, SaReplaced, SaUpdate, SpiRequest};
use crypto::{Secret, Suites};
use sadb::sa::Lifetime;
use sadb::{InboundSa, OutboundSa, SaConfig, SaName, Spi, wireshark};
use wire::Time;
use zeroize::Zeroizing;

use super::name::name_of;
use super::query::SaQuery;
use super::{Associations, Context, Halves, allocate_spi, settle};
use documents::api_error::{ApiError, Blame};
use documents::associations::{self, SaView};

fn bad(message: impl Into<String>) -> ApiError {
    ApiError::new(Blame::BadRequest, message)
}

/// The limits that count after a change.
///
/// # Errors
/// If it puts a soft one behind a hard one. One that was there already, of an association that was retired, may stay.
fn merged(before: Lifetime, asked: &SaUpdate) -> Result<Lifetime, ApiError> {
    let lifetime = Lifetime {
        soft: asked.soft.as_ref().map_or(before.soft, associations::limits),
        hard: asked.hard.as_ref().map_or(before.hard, associations::limits),
    };
    if asked.soft.is_some() || associations::check_lifetime(before).is_ok() {
        associations::check_lifetime(lifetime)?;
    }
    Ok(lifetime)
}

impl Associations {
    /// The one association that is meant.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub(super) async fn find(
        &self,
        spi: api::Spi,
        which: &SaQuery,
        context: Context<'_>,
    ) -> Result<SaInfo, ApiError> {
        // Looked up in the threads by the SPI: what is told of every association would take them long.
        let (of, now) = (Spi(spi.0), netio::clock::monotonic());
        let mut views: Vec<SaView> = context
            .halves
            .ask_inbound(move |half| half.engine.sad().of_spi(of).map(SaView::inbound).collect())
            .await?;
        let outbound = context.halves.ask_outbound(move |half| {
            half.engine.sad().of_spi(of).map(|sa| SaView::outbound(sa, now)).collect::<Vec<_>>()
        });
        views.extend(outbound.await?);
        let mut found: Vec<SaInfo> = views.into_iter().map(|view| context.named(view)).collect();
        found.retain(|sa| {
            which.direction.is_none_or(|direction| direction == sa.direction)
                && which.local.is_none_or(|local| local == sa.local)
                && which.remote.is_none_or(|remote| remote == sa.remote)
        });
        match found.len() {
            0 => Err(sadb::SadError::UnknownSpi(Spi(spi.0)).into()),
            1 => Ok(found.remove(0)),
            n => Err(ApiError::new(Blame::Conflict, format!("{n} associations have SPI {spi}"))
                .remedy("say which with --direction in|out, and --remote and --local if that is not enough")),
        }
    }

    /// Change limits and replay window of an association while it works.
    ///
    /// # Errors
    /// If there is none, or it cannot be as asked: then nothing has changed.
    pub(in crate::plane) async fn update(
        &self,
        spi: api::Spi,
        which: &SaQuery,
        asked: SaUpdate,
        context: Context<'_>,
    ) -> Result<SaInfo, ApiError> {
        if asked == SaUpdate::default() {
            return Err(bad("nothing is to change").remedy("give --replay-window, --soft or --hard"));
        }
        let sa = self.find(spi, which, context).await?;
        let gone = || ApiError::from(sadb::SadError::UnknownSpi(Spi(spi.0)));
        let view = match sa.direction {
            Direction::In => {
                let name = name_of(&sa);
                let changed = context.halves.ask_inbound(move |half| {
                    let sa = half.engine.sa_mut(name)?;
                    let lifetime = match merged(sa.config().options.lifetime, &asked) {
                        Ok(lifetime) => lifetime,
                        Err(refused) => return Some(Err(refused)),
                    };
                    if let Some(Err(error)) = asked.replay_window.map(|size| sa.resize_replay(size)) {
                        return Some(Err(error.into()));
                    }
                    sa.set_lifetime(lifetime);
                    Some(Ok(SaView::inbound(sa)))
                });
                changed.await?.ok_or_else(gone)??
            }
            Direction::Out if asked.replay_window.is_some() => {
                return Err(bad("an outbound association has no replay window")
                    .remedy("resize it at the receiver, or name the inbound one with --direction in"));
            }
            Direction::Out => {
                let (spi, remote) = (Spi(sa.spi.0), sa.remote);
                let changed = context.halves.ask_outbound(move |half| {
                    let sa = half.engine.sa_mut(spi, remote)?;
                    Some(merged(sa.config().options.lifetime, &asked).map(|lifetime| {
                        sa.set_lifetime(lifetime);
                        SaView::outbound(sa, netio::clock::monotonic())
                    }))
                });
                changed.await?.ok_or_else(gone)??
            }
        };
        Ok(context.named(view))
    }

    /// Successors for a pair, or for one of it: first the inbound one, then the outbound ones change places between two packets,
    /// and the old inbound one is given an end.
    ///
    /// # Errors
    /// What is wrong with the request, or does not go with what there is; the old associations then work on as before.
    pub(in crate::plane) async fn replace(
        &mut self,
        request: SaReplace,
        context: Context<'_>,
    ) -> Result<SaReplaced, ApiError> {
        let SaReplace { inbound, outbound, overlap_seconds } = request;
        if inbound.is_none() && outbound.is_none() {
            return Err(bad("nothing is to be replaced").remedy("name the old ones with --in and --out"));
        }
        let old_in = match &inbound {
            Some(one) => Some(self.find_old(one, Direction::In, context).await?),
            None => None,
        };
        let mut answer = SaReplaced { sas: Vec::new(), replaced: Vec::new() };
        // What is to be undone if the second half fails.
        let mut made = None;
        if let (Some(one), Some(old)) = (inbound, &old_in) {
            let (successor, new) = self.inbound_successor(one, old, context).await?;
            if new {
                made = Some(name_of(&successor));
            }
            answer.sas.push(successor);
        }
        if let Some(one) = outbound {
            match self.replace_outbound(one, context).await {
                Ok((new, old)) => {
                    answer.sas.push(new);
                    answer.replaced.push(old);
                }
                Err(refused) => {
                    if let (Some(name), Some(sa)) = (made, answer.sas.first()) {
                        // Its key stays burnt: the peer may have sealed with it already.
                        let _ = context
                            .halves
                            .ask_inbound(move |half| half.engine.remove_sa(name).map(drop))
                            .await;
                        let _ = self.end_live(sa, context).await;
                    }
                    return Err(refused);
                }
            }
        }
        if let Some(old) = &old_in {
            // One that has reached its own end meanwhile is where it was to go.
            let retired = retire(name_of(old), overlap_seconds, context).await?;
            if overlap_seconds == 0 && retired.is_some() {
                self.end_live(old, context).await?;
            }
            answer.replaced.insert(0, retired.unwrap_or_else(|| old.clone()));
        }
        Ok(answer)
    }

    async fn find_old(
        &self,
        one: &ReplaceOne,
        direction: Direction,
        context: Context<'_>,
    ) -> Result<SaInfo, ApiError> {
        let which = SaQuery { direction: Some(direction), local: None, remote: one.remote };
        let old = self.find(one.old, &which, context).await?;
        if old.suite.is_empty() {
            return Err(bad(format!("association {} has no key to replace", one.old))
                .remedy("delete it and add another"));
        }
        Ok(old)
    }

    /// The successor of an inbound association, and whether it was made now.
    async fn inbound_successor(
        &mut self,
        one: ReplaceOne,
        old: &SaInfo,
        context: Context<'_>,
    ) -> Result<(SaInfo, bool), ApiError> {
        if one.keymat.is_empty() {
            let SpiRequest::This(spi) = one.spi else {
                return Err(bad("a successor needs a key")
                    .remedy("give one, or the SPI of an inbound association that is there already"));
            };
            if spi == one.old {
                return Err(bad(format!("association {spi} cannot follow itself")).remedy("name another one"));
            }
            let which = SaQuery { direction: Some(Direction::In), local: None, remote: Some(old.remote) };
            return Ok((self.find(spi, &which, context).await?, false));
        }
        let name = name_of(old);
        let config =
            context.halves.ask_inbound(move |half| half.engine.sad().get(name).map(InboundSa::as_configured));
        let config = config.await?.ok_or(sadb::SadError::UnknownSpi(name.spi))?;
        let (spi, chosen) = match one.spi {
            SpiRequest::This(spi) => (Spi(spi.0), false),
            SpiRequest::Auto => (allocate_spi(context.halves).await?, true),
        };
        let added = self.add_inbound(config, spi, one, context).await;
        if added.is_err() && chosen {
            let _ = context.halves.ask_inbound(move |half| half.engine.release_spi(spi)).await;
        }
        let view = added?;
        let served = view.served();
        let sa = context.named(view);
        self.begin_live(&sa, served, context).await?;
        Ok((sa, true))
    }

    async fn add_inbound(
        &mut self,
        old: SaConfig,
        spi: Spi,
        one: ReplaceOne,
        context: Context<'_>,
    ) -> Result<SaView, ApiError> {
        let config = successor(old, spi, one.suite.as_deref(), one.keymat, self.registry().suites())?;
        context.policy.admits(&config)?;
        let admission = self.keys.admit(&config)?;
        let added = self.begin_inbound(config, context).await;
        added.map_err(|(refused, never_used)| {
            if never_used {
                self.keys.withdraw(admission);
            }
            refused
        })
    }

    /// The new outbound association and the old one as it was.
    async fn replace_outbound(
        &mut self,
        one: ReplaceOne,
        context: Context<'_>,
    ) -> Result<(SaInfo, SaInfo), ApiError> {
        let old = self.find_old(&one, Direction::Out, context).await?;
        let SpiRequest::This(spi) = one.spi else {
            return Err(bad("the SPI of an outbound association is the peer's choice")
                .remedy("give the SPI of the peer's new inbound association"));
        };
        let (old_spi, remote) = (Spi(old.spi.0), old.remote);
        let config = context.halves.ask_outbound(move |half| {
            let sad = half.engine.sad();
            let before = sad.before(old_spi);
            let config = sad.named(old_spi, remote).map(OutboundSa::as_configured);
            (config, before.map(OutboundSa::spi))
        });
        let (config, before) = config.await?;
        if let Some(before) = before {
            return Err(ApiError::new(
                Blame::Conflict,
                format!("{old_spi} is a member of the bundle that {before} leads to it"),
            )
            .remedy("add the members of a new bundle, then delete those of the old one"));
        }
        let config = config.ok_or(sadb::SadError::UnknownSpi(old_spi))?;
        let config =
            successor(config, Spi(spi.0), one.suite.as_deref(), one.keymat, self.registry().suites())?;
        let admission = self.keys.admit(&config)?;
        let replaced = match OutboundSa::new(config, &self.keys.registry) {
            Ok(sa) => {
                let now = netio::clock::monotonic();
                let mut sa = sa.starting(now);
                let ends = &sa.config().endpoints;
                sa.follow_route(context.host.path_mtu_to(ends.local, ends.remote));
                let view = SaView::outbound(&sa, now);
                let swap =
                    context.halves.ask_outbound(move |half| half.engine.replace_sa(old_spi, remote, sa));
                let swapped = swap.await.map(|swapped| swapped.map(|old| SaView::outbound(&old, now)));
                let old = match &swapped {
                    Ok(Ok(old)) => Some(old.clone()),
                    _ => None,
                };
                settle(swapped.map(|swapped| swapped.map(drop)), view).map(|new| (new, old))
            }
            Err(error) => Err((error.into(), true)),
        };
        match replaced {
            Ok((new, was)) => {
                let served = new.served();
                let (new, old) = (context.named(new), was.map_or(old, |view| context.named(view)));
                // First what comes, so that a sender meets one of them.
                self.begin_groups(&new, served, context.monitor);
                if let Err(refused) = self.end_groups(&old, context).await {
                    tracing::warn!("the kernel half was not told of an association that ended: {refused}");
                }
                Ok((new, old))
            }
            Err((refused, never_used)) => {
                if never_used {
                    self.keys.withdraw(admission);
                }
                Err(refused)
            }
        }
    }

    /// The associations, or those with one SPI, as lines of Wireshark's `esp_sa` table with their keys; what has no line is said
    /// in a comment. With them, the SPIs that were written. The octets are wiped.
    ///
    /// # Errors
    /// If there is none, or a data thread does not answer.
    pub(in crate::plane) async fn wireshark_rows(
        &self,
        spi: Option<Spi>,
        halves: &Halves,
    ) -> Result<(Zeroizing<Vec<u8>>, Vec<Spi>), ApiError> {
        let wanted = move |sa: Spi| spi.is_none_or(|spi| spi == sa);
        let mut lines = halves
            .ask_inbound(move |half| {
                let sas = half.engine.sad().list().filter(|sa| wanted(sa.spi()));
                sas.map(|sa| ExportLine::of(sa.config())).collect::<Vec<_>>()
            })
            .await?;
        lines.extend(
            halves
                .ask_outbound(move |half| {
                    let sas = half.engine.sad().list().filter(|(_, sa)| wanted(sa.spi()));
                    sas.map(|(_, sa)| ExportLine::of(sa.config())).collect::<Vec<_>>()
                })
                .await?,
        );
        if lines.is_empty() {
            return match spi {
                Some(spi) => Err(sadb::SadError::UnknownSpi(spi).into()),
                None => Err(ApiError::new(Blame::NotFound, "there are no associations")
                    .remedy("add them with `ravelin sa add`")),
            };
        }
        let room = lines.iter().map(|line| line.text.len() + 1).sum();
        // In one piece: a text that grows leaves copies of the keys behind.
        let mut out = Zeroizing::new(Vec::with_capacity(room));
        for line in &lines {
            out.extend_from_slice(line.text.as_bytes());
            out.push(b'\n');
        }
        Ok((out, lines.iter().filter(|line| line.has_key).map(|line| line.spi).collect()))
    }
}

/// Give an inbound association an end so many seconds from now, unless it has an earlier one. `None`: it is gone already.
async fn retire(
    name: SaName,
    overlap_seconds: u64,
    context: Context<'_>,
) -> Result<Option<SaInfo>, ApiError> {
    let now = netio::clock::monotonic();
    let retired = context.halves.ask_inbound(move |half| {
        if overlap_seconds == 0 {
            return half.engine.remove_sa(name).ok().map(|sa| SaView::inbound(&sa));
        }
        let sa = half.engine.sa_mut(name)?;
        // Begun seconds do not count.
        sa.retire(age(sa.life.added(), now).saturating_add(overlap_seconds).saturating_add(1));
        Some(SaView::inbound(sa))
    });
    Ok(retired.await?.map(|view| context.named(view)))
}

/// The number of seconds from one time to the other, rounded down.
fn age(since: Time, now: Time) -> u64 {
    now.since(since).as_secs()
}

/// The same association under another SPI with another key.
fn successor(
    old: SaConfig,
    spi: Spi,
    suite: Option<&str>,
    keymat: Keymat,
    suites: &Suites,
) -> Result<SaConfig, ApiError> {
    let suite = match suite {
        None => old.suite,
        Some(name) => suites.find(name).map_err(|error| {
            bad(error.to_string()).remedy("leave it out for the suite of the old association")
        })?,
    };
    let octets = keymat.octets().map_err(|error| {
        bad(error.to_string()).remedy(format!("give {} hexadecimal digits", 2 * suite.keymat_len()))
    })?;
    let config = SaConfig { spi, suite, keymat: Secret::new(octets.to_vec()), ..old };
    config.check()?;
    Ok(config)
}

/// A line of the table, or why there is none.
struct ExportLine {
    spi: Spi,
    has_key: bool,
    text: Zeroizing<String>,
}

impl ExportLine {
    fn of(config: &SaConfig) -> ExportLine {
        let spi = config.spi;
        match wireshark::row(config) {
            Ok(row) if config.options.extended_sequence => {
                // The older versions check the ICV of such packets wrongly; they decrypt them all the same.
                let note = "# the next one has sequence numbers of 64 bits: Wireshark before 4.2 calls its ICV wrong\n";
                let mut text = Zeroizing::new(String::with_capacity(note.len() + row.len()));
                text.push_str(note);
                text.push_str(&row);
                ExportLine { spi, has_key: true, text }
            }
            Ok(text) => ExportLine { spi, has_key: true, text },
            Err(why) => {
                let (source, destination) = wireshark::ends(config);
                let text = Zeroizing::new(format!("# {spi} from {source} to {destination}: {why}"));
                ExportLine { spi, has_key: false, text }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_not_named_stay() {
        let packets = |packets| sadb::sa::Limits { packets, ..Default::default() };
        let before = Lifetime { soft: packets(1), hard: packets(2) };
        let asked =
            SaUpdate { hard: Some(api::Limits { packets: 9, ..Default::default() }), ..Default::default() };
        assert_eq!(merged(before, &asked).unwrap(), Lifetime { soft: packets(1), hard: packets(9) });
        // A soft limit that lies behind the end already, of one that was retired, is nobody's mistake.
        let retired = Lifetime { soft: packets(8), hard: packets(2) };
        let window = SaUpdate { replay_window: Some(128), ..Default::default() };
        assert_eq!(merged(retired, &window).unwrap(), retired);
        let soft = |packets| SaUpdate {
            soft: Some(api::Limits { packets, ..Default::default() }),
            ..Default::default()
        };
        assert!(merged(retired, &soft(3)).is_err() && merged(before, &soft(3)).is_err());
        assert!(merged(retired, &soft(2)).is_ok());
    }

    #[test]
    fn a_successor_has_neither_the_learned_path_nor_the_end_of_the_one_before() {
        let registry = crypto_std::registry().unwrap();
        let config = |direction: &str| {
            let request = serde_json::from_value(serde_json::json!({
                "direction": direction, "spi": "0x1000", "local": "192.0.2.1", "remote": "192.0.2.2",
                "mode": "transport", "suite": "aes128gcm", "keymat": "01".repeat(20),
            }));
            let defaults = associations::Defaults {
                suites: &Suites::standard(),
                classes: &Default::default(),
                path_mtu: Some(1500),
                keepalive: 20,
                app: &|_| None,
                random: 0,
                padding: sadb::sa::Padding::Least,
            };
            associations::configuration(request.unwrap(), Spi(0x1000), &defaults).unwrap()
        };
        let mut out = OutboundSa::new(config("out"), &registry).unwrap();
        out.hear_mtu(Time(1), 1280, 1500, &Default::default());
        assert_eq!((out.config().path_mtu, out.as_configured().path_mtu), (1280, 1500));
        let mut inbound = InboundSa::new(config("in"), &registry).unwrap();
        let limits = |seconds| sadb::sa::Limits { seconds, ..Default::default() };
        inbound.set_lifetime(Lifetime { soft: limits(50), hard: limits(60) });
        for (end, in_force) in [(70, 60), (30, 30), (40, 30), (20, 20)] {
            inbound.retire(end);
            assert_eq!(inbound.config().options.lifetime.hard.seconds, in_force);
            let next = inbound.as_configured().options.lifetime;
            assert_eq!((next.soft.seconds, next.hard.seconds), (50, 60));
        }
    }
}
