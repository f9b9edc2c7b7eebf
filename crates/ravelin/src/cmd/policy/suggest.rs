//! `ravelin policy suggest`: policy text from flows that were seen.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use api::{CountedFlows, FlowInitiator, FlowRecord, path};
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use policy::{ObservedFlow, PrefixWidening, Treatment, from_flows};
use wire::Flow;

use crate::client::Connect;
use crate::complete;
use crate::exit::{Failure, Kind};
use crate::output;

/// The longest line of a flow log that is read.
const MAX_LINE: u64 = 64 << 10;

/// Write a policy for the flows that were seen: of programs that are observed, or of programs without a policy ([flows]
/// unpoliced = true). It goes to standard output; nothing is put in force.
#[derive(Debug, Args)]
pub struct Suggest {
    #[command(flatten)]
    connect: Connect,
    /// From the flows that the kernel half counted: those that go on, and the last that ended.
    #[arg(long, required_unless_present = "log")]
    from_observed: bool,
    /// From a flow log instead, also one of before (may be given several times).
    #[arg(long, value_name = "FILE", conflicts_with = "from_observed")]
    log: Vec<PathBuf>,
    /// Only for this application, or this program without a policy.
    #[arg(long, value_name = "APPLICATION", add = ArgValueCandidates::new(complete::applications))]
    app: Option<String>,
    /// Only flows that were seen since then: a time as in the log (2026-11-22T17:00:00Z), or so long ago (30m, 2h).
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<String>,
    /// What the flows are to get.
    #[arg(long, value_enum, default_value_t = Goal::Intended)]
    want: Goal,
    /// Take the prefix of this length around each IPv4 peer for what was seen.
    #[arg(long, value_name = "LENGTH", value_parser = clap::value_parser!(u8).range(0..=32))]
    widen: Option<u8>,
    /// Take the prefix of this length around each IPv6 peer for what was seen.
    #[arg(long, value_name = "LENGTH", value_parser = clap::value_parser!(u8).range(0..=128))]
    widen6: Option<u8>,
}

/// What flows are to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Goal {
    /// What they got, or, where that is observed, would have got in the way of protection.
    Intended,
    /// To pass in clear.
    Clear,
    /// Authentication, which is mandatory.
    Authentication,
    /// Encryption, which is mandatory.
    Encryption,
}

impl Suggest {
    pub fn execute(self) -> anyhow::Result<()> {
        let records = match self.log.is_empty() {
            true => self.counted()?,
            false => self.logged()?,
        };
        let recent = |record: &&FlowRecord| self.since.as_ref().is_none_or(|since| record.last >= *since);
        let mut unnamed = 0usize;
        let mut seen = Vec::new();
        for record in records.iter().filter(recent) {
            match self.seen(record) {
                Some(one) => seen.push(one),
                None => unnamed += 1,
            }
        }
        if unnamed > 0 {
            eprintln!("ravelin: {unnamed} flows are left out: nobody saw which program they are of");
        }
        if seen.is_empty() {
            let text = "no such flow was seen";
            return Err(Failure::of(
                Kind::Failed,
                format!("{text}; `ravelin flows --ended` lists those that were"),
            ));
        }
        output::text(&from_flows(&seen, PrefixWidening { v4: self.widen, v6: self.widen6 }))
    }

    fn counted(&self) -> anyhow::Result<Vec<FlowRecord>> {
        let fields = [("app", self.app.clone()), ("after", Some("0".to_owned()))];
        let all: CountedFlows =
            self.connect.get(&format!("{}?{}", path::FLOWS_COUNTED, crate::client::query(fields)))?;
        if all.left_out > 0 {
            eprintln!(
                "{} flows are left out: there are too many for one answer; ask with --app",
                all.left_out
            );
        }
        if all.table.lost > 0 {
            eprintln!(
                "ravelin: {} packets found no room in the table: their flows are not here",
                all.table.lost
            );
        }
        Ok(all.live.into_iter().chain(all.ended).collect())
    }

