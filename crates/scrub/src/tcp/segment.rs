//! One segment: its fields, and the edits that rules make (rules T.1 to T.8, O.1 to O.8 as far as they need no
//! connection).

use crate::rule::Rule;
use crate::verdict::{Job, Stop};
use wire::ip::Headers;
use wire::tcp::{Flags, Tcp, TcpOption};
use wire::{Buf, Gso, checksum, ip, tcp};

/// A summary of the options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub mss: Option<u16>,
    pub scale: Option<u8>,
    pub sack_permitted: bool,
    /// The value and the echo of the timestamps option.
    pub timestamps: Option<(u32, u32)>,
    /// Whether there is an MD5 (RFC 2385) or AO (RFC 5925) option.
    pub signed: bool,
    pub has_sack: bool,
}

/// A segment whose header has been checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub seq: u32,
    pub ack: u32,
    /// The source and destination ports.
    pub ports: (u16, u16),
    pub flags: Flags,
    pub window: u16,
    pub urgent: u16,
    /// The number of octets of data.
    pub len: u32,
    pub options: Options,
    /// Whether its checksum has to be written anew.
    pub changed: bool,
    /// The number of octets of data in each segment that a super-packet is cut into; zero: it is none.
    pub unit: u16,
    /// Whether the checksum field has the sum of the pseudo-header only.
    partial: bool,
    /// The amount by which its checksum was wrong when it came. Changes by rules do not make it right.
    error: u16,
}

/// The kinds of options that rules know.
mod kind {
    pub const MSS: u8 = 2;
    pub const SCALE: u8 = 3;
    pub const SACK_PERMITTED: u8 = 4;
    pub const SACK: u8 = 5;
    pub const TIMESTAMPS: u8 = 8;
    pub const MD5: u8 = 19;
    pub const AO: u8 = 29;
    pub const MPTCP: u8 = 30;
    pub const FAST_OPEN: u8 = 34;
}

/// The greatest window scale that a receiver uses (RFC 7323 section 2.3).
pub(super) const MOST_SCALE: u8 = 14;

impl Segment {
    /// Read the header of a segment; nothing of it is believed yet.
    #[inline]
    pub fn read(job: &mut Job<'_>, buf: &Buf, headers: &Headers, gso: &Gso) -> Result<Segment, Stop> {
        let upper = headers.upper(buf.as_slice());
        let view = Tcp::new_checked(upper).map_err(|_| job.unreadable(Rule::TcpOffset))?;
        Ok(Segment {
            seq: view.seq(),
            ack: view.ack(),
            ports: (view.src_port(), view.dst_port()),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            len: u32::try_from(view.payload().len()).unwrap_or(u32::MAX),
            options: Options::default(),
            changed: false,
            unit: gso.size,
            partial: gso.needs_checksum,
            error: 0,
        })
    }

    /// Apply the rules that need no connection.
    pub fn clean(&mut self, job: &mut Job<'_>, buf: &mut Buf, headers: &mut Headers) -> Result<(), Stop> {
        if !self.partial {
            self.error = checksum::transport_error(buf.as_slice(), headers).unwrap_or(0);
        }
        if self.error != 0 {
            job.refuse(Rule::TcpChecksum)?;
        }
        let (source, destination) = self.ports;
        if source == 0 || destination == 0 || headers.src == headers.dst && source == destination {
            job.refuse(Rule::TcpPorts)?;
        }
        self.clean_flags(job, buf, headers)?;
        self.clean_urgent(job, buf, headers)?;
        self.clean_options(job, buf, headers)?;
        if self.flags.intersects(Flags::SYN | Flags::RST) && self.len > 0 {
            let provisional = self.flags.contains(Flags::SYN) && job.config.fast_open;
            if !provisional && job.acts(Rule::TcpPayload) {
                self.cut(buf, headers, 0, 0);
            }
        }
        Ok(())
    }

