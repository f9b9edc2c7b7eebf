//! The choice of inner packets that go to the host under one header.
//!
//! Admitted packets enter in the order in which they were received. [`Coalesced`]s leave, in an order in which each flow's
//! packets keep theirs. A coalesced packet goes as soon as nothing can follow it. Coalesced packets that are open at the end of a receive
//! batch go then ([`Coalescer::flush`]), so that nothing waits for traffic that may not come.
//!
//! The rules are those of every receive offload: only what the sender's own stack could have sent as one piece is
//! joined. One header stands for all, so all headers are alike except for length, identification (DF is set: RFC 6864
//! gives it no meaning), sequence number and checksum. Timestamps and ECN marks must be alike too, since the receiver
//! counts them. PSH and FIN end a coalesced packet (RFC 9293 section 3.9.1).

use crate::coalesced::{Coalesced, Piece};

/// The most coalesced packets that are open at the same time, which are flows that may alternate within one receive batch.
pub const OPEN: usize = 8;

/// Whether inner checksums are verified before packets lose theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// Checksums are not verified. One header stands for all, and the kernel makes a new checksum where it needs one: a
    /// wrong one would leave right.
    Trust,
    /// Checksums are verified, and a packet with a wrong one goes alone, for the host's stack to refuse (RFC 3948
    /// section 3.1.2: "Tunnel mode TCP checksums MUST be verified"). The ICV proves what the tunnel's other end took
    /// in, not what was sent to that.
    #[default]
    Verify,
}

/// Appends `packet` to `coalesced` if it belongs there and has the same mark; whether it did.
pub fn try_append<'a>(coalesced: &mut Coalesced<'a>, packet: &'a [u8], mark: u32) -> bool {
    Piece::look(packet).is_some_and(|piece| coalesced.append(&piece, mark))
}

/// The open coalesced packets of one receive batch.
#[derive(Debug)]
pub struct Coalescer<'a> {
    open: [Option<Coalesced<'a>>; OPEN],
    /// The slot that is emptied next if none is free, in turn.
    turn: usize,
    checks: Checks,
}

impl<'a> Coalescer<'a> {
    /// Makes a coalescer with no coalesced packet open.
    pub fn new(checks: Checks) -> Coalescer<'a> {
        Coalescer { open: [const { None }; OPEN], turn: 0, checks }
    }

    /// Takes a packet, which begins with its IP header and ends where its length says, with the mark of its record.
    /// `deliver` gets the coalesced packets that need not wait any longer.
    pub fn push(&mut self, packet: &'a [u8], mark: u32, deliver: &mut impl FnMut(&Coalesced<'a>)) {
        let Some(piece) = Piece::look(packet) else {
            // Of what flow it is was not asked: behind everything that came before.
            self.flush(deliver);
            deliver(&Coalesced::begin_with(None, packet, mark));
            return;
        };
        let fine = piece.joins() && (self.checks == Checks::Trust || piece.is_right());
        if let Some(slot) = self.open.iter_mut().find(|t| t.as_ref().is_some_and(|t| t.same_flow(&piece))) {
            if let Some(coalesced) = slot
                && fine
                && coalesced.append(&piece, mark)
            {
                if coalesced.is_closed() {
                    deliver(coalesced);
                    *slot = None;
                }
                return;
            }
            if let Some(coalesced) = slot.take() {
                deliver(&coalesced);
            }
        }
        if fine && piece.begins() {
            *self.place(deliver) = Some(Coalesced::begin_with(Some(piece), packet, mark));
        } else {
            deliver(&Coalesced::begin_with(None, packet, mark));
        }
    }

    /// Ends the receive batch: every open coalesced packet is delivered.
    pub fn flush(&mut self, deliver: &mut impl FnMut(&Coalesced<'a>)) {
        for coalesced in self.open.iter_mut().filter_map(Option::take) {
            deliver(&coalesced);
        }
    }

    /// A free slot, for which a coalesced packet is delivered if there is none.
    fn place(&mut self, deliver: &mut impl FnMut(&Coalesced<'a>)) -> &mut Option<Coalesced<'a>> {
        let at = self.open.iter().position(Option::is_none).unwrap_or_else(|| {
            let at = self.turn;
            self.turn = (at + 1) % OPEN;
            at
        });
        let slot = &mut self.open[at % OPEN];
        if let Some(coalesced) = slot.take() {
            deliver(&coalesced);
        }
        slot
    }
}
