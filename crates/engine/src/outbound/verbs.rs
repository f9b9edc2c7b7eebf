//! What the control plane asks of the outbound half.

use super::*;
use crate::audit::Audited;

impl Outbound {
    /// This host's own addresses by interface, for ICMPv6 errors about forwarded packets to come from (RFC 4443 section 2.2).
    pub fn set_own_addresses(&mut self, own: std::collections::BTreeMap<u32, std::net::Ipv6Addr>) {
        self.answers.set_own(own);
    }

    /// The error that tells the sender of a packet that only `mtu` octets go through, if it may be told, and now (RFC 4443
    /// section 2.4 f); for packets that left the engine and were refused behind it.
    pub fn too_big(
        &mut self,
        meta: &wire::Meta,
        original: &[u8],
        headers: &wire::ip::Headers,
        mtu: usize,
    ) -> Option<wire::Buf> {
        self.answers.too_big(meta, original, headers, mtu)
    }

    /// Tell an auditor of ends of packets (RFC 4303 section 4, RFC 4301 section 9), so many of each kind a second in full; `None`:
    /// of none.
    pub fn set_audit(&mut self, per_second: Option<u32>) {
        self.tally.audit(per_second);
    }

    /// What there is to tell since the last call.
    #[inline]
    pub fn take_audits(&mut self, now: Time, tell: &mut impl FnMut(Audited)) {
        self.tally.take_audits(now, tell);
    }

    /// The policy from now on.
    pub fn set_policy(&mut self, spd: Arc<Spd>) {
        self.translate_again(&spd);
        self.spd = spd;
        self.loads += 1;
    }

    /// The policy in force.
    pub fn policy(&self) -> &Arc<Spd> {
        &self.spd
    }

    /// Add an association.
    ///
    /// # Errors
    /// As [`OutboundSad::insert`].
    pub fn add_sa(&mut self, sa: OutboundSa) -> Result<SaIndex, SadError> {
        let index = self.sad.insert(sa)?;
        if let Some(sa) = self.sad.get(index) {
            self.beat.watch(index, sa);
        }
        Ok(index)
    }

    /// Take an association out.
    ///
    /// # Errors
    /// As [`OutboundSad::remove`].
    pub fn remove_sa(&mut self, spi: Spi, remote: IpAddr) -> Result<OutboundSa, SadError> {
        self.sad.remove(spi, remote)
    }

    /// Put an association in the place of another; see [`OutboundSad::replace`].
    ///
    /// # Errors
    /// As there.
    pub fn replace_sa(&mut self, old: Spi, remote: IpAddr, sa: OutboundSa) -> Result<OutboundSa, SadError> {
        let (before, index) = self.sad.replace(old, remote, sa)?;
        if let Some(sa) = self.sad.get(index) {
            self.beat.watch(index, sa);
        }
        Ok(before)
    }

    /// The association to this peer with this SPI, to change its lifetime.
    pub fn sa_mut(&mut self, spi: Spi, remote: IpAddr) -> Option<&mut OutboundSa> {
        self.sad.named_mut(spi, remote)
    }

    /// The associations with their counters.
    pub fn sad(&self) -> &OutboundSad {
        &self.sad
    }

    /// What a packet of this flow of this application would get, without counting: for `explain`. The association
    /// means something only where the action is to protect.
    pub fn preview(&self, app: AppId, flow: &Flow) -> (Decision, Result<SaIndex, DropReason>) {
        self.preview_asking(app, flow, Services::NONE)
    }

    /// As [`Outbound::preview`], for a socket that asked for these services itself.
    pub fn preview_asking(
        &self,
        app: AppId,
        flow: &Flow,
        asked: Services,
    ) -> (Decision, Result<SaIndex, DropReason>) {
        let Route { decision, sa, .. } = self.consider(app, flow, asked);
        (decision, sa)
    }

    /// Every association with its key and next number, for another daemon. This one must not send afterwards.
    pub fn export(&self) -> Vec<OutboundState> {
        self.sad.list().map(|(_, sa)| sa.export()).collect()
    }

    /// Counters and latest drops.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Let go of fragments whose packet did not complete in time, of packets that waited too long for an association, and of
    /// associations behind a hard limit; forget path MTUs learned too long ago. Call about once a second.
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

    /// Let time pass for every association; those that are dead.
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