    fn view<'b>(&self, buf: &'b mut Buf, headers: &Headers) -> Option<Tcp<&'b mut [u8]>> {
        Tcp::new_checked(buf.as_mut_slice().get_mut(headers.header_len..headers.total_len)?).ok()
    }

    fn put_flags(&mut self, buf: &mut Buf, headers: &Headers, flags: Flags) {
        self.flags = flags;
        self.changed = true;
        if let Some(mut view) = self.view(buf, headers) {
            view.set_flags(flags);
        }
    }

    /// Take flags off the segment.
    pub fn clear(&mut self, buf: &mut Buf, headers: &Headers, flags: Flags) {
        self.put_flags(buf, headers, self.flags.without(flags));
    }

    fn clean_flags(&mut self, job: &mut Job<'_>, buf: &mut Buf, headers: &Headers) -> Result<(), Stop> {
        const KNOWN: Flags = Flags(0x0ff);
        if self.flags.0 & !KNOWN.0 != 0 && job.acts(Rule::TcpReserved) {
            self.put_flags(buf, headers, Flags(self.flags.0 & KNOWN.0));
        }
        let flags = self.flags;
        let nothing = !flags.intersects(Flags::SYN | Flags::RST | Flags::ACK);
        let both = flags.contains(Flags::SYN | Flags::RST)
            || flags.contains(Flags::FIN) && flags.intersects(Flags::SYN | Flags::RST);
        if nothing || both {
            job.refuse(Rule::TcpFlags)?;
        }
        let opens_or_resets = flags.intersects(Flags::SYN | Flags::RST);
        if opens_or_resets && flags.intersects(Flags::PSH | Flags::URG) && job.acts(Rule::TcpFlags) {
            self.clear(buf, headers, Flags::PSH | Flags::URG);
        }
        Ok(())
    }

    fn clean_urgent(&mut self, job: &mut Job<'_>, buf: &mut Buf, headers: &Headers) -> Result<(), Stop> {
        let urgent = self.urgent;
        if self.flags.contains(Flags::URG) && urgent > 0 && self.len > 0 {
            match job.config.urgent {
                crate::Urgent::Drop => job.refuse(Rule::TcpUrgent)?,
                crate::Urgent::InBand => {}
            }
        }
        if (self.flags.contains(Flags::URG) || urgent != 0) && job.acts(Rule::TcpUrgent) {
            self.clear(buf, headers, Flags::URG);
            if let Some(mut view) = self.view(buf, headers) {
                view.set_urgent(0);
            }
        }
        Ok(())
    }

    fn clean_options(&mut self, job: &mut Job<'_>, buf: &mut Buf, headers: &Headers) -> Result<(), Stop> {
        let Some(view) = self.view(buf, headers) else { return Ok(()) };
        if view.header_len() == tcp::HEADER_LEN {
            return Ok(());
        }
        let is_syn = self.flags.contains(Flags::SYN);
        let (mut seen, mut at) = (0_u64, 0);
        // Ranges to blank, each with the rule that wants it; more than a header has room for there cannot be.
        let mut blanks = [(0_usize, 0_usize, Rule::OptionUnknown); 20];
        let mut blanked = 0;
        let mut blank = |at: usize, len: usize, rule: Rule| {
            if let Some(place) = blanks.get_mut(blanked) {
                *place = (at, len, rule);
                blanked += 1;
            }
        };
        let (mut broken, mut scale_at) = (false, None);
        for option in view.options() {
            let Ok(option) = option else {
                broken = true;
                break;
            };
            let len = option.len();
            let number = match option {
                TcpOption::Nop => None,
                TcpOption::MaxSegment(mss) => {
                    self.options.mss = Some(mss);
                    Some(kind::MSS)
                }
                TcpOption::WindowScale(scale) => {
                    self.options.scale = Some(scale.min(MOST_SCALE));
                    if scale > MOST_SCALE {
                        scale_at = Some(at + 2);
                    }
                    Some(kind::SCALE)
                }
                TcpOption::SackPermitted => {
                    self.options.sack_permitted = true;
                    Some(kind::SACK_PERMITTED)
                }
                TcpOption::Sack(_) => {
                    self.options.has_sack = true;
                    Some(kind::SACK)
                }
                TcpOption::Timestamps { value, echo } => {
                    self.options.timestamps = Some((value, echo));
                    Some(kind::TIMESTAMPS)
                }
                TcpOption::Other { kind, .. } => Some(kind),
            };
            if let Some(number) = number {
                // RFC 8684 section 3: a segment may have several.
                broken |= number < 64 && number != kind::MPTCP && seen & 1 << number != 0;
                seen |= if number < 64 { 1 << number } else { 0 };
                let handshake_only = matches!(number, kind::MSS | kind::SCALE | kind::SACK_PERMITTED);
                match option {
                    TcpOption::Other { kind: kind::MD5 | kind::AO, .. } => self.options.signed = true,
                    TcpOption::Other { kind: 2..=5 | 8, .. } => broken = true,
                    TcpOption::Other { kind: kind::FAST_OPEN, .. } if job.config.fast_open && is_syn => {}
                    TcpOption::Other { kind: kind::FAST_OPEN, .. } => blank(at, len, Rule::OptionFastOpen),
                    TcpOption::Other { kind, .. } if !job.config.tcp_options.contains(kind) => {
                        blank(at, len, Rule::OptionUnknown);
                    }
                    _ if handshake_only && !is_syn => blank(at, len, Rule::OptionMss),
                    TcpOption::Sack(_) if is_syn => blank(at, len, Rule::OptionSack),
                    _ => {}
                }
            }
            at += len;
        }
        let options = view.header_len() - tcp::HEADER_LEN;
        let covert = !broken && view.options_rest(at).iter().any(|octet| *octet != 0);
        if broken {
            job.refuse(Rule::OptionSyntax)?;
            return Ok(());
        }
        if covert && job.acts(Rule::OptionSyntax) {
            self.fill(buf, headers, at, options - at, 0);
        }
        for (at, len, rule) in blanks.into_iter().take(blanked) {
            if job.acts(rule) {
                self.blank(buf, headers, at, len);
                if !is_syn {
                    continue;
                }
                if rule == Rule::OptionSack {
                    self.options.has_sack = false;
                }
            }
        }
        if let Some(at) = scale_at
            && job.acts(Rule::OptionScale)
        {
            self.fill(buf, headers, at, 1, MOST_SCALE);
        }
        if !is_syn {
            (self.options.mss, self.options.scale, self.options.sack_permitted) = (None, None, false);
        }
        Ok(())
    }

    fn fill(&mut self, buf: &mut Buf, headers: &Headers, at: usize, len: usize, with: u8) {
        if let Some(mut view) = self.view(buf, headers)
            && let Some(place) = view.options_mut().get_mut(at..at + len)
        {
            place.fill(with);
            self.changed = true;
        }
    }

    /// Turn `len` octets of the options into padding.
    fn blank(&mut self, buf: &mut Buf, headers: &Headers, at: usize, len: usize) {
        const NOP: u8 = 1;
        self.fill(buf, headers, at, len, NOP);
    }

    /// Turn all options into padding that `is_wanted` does not want.
    pub fn keep_options(
        &mut self,
        buf: &mut Buf,
        headers: &Headers,
        is_wanted: impl Fn(&TcpOption<'_>) -> bool,
    ) {
        let mut at = 0;
        loop {
            let Some(view) = self.view(buf, headers) else { return };
            let Some(Ok(option)) = view.options_from(at).next() else { return };
            let (len, wanted) = (option.len(), is_wanted(&option));
            if !wanted {
                self.blank(buf, headers, at, len);
            }
            at += len;
        }
    }

    /// Whether `is_such` holds for one of the options.
    pub fn has_option(
        &self,
        buf: &mut Buf,
        headers: &Headers,
        is_such: impl Fn(&TcpOption<'_>) -> bool,
    ) -> bool {
        self.view(buf, headers)
            .is_some_and(|view| view.options().map_while(Result::ok).any(|option| is_such(&option)))
    }

    /// Replace all options by these.
    pub fn put_options(&mut self, buf: &mut Buf, headers: &mut Headers, options: Options) {
        let mut octets = Vec::with_capacity(24);
        if let Some(mss) = options.mss {
            let [high, low] = mss.to_be_bytes();
            octets.extend([kind::MSS, 4, high, low]);
        }
        if options.sack_permitted {
            octets.extend([kind::SACK_PERMITTED, 2]);
        }
        if let Some((value, echo)) = options.timestamps {
            octets.extend([kind::TIMESTAMPS, 10]);
            octets.extend(value.to_be_bytes());
            octets.extend(echo.to_be_bytes());
        }
        if let Some(scale) = options.scale {
            octets.extend([kind::SCALE, 3, scale]);
        }
        const NOP: u8 = 1;
        octets.resize(octets.len().next_multiple_of(4), NOP);
        if tcp::put_options(buf, headers, &octets).is_ok() {
            self.options = options;
            self.changed = true;
        }
    }

    /// Keep `keep` octets of the data behind the first `front`.
    pub fn cut(&mut self, buf: &mut Buf, headers: &mut Headers, front: u32, keep: u32) {
        if front == 0 && keep >= self.len {
            return;
        }
        if tcp::cut(buf, headers, front as usize, keep as usize).is_ok() {
            self.len = keep.min(self.len.saturating_sub(front));
            self.changed = true;
        }
    }

    pub fn put_seq(&mut self, buf: &mut Buf, headers: &Headers, seq: u32) {
        self.seq = seq;
        self.changed = true;
        if let Some(mut view) = self.view(buf, headers) {
            view.set_seq(seq);
        }
    }

    /// Rule Q.4: write the inside host's sequence number as it is outside.
    pub fn shift_seq(&mut self, job: &mut Job<'_>, buf: &mut Buf, headers: &Headers, by: u32) {
        job.met.acted.insert(Rule::IsnModulation);
        self.put_seq(buf, headers, self.seq.wrapping_add(by));
    }

    /// Rule Q.4: write the acknowledgment and SACK blocks of an outside host in the inside host's own numbers.
    pub fn shift_ack(&mut self, job: &mut Job<'_>, buf: &mut Buf, headers: &Headers, by: u32) {
        if !self.flags.contains(Flags::ACK) {
            return;
        }
        job.met.acted.insert(Rule::IsnModulation);
        self.ack = self.ack.wrapping_add(by);
        self.changed = true;
        if let Some(mut view) = self.view(buf, headers) {
            view.set_ack(self.ack);
            if self.options.has_sack {
                view.shift_sack(by);
            }
        }
    }

    pub fn put_window(&mut self, buf: &mut Buf, headers: &Headers, window: u16) {
        self.window = window;
        self.changed = true;
        if let Some(mut view) = self.view(buf, headers) {
            view.set_window(window);
        }
    }

    /// Lower the MSS to at most `most`.
    pub fn lower_mss(&mut self, job: &mut Job<'_>, buf: &mut Buf, headers: &Headers, most: u16) {
        if self.options.mss.is_some_and(|mss| mss > most) && job.acts(Rule::OptionMss) {
            self.options.mss = Some(most);
            if let Some(mut view) = self.view(buf, headers) {
                view.lower_max_segment(most, false);
                self.changed = true;
            }
        }
    }

    /// Edit the data in place.
    pub fn with_data<T>(&self, buf: &mut Buf, headers: &Headers, edit: impl FnOnce(&mut [u8]) -> T) -> T {
        match self.view(buf, headers) {
            Some(mut view) => edit(view.payload_mut()),
            None => edit(&mut []),
        }
    }

    /// The sequence number behind the segment.
    pub fn end(&self) -> u32 {
        let flags = u32::from(self.flags.contains(Flags::SYN)) + u32::from(self.flags.contains(Flags::FIN));
        self.seq.wrapping_add(self.len).wrapping_add(flags)
    }

    /// Write the checksum if anything was changed.
    pub fn finish(&self, buf: &mut Buf, headers: &Headers) {
        if !self.changed {
            return;
        }
        let done = if self.partial {
            checksum::put_pseudo(buf.as_mut_slice(), headers)
        } else {
            checksum::complete_transport(buf.as_mut_slice(), headers)
        };
        debug_assert!(done.is_ok(), "a segment that was read has a checksum");
        if self.error != 0 {
            checksum::adjust_transport(buf.as_mut_slice(), headers, !self.error);
        }
    }
}

/// Clear the ECN field of the IP header.
pub(super) fn clear_ecn(buf: &mut Buf, headers: &mut Headers) {
    headers.tos &= !3;
    ip::set_tos(buf.as_mut_slice(), headers.version, headers.tos);
}
