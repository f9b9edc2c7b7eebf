//! The commands `ravelin sa update|replace|del|flush`, which change or delete associations.

use std::net::IpAddr;

use api::{
    Keymat, Limits, ReplaceOne, SaDeleted, SaInfo, SaList, SaReplace, SaReplaced, SaUpdate, SaUpdated, Spi,
    SpiRequest, path,
};
use clap::Args;
use clap_complete::ArgValueCandidates;

use super::{AssociationArgument, key, limits};
use crate::client::{Ask, Connect};
use crate::complete;
use crate::exit::Failure;
use crate::output;

/// Change limits or replay window of an association while it works. What is not named stays.
#[derive(Debug, Args)]
pub struct Update {
    #[command(flatten)]
    ask: Ask,
    #[command(flatten)]
    which: AssociationArgument,
    /// Packets in the replay window of an inbound one: a power of two, 64 to 65536; 0: none.
    #[arg(long, value_name = "PACKETS")]
    replay_window: Option<u32>,
    /// Announce its end at: packets=N,bytes=N,seconds=N,seconds_used=N.
    #[arg(long, value_name = "LIMITS", value_parser = limits)]
    soft: Option<Limits>,
    /// End it at: packets=N,bytes=N,seconds=N,seconds_used=N.
    #[arg(long, value_name = "LIMITS", value_parser = limits)]
    hard: Option<Limits>,
}

impl Update {
    pub fn execute(self) -> anyhow::Result<()> {
        let asked = SaUpdate { replay_window: self.replay_window, soft: self.soft, hard: self.hard };
        let updated: SaUpdated = self.ask.connect.patch(&self.which.path(), &asked)?;
        self.ask.show(&updated, |updated| format!("{} changed\n", words(&updated.sa)))
    }
}

/// Put new keys in the place of old ones without losing a packet: successors of an inbound association, an outbound one, or
/// both, with everything of the old ones but SPI and key.
///
/// The new inbound association is there first; the outbound ones change places between two packets; the old inbound one stays
/// for the overlap. Between two hosts: add the new inbound association on the one, replace the pair on the other, then
/// replace the pair on the first, naming its new inbound association.
#[derive(Debug, Args)]
pub struct Replace {
    #[command(flatten)]
    ask: Ask,
    /// The inbound association that goes.
    #[arg(long = "in", value_name = "SPI", requires = "new_in", add = ArgValueCandidates::new(complete::spis))]
    old_in: Option<Spi>,
    /// The SPI of its successor: `auto`, or without --in-key-fd that of one that is there already.
    #[arg(long, value_name = "SPI", requires = "old_in")]
    new_in: Option<SpiRequest>,
    /// Descriptor with the key of the inbound successor, as hexadecimal digits.
    #[arg(long, value_name = "N", requires = "old_in")]
    in_key_fd: Option<u32>,
    /// The outbound association that goes.
    #[arg(long = "out", value_name = "SPI", requires = "new_out", add = ArgValueCandidates::new(complete::spis))]
    old_out: Option<Spi>,
    /// The SPI of its successor, which the peer has chosen.
    #[arg(long, value_name = "SPI", requires = "old_out")]
    new_out: Option<Spi>,
    /// Descriptor with the key of the outbound successor, as hexadecimal digits [default: 0].
    #[arg(long, value_name = "N", requires = "old_out")]
    out_key_fd: Option<u32>,
    /// Needed where associations to several peers have these SPIs.
    #[arg(long, value_name = "ADDRESS")]
    remote: Option<IpAddr>,
    /// The suite of the successors [default: that of the old ones].
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// Seconds that the old inbound association stays; 0: it goes at once.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    overlap: u64,
}

impl Replace {
    pub fn execute(self) -> anyhow::Result<()> {
        let one = |old, spi, keymat| ReplaceOne {
            old,
            remote: self.remote,
            spi,
            suite: self.suite.clone(),
            keymat,
        };
        let key = |fd: u32| -> anyhow::Result<Keymat> {
            let keymat = key::read(fd)?;
            key::check(&keymat, fd)?;
            Ok(keymat)
        };
        let inbound = match (self.old_in, self.new_in) {
            (Some(old), Some(spi)) => {
                let keymat = self.in_key_fd.map(key).transpose()?.unwrap_or_default();
                Some(one(old, spi, keymat))
            }
            _ => None,
        };
        let outbound = match (self.old_out, self.new_out) {
            (Some(old), Some(spi)) => {
                let fd = self.out_key_fd.unwrap_or(0);
                if self.in_key_fd == Some(fd) {
                    return Err(Failure::bad_input(format!(
                        "descriptor {fd} cannot give both keys; name two with --in-key-fd and --out-key-fd"
                    )));
                }
                Some(one(old, SpiRequest::This(spi), key(fd)?))
            }
            _ => None,
        };
        if inbound.is_none() && outbound.is_none() {
            return Err(Failure::bad_input(
                "nothing is to be replaced; name the old ones with --in and --out",
            ));
        }
        let request = SaReplace { inbound, outbound, overlap_seconds: self.overlap };
        let replaced: SaReplaced = self.ask.connect.post_secret(path::SA_REPLACE, request)?;
        self.ask.show(&replaced, |done| {
            let lines = done.sas.iter().zip(&done.replaced);
            lines.map(|(new, old)| format!("{} takes over from {}\n", words(new), old.spi)).collect()
        })
    }
}

/// Delete an association by its SPI. Its key stays refused.
#[derive(Debug, Args)]
pub struct Del {
    #[command(flatten)]
    ask: Ask,
    #[command(flatten)]
    which: AssociationArgument,
}

impl Del {
    pub fn execute(self) -> anyhow::Result<()> {
        let deleted: SaDeleted = self.ask.connect.delete(&self.which.path())?;
        self.ask.show(&deleted, |deleted| format!("{} deleted\n", words(&deleted.sa)))
    }
}

/// Delete every association there is. Their keys stay refused.
#[derive(Debug, Args)]
pub struct Flush {
    #[command(flatten)]
    connect: Connect,
}

impl Flush {
    pub fn execute(self) -> anyhow::Result<()> {
        let list: SaList = self.connect.get(path::SA)?;
        for sa in &list.sas {
            let at = path::SA_ONE.replace("{spi}", &sa.spi.to_string());
            let at = format!("{at}?direction={}&remote={}&local={}", sa.direction, sa.remote, sa.local);
            let _: SaDeleted = self.connect.delete(&at)?;
        }
        output::text(&format!("{} associations deleted\n", list.sas.len()))
    }
}

fn words(sa: &SaInfo) -> String {
    format!("{} {}", sa.direction, sa.spi)
}
