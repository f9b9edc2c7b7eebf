//! The command `ravelin sa monitor`, which prints what happens to associations.

use api::path;
use clap::Args;

use crate::client::Connect;
use crate::output;

/// Print what happens to associations, one JSON object a line, until interrupted: flows that lack one, and ends. It only watches: no
/// packet waits because of it. A key manager says itself that packets are to wait (`/v1/events?acquire=true`).
#[derive(Debug, Args)]
pub struct Monitor {
    #[command(flatten)]
    connect: Connect,
}

impl Monitor {
    pub fn execute(self) -> anyhow::Result<()> {
        let mut show = |line: &[u8]| output::text(&format!("{}\n", String::from_utf8_lossy(line)));
        self.connect.stream(path::EVENTS, &mut show)
    }
}
