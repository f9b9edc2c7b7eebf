//! The addresses that a graph tells packets apart by: the far end, and those of the inner packet.

use std::net::IpAddr;

use qos::Meta;

use super::{GraphState, Wait};

impl<W: Wait> GraphState<W> {
    /// Note the far end of a packet, as far as the graph asks for it.
    #[inline]
    pub(crate) fn note_peer(&self, meta: &mut Meta, address: IpAddr) {
        let addresses = self.graph.addresses();
        meta.peer = addresses.peers.number(address);
        if addresses.has_peer_users {
            meta.peer_hash = self.hash.peer(address);
        }
    }

    /// Note the inner addresses of a packet, as far as the graph asks for them.
    #[inline]
    pub(crate) fn note_inner(&self, meta: &mut Meta, source: IpAddr, destination: IpAddr) {
        let addresses = self.graph.addresses();
        meta.source = addresses.sources.number(source);
        meta.destination = addresses.destinations.number(destination);
    }
}
