//! The name by which an association of received packets is found.

use std::net::IpAddr;

/// The outer header by which an association is found.
#[derive(Clone, Copy)]
pub(super) struct Name {
    pub(super) spi: u32,
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    /// The type of service.
    pub(super) tos: u8,
}
