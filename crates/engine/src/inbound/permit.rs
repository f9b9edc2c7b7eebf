//! The proof that a packet may go to the host.

use wire::Evidence;
use wire::stage::{Admitted, Inner};

/// The proof that stages 5 to 8 let a packet pass, each packet of a burst by itself.
#[derive(Clone, Copy)]
pub(super) struct Permit(());

impl Evidence<Inner, Admitted> for Permit {}

impl Permit {
    /// A permit, for whoever has asked the last of these stages.
    #[inline]
    pub(super) fn granted() -> Permit {
        Permit(())
    }
}
