//! Events logged on another node (paper 004 section 8, sixth remedy): a log that an intruder cannot take away, and
//! whether the other node heard of it lately.

use std::net::IpAddr;
use std::path::Path;

use api::Check;

use crate::finding::{Outcome, Tally, age, check, listed, or_unknown};
use crate::settings::Settings;
use crate::spool::{self, Collector};
use crate::tree::{ReadError, Tree};
use crate::units;

/// The seconds of silence after which a collector is said not to hear: heartbeats and uploads come each minute.
const MOST_SILENCE: u64 = 3600;
/// What the upload of the journal writes when the collector took something.
const UPLOADED: [&str; 2] =
    ["/var/lib/systemd/journal-upload/state", "/var/lib/private/systemd/journal-upload/state"];
/// The units by which a log leaves the host.
const RSYSLOG: [&str; 2] = ["rsyslog.service", "syslog.service"];
const SYSLOG_NG: &str = "syslog-ng.service";
const UPLOAD: &str = "systemd-journal-upload.service";

/// A way by which the log leaves the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogRoute {
    /// `[audit.remote]` of the configuration.
    Audit,
    /// The upload of the journal: systemd-journal-upload(8).
    Journal,
    /// rsyslogd(8), which keeps no mark of what the other node took.
    Rsyslog,
    /// syslog-ng(8), which keeps none either.
    SyslogNg,
}

impl LogRoute {
    fn name(self) -> &'static str {
        match self {
            LogRoute::Audit => "[audit.remote]",
            LogRoute::Journal => "systemd-journal-upload",
            LogRoute::Rsyslog => "rsyslog",
            LogRoute::SyslogNg => "syslog-ng",
        }
    }
}

/// Makes the checks of the log.
pub(crate) fn checks(tree: &Tree, settings: &Settings) -> Vec<Check> {
    let table = "write [audit.remote] with `server`, `name`, `ca`, `certificate` and `key` into the configuration, or `*.* @@COLLECTOR:6514` with TLS \
                 into /etc/rsyslog.d/remote.conf";
    let heard = "see on the collector what came last; `systemctl status ravelin systemd-journal-upload rsyslog` says why \
                 nothing does";
    let audit =
        "write `file = \"/var/log/ravelin/audit.jsonl\"` into [audit], then `systemctl restart ravelin`";
    let ways = ways(tree, settings);
    let configured = match &ways {
        Err(error) => Outcome::from(error.clone()),
        Ok((ways, _)) if !ways.is_empty() => {
            let names: Vec<&str> = ways.iter().map(|way| way.name()).collect();
            Outcome::Good(format!("the log leaves the host by {}", names.join(", ")))
        }
        Ok((_, unknown)) => match unknown {
            Some(why) => Outcome::Unknown(why.clone()),
            None => Outcome::Bad("no log leaves the host".to_owned()),
        },
    };
    let heard_of = ways.and_then(|(ways, _)| heard_lately(tree, settings, &ways));
    vec![
        check("remote log", configured, table),
        check("remote heard", or_unknown(heard_of), heard),
        check("audit log", or_unknown(audit_log(tree, settings)), audit),
    ]
}

/// The ways that are configured; and why one may be missed, if that is so.
fn ways(tree: &Tree, settings: &Settings) -> Result<(Vec<LogRoute>, Option<String>), ReadError> {
    let mut out = Vec::new();
    let is_table = settings.get(&["audit", "remote"]).is_some_and(toml::Value::is_table);
    out.extend(is_table.then_some(LogRoute::Audit));
    let all = units::enabled(tree)?;
    if all.contains(UPLOAD) {
        let mut url = None;
        for path in texts(tree, "/etc/systemd/journal-upload.conf", "/etc/systemd/journal-upload.conf.d")? {
            url = units::last_value(&tree.text(path)?, "URL").or(url);
        }
        let host = url.as_deref().map(host_of_url);
        out.extend(host.is_some_and(is_elsewhere).then_some(LogRoute::Journal));
    }
    if RSYSLOG.iter().any(|unit| all.contains(*unit)) {
        for path in texts(tree, "/etc/rsyslog.conf", "/etc/rsyslog.d")? {
            if rsyslog_targets(&tree.text(path)?).iter().any(is_elsewhere) {
                out.push(LogRoute::Rsyslog);
                break;
            }
        }
    }
    if all.contains(SYSLOG_NG) {
        for path in texts(tree, "/etc/syslog-ng/syslog-ng.conf", "/etc/syslog-ng/conf.d")? {
            if syslog_ng_targets(&tree.text(path)?).iter().any(is_elsewhere) {
                out.push(LogRoute::SyslogNg);
                break;
            }
        }
    }
    Ok((out, settings.table.as_ref().err().map(ToString::to_string)))
}

