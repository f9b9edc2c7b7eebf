//! `ravelin sa`: security associations with keys by hand, one file for each verb.

mod add;
mod change;
pub mod export;
mod key;
mod list;
mod monitor;
mod peer;

use std::net::IpAddr;

use api::{Direction, Limits, Spi, path};
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCandidates;

pub use key::no_key_in_arguments;

use crate::complete;

/// Security associations with keys by hand. They end with the daemon.
#[derive(Debug, Subcommand)]
pub enum Sa {
    Add(Box<add::Add>),
    List(list::List),
    Update(change::Update),
    Replace(change::Replace),
    Del(change::Del),
    Flush(change::Flush),
    Export(export::Export),
    Monitor(monitor::Monitor),
}

impl Sa {
    pub fn execute(self) -> anyhow::Result<()> {
        match self {
            Sa::Add(add) => add.execute(),
            Sa::List(list) => list.execute(),
            Sa::Update(update) => update.execute(),
            Sa::Replace(replace) => replace.execute(),
            Sa::Del(del) => del.execute(),
            Sa::Flush(flush) => flush.execute(),
            Sa::Export(export) => export.execute(),
            Sa::Monitor(monitor) => monitor.execute(),
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DirectionArgument {
    In,
    Out,
}

impl From<DirectionArgument> for Direction {
    fn from(way: DirectionArgument) -> Direction {
        match way {
            DirectionArgument::In => Direction::In,
            DirectionArgument::Out => Direction::Out,
        }
    }
}

/// The association that is meant.
#[derive(Debug, Args)]
struct AssociationArgument {
    /// The SPI of the association.
    #[arg(add = ArgValueCandidates::new(complete::spis))]
    spi: Spi,
    /// Needed where both directions have an association with this SPI.
    #[arg(long, value_enum)]
    direction: Option<DirectionArgument>,
    /// Needed where associations to several peers have this SPI.
    #[arg(long, value_name = "ADDRESS")]
    remote: Option<IpAddr>,
    /// Needed where associations of several groups have this SPI.
    #[arg(long, value_name = "ADDRESS")]
    local: Option<IpAddr>,
}

impl AssociationArgument {
    /// Its place in the API.
    fn path(&self) -> String {
        let direction = self.direction.map(|way| format!("direction={}", Direction::from(way)));
        let remote = self.remote.map(|remote| format!("remote={remote}"));
        let local = self.local.map(|local| format!("local={local}"));
        let query: Vec<String> = direction.into_iter().chain(remote).chain(local).collect();
        let at = path::SA_ONE.replace("{spi}", &self.spi.to_string());
        if query.is_empty() { at } else { format!("{at}?{}", query.join("&")) }
    }
}

/// `packets=N,bytes=N,seconds=N,seconds_used=N`, any of them.
fn limits(text: &str) -> Result<Limits, String> {
    let mut limits = Limits::default();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let field = match name {
            "packets" => &mut limits.packets,
            "bytes" => &mut limits.bytes,
            "seconds" => &mut limits.seconds,
            "seconds_used" => &mut limits.seconds_used,
            _ => {
                return Err(format!(
                    "no limit is called {name:?}; known: packets, bytes, seconds, seconds_used"
                ));
            }
        };
        *field = value.parse().map_err(|_| format!("{name} needs a number, as in {name}=1000000"))?;
    }
    Ok(limits)
}
