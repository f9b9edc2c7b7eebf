//! `ravelin import`: a file of associations and rules into a running daemon, all of it or nothing.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use api::{
    Direction, ImportChecked, Imported, SaAdd, SaAdded, SaDeleted, SaInfo, SaList, SpdAdd, SpdAdded,
    SpdDeleted, SpdList, Spi, SpiRequest, path,
};
use clap::Args;
use crypto::Suites;
use documents::api_error::{ApiError, Blame};
use documents::associations;
use documents::classes::Classes;
use documents::import::{self, Ends, Entry, ImportItem, MAX_FILE, SETKEY_RULE};
use documents::rules::SpdRules;
use zeroize::Zeroizing;

use crate::catalogue::Catalogue;
use crate::client::Connect;
use crate::exit::{self, Failure};
use crate::output;

/// Add the associations and rules of a file: the language of setkey(8), or JSON lines as `ravelin replay` reads them.
///
/// Every line is checked before the first is done. If the daemon refuses one, those before it are deleted again; their keys
/// stay refused, since they may have been used.
#[derive(Debug, Args)]
pub struct Import {
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    catalogue: Catalogue,
    /// The file (`-`: standard input). Nobody but its owner may be able to read it.
    file: PathBuf,
    /// An address of this host: says which way each association of a setkey file goes. May be repeated [default: all
    /// addresses of this host].
    #[arg(long, value_name = "ADDRESS")]
    local: Vec<IpAddr>,
    /// Do what `flush` and `spdflush` in the file say, also where there is something to delete.
    #[arg(long)]
    flush: bool,
    /// Read the file although others can.
    #[arg(long)]
    insecure_file: bool,
    /// Check the file, and do nothing.
    #[arg(long)]
    check: bool,
    /// Print what was added as JSON.
    #[arg(long)]
    json: bool,
}

impl Import {
    pub fn execute(self) -> anyhow::Result<()> {
        let name = self.file.display().to_string();
        let text = self.read()?;
        let own = match self.local.is_empty() {
            true => import::host_addresses().context("listing the addresses of this host")?,
            false => self.local.clone(),
        };
        let suites = self.catalogue.suites()?;
        let entries = import::read(&text, Ends::Local(&own), &suites)
            .map_err(|error| Failure::bad_input(format!("{name}:{error}")))?;
        drop(text);
        check(&name, &entries, &suites)?;
        if self.check && self.json {
            let count = |is: fn(&ImportItem) -> bool| entries.iter().filter(|entry| is(&entry.what)).count();
            return output::json(&ImportChecked {
                file: name,
                statements: entries.len(),
                sas: count(|what| matches!(what, ImportItem::Sa(_))),
                rules: count(|what| matches!(what, ImportItem::Rule(_))),
            });
        }
        if self.check {
            return output::text(&format!("{name}: {} statements, no error\n", entries.len()));
        }
        let mut done = Imported::default();
        self.make_room(&name, &entries, &mut done)?;
        for entry in entries {
            if let Err(error) = self.add(entry.what, &mut done) {
                return Err(self.undo(&name, entry.line, &error, &done));
            }
        }
        if self.json {
            return output::json(&done);
        }
        let mut out = String::new();
        for sa in &done.sas {
            out.push_str(&format!("{} {} {} -> {} added\n", sa.direction, sa.spi, sa.local, sa.remote));
        }
        for rule in &done.rules {
            out.push_str(&format!("rule {} added at position {}\n", rule.name, rule.position));
        }
        out.push_str(&format!("{} associations and {} rules added", done.sas.len(), done.rules.len()));
        if done.deleted_sas + done.deleted_rules > 0 {
            out.push_str(&format!("; {} and {} deleted before", done.deleted_sas, done.deleted_rules));
        }
        out.push('\n');
        output::text(&out)
    }

    /// The file, in memory that is wiped.
    fn read(&self) -> anyhow::Result<Zeroizing<String>> {
        let name = self.file.display();
        let mut text = Zeroizing::new(String::with_capacity(64 << 10));
        let read = if self.file == Path::new("-") {
            std::io::stdin().lock().take(MAX_FILE + 1).read_to_string(&mut text)
        } else {
            let bad = |error: std::io::Error| Failure::bad_input(format!("{name}: {error}"));
            let file = File::open(&self.file).map_err(bad)?;
            let mode = file.metadata().map_err(bad)?.permissions().mode();
            if mode & 0o077 != 0 && !self.insecure_file {
                return Err(Failure::bad_input(format!(
                    "{name} has mode {:04o}: its keys can be read, or the file changed, by others; `chmod 600 {name}`, and make \
                     new keys if others had access, or give --insecure-file",
                    mode & 0o7777
                )));
            }
            file.take(MAX_FILE + 1).read_to_string(&mut text)
        };
        read.map_err(|error| Failure::bad_input(format!("{name}: {error}")))?;
        if text.len() as u64 > MAX_FILE {
            return Err(Failure::bad_input(format!("{name} has more than {MAX_FILE} octets")));
        }
        Ok(text)
    }