/// A file, where it is there, and the files `*.conf` of a folder.
fn texts(tree: &Tree, file: &str, folder: &str) -> Result<Vec<String>, ReadError> {
    let mut out = Vec::new();
    if tree.has(file)? {
        out.push(file.to_owned());
    }
    let names = tree.names_if_there(folder)?;
    out.extend(names.iter().filter(|name| name.ends_with(".conf")).map(|name| format!("{folder}/{name}")));
    Ok(out)
}

/// The lines of a text without comments.
fn uncommented(text: &str) -> String {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The hosts that rsyslog forwards to: `@HOST`, `@@HOST` and `:omrelp:HOST` behind a selector, and the targets of actions
/// of omfwd and omrelp (rsyslog.conf(5)).
fn rsyslog_targets(text: &str) -> Vec<String> {
    let text = uncommented(text);
    let mut out = Vec::new();
    for line in text.lines() {
        let Some((_, action)) = line.trim().split_once(char::is_whitespace) else { continue };
        let action = action.trim();
        if let Some(host) = action.strip_prefix(":omrelp:").or_else(|| action.strip_prefix('@')) {
            // Options stand in parentheses in front, a template behind a semicolon.
            let host = host.trim_start_matches('@');
            let host =
                host.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(host, |(_, host)| host);
            out.push(host_of(host.split(';').next().unwrap_or_default()));
        }
    }
    for action in text.split("action").skip(1) {
        let inside = action.trim_start().strip_prefix('(').and_then(|rest| rest.split(')').next());
        let Some(inside) = inside else { continue };
        if matches!(parameter(inside, "type"), Some("omfwd" | "omrelp")) {
            out.extend(parameter(inside, "target").map(str::to_owned));
        }
    }
    out
}

/// The value of a parameter `NAME="VALUE"` among others, whatever the case of its name.
fn parameter<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut parts = text.split('"');
    while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
        let key = key.trim_end().strip_suffix('=')?.trim_end();
        let key = key.rsplit(char::is_whitespace).next().unwrap_or(key);
        if key.eq_ignore_ascii_case(name) {
            return Some(value);
        }
    }
    None
}

/// The hosts that a destination of syslog-ng sends to.
fn syslog_ng_targets(text: &str) -> Vec<String> {
    let text = uncommented(text);
    let destinations = text.split("destination").skip(1).filter_map(|rest| rest.split('}').next());
    let drivers = ["network", "syslog", "tcp", "udp"];
    destinations
        .flat_map(|inside| drivers.iter().flat_map(|driver| inside.split(driver).skip(1)))
        .filter_map(|rest| rest.trim_start().strip_prefix('('))
        .filter_map(|rest| rest.trim_start().strip_prefix('"'))
        .filter_map(|rest| rest.split('"').next())
        .map(str::to_owned)
        .collect()
}

/// The host in `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`.
fn host_of(text: &str) -> String {
    let text = text.trim();
    if let Some((address, _)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address.to_owned();
    }
    match text.rsplit_once(':') {
        Some((host, _)) if !host.contains(':') => host.to_owned(),
        _ => text.to_owned(),
    }
}

fn host_of_url(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    host_of(rest.split('/').next().unwrap_or_default())
}

/// Whether a host is another one than this.
fn is_elsewhere(host: impl AsRef<str>) -> bool {
    let host = host.as_ref();
    match host.parse::<IpAddr>() {
        Ok(address) => !address.to_canonical().is_loopback() && !address.is_unspecified(),
        Err(_) => !host.is_empty() && !host.eq_ignore_ascii_case("localhost"),
    }
}

