//! The profile by which a flow is scrubbed, and the line that says so.
//!
//! The flow decides, not the application: inbound, nobody knows yet whose socket a packet is for, and both directions
//! must meet in one scrubber (docs/design/0025). So the strictest profile counts that any application's items say of
//! the flow.

use sadb::spd::RuleId;
use scrub::Profile;
use wire::AppId;

/// The profile by which a flow is scrubbed, and the item that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrubbed {
    /// The name of the profile.
    pub profile: Profile,
    /// The application whose item says so. It is the flow's own where that says the same as the strictest.
    pub app: AppId,
    /// The rule of the item.
    pub rule: RuleId,
    /// The profile that the items of the flow's own application give. It alone counts where an association is bound to
    /// the application.
    pub own: Option<Profile>,
}

/// The meaning of a profile, in words.
pub(crate) fn said(profile: Profile) -> String {
    let what = match profile {
        Profile::Observe => {
            "what its packets leave open to interpretation is counted, and nothing is changed"
        }
        _ => "what its packets leave open to interpretation is settled before anybody reads them, both ways",
    };
    format!("scrubbed: {}: {what}", profile.name())
}
