//! The `[ipip]` section of the configuration: IP in IP that is taken without protection around it (paper 001 section
//! 2.3).

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::OuterIo;
use super::read::{Reader, Value};

const KEYS: [&str; 1] = ["from"];
/// The most addresses that `from` may name.
const MOST: usize = 64;

impl Reader<'_> {
    /// Read the outer addresses of the hosts whose bare IP in IP is taken.
    pub(super) fn tunnels_from(&mut self, value: Option<&Value<'_>>, outer: OuterIo) -> BTreeSet<IpAddr> {
        let remedy = "write: from = [\"192.0.2.9\"], the outer addresses of hosts whose IP in IP is taken without protection";
        let Some(list) = self.table(value, "ipip", &KEYS).and_then(|table| table.get("from")) else {
            return BTreeSet::new();
        };
        let Some(array) = list.get_ref().as_array().filter(|array| array.len() <= MOST) else {
            self.fault(list.span(), format!("`from` must be a list of at most {MOST} addresses"), remedy);
            return BTreeSet::new();
        };
        let mut peers = BTreeSet::new();
        for item in array.iter() {
            let Some(text) = self.string(item, "from") else { continue };
            match text.parse::<IpAddr>() {
                Ok(address) if !address.is_unspecified() && !address.is_multicast() => {
                    peers.insert(address);
                }
                _ => self.fault(item.span(), format!("{text:?} is not the address of a host"), remedy),
            }
        }
        if !peers.is_empty() && outer != OuterIo::Udp {
            let remedy = "leave `outer` in [io] out, or [ipip]";
            self.fault(
                list.span(),
                "bare IP in IP arrives by the kernel's sockets, which [io] leaves deaf",
                remedy,
            );
            peers.clear();
        }
        peers
    }
}
