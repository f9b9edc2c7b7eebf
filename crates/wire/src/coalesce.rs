//! Which inner packets go to the host under one header.
//!
//! What enters: admitted packets in the order in which they were received. What leaves: [`Train`]s, in an order in which
//! each flow's packets keep theirs. A train goes as soon as nothing can follow it; what is open at the end of a receive
//! batch goes then ([`Coalescer::flush`]), so that nothing waits for traffic that may not come.
//!
//! The rules are those of every receive offload: only what the sender's own stack could have sent as one piece. One
//! header stands for all, so all headers are alike but for length, identification (DF is set: RFC 6864 gives it no
//! meaning), sequence number and checksum; timestamps and ECN marks too, since the receiver counts them; PSH and FIN end a
//! train (RFC 9293 section 3.9.1).

use crate::train::{Piece, Train};

/// Trains that are open at the same time: flows that may alternate within one receive batch.
pub const OPEN: usize = 8;

/// Whether inner checksums are looked at before packets lose theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// No. One header stands for all, and the kernel makes a new checksum where it needs one: what was wrong would leave right.
    Trust,
    /// Yes: a packet with a wrong one goes alone, for the host's stack to refuse (RFC 3948 section 3.1.2: "Tunnel mode TCP
    /// checksums MUST be verified"; the ICV proves what the tunnel's other end took in, not what was sent to that).
    #[default]
    Verify,
}

/// Put `packet` behind `train` if it belongs there, marked like the others; whether it did.
pub fn try_append<'a>(train: &mut Train<'a>, packet: &'a [u8], mark: u32) -> bool {
    Piece::look(packet).is_some_and(|piece| train.append(&piece, mark))
}

/// Open trains of one receive batch.
#[derive(Debug)]
pub struct Coalescer<'a> {
    open: [Option<Train<'a>>; OPEN],
    /// The place that is emptied next if none is free: one after the other.
    turn: usize,
    checks: Checks,
}

impl<'a> Coalescer<'a> {
    /// With no train open.
    pub fn new(checks: Checks) -> Coalescer<'a> {
        Coalescer { open: [const { None }; OPEN], turn: 0, checks }
    }

    /// Take a packet, which begins with its IP header and ends where its length says, with the mark of its record. `deliver`
    /// gets what can wait no longer.
    pub fn push(&mut self, packet: &'a [u8], mark: u32, deliver: &mut impl FnMut(&Train<'a>)) {
        let Some(piece) = Piece::look(packet) else {
            // Of what flow it is was not asked: behind everything that came before.
            self.flush(deliver);
            deliver(&Train::begin_with(None, packet, mark));
            return;
        };
        let fine = piece.joins() && (self.checks == Checks::Trust || piece.is_right());
        if let Some(slot) = self.open.iter_mut().find(|t| t.as_ref().is_some_and(|t| t.same_flow(&piece))) {
            if let Some(train) = slot
                && fine
                && train.append(&piece, mark)
            {
                if train.is_closed() {
                    deliver(train);
                    *slot = None;
                }
                return;
            }
            if let Some(train) = slot.take() {
                deliver(&train);
            }
        }
        if fine && piece.begins() {
            *self.place(deliver) = Some(Train::begin_with(Some(piece), packet, mark));
        } else {
            deliver(&Train::begin_with(None, packet, mark));
        }
    }

    /// The receive batch has ended: deliver every open train.
    pub fn flush(&mut self, deliver: &mut impl FnMut(&Train<'a>)) {
        for train in self.open.iter_mut().filter_map(Option::take) {
            deliver(&train);
        }
    }

    /// An empty place.
    fn place(&mut self, deliver: &mut impl FnMut(&Train<'a>)) -> &mut Option<Train<'a>> {
        let at = self.open.iter().position(Option::is_none).unwrap_or_else(|| {
            let at = self.turn;
            self.turn = (at + 1) % OPEN;
            at
        });
        let slot = &mut self.open[at % OPEN];
        if let Some(train) = slot.take() {
            deliver(&train);
        }
        slot
    }
}
