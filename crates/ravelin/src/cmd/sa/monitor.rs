//! `ravelin sa monitor`.

use api::path;
use clap::Args;

use crate::client::Connect;
use crate::output;

/// Print what happens to associations, one JSON object a line, until interrupted: flows that lack one, and ends.
#[derive(Debug, Args)]
pub struct Monitor {
    #[command(flatten)]
    connect: Connect,
    /// Answer for the key manager: packets without an association wait while this runs, and the associations must be added.
    #[arg(long)]
    acquire: bool,
}

impl Monitor {
    pub fn execute(self) -> anyhow::Result<()> {
        let at =
            if self.acquire { format!("{}?acquire=true", path::EVENTS) } else { path::EVENTS.to_owned() };
        self.connect.stream(&at, &mut |line| output::text(&format!("{}\n", String::from_utf8_lossy(line))))
    }
}
