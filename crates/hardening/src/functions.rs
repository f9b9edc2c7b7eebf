//! Functions that a gateway does not need (paper 004 section 8, second remedy): settings of the kernel, and what a
//! process leaves behind when it dies.

use api::Check;

use crate::finding::{Outcome, Tally, check, or_unknown};
use crate::settings::Settings;
use crate::tree::{ReadError, Tree};
use crate::units;

/// The unit of the daemon.
const UNIT: &str = "ravelin.service";

/// A setting that is not as it should be: its name below /proc/sys, and the value that it should have.
type Setting = (String, i64);

/// Makes the checks of the functions.
pub(crate) fn checks(tree: &Tree, settings: &Settings) -> Vec<Check> {
    let core =
        "`systemctl edit ravelin` with `[Service]` and `LimitCORE=0`, and `sysctl -w fs.suid_dumpable=0`";
    vec![
        settings_check("redirects", redirects(tree), "no redirect is heard or sent"),
        settings_check("source routing", source_routing(tree), "no sender chooses the way of a packet"),
        router_advertisements(tree, settings),
        kexec(tree),
        settings_check(
            "bpf",
            at_least(tree, &[("kernel/unprivileged_bpf_disabled", 1)]),
            "root alone loads programs",
        ),
        settings_check(
            "kernel addresses",
            at_least(tree, &[("kernel/kptr_restrict", 1), ("kernel/dmesg_restrict", 1)]),
            "addresses and messages of the kernel are root's",
        ),
        ptrace(tree),
        check("core dumps", or_unknown(core_dumps(tree)), core),
    ]
}

/// Whether the kernel has no such setting, which is known where others are there.
fn has_none(tree: &Tree, name: &str) -> bool {
    let there = |name: &str| tree.has(format!("/proc/sys/{name}"));
    matches!((there("kernel/osrelease"), there(name)), (Ok(true), Ok(false)))
}

fn kexec(tree: &Tree) -> Check {
    const SETTING: &str = "kernel/kexec_load_disabled";
    const GOOD: &str = "no other kernel can be started";
    if has_none(tree, SETTING) {
        return settings_check("kexec", Default::default(), GOOD);
    }
    settings_check("kexec", at_least(tree, &[(SETTING, 1)]), GOOD)
}

fn ptrace(tree: &Tree) -> Check {
    const SETTING: &str = "kernel/yama/ptrace_scope";
    if has_none(tree, "kernel/yama") {
        let found = "the kernel has no Yama, so a process may read each other one of its user";
        let remedy = "boot with Yama among `lsm=`, or a kernel that has it (CONFIG_SECURITY_YAMA)";
        return check("ptrace", Outcome::Bad(found.to_owned()), remedy);
    }
    settings_check("ptrace", at_least(tree, &[(SETTING, 1)]), "no process reads its neighbours")
}

fn value(tree: &Tree, name: &str) -> Result<i64, ReadError> {
    let path = format!("/proc/sys/{name}");
    let text = tree.text(&path)?;
    text.trim().parse().map_err(|_| ReadError::Other(path.into(), "this is no number".to_owned()))
}

/// The check of some settings, and the line to type for those that are wrong.
fn settings_check(name: &str, (tally, wanted): (Tally, Vec<Setting>), good: &str) -> Check {
    check(name, tally.outcome(good), remedy(&wanted))
}

fn remedy(wanted: &[Setting]) -> String {
    // A name that a shell would read as something else is not offered to be typed.
    let is_plain = |name: &str| name.bytes().all(|c| c.is_ascii_alphanumeric() || b"/._-".contains(&c));
    let lines: Vec<String> = wanted
        .iter()
        .filter(|(name, _)| is_plain(name))
        .map(|(name, value)| format!("'{name} = {value}'"))
        .collect();
    match lines.is_empty() {
        true => "look at /proc/sys on the host itself, as root".to_owned(),
        false => format!(
            "`printf '%s\\n' {} >> /etc/sysctl.d/90-hardening.conf && sysctl --system`",
            lines.join(" ")
        ),
    }
}

/// Settings that should have at least these values.
fn at_least(tree: &Tree, wanted: &[(&str, i64)]) -> (Tally, Vec<Setting>) {
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    for (name, least) in wanted {
        expect(tree, &mut tally, &mut wrong, name, *least, |value| value >= *least);
    }
    (tally, wrong)
}

