//! The verbs of the control plane for the inbound half.

use super::Inbound;
use crate::audit::Audited;
use crate::event::{Event, Expire, PeerMoved};
use crate::nest::Members;
use crate::peer;
use crate::quoted::InnerIcmp;
use crate::rules::{self, Rules};
use crate::scrubbing::{Scrubbers, Scrubbing};
use crate::stats::{Stats, Traffic};
use sadb::rules::RuleKey;
use sadb::sa::{InboundState, LifeState};
use sadb::spd::Spd;
use sadb::{Direction, InboundSa, InboundSad, SaName, SadError, Snapshot, Spi};
use scrub::{Config, Mode, Rule, Scrubber};
use std::sync::Arc;
use wire::Time;

impl Inbound {
    /// Report drops to an auditor (RFC 4303 section 4, RFC 4301 section 9), `per_second` of each kind in full each
    /// second; `None`: report none.
    pub fn set_audit(&mut self, per_second: Option<u32>) {
        self.stats.audit(per_second);
    }

    /// Report the drops since the last call.
    #[inline]
    pub fn take_audits(&mut self, now: Time, tell: &mut impl FnMut(Audited)) {
        self.stats.take_audits(now, tell);
    }

    /// Take UDP datagrams to another port for ESP from now on.
    pub fn set_port(&mut self, port: u16) {
        self.stages.port = port;
        self.stages.members.set_port(port);
    }

    /// Choose and hold an SPI for a peer to send to; see [`InboundSad::allocate_spi`].
    ///
    /// # Errors
    /// The errors of [`InboundSad::allocate_spi`].
    pub fn allocate_spi(&mut self, random: u32) -> Result<Spi, SadError> {
        self.stages.sad.allocate_spi(random)
    }

    /// Give up an SPI that was allocated and not used.
    pub fn release_spi(&mut self, spi: Spi) {
        self.stages.sad.release_spi(spi);
    }

    /// Add an association to the inbound half.
    ///
    /// # Errors
    /// The errors of [`InboundSad::insert`].
    pub fn add_sa(&mut self, sa: InboundSa) -> Result<(), SadError> {
        let unkeyed = Members::key(sa.config());
        let (name, local) = (sa.name(), sa.config().endpoints.local);
        self.stages.sad.insert(sa)?;
        self.stages.members.added(unkeyed, name, local);
        Ok(())
    }

    /// Remove an association and return it.
    ///
    /// # Errors
    /// The errors of [`InboundSad::remove`].
    pub fn remove_sa(&mut self, name: impl Into<SaName>) -> Result<InboundSa, SadError> {
        let name = name.into();
        let sa = self.stages.sad.remove(name)?;
        self.stages.members.removed(name, sa.config().endpoints.local);
        Ok(sa)
    }

    /// An association, to change its lifetime or its replay window.
    pub fn sa_mut(&mut self, name: impl Into<SaName>) -> Option<&mut InboundSa> {
        self.stages.sad.get_mut(name)
    }

    /// Note that the outbound half was told of this move ([`crate::Outbound::follow`]); until then it is reported every
    /// other second.
    pub fn followed(&mut self, moved: &PeerMoved) {
        // Only one that is found by its SPI alone has one peer.
        if let Some(sa) = self.sa_mut(moved.spi) {
            sa.followed(moved.old, moved.new);
        }
    }

    /// Set the rules of the SPD. With `None`, or without a rule for inbound packets, whatever associations admit is
    /// delivered. Rules that were there before keep their counts.
    pub fn set_rules(&mut self, snapshot: Option<Arc<Snapshot>>) {
        let before = self.stages.rules.take();
        self.stages.rules = snapshot.and_then(|snapshot| Rules::new(before, snapshot, rules::Way::In));
    }

    /// Set the policy for ICMP errors inside associations.
    pub fn set_icmp(&mut self, icmp: InnerIcmp) {
        self.stages.icmp = icmp;
    }

