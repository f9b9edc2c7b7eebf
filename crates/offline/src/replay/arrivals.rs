//! Packets that arrive in clear: the inbound half of the SPD (RFC 4301 section 5.2 step 3), and ICMP errors about packets of
//! associations (section 6.1.1).
//!
//! The application's policy decides if it speaks for the application; rules otherwise, by the engine's own path for packets that
//! arrived in clear. Without either, a packet that an inbound association covers is refused.

use api::{ReplayLine, ReplayVerdict};
use engine::Outcome;
use sadb::spd::{Action, Level};
use wire::ip::{self, Headers};
use wire::quote::IcmpError;
use wire::{DropReason, Meta, Packet, Services, Time, icmp, protocol, record};

use super::Replay;
use super::error::{ReplayError, Write};

impl Replay {
    /// A packet in clear for this host, or for a network behind it.
    pub(super) fn arrive(
        &mut self,
        now: Time,
        bytes: &[u8],
        headers: Option<&Headers>,
        line: &mut ReplayLine,
        write: &mut Write<'_>,
    ) -> Result<(), ReplayError> {
        if headers.is_some_and(|headers| is_icmp_error(bytes, headers)) && self.hear(now, bytes, line) {
            return Ok(());
        }
        let mut buf = self.buffer(bytes);
        if let Some(headers) = headers
            && headers.fragment.is_none()
            && self.policy.spd.get(self.app).is_some()
        {
            buf.truncate(headers.total_len);
            match self.policy_accepts(bytes, headers) {
                Ok(()) => {
                    let meta = Meta { app: self.app, ..Meta::default() };
                    self.written(line, ReplayVerdict::Bypass, &meta, buf.as_slice(), write)?;
                }
                Err(reason) => self.refused(line, reason, None),
            }
            self.pool.put(buf);
            return Ok(());
        }
        let meta = Meta { mark: record::FORWARDED | record::ARRIVED, ..Meta::default() };
        self.outbound.handle(now, Packet::from_host(buf, meta), &mut self.pool, &mut self.sent);
        for outcome in std::mem::take(&mut self.sent) {
            match outcome {
                Outcome::Clear(packet) => {
                    self.written(line, ReplayVerdict::Bypass, &packet.meta, packet.bytes(), write)?;
                    self.pool.put(packet.into_buf());
                }
                Outcome::Drop(dropped) => self.ended(line, &dropped),
                // What arrived is never sent out again.
                Outcome::Send(packet) => self.pool.put(packet.into_buf()),
                Outcome::Burst(_) | Outcome::Reply(..) | Outcome::Held(_) => {}
            }
        }
        Ok(())
    }

    /// What an application's policy says of a clear packet to it.
    fn policy_accepts(&self, bytes: &[u8], headers: &Headers) -> Result<(), DropReason> {
        let flow = ip::flow(bytes, headers, false);
        match self.policy.spd.decide(self.app, &flow).action {
            Action::Bypass => Ok(()),
            Action::Discard => Err(DropReason::PolicyDiscard),
            // Without an association the packet comes in clear, which this rule allows.
            Action::Protect { level: Level::Optional | Level::AcceptOnly, .. }
                if self.outbound.sad().search(self.app, &flow, Services::NONE).is_err() =>
            {
                Ok(())
            }
            Action::Protect { .. } => Err(DropReason::ClearRefused),
        }
    }

    /// An ICMP error about a packet of an association ends here; `false`: it is about something else.
    fn hear(&mut self, now: Time, bytes: &[u8], line: &mut ReplayLine) -> bool {
        let packet = Packet::raw(self.buffer(bytes), Meta::default());
        let Some(reason) = self.outbound.hear_icmp(now, packet, &mut self.pool) else { return false };
        if let Ok(error) = IcmpError::parse(bytes)
            && let Some((spi, sequence)) = error.quote.name
        {
            line.spi = Some(api::Spi(spi));
            line.sequence = Some(sequence.into());
        }
        line.verdict =
            if reason == DropReason::IcmpTaken { ReplayVerdict::Learn } else { ReplayVerdict::Drop };
        line.reason = Some(reason.name().to_owned());
        true
    }
}

fn is_icmp_error(bytes: &[u8], headers: &Headers) -> bool {
    if headers.fragment.is_some() {
        return false;
    }
    let upper = headers.upper(bytes);
    match headers.protocol {
        protocol::ICMP if headers.version == 4 => {
            icmp::Icmpv4::new_checked(upper).is_ok_and(|message| message.is_error())
        }
        protocol::ICMPV6 if headers.version == 6 => {
            icmp::Icmpv6::new_checked(upper).is_ok_and(|message| message.is_error())
        }
        _ => false,
    }
}
