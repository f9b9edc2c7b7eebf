//! Integrity and intrusion detection (paper 004 section 8, fifth remedy): what notices that a file of the host was
//! changed, whether our own files were, and what notices an intruder.

use std::path::Path;

use api::Check;
use cipher_manifest::{Digest, FileReference, Manifest};

use crate::finding::{Outcome, Tally, age, check, listed, or_unknown};
use crate::own_files;
use crate::settings::Settings;
use crate::tree::{ReadError, Tree};
use crate::units;

/// The seconds since the last comparison of the host's files: two runs of a weekly timer may miss each other by a day.
const MOST_CHECK_AGE: u64 = 8 * 86_400;
/// The octets that a library of a cipher may have, as the daemon's loader has it.
const MOST_LIBRARY: u64 = 64 << 20;

/// A program that watches the host or its network: its units, the files that it writes, and the seconds after which its
/// silence means that it does not run.
struct Watcher {
    name: &'static str,
    units: &'static [&'static str],
    traces: &'static [&'static str],
    most_silence: u64,
}

/// Suricata writes its statistics every few seconds, Zeek and the agents at least once a day; the others speak of attempts
/// alone, which are rare on a quiet host.
const WATCHERS: [Watcher; 6] = [
    Watcher {
        name: "suricata",
        units: &["suricata.service"],
        traces: &["/var/log/suricata/stats.log", "/var/log/suricata/eve.json", "/var/log/suricata/fast.log"],
        most_silence: 3600,
    },
    Watcher {
        name: "snort",
        units: &["snort.service", "snort3.service"],
        traces: &["/var/log/snort"],
        most_silence: 86_400,
    },
    Watcher {
        name: "zeek",
        units: &["zeek.service"],
        traces: &["/opt/zeek/logs/current", "/var/log/zeek/current", "/var/log/zeek"],
        most_silence: 86_400,
    },
    Watcher {
        name: "wazuh",
        units: &["wazuh-agent.service", "wazuh-manager.service"],
        traces: &["/var/ossec/logs/ossec.log"],
        most_silence: 86_400,
    },
    Watcher {
        name: "crowdsec",
        units: &["crowdsec.service"],
        traces: &["/var/log/crowdsec.log"],
        most_silence: 7 * 86_400,
    },
    Watcher {
        name: "fail2ban",
        units: &["fail2ban.service"],
        traces: &["/var/log/fail2ban.log"],
        most_silence: 7 * 86_400,
    },
];

/// The traces of AIDE: its database, and what a comparison writes.
const AIDE: [&str; 3] = ["/var/lib/aide/aide.db", "/var/lib/aide/aide.db.gz", "/var/lib/aide/aide.db.zst"];
const AIDE_LOGS: [&str; 2] = ["/var/log/aide/aide.log", "/var/log/aide.log"];

/// Makes the checks of the integrity.
pub(crate) fn checks(tree: &Tree, settings: &Settings) -> Vec<Check> {
    let checker = "`apt install aide && aideinit`, and `systemctl enable --now dailyaidecheck.timer`; or debsums with \
                   CRON_CHECK=daily in /etc/default/debsums";
    let own = format!(
        "`apt install --reinstall ravelin` if nobody meant it; record what is meant and has no package by \
         `sha256sum FILE >> {}`",
        own_files::LIST
    );
    let ciphers = "install the cipher's files again, or write the digest of the manifest that is meant into its [[cipher]] \
                   table: `sha256sum MANIFEST`";
    let detection = "`apt install suricata && systemctl enable --now suricata`, with the outer interface in \
                     /etc/suricata/suricata.yaml";
    vec![
        check("file integrity", or_unknown(checker_of_files(tree)), checker),
        check("own files", or_unknown(own_files::judge(tree)), own),
        check("cipher files", or_unknown(cipher_files(tree, settings)), ciphers),
        check("intrusion", or_unknown(intrusion_detection(tree)), detection),
    ]
}