    /// What the file says is to be deleted first.
    fn make_room(&self, name: &str, entries: &[Entry], done: &mut Imported) -> anyhow::Result<()> {
        let says = |what: &ImportItem| entries.iter().any(|entry| entry.what == *what);
        let sas = match says(&ImportItem::FlushSas) {
            true => self.connect.get::<SaList>(path::SA)?.sas,
            false => Vec::new(),
        };
        let rules = match says(&ImportItem::FlushRules) {
            true => self.connect.get::<SpdList>(path::SPD)?.rules,
            false => Vec::new(),
        };
        if sas.len() + rules.len() > 0 && !self.flush {
            return Err(Failure::of(
                exit::Kind::Failed,
                format!(
                    "{name} begins with flush, which would delete {} associations and {} rules; give --flush if that is meant, \
                     or take the statement out",
                    sas.len(),
                    rules.len()
                ),
            ));
        }
        for sa in &sas {
            self.delete_sa(sa)?;
        }
        if !rules.is_empty() {
            let _: SpdDeleted = self.connect.delete(path::SPD)?;
        }
        (done.deleted_sas, done.deleted_rules) = (sas.len(), rules.len());
        Ok(())
    }

    fn add(&self, what: ImportItem, done: &mut Imported) -> anyhow::Result<()> {
        match what {
            ImportItem::Sa(request) => {
                let added: SaAdded = self.connect.post_secret(path::SA, request)?;
                done.sas.push(added.sa);
            }
            ImportItem::Rule(request) => {
                done.rules.push(self.add_rule(*request)?);
            }
            ImportItem::FlushSas | ImportItem::FlushRules => {}
        }
        Ok(())
    }

    /// The name of a setkey policy's rule is made of its line, which another file may have had before.
    fn add_rule(&self, mut request: SpdAdd) -> anyhow::Result<api::SpdRule> {
        let error = match self.connect.post::<_, SpdAdded>(path::SPD, &request) {
            Ok(added) => return Ok(added.rule),
            Err(error) => error,
        };
        let name = match request.name.take() {
            Some(name) if name.starts_with(SETKEY_RULE) => name,
            _ => return Err(error),
        };
        let list = self.connect.get::<SpdList>(path::SPD)?;
        let taken: Vec<_> = list.rules.iter().map(|rule| rule.name.as_str()).collect();
        if !taken.contains(&name.as_str()) {
            return Err(error);
        }
        request.name = Some(import::free_name(&name, &taken));
        Ok(self.connect.post::<_, SpdAdded>(path::SPD, &request)?.rule)
    }

    /// Delete what was added, and say so.
    fn undo(&self, name: &str, line: usize, error: &anyhow::Error, done: &Imported) -> anyhow::Error {
        let left = self.roll_back(done);
        let mut text = format!("{name}:{line}: {error:#}; nothing of the file is in force{left}");
        if !done.sas.is_empty() {
            text.push_str("; the keys before this line are refused from now on, so give new ones");
        }
        if done.deleted_sas + done.deleted_rules > 0 {
            text.push_str("; what the file flushed is gone");
        }
        Failure::of(exit::kind(error), text)
    }

    /// Delete what was added; what could not be deleted, as the end of an error.
    fn roll_back(&self, done: &Imported) -> String {
        let mut left = Vec::new();
        // Rules first: without them nothing asks for the associations.
        for rule in done.rules.iter().rev() {
            let at = path::SPD_ONE.replace("{name}", &rule.name);
            if self.connect.delete::<SpdDeleted>(&at).is_err() {
                left.push(format!("rule {}", rule.name));
            }
        }
        for sa in done.sas.iter().rev() {
            if self.delete_sa(sa).is_err() {
                left.push(format!("{} {}", sa.direction, sa.spi));
            }
        }
        if left.is_empty() { String::new() } else { format!("; still there: {}", left.join(", ")) }
    }

    fn delete_sa(&self, sa: &SaInfo) -> anyhow::Result<()> {
        let at = path::SA_ONE.replace("{spi}", &sa.spi.to_string());
        let at = format!("{at}?direction={}&remote={}", sa.direction, sa.remote);
        self.connect.delete::<SaDeleted>(&at).map(drop)
    }
}

/// What the association of a request is found by; two of a file cannot have the same. `None`: the daemon chooses its SPI.
fn found_by(request: &SaAdd) -> Option<(Direction, Spi, Option<IpAddr>, Option<IpAddr>)> {
    let SpiRequest::This(spi) = request.spi else { return None };
    let (local, remote) = match (request.direction, request.match_word()) {
        (Direction::Out, _) => (None, Some(request.remote)),
        (Direction::In, Some("spi+dst")) => (Some(request.local), None),
        (Direction::In, Some("spi+dst+src")) => (Some(request.local), Some(request.remote)),
        (Direction::In, _) => (None, None),
    };
    Some((request.direction, spi, local, remote))
}

/// Whether a daemon could take every entry; what depends on its state (a name, an SPI in use) it says itself.
fn check(name: &str, entries: &[Entry], suites: &Suites) -> anyhow::Result<()> {
    let mut book = SpdRules::naming(suites, Classes::OfWhoeverTakesIt);
    let mut named = HashMap::new();
    for entry in entries {
        let checked = match &entry.what {
            ImportItem::Sa(request) => associations::check(request, Some(suites)).and_then(|()| {
                let Some(before) = found_by(request).and_then(|by| named.insert(by, entry.line)) else {
                    return Ok(());
                };
                let text =
                    format!("line {before} has an association with this SPI already ({})", request.direction);
                Err(ApiError::new(Blame::Conflict, text).remedy("give one of the two another SPI"))
            }),
            ImportItem::Rule(request) => {
                let place = request.place.clone().filter(|place| !place.contains(':'));
                book.add(&SpdAdd { place, ..(**request).clone() }).map(drop)
            }
            ImportItem::FlushSas | ImportItem::FlushRules => Ok(()),
        };
        checked.map_err(|refused| {
            let remedy = refused.remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
            Failure::bad_input(format!("{name}:{}: {}{remedy}", entry.line, refused.message))
        })?;
    }
    Ok(())
}
