//! The `[io]` section of the configuration: how outer packets leave and arrive.

use super::read::{Reader, Value};
use crate::suggestion::suggestion;

const KEYS: [&str; 1] = ["outer"];

/// How outer packets leave and arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OuterIo {
    /// The kernel's UDP and raw sockets carry outer packets. This is the fast way, and the host's firewall sees them.
    #[default]
    Udp,
    /// Packet sockets carry outer packets as Ethernet frames, past the kernel's IP stack.
    Packet,
    /// AF_XDP sockets carry outer packets as Ethernet frames.
    Xdp,
}

impl OuterIo {
    const WORDS: [(&'static str, OuterIo); 3] =
        [("udp", OuterIo::Udp), ("af_packet", OuterIo::Packet), ("af_xdp", OuterIo::Xdp)];
}

impl Reader<'_> {
    pub(super) fn outer_io(&mut self, value: Option<&Value<'_>>) -> OuterIo {
        let Some(value) = self.table(value, "io", &KEYS).and_then(|table| table.get("outer")) else {
            return OuterIo::default();
        };
        let Some(word) = self.string(value, "outer") else { return OuterIo::default() };
        if let Some((_, outer)) = OuterIo::WORDS.iter().find(|(name, _)| *name == word) {
            return *outer;
        }
        let words = OuterIo::WORDS.map(|(name, _)| name);
        let remedy = match suggestion(word, &words) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("use one of: {}", words.join(", ")),
        };
        self.fault(value.span(), format!("no way for outer packets is called {word:?}"), remedy);
        OuterIo::default()
    }
}
