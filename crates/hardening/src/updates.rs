//! Updates by the provider's recommendations (paper 004 section 8, fourth remedy): made by themselves, from lists that
//! are fresh, and in force.

use std::cmp::Ordering;

use api::Check;

use crate::finding::{Outcome, age, check, listed, or_unknown};
use crate::tree::{ReadError, Tree};
use crate::units;

/// The seconds that lists of packages may be old: one week.
const MOST_AGE: u64 = 7 * 86_400;

/// What apt and dnf touch when they fetched every list.
const FETCHED: [&str; 2] = ["/var/lib/apt/periodic/update-success-stamp", "/var/cache/dnf/last_makecache"];
/// The folder of apt's lists, whose time stamps are the archive's: those of security updates are renewed within days.
const APT_LISTS: &str = "/var/lib/apt/lists";
/// The folder where dnf keeps the lists of each repository.
const DNF_LISTS: &str = "/var/cache/libdnf5";

/// What a package leaves when the host must be started anew.
const MARKERS: [&str; 3] = ["/run/reboot-required", "/var/run/reboot-required", "/run/needs-reboot"];

/// The timer of apt that installs updates by itself.
const APT_TIMER: &str = "apt-daily-upgrade.timer";
/// The timers of dnf that install updates by themselves.
const DNF_TIMERS: [&str; 3] = ["dnf-automatic.timer", "dnf-automatic-install.timer", "dnf5-automatic.timer"];

/// Makes the checks of the updates.
pub(crate) fn checks(tree: &Tree) -> Vec<Check> {
    let automatic = "`apt install unattended-upgrades && dpkg-reconfigure -plow unattended-upgrades`, or `dnf install \
                     dnf-automatic && systemctl enable --now dnf-automatic-install.timer`";
    vec![
        check("automatic", or_unknown(automatic_updates(tree)), automatic),
        check(
            "package lists",
            package_lists(tree),
            "`apt update`, or `dnf makecache`; see why it was not done by itself",
        ),
        check(
            "reboot",
            or_unknown(reboot(tree)),
            "`systemctl reboot`: what was updated is not in force before",
        ),
    ]
}

fn automatic_updates(tree: &Tree) -> Result<Outcome, ReadError> {
    let mut missing = Vec::new();
    if tree.has("/etc/apt")? {
        let mut periodic = None;
        let names = tree.names_if_there("/etc/apt/apt.conf.d")?;
        // Copies that dpkg and editors leave have another end, and apt does not read them.
        let read = names.iter().filter(|name| !name.contains('.') || name.ends_with(".conf"));
        let paths: Vec<String> = read.map(|name| format!("/etc/apt/apt.conf.d/{name}")).collect();
        for path in paths.iter().map(String::as_str).chain(["/etc/apt/apt.conf"]) {
            let text = tree.text_if_there(path)?.unwrap_or_default();
            periodic = apt_setting(&text, "APT::Periodic::Unattended-Upgrade").or(periodic);
        }
        let is_timed = units::enabled(tree)?.contains(APT_TIMER);
        let is_on = periodic.as_deref().is_some_and(|value| !matches!(value, "0" | "" | "never"));
        match (tree.has("/usr/bin/unattended-upgrade")?, is_on) {
            (true, true) if !is_timed => missing.push(format!("{APT_TIMER} is not enabled")),
            (true, true) => {
                return Ok(Outcome::Good("apt installs updates by itself (unattended-upgrades)".to_owned()));
            }
            (false, _) => missing.push("unattended-upgrades is not installed".to_owned()),
            (true, false) => missing.push("APT::Periodic::Unattended-Upgrade is not on".to_owned()),
        }
    }
    if tree.has("/etc/dnf")? {
        let text = tree.text_if_there("/etc/dnf/automatic.conf")?.unwrap_or_default();
        let applies = units::last_value(&text, "apply_updates").is_some_and(|value| value == "yes");
        let all = units::enabled(tree)?;
        let timer = DNF_TIMERS.iter().find(|timer| all.contains(**timer));
        match timer {
            Some(timer) if applies || timer.contains("install") => {
                return Ok(Outcome::Good(format!("dnf installs updates by itself ({timer})")));
            }
            Some(_) => missing.push("apply_updates of /etc/dnf/automatic.conf is not yes".to_owned()),
            None => missing.push("no timer of dnf-automatic is enabled".to_owned()),
        }
    }
    Ok(match missing.is_empty() {
        true => Outcome::Unknown("neither apt nor dnf is here".to_owned()),
        false => Outcome::Bad(listed(&missing)),
    })
}

/// The last value of a setting of apt.conf(5): `NAME "VALUE";`, where braces may stand around the end of the name.
fn apt_setting(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.starts_with('#'));
    let text = lines.collect::<Vec<_>>().join("\n");
    let is_named = |key: &str| {
        let above = name.len().checked_sub(key.len()).and_then(|at| name.split_at_checked(at));
        above.is_some_and(|(above, rest)| {
            rest.eq_ignore_ascii_case(key) && (above.is_empty() || above.ends_with("::"))
        })
    };
    let mut values = text.split(['{', '}', ';']).filter_map(|statement| {
        let (key, value) = statement.trim().split_once(char::is_whitespace)?;
        is_named(key).then(|| value.trim().trim_matches('"').to_owned())
    });
    values.next_back()
}

