//! How a request says which association it means.

use std::net::IpAddr;

use api::Direction;

/// The association that is meant, where its SPI does not say it alone.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaQuery {
    /// The direction of the association.
    pub direction: Option<Direction>,
    /// This host's outer address, or the group.
    pub local: Option<IpAddr>,
    /// The outer address of the peer.
    pub remote: Option<IpAddr>,
}
