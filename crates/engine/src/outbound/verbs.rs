//! The verbs of the control plane for the outbound half.

use super::Outbound;
use super::course::Route;
use super::outcome::Outcome;
use crate::audit::Audited;
use crate::event::{Event, Expire, PeerMoved};
use crate::tally::Tally;
use sadb::sa::{Encapsulation, LifeState, OutboundState};
use sadb::spd::{Decision, Spd};
use sadb::{Direction, OutboundSa, OutboundSad, SaIndex, SadError, Spi};
use std::net::IpAddr;
use std::sync::Arc;
use wire::{AppId, DropReason, Flow, Pool, Services, Time};

impl Outbound {
    /// Set this host's own addresses by interface, as sources of ICMPv6 errors about forwarded packets (RFC 4443
    /// section 2.2).
    pub fn set_own_addresses(&mut self, own: std::collections::BTreeMap<u32, std::net::Ipv6Addr>) {
        self.answers.set_own(own);
    }

    /// The error that tells the sender of a packet that only `mtu` octets go through; `None` if it may not be told, or
    /// not now (RFC 4443 section 2.4 f). It is for packets that left the engine and were refused behind it.
    pub fn too_big(
        &mut self,
        meta: &wire::Meta,
        original: &[u8],
        headers: &wire::ip::Headers,
        mtu: usize,
    ) -> Option<wire::Buf> {
        self.answers.too_big(meta, original, headers, mtu)
    }

    /// Report drops to an auditor (RFC 4303 section 4, RFC 4301 section 9), `per_second` of each kind in full each
    /// second; `None`: report none.
    pub fn set_audit(&mut self, per_second: Option<u32>) {
        self.tally.audit(per_second);
    }

    /// Report the drops since the last call.
    #[inline]
    pub fn take_audits(&mut self, now: Time, tell: &mut impl FnMut(Audited)) {
        self.tally.take_audits(now, tell);
    }

    /// Set the policy of every application.
    pub fn set_policy(&mut self, spd: Arc<Spd>) {
        self.translate_again(&spd);
        self.spd = spd;
        self.loads += 1;
    }

    /// The policy that is in force.
    pub fn policy(&self) -> &Arc<Spd> {
        &self.spd
    }

    /// Add an association to the outbound half.
    ///
    /// # Errors
    /// The errors of [`OutboundSad::insert`].
    pub fn add_sa(&mut self, sa: OutboundSa) -> Result<SaIndex, SadError> {
        let index = self.sad.insert(sa)?;
        if let Some(sa) = self.sad.get(index) {
            self.timers.watch(index, sa);
        }
        Ok(index)
    }

    /// Remove an association and return it.
    ///
    /// # Errors
    /// The errors of [`OutboundSad::remove`].
    pub fn remove_sa(&mut self, spi: Spi, remote: IpAddr) -> Result<OutboundSa, SadError> {
        self.sad.remove(spi, remote)
    }

    /// Put an association in the place of another; see [`OutboundSad::replace`].
    ///
    /// # Errors
    /// The errors of [`OutboundSad::replace`].
    pub fn replace_sa(&mut self, old: Spi, remote: IpAddr, sa: OutboundSa) -> Result<OutboundSa, SadError> {
        let (before, index) = self.sad.replace(old, remote, sa)?;
        if let Some(sa) = self.sad.get(index) {
            self.timers.watch(index, sa);
        }
        Ok(before)
    }

    /// The association with this SPI to this peer, to change its lifetime.
    pub fn sa_mut(&mut self, spi: Spi, remote: IpAddr) -> Option<&mut OutboundSa> {
        self.sad.named_mut(spi, remote)
    }

    /// The associations with their counters.
    pub fn sad(&self) -> &OutboundSad {
        &self.sad
    }

    /// The decision for a packet of this flow of this application, without counting it, for `explain`. The association
    /// means something only where the action is to protect.
    pub fn preview(&self, app: AppId, flow: &Flow) -> (Decision, Result<SaIndex, DropReason>) {
        self.preview_asking(app, flow, Services::NONE)
    }

    /// The decision of [`Outbound::preview`] for a socket that asked for these services itself.
    pub fn preview_asking(
        &self,
        app: AppId,
        flow: &Flow,
        asked: Services,
    ) -> (Decision, Result<SaIndex, DropReason>) {
        let Route { decision, sa, .. } = self.consider(app, flow, asked);
        (decision, sa)
    }

    /// The association for an answer that the kernel made without a socket, without using it.
    ///
    /// # Errors
    /// [`DropReason::NoSa`], [`DropReason::SaTooWeak`].
    pub fn preview_answer(&mut self, app: AppId, flow: &Flow) -> Result<SaIndex, DropReason> {
        self.sad.find_for_answer(app, flow, Services::AUTHENTICATED)
    }

    /// Send to where the peer is now, for every association of the pair that moved, if it follows its peer. Returns the
    /// number of associations that do.
    pub fn follow(&mut self, moved: &PeerMoved) -> usize {
        if !moved.follow {
            return 0;
        }
        let of_pair = |sa: &OutboundSa| {
            let (config, ends) = (sa.config(), &sa.config().endpoints);
            config.options.encapsulation == Encapsulation::Udp
                && ends.local == moved.local
                && ends.remote == moved.old.0
                && (moved.old.1 == 0 || ends.remote_port == moved.old.1)
                && config.selectors == moved.selectors
                && (ends.remote, ends.remote_port) != moved.new
        };
        let found: Vec<SaIndex> =
            self.sad.list().filter(|(_, sa)| of_pair(sa)).map(|(index, _)| index).collect();
        let (remote, port) = moved.new;
        // One that does not follow, or would come to have another's name, stays where it is.
        found.into_iter().filter(|index| self.sad.move_peer(*index, remote, port).is_ok()).count()
    }

    /// Every association with its key and next sequence number, for another daemon. This daemon must not send
    /// afterwards.
    pub fn export(&self) -> Vec<OutboundState> {
        self.sad.list().map(|(_, sa)| sa.export()).collect()
    }

    /// The counters and the latest drops.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Drop fragments whose packet did not complete in time, packets that waited too long for an association, and
    /// associations behind a hard limit; forget path MTUs learned too long ago. Call this about once a second.
    pub fn expire(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) {
        self.fragments.expire(now);
        self.tally.lost_fragments(self.fragments.take_lost());
        self.expire_holds(now, pool, out);
        self.expire_entries(now, pool, out);
        self.scrubbers.expire(now);
        self.send_own(now, pool, out);
        self.age_paths(now);
        for (spi, remote) in self.age(now) {
            // Just found, so it is there.
            let _ = self.sad.remove(spi, remote);
        }
    }

    /// Advance the life of every association to `now`. Returns those that are dead.
    fn age(&mut self, now: Time) -> Vec<(Spi, IpAddr)> {
        let mut dead = Vec::new();
        for sa in self.sad.list_mut() {
            while let Some(state) = sa.age(now) {
                let (spi, remote) = (sa.spi(), sa.config().endpoints.remote);
                self.events.push(Event::Expire(Expire {
                    spi,
                    direction: Direction::Outbound,
                    remote,
                    state,
                    packets: sa.counters.packets,
                    bytes: sa.counters.bytes,
                }));
                if state == LifeState::Dead {
                    dead.push((spi, remote));
                }
            }
        }
        dead
    }
}
