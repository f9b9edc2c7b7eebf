//! `ravelin debug`: the log's filter, switched while the daemon runs.

use api::{DebugRequest, DebugState, path};
use clap::Args;

use crate::client::Ask;
use crate::exit::Failure;
use crate::output;

/// Show what the daemon logs, or have it log more or less.
///
/// FILTER is a level (off, error, warn, info, debug, trace), or parts of the house with theirs (daemon=debug,sockmon=trace), or
/// `default` for what it was started with. Keys and payloads are never logged.
#[derive(Debug, Args)]
pub struct Debug {
    #[command(flatten)]
    ask: Ask,
    /// The filter; without one the present is shown.
    filter: Option<String>,
    /// Fall back after this time: 30s, 10m, 2h [default: never].
    #[arg(long = "for", value_name = "TIME", requires = "filter", value_parser = seconds)]
    time: Option<u64>,
}

impl Debug {
    pub fn execute(self) -> anyhow::Result<()> {
        let state: DebugState = match self.filter {
            None => self.ask.connect.get(path::DEBUG)?,
            Some(filter) => {
                if filter.is_empty() {
                    return Err(Failure::bad_input("an empty filter; write a level, such as debug"));
                }
                self.ask.connect.post(path::DEBUG, &DebugRequest { filter, seconds: self.time })?
            }
        };
        self.ask.show(&state, text)
    }
}

fn text(state: &DebugState) -> String {
    match state.seconds_left {
        Some(seconds) => {
            format!("{}, then {} in {}\n", state.filter, state.default, output::duration(seconds))
        }
        None if state.filter == state.default => format!("{}\n", state.filter),
        None => format!("{} (started with {})\n", state.filter, state.default),
    }
}

/// A time from `90`, `90s`, `10m`, `2h`.
pub fn seconds(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(format!("{text:?} is no time; write 30s, 10m, 2h")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} is no time; write 30s, 10m, 2h"))?;
    number
        .checked_mul(factor)
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| format!("{text:?} is no time that passes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(
            ["90", "30s", "10m", "2h", "1d"].map(|text| seconds(text).unwrap()),
            [90, 30, 600, 7200, 86_400]
        );
        for wrong in ["", "m", "10x", "-1", "0", "99999999999999999999h", "1.5h"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