fn heard_lately(tree: &Tree, settings: &Settings, ways: &[LogRoute]) -> Result<Outcome, ReadError> {
    if ways.is_empty() {
        return Ok(Outcome::Unknown("no log leaves the host".to_owned()));
    }
    let (mut silent, mut unmarked) = (Vec::new(), Vec::new());
    for way in ways {
        let (heard, most) = match way {
            LogRoute::Audit => {
                let heard = match spool::collector(tree, &settings.audit_spool())? {
                    Collector::Silent => None,
                    Collector::ReadBefore(age) => Some(age),
                };
                // Three heartbeats may be late before anybody is told.
                (heard, settings.heartbeat().saturating_mul(3).max(MOST_SILENCE))
            }
            LogRoute::Journal => {
                let mut ages = Vec::new();
                for mark in UPLOADED {
                    ages.extend(tree.has(mark)?.then(|| tree.age(mark)).transpose()?);
                }
                (ages.into_iter().min(), MOST_SILENCE)
            }
            LogRoute::Rsyslog | LogRoute::SyslogNg => {
                unmarked.push(format!("{} keeps no mark of what the other node took", way.name()));
                continue;
            }
        };
        match heard {
            Some(old) if old <= most => {
                return Ok(Outcome::Good(format!(
                    "by {} the other node took what is older than {}",
                    way.name(),
                    age(old)
                )));
            }
            Some(old) => {
                silent.push(format!("the other node took nothing by {} for {}", way.name(), age(old)))
            }
            None => silent.push(format!("the other node never took anything by {}", way.name())),
        }
    }
    Ok(match silent.is_empty() {
        true => Outcome::Unknown(listed(&unmarked)),
        false => Outcome::Bad(listed(&silent)),
    })
}

fn audit_log(tree: &Tree, settings: &Settings) -> Result<Outcome, ReadError> {
    if let Err(error) = &settings.table {
        return Ok(Outcome::Unknown(error.to_string()));
    }
    let Some(path) = settings.path(&["audit", "file"]) else {
        return Ok(Outcome::Bad(format!("{} has no [audit] with a `file`", settings.file.display())));
    };
    let facts = match tree.facts(&path) {
        Err(error) if error.is_absent() => {
            return Ok(Outcome::Unknown(format!("{error}: the daemon has not run with it")));
        }
        facts => facts?,
    };
    let mut tally = Tally::default();
    // Who may write the folder may put another file there.
    let folder = path.parent().unwrap_or(Path::new("/"));
    for (at, facts) in [(path.as_path(), facts), (folder, tree.facts(folder)?)] {
        if let Err(why) = tree.judge(&facts) {
            tally.bad(format!("{} {why}", at.display()));
        }
    }
    let shown = path.display();
    Ok(tally.outcome(format!("attempts and changes are in {shown}; file and folder are root's to write")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_that_rsyslog_forwards_to_are_found() {
        for (text, hosts) in [
            ("*.* @192.0.2.1", vec!["192.0.2.1"]),
            ("*.*\t@@(o)log.example.org:6514;RSYSLOG_SyslogProtocol23Format", vec!["log.example.org"]),
            ("auth.* :omrelp:[2001:db8::1]:20514", vec!["2001:db8::1"]),
            ("# *.* @192.0.2.1", vec![]),
            ("*.* /var/log/mail@host", vec![]),
            ("action(type=\"omfwd\"\n  Target=\"192.0.2.2\" port=\"514\")", vec!["192.0.2.2"]),
            ("action(type=\"omfile\" target=\"192.0.2.2\")", vec![]),
            ("action(", vec![]),
        ] {
            assert_eq!(rsyslog_targets(text), hosts, "{text}");
        }
        let text = "destination d { network(\"192.0.2.3\" port(601)); }; source s { network(); };";
        assert_eq!(syslog_ng_targets(text), ["192.0.2.3"]);
    }

    #[test]
    fn this_host_is_no_other_node() {
        assert!(["192.0.2.1", "log.example.org", "2001:db8::1"].into_iter().all(is_elsewhere));
        for here in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost", "0.0.0.0", ""] {
            assert!(!is_elsewhere(here), "{here}");
        }
        assert_eq!(host_of_url("https://[2001:db8::1]:19532/x"), "2001:db8::1");
        assert_eq!(host_of_url("http://127.0.0.1:19532"), "127.0.0.1");
    }
}
