//! `ravelin version`: which build this is.

use clap::Args;

use crate::output;

/// Show the version of this program; a daemon's own is in `ravelin status`.
#[derive(Debug, Args)]
pub struct Version {
    /// Print the version as a JSON document.
    #[arg(long)]
    json: bool,
}

impl Version {
    pub fn execute(self) -> anyhow::Result<()> {
        let version = api::Version {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
        };
        if self.json {
            return output::json(&version);
        }
        output::text(&format!("{} {}\n", version.name, version.version))
    }
}
