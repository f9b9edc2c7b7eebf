//! The ways in which octets can be no hand-over.

use super::form::{OLDEST, VERSION};

/// Why octets are not a hand-over. Whatever it is, no association is taken over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandOverError {
    /// The octets do not begin like a hand-over.
    #[error(
        "this is not the hand-over of a ravelin daemon; start without --take-over and add the associations anew"
    )]
    NotOurs,
    /// The hand-over was written by a daemon of another version.
    #[error(
        "the running daemon hands over in version {got}, this one understands {OLDEST} to {VERSION}; \
         stop it, start without --take-over and add the associations anew"
    )]
    Version {
        /// The version that the hand-over says.
        got: u32,
    },
    /// The hand-over has fewer or more octets than it says.
    #[error(
        "the hand-over has {got} octets and says {said}; start without --take-over and add the associations anew"
    )]
    Length {
        /// The length in octets that its head says.
        said: u64,
        /// The length in octets that it has.
        got: u64,
    },
    /// The CRC shows that octets changed on the way.
    #[error("the hand-over is damaged; start without --take-over and add the associations anew")]
    Checksum,
    /// An association has a suite that this program does not know.
    #[error(
        "an association of the running daemon has a suite that is not known here: {0}; configure the cipher as the running \
         daemon has it"
    )]
    Suite(String),
    /// A field has a value that the sender cannot have meant.
    #[error(
        "the hand-over contradicts itself ({0}); start without --take-over and add the associations anew"
    )]
    Field(&'static str),
}
