//! The values that a request for an association leaves to its surroundings, and the refusal of one.

use crypto::Suites;
use sadb::sa::Padding;
use wire::AppId;

use crate::api_error::{ApiError, Blame};
use crate::classes::Classes;

/// What a request leaves to its surroundings.
pub struct Defaults<'d> {
    /// The suites that a request may name.
    pub suites: &'d Suites,
    /// The classes that a request may name.
    pub classes: &'d Classes,
    /// The MTU for requests that name none.
    pub path_mtu: Option<u16>,
    /// Seconds of silence for requests that ask for keepalives and say no number.
    pub keepalive: u16,
    /// The id of an application's name; `None`: the policy has no block for it.
    pub app: &'d dyn Fn(&str) -> Option<AppId>,
    /// A random number, for the jitter of soft limits.
    pub random: u32,
    /// What the trailer pads for requests that do not say.
    pub padding: Padding,
}

/// The refusal of a request that is wrong.
pub fn bad(message: impl Into<String>) -> ApiError {
    ApiError::new(Blame::BadRequest, message)
}
