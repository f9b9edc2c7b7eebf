//! Work on packets in steps, on the thread that dispatches: how far it has come.

use crypto::StepState;
use wire::DropReason;

/// How far a packet, or a burst, has come that is sealed or opened in steps. One is used for one packet or burst after
/// another. Whoever gives a packet up in the middle clears it: the next one would be taken for sealed as far as this.
#[derive(Default)]
pub struct Steps {
    /// The sequence number of the packet, or of the first one of the burst.
    of: Option<u64>,
    /// The number of packets of the burst that are done.
    pub(crate) place: usize,
    /// What is kept of the packet that is in progress.
    pub(crate) state: StepState,
}

impl Steps {
    /// Forget what is in progress.
    pub fn clear(&mut self) {
        (self.of, self.place) = (None, 0);
        self.state.clear();
    }

    /// Go on with the packet, or the burst, of this sequence number.
    ///
    /// # Errors
    /// [`DropReason::UnitFailed`] if another one is in progress.
    pub(crate) fn go_on(&mut self, sequence: u64) -> Result<(), DropReason> {
        if *self.of.get_or_insert(sequence) == sequence { Ok(()) } else { Err(DropReason::UnitFailed) }
    }
}