fn package_lists(tree: &Tree) -> Outcome {
    let mut ages = Vec::new();
    let mut unread = Vec::new();
    let mut look = |path: String| match tree.age(path) {
        Ok(age) => ages.push(age),
        Err(error) if error.is_absent() => {}
        Err(error) => unread.push(error.to_string()),
    };
    FETCHED.iter().for_each(|path| look((*path).to_owned()));
    let lists = tree.names_if_there(APT_LISTS).unwrap_or_default();
    let releases = lists.iter().filter(|name| name.ends_with("Release"));
    releases.for_each(|name| look(format!("{APT_LISTS}/{name}")));
    let repositories = tree.names_if_there(DNF_LISTS).unwrap_or_default();
    repositories.iter().for_each(|name| look(format!("{DNF_LISTS}/{name}/repodata/repomd.xml")));
    match ages.iter().min() {
        None if unread.is_empty() => Outcome::Unknown("neither apt nor dnf left a trace of lists".to_owned()),
        None => Outcome::Unknown(listed(&unread)),
        Some(youngest) if *youngest > MOST_AGE => {
            Outcome::Bad(format!("the youngest list is {} old", age(*youngest)))
        }
        Some(youngest) => Outcome::Good(format!("the youngest list is {} old", age(*youngest))),
    }
}

fn reboot(tree: &Tree) -> Result<Outcome, ReadError> {
    for path in MARKERS {
        if tree.has(path)? {
            let packages = tree.text_if_there(format!("{path}.pkgs"))?.unwrap_or_default();
            let mut names: Vec<String> = packages.lines().map(str::to_owned).collect();
            names.dedup();
            let why = if names.is_empty() { String::new() } else { format!(", for {}", listed(&names)) };
            return Ok(Outcome::Bad(format!("{path} is there{why}")));
        }
    }
    let running = tree.text("/proc/sys/kernel/osrelease")?.trim().to_owned();
    let kernels = tree.names_if_there("/boot")?;
    let installed = kernels.iter().filter_map(|name| name.strip_prefix("vmlinuz-"));
    // Fedora keeps a kernel to rescue a host, which has no version.
    let newest = installed.filter(|release| !release.contains("rescue")).max_by(|a, b| by_version(a, b));
    Ok(match newest {
        None => Outcome::Unknown(format!("/boot has no kernel to compare {running} with")),
        Some(newest) if by_version(newest, &running) == Ordering::Greater => {
            Outcome::Bad(format!("{running} runs, and {newest} is installed"))
        }
        Some(_) => Outcome::Good(format!(
            "{running} is the newest kernel installed, and no package asks for a reboot"
        )),
    })
}

/// The order of two releases of a kernel: numbers as numbers, everything else as text.
fn by_version(a: &str, b: &str) -> Ordering {
    parts(a).cmp(&parts(b))
}

/// The parts of a release. A number is its length without leading zeros and its digits, so that any length compares.
fn parts(release: &str) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    for piece in release.split(['.', '-', '+', '~', '_']) {
        let at = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
        let (digits, text) = piece.split_at(at);
        let digits = digits.trim_start_matches('0');
        out.push((digits.len(), digits.to_owned()));
        out.push((0, text.to_owned()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_the_order_of_their_numbers() {
        for (older, newer) in [
            ("6.1.0-9-amd64", "6.1.0-10-amd64"),
            ("6.9.1", "6.12.0"),
            ("6.12.9+deb13-amd64", "6.12.17+deb13-amd64"),
            ("5.14.0-362.el9", "5.14.0-503.el9"),
        ] {
            assert_eq!(by_version(older, newer), Ordering::Less, "{older} {newer}");
            assert_eq!(by_version(newer, older), Ordering::Greater);
        }
        assert_eq!(by_version("6.1.0-9-amd64", "6.1.0-9-amd64"), Ordering::Equal);
    }

    #[test]
    fn the_last_word_of_apt_counts() {
        let text = "// APT::Periodic::Unattended-Upgrade \"0\";\nAPT::Periodic::Unattended-Upgrade \"1\";\n";
        assert_eq!(apt_setting(text, "APT::Periodic::Unattended-Upgrade").as_deref(), Some("1"));
        assert_eq!(apt_setting(text, "APT::Periodic::Enable"), None);
        let nested = "APT { Periodic { Unattended-Upgrade \"0\"; }; };";
        assert_eq!(apt_setting(nested, "APT::Periodic::Unattended-Upgrade").as_deref(), Some("0"));
        let other = "Unattended-Upgrade::Mail \"root\";\nAPT::Periodic::Download-Unattended-Upgrade \"0\";";
        assert_eq!(apt_setting(other, "APT::Periodic::Unattended-Upgrade"), None);
    }
}
