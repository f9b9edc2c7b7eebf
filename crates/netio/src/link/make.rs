//! Devices that are made, not plugged in: pairs of virtual Ethernet ports, bridges.

use super::Links;
use crate::error::{IoContext, Result};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo, LinkMessage};
use std::os::fd::{AsRawFd, BorrowedFd};

/// One end of a pair of devices that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// The device's name there.
    pub name: &'a str,
    /// The namespace that the end is made in; `None` for that of [`Links`].
    pub namespace: Option<BorrowedFd<'a>>,
}

impl End<'_> {
    fn attributes(&self) -> Vec<LinkAttribute> {
        let mut out = vec![LinkAttribute::IfName(self.name.to_owned())];
        out.extend(self.namespace.map(|fd| LinkAttribute::NetNsFd(fd.as_raw_fd())));
        out
    }
}

impl Links {
    /// Make a pair of joined Ethernet devices.
    pub fn add_veth(&mut self, one: End<'_>, other: End<'_>) -> Result<()> {
        let mut peer = LinkMessage::default();
        peer.attributes = other.attributes();
        let info = vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer)))];
        let mut message = LinkMessage::default();
        message.attributes = one.attributes();
        message.attributes.push(LinkAttribute::LinkInfo(info));
        self.make(message, || format!("making the pair {} and {}", one.name, other.name))
    }

    /// Make a bridge called `name`.
    pub fn add_bridge(&mut self, name: &str) -> Result<()> {
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]),
        ];
        self.make(message, || format!("making the bridge {name}"))
    }

    fn make(&mut self, message: LinkMessage, what: impl FnOnce() -> String) -> Result<()> {
        self.conversation.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL).doing(what)
    }
}