/// The youngest of these that is there.
fn youngest(tree: &Tree, paths: &[&str]) -> Result<Option<u64>, ReadError> {
    let mut found: Option<u64> = None;
    for path in paths {
        match tree.age(path) {
            Ok(age) => found = Some(found.map_or(age, |known| known.min(age))),
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn checker_of_files(tree: &Tree) -> Result<Outcome, ReadError> {
    let line = tree.text_if_there("/proc/cmdline")?.unwrap_or_default();
    if line.split_whitespace().any(|word| word == "ima_appraise=enforce") {
        return Ok(Outcome::Good(
            "the kernel refuses files that were changed (ima_appraise=enforce)".to_owned(),
        ));
    }
    let mut wrong = Vec::new();
    if youngest(tree, &AIDE)?.is_some() {
        match youngest(tree, &AIDE_LOGS)? {
            Some(old) if old <= MOST_CHECK_AGE => {
                return Ok(Outcome::Good(format!("aide compared the host's files {} ago", age(old))));
            }
            Some(old) => wrong.push(format!("aide compared the host's files {} ago", age(old))),
            None => wrong.push("aide has a database and never compared the host's files".to_owned()),
        }
    }
    if tree.has("/usr/bin/debsums")? {
        let text = tree.text_if_there("/etc/default/debsums")?.unwrap_or_default();
        let when = units::last_value(&text, "CRON_CHECK").unwrap_or_default();
        let when = when.trim_matches(['"', '\'']);
        if matches!(when, "daily" | "weekly") {
            return Ok(Outcome::Good(format!("debsums compares the files of packages {when}")));
        }
        wrong.push("debsums is installed and compares nothing by itself".to_owned());
    }
    if wrong.is_empty() {
        wrong.push("neither aide nor debsums nor the kernel's IMA looks at the host's files".to_owned());
    }
    Ok(Outcome::Bad(listed(&wrong)))
}

fn cipher_files(tree: &Tree, settings: &Settings) -> Result<Outcome, ReadError> {
    let tables = match &settings.table {
        Err(error) => return Ok(Outcome::Unknown(error.to_string())),
        Ok(table) => {
            table.get("cipher").and_then(toml::Value::as_array).map(Vec::as_slice).unwrap_or_default()
        }
    };
    let mut tally = Tally::default();
    let mut files = 0_usize;
    for table in tables {
        let text = |key: &str| table.get(key).and_then(toml::Value::as_str);
        let Some(manifest) = text("manifest") else { continue };
        let path = settings.beside(manifest);
        let shown = path.display();
        let Some(wanted) = text("sha256").and_then(|text| text.parse::<Digest>().ok()) else {
            tally.bad(format!("{shown} has no digest in its [[cipher]] table"));
            continue;
        };
        let most = u64::try_from(Manifest::MOST_OCTETS).unwrap_or(u64::MAX);
        let Some(octets) = guarded(tree, &mut tally, &path, most) else { continue };
        files = files.saturating_add(1);
        if Digest::of(&octets) != wanted {
            tally.bad(format!("{shown} is not the manifest that the configuration means"));
            continue;
        }
        match Manifest::parse(&octets) {
            Err(error) => tally.bad(format!("{shown}: {error}")),
            Ok(manifest) => {
                for FileReference { file, sha256 } in [manifest.library, manifest.vectors] {
                    let path = path.parent().unwrap_or(Path::new("/")).join(file);
                    let Some(octets) = guarded(tree, &mut tally, &path, MOST_LIBRARY) else { continue };
                    files = files.saturating_add(1);
                    if Digest::of(&octets) != sha256 {
                        tally.bad(format!("{} is not what its manifest says", path.display()));
                    }
                }
            }
        }
    }
    let good = match files {
        0 => "no library of a cipher is configured".to_owned(),
        n => format!("{n} files of ciphers are what the configuration and the manifests say"),
    };
    Ok(tally.outcome(good))
}

/// The content of a file that only root can change; else what is wrong is noted.
fn guarded(tree: &Tree, tally: &mut Tally, path: &Path, most: u64) -> Option<Vec<u8>> {
    match tree.is_guarded(path) {
        Err(error) if error.is_absent() => {
            tally.bad(error.to_string());
            return None;
        }
        Err(error) => {
            tally.unknown(error);
            return None;
        }
        Ok(Err(why)) => tally.bad(why),
        Ok(Ok(())) => {}
    }
    tally.read(tree.octets(path, most))
}

fn intrusion_detection(tree: &Tree) -> Result<Outcome, ReadError> {
    let all = units::enabled(tree)?;
    let mut wrong = Vec::new();
    for watcher in &WATCHERS {
        let is_enabled = watcher.units.iter().any(|unit| all.contains(*unit));
        if !is_enabled {
            continue;
        }
        match youngest(tree, watcher.traces)? {
            Some(old) if old <= watcher.most_silence => {
                return Ok(Outcome::Good(format!("{} wrote {} ago", watcher.name, age(old))));
            }
            Some(old) => wrong.push(format!("{} is enabled and silent since {}", watcher.name, age(old))),
            None => wrong.push(format!("{} is enabled and never wrote", watcher.name)),
        }
    }
    if wrong.is_empty() {
        let names: Vec<&str> = WATCHERS.iter().map(|watcher| watcher.name).collect();
        wrong.push(format!("none of {} is enabled", names.join(", ")));
    }
    Ok(Outcome::Bad(listed(&wrong)))
}