fn expect(
    tree: &Tree,
    tally: &mut Tally,
    wrong: &mut Vec<Setting>,
    name: &str,
    wanted: i64,
    is_right: impl Fn(i64) -> bool,
) {
    let Some(value) = tally.read(value(tree, name)) else { return };
    if !is_right(value) {
        tally.bad(format!("{name} is {value}"));
        wrong.push((name.to_owned(), wanted));
    }
}

/// The names of a family's sets of settings: `all`, `default` and the interfaces but the loopback. Empty where the kernel
/// has no such family.
fn interfaces(tree: &Tree, family: &str) -> Result<Vec<String>, ReadError> {
    if family == "ipv6" && tree.has("/proc/sys/net")? && !tree.has("/proc/sys/net/ipv6")? {
        return Ok(Vec::new());
    }
    let names = tree.names(format!("/proc/sys/net/{family}/conf"))?;
    Ok(names.into_iter().filter(|name| name != "lo").collect())
}

/// Each setting of a family's sets should be 0.
fn zero(tree: &Tree, tally: &mut Tally, wrong: &mut Vec<Setting>, family: &str, keys: &[&str]) {
    let Some(names) = tally.read(interfaces(tree, family)) else { return };
    for name in names {
        for key in keys {
            // Below 0, IPv6 accepts no routing header of any type.
            expect(tree, tally, wrong, &format!("net/{family}/conf/{name}/{key}"), 0, |value| value <= 0);
        }
    }
}

/// An interface hears redirects of IPv4 by its own setting or by that of `all`, whichever is stricter or laxer as the host
/// forwards or not, so each of them counts.
fn redirects(tree: &Tree) -> (Tally, Vec<Setting>) {
    let (mut tally, mut wrong) = Default::default();
    zero(tree, &mut tally, &mut wrong, "ipv4", &["accept_redirects", "send_redirects"]);
    zero(tree, &mut tally, &mut wrong, "ipv6", &["accept_redirects"]);
    (tally, wrong)
}

fn source_routing(tree: &Tree) -> (Tally, Vec<Setting>) {
    let (mut tally, mut wrong) = Default::default();
    zero(tree, &mut tally, &mut wrong, "ipv4", &["accept_source_route"]);
    zero(tree, &mut tally, &mut wrong, "ipv6", &["accept_source_route"]);
    (tally, wrong)
}

/// A gateway that hears router advertisements takes its routes from whoever is on the link.
fn router_advertisements(tree: &Tree, settings: &Settings) -> Check {
    const NAME: &str = "router adverts";
    let (mut tally, mut wrong) = <(Tally, Vec<Setting>)>::default();
    let forwards = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"].map(|name| value(tree, name));
    let is_gateway = settings.is_gateway() || forwards.iter().flatten().any(|value| *value != 0);
    if !is_gateway {
        let [v4, _] = forwards;
        tally.read(v4);
        return check(
            NAME,
            tally.outcome("the host is no gateway"),
            "look at /proc/sys on the host itself, as root",
        );
    }
    let names = tally.read(interfaces(tree, "ipv6")).unwrap_or_default();
    for name in names {
        let Some(forwarding) = tally.read(value(tree, &format!("net/ipv6/conf/{name}/forwarding"))) else {
            continue;
        };
        // 1 is without effect on an interface that forwards; 2 is not (ip-sysctl of the kernel's documentation).
        let is_deaf = |value: i64| value <= 0 || (value == 1 && forwarding != 0);
        expect(tree, &mut tally, &mut wrong, &format!("net/ipv6/conf/{name}/accept_ra"), 0, is_deaf);
    }
    settings_check(NAME, (tally, wrong), "no router advertisement is heard")
}

fn core_dumps(tree: &Tree) -> Result<Outcome, ReadError> {
    let mut tally = Tally::default();
    if let Some(dumpable) = tally.read(value(tree, "fs/suid_dumpable"))
        && dumpable != 0
    {
        tally.bad(format!(
            "fs/suid_dumpable is {dumpable}: a process that gave rights up leaves its memory behind"
        ));
    }
    if units::file(tree, UNIT)?.is_none() {
        tally.unknown(format!("{UNIT} is not there"));
    } else {
        match units::setting(tree, UNIT, "LimitCORE")? {
            Some(limit) if limit == "0" || limit == "0:0" => {}
            Some(limit) => tally.bad(format!("{UNIT} has LimitCORE={limit}")),
            None => tally.bad(format!("{UNIT} has no LimitCORE=0")),
        }
    }
    Ok(tally.outcome("neither the daemon nor a process that gave rights up leaves its memory behind"))
}
