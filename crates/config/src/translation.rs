//! `translation` and `[per_socket]`: how policy becomes what decides about packets.

use std::time::Duration;

use super::read::{Reader, Value};
use crate::suggestion::suggestion;

const KEYS: [&str; 2] = ["ttl", "time_wait"];
const WORDS: [&str; 2] = ["compiled", "per-socket"];

/// How policy becomes what decides about packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Translation {
    /// Policy is compiled once, when it is loaded, into tables keyed by application that are asked for each packet.
    #[default]
    Compiled,
    /// Calls of sockets make and delete entries that decide, as in paper 000 (docs/design/0011).
    PerSocket {
        /// How long an outbound entry of a datagram socket lives behind its last use.
        ttl: Duration,
        /// How long a closed connection's entry serves its TIME_WAIT.
        time_wait: Duration,
    },
}

impl Reader<'_> {
    pub(super) fn translation(
        &mut self,
        mode: Option<&Value<'_>>,
        per_socket: Option<&Value<'_>>,
    ) -> Translation {
        let limits = sadb::EntryLimits::default();
        let table = self.table(per_socket, "per_socket", &KEYS);
        let why = "seconds that an outbound entry of a datagram socket lives behind its last use";
        let mut seconds = |key: &str, range, why: &str, default: Duration| {
            let value = table.and_then(|table| table.get(key));
            let seconds = value.and_then(|value| self.integer(value, key, range, why));
            seconds.and_then(|n| u64::try_from(n).ok()).map_or(default, Duration::from_secs)
        };
        let ttl = seconds("ttl", 2..=86_400, why, limits.ttl);
        let why = "seconds that a closed connection's entry serves its TIME_WAIT";
        let time_wait = seconds("time_wait", 1..=600, why, limits.time_wait);
        let word = mode.and_then(|value| Some((value, self.string(value, "translation")?)));
        match word {
            None | Some((_, "compiled")) => {
                if let Some(value) = per_socket {
                    let remedy = "add: translation = \"per-socket\", or take [per_socket] out";
                    self.fault(value.span(), "[per_socket] without the translation that it is for", remedy);
                }
                Translation::Compiled
            }
            Some((_, "per-socket")) => Translation::PerSocket { ttl, time_wait },
            Some((value, word)) => {
                let remedy = match suggestion(word, &WORDS) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("use one of: {}", WORDS.join(", ")),
                };
                self.fault(value.span(), format!("no translation is called {word:?}"), remedy);
                Translation::Compiled
            }
        }
    }
}