    /// The number of packets that each rule decided, and their octets.
    pub fn rule_counts(&self) -> Vec<(RuleKey, Traffic)> {
        self.stages.rules.as_ref().map(|rules| rules.counts().collect()).unwrap_or_default()
    }

    /// The associations with their counters.
    pub fn sad(&self) -> &InboundSad {
        &self.stages.sad
    }

    /// Every association with its key and replay window, for another daemon.
    pub fn export(&self) -> Vec<InboundState> {
        self.stages.sad.list().map(InboundSa::export).collect()
    }

    /// The counters and the latest drops.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The next event for key managers.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// The number of events that found no room since the last call.
    pub fn take_lost_events(&mut self) -> u64 {
        self.events.take_lost()
    }

    /// Drop fragments whose packet did not complete in time, and associations behind a hard limit. Call this about once
    /// a second.
    pub fn expire(&mut self, now: Time) {
        if let Some(table) = &mut self.stages.entries {
            table.expire(now);
        }
        let mut dead = Vec::new();
        for sa in self.stages.sad.list_mut() {
            peer::remind(sa, &mut self.events);
            while let Some(state) = sa.age(now) {
                self.events.push(Event::Expire(Expire {
                    spi: sa.spi(),
                    direction: Direction::Inbound,
                    remote: sa.config().endpoints.remote,
                    state,
                    packets: sa.counters.packets,
                    bytes: sa.counters.bytes,
                }));
                if state == LifeState::Dead {
                    dead.push(sa.name());
                }
            }
        }
        for name in dead {
            // Just found, so it is there.
            let _ = self.remove_sa(name);
        }
        if let Some(scrubber) = &mut self.stages.outer_scrubber {
            scrubber.expire(now);
        }
        for fragments in [&mut self.stages.outer_fragments, &mut self.stages.inner_fragments] {
            fragments.expire(now);
            self.stats.lost_fragments(fragments.take_lost());
        }
    }

    /// Scrub what this policy and the rules want scrubbed, with the scrubbers of the outbound half
    /// ([`crate::Outbound::scrubbers`]). `seed` is random: see [`sadb::FlowCache::new`]. Without this call, a packet
    /// that is to be scrubbed is dropped.
    pub fn scrub_with(&mut self, scrubbers: Scrubbers, spd: Arc<Spd>, seed: u64) {
        self.stages.scrubbing = Some(Box::new(Scrubbing::new(scrubbers, spd, seed)));
    }

    /// Set the policy that says what is scrubbed.
    pub fn set_scrub_policy(&mut self, spd: Arc<Spd>) {
        if let Some(scrubbing) = &mut self.stages.scrubbing {
            scrubbing.set_policy(spd);
        }
    }

    /// The policy that says what is scrubbed; `None`: nothing is.
    pub fn scrub_policy(&self) -> Option<&Arc<Spd>> {
        self.stages.scrubbing.as_ref().map(|scrubbing| scrubbing.policy())
    }

    /// Scrub packets that arrive with an IP header of their own; with `None` no longer.
    pub fn scrub_outer(&mut self, config: Option<Config>, seed: [u8; 16]) {
        self.stages.outer_scrubber = config.map(|mut config| {
            // What is behind an authentication header is verified and scrubbed when it is unwrapped. (The rule is not
            // structural.)
            let _ = config.set_mode(Rule::AuthenticatedInside, Mode::Off);
            Box::new(Scrubber::new(config, seed))
        });
    }

    /// The scrubber of outer packets; `None`: there is none.
    pub fn outer_scrubber(&self) -> Option<&Scrubber> {
        self.stages.outer_scrubber.as_deref()
    }

    /// Whether something was left for the outbound half since the last call: [`crate::Outbound::release`] sends it.
    #[inline]
    pub fn take_call(&mut self) -> bool {
        self.stages.scrubbing.as_mut().is_some_and(|scrubbing| std::mem::take(&mut scrubbing.called))
    }
}