    fn logged(&self) -> anyhow::Result<Vec<FlowRecord>> {
        let mut out = Vec::new();
        for file in &self.log {
            read(file, &mut out)?;
        }
        if let Some(app) = &self.app {
            let is = |record: &FlowRecord| {
                let program = record.program.as_deref().unwrap_or("");
                match record.application.as_str() {
                    "" => program == app || program.rsplit('/').next() == Some(app),
                    application => application == app,
                }
            };
            out.retain(is);
        }
        Ok(out)
    }

    fn seen(&self, record: &FlowRecord) -> Option<ObservedFlow> {
        let program = match record.application.as_str() {
            "" => record.program.clone()?,
            // An executable that is not verified: no application, and refused.
            application if application.starts_with('(') => return None,
            application => application.to_owned(),
        };
        let want = match self.want {
            Goal::Intended => intended(record),
            Goal::Clear => Treatment::Clear,
            Goal::Authentication => Treatment::Authentication,
            Goal::Encryption => Treatment::Encryption,
        };
        let flow = Flow {
            opaque: false,
            local: record.local.ip(),
            remote: record.remote.ip(),
            local_port: record.local.port(),
            remote_port: record.remote.port(),
            protocol: record.protocol,
        };
        Some(ObservedFlow {
            program,
            flow,
            begun_here: record.begun.map(|begun| begun == FlowInitiator::Here),
            want,
        })
    }
}

/// The strictest that any of its packets got, or would have got.
fn intended(record: &FlowRecord) -> Treatment {
    let (out, inn) = (&record.outbound, &record.inbound);
    let any = |amounts: &[api::Amount]| amounts.iter().any(|amount| amount.packets > 0);
    if any(&[out.encrypted, inn.encrypted, out.would_encrypt]) {
        Treatment::Encryption
    } else if any(&[out.authenticated, inn.authenticated, out.would_authenticate]) {
        Treatment::Authentication
    } else {
        Treatment::Clear
    }
}

/// The lines of a flow log; what is none is passed over.
fn read(file: &Path, out: &mut Vec<FlowRecord>) -> anyhow::Result<()> {
    let open = || format!("{}: it cannot be read", file.display());
    let mut lines = BufReader::new(std::fs::File::open(file).with_context(open)?);
    let (mut line, mut strange, mut going) = (Vec::new(), 0usize, BTreeMap::new());
    loop {
        line.clear();
        let count = (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line).with_context(open)?;
        if count == 0 {
            break;
        }
        match serde_json::from_slice::<FlowRecord>(&line) {
            // A flow that goes on for long has several lines, the last of which has all of it.
            Ok(record) => {
                let name = (record.application.clone(), record.protocol, record.local, record.remote);
                let before = match record.end.is_some() {
                    true => going.remove(&name),
                    false => Some(*going.entry(name).or_insert(out.len())),
                };
                match before.and_then(|at| out.get_mut(at)) {
                    Some(before) => *before = record,
                    None => out.push(record),
                }
            }
            Err(_) => strange += 1,
        }
    }
    if strange > 0 {
        eprintln!("ravelin: {}: {strange} lines are no flows", file.display());
    }
    Ok(())
}

/// A time as the log writes it.
fn since(text: &str) -> Result<String, String> {
    let is_time = text.len() >= 20 && text.ends_with('Z') && text.as_bytes().get(10) == Some(&b'T');
    if is_time {
        // Times of the log have a fraction: what begins like this second is not before it.
        return Ok(text.trim_end_matches('Z').to_owned());
    }
    let ago = crate::cmd::debug::seconds(text)?;
    let then = netio::clock::wall().saturating_sub(std::time::Duration::from_secs(ago));
    Ok(daemon::json_log::utc(then).trim_end_matches('Z').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_as_they_are_written() {
        let then = since("2026-11-22T17:00:00Z").unwrap();
        assert!("2026-11-22T17:00:00.000001Z" >= then.as_str());
        assert!("2026-11-22T16:59:59.999999Z" < then.as_str());
        assert!(since("10m").unwrap() < since("1m").unwrap());
        assert!(since("yesterday").is_err());
    }
}
