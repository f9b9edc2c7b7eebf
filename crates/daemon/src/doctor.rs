//! `ravelin doctor`: what the daemon needs from the host, each point tried, each failure with its remedy. `run` makes the same
//! checks and refuses to start where one fails; the programs of the kernel half it loads in earnest, once.

mod compat;
mod finding;
mod firewall;
mod hooks;
mod kernel_sockets;
mod outer;
mod queues;

use api::{Check, CheckState};

use crate::{policy_store, priorities};
use config::Config;
use finding::check;

/// What the kernel half tried.
fn probed(checks: Vec<sockmon::Check>) -> impl Iterator<Item = Check> {
    checks.into_iter().map(|probed| Check {
        name: probed.name.to_owned(),
        state: if probed.ok { CheckState::Ok } else { CheckState::Fail },
        found: probed.detail,
        remedy: (!probed.ok).then_some(probed.remedy),
    })
}

/// Every check, in order. `config` names devices and cgroup to look at; without one only the host is looked at.
pub fn checks(config: Option<&Config>) -> Vec<Check> {
    let mut out = quick_checks(config);
    if let Some(config) = config {
        out.push(policy(config));
        out.extend(ciphers(config));
        out.extend(firewall::check(config));
        out.extend(tun_owner(config));
    }
    out.extend(compat::calls());
    out.extend(hooks::check());
    out.push(queues::check());
    match (kernel().state, rustix::process::geteuid().is_root()) {
        // One sentence is enough.
        (CheckState::Fail, _) => {}
        (_, true) => out.extend(program_checks()),
        (_, false) => out.push(Check {
            name: "bpf programs".to_owned(),
            state: CheckState::Warn,
            found: "not tried: loading them takes root".to_owned(),
            remedy: Some("run `ravelin doctor` as root".to_owned()),
        }),
    }
    out
}

/// Kernels before this one have no tcx.
const OLDEST: (u32, u32) = (6, 6);
/// Kernels on which the demonstration has run (docs/kernels.md); on the first all tests, too.
pub const PROVED: &str = "6.18, 6.12";

fn kernel() -> Check {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    kernel_of(release.trim())
}

fn kernel_of(release: &str) -> Check {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse::<u32>().ok());
    let version = numbers.next().zip(numbers.next());
    let is_proved = PROVED.split(", ").any(|proved| {
        release.strip_prefix(proved).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    let old = version.is_some_and(|version| version < OLDEST);
    let result = match (old, is_proved) {
        (true, _) => {
            Err(format!("{release} is too old: the kernel half needs tcx, which came with Linux 6.6"))
        }
        (false, true) => Ok(format!("{release}, as proved")),
        (false, false) => Ok(format!("{release}; proved are {PROVED}")),
    };
    let remedy = "boot a kernel of 6.6 or later: Debian 12 has one in backports (`apt install -t bookworm-backports \
                  linux-image-amd64`), Debian 13 has 6.12";
    check("kernel", result, remedy)
}

/// The policy file, as `run` would read it.
fn policy(config: &Config) -> Check {
    let file = config.policy.display().to_string();
    let result = match std::fs::read(&config.policy) {
        Err(error) => Err(format!("{file}: {error}")),
        Ok(text) => {
            let parsed = policy::parse_bytes_for(
                &file,
                &text,
                &host_files::HostFiles::here(&config.crypto.ciphers.suites, &config::classes_of(config)),
            );
            let errors = parsed.diagnostics.iter().filter(|one| one.is_error());
            let list: Vec<String> = errors
                .take(4)
                .map(|one| format!("{file}:{}:{}: {}", one.line, one.column, one.message))
                .collect();
            match list.is_empty() {
                true => Ok(format!("{file}, {}", policy::counted(parsed.blocks.len(), "block"))),
                false => Err(list.join("; ")),
            }
        }
    };
    let remedy = if result.as_ref().is_err_and(|text| text.contains("Permission denied")) {
        "run `ravelin doctor` as root"
    } else {
        "`ravelin policy check` points at each error; `ravelin init` writes a first file"
    };
    check("policy", result, remedy)
}

/// Whether the kernel takes the programs, kind by kind; a load of all, which takes seconds.
pub fn program_checks() -> impl Iterator<Item = Check> {
    probed(sockmon::probe_programs())
}

/// Every check but [`program_checks`].
pub fn quick_checks(config: Option<&Config>) -> Vec<Check> {
    let mut out = vec![kernel(), privileges(), suites(), tun(), raw_sockets(), cgroup(config)];
    out.extend(probed(sockmon::probe()));
    out.push(settings());
    out.push(locked_memory());
    out.push(kernel_sockets::check());
    if let Some(config) = config {
        out.push(outer::pins(config));
        out.push(uplinks(config));
        out.extend(outer::io(config));
        out.extend(priorities::check(config));
        out.extend(crate::gateway::checks(config));
        out.extend(
            policy_of(config)
                .iter()
                .flat_map(|compiled| [names(config, compiled), observed(compiled), programs(compiled)])
                .flatten(),
        );
    }
    out
}

fn privileges() -> Check {
    let root = rustix::process::geteuid().is_root();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    // linux/capability.h
    const NEEDED: [(&str, u32); 5] = [
        ("CAP_NET_ADMIN", 12),
        ("CAP_NET_RAW", 13),
        ("CAP_SYS_PTRACE", 19),
        ("CAP_PERFMON", 38),
        ("CAP_BPF", 39),
    ];
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(_, bit)| effective >> bit & 1 == 0).map(|(name, _)| *name).collect();
    let result = match (root, missing.is_empty()) {
        (true, true) => Ok("root with every capability needed".to_owned()),
        (false, _) => Err("not root".to_owned()),
        (true, false) => Err(format!("missing {}", missing.join(", "))),
    };
    check("privileges", result, "run as root, with the capabilities named (in a container: --privileged)")
}

fn suites() -> Check {
    let known = |registry: crypto::Registry| match registry.left_out().next() {
        Some(error) => Err(error.to_string()),
        None => Ok("known answers of every suite are right".to_owned()),
    };
    let result = documents::crypto_units::all().map_err(|error| error.to_string()).and_then(known);
    let remedy = "this machine computes wrong answers: do not encrypt on it; test its memory and processor";
    check("cipher suites", result, remedy)
}

/// The ciphers of one's own that the configuration names, each loaded as `run` would load it.
fn ciphers(config: &Config) -> Vec<Check> {
    if config.crypto.ciphers.tables.is_empty() {
        return Vec::new();
    }
    let (sender, _changes) = crate::workers::changes();
    let mut start = |examined: &_, deadline| crate::workers::start(examined, deadline, &sender);
    let registry = documents::ciphers::add(&config.crypto.ciphers, crypto::Registry::new(), &mut start);
    let loaded = registry.fingerprints().map(|(name, _)| Check {
        name: format!("cipher {name}"),
        state: CheckState::Ok,
        found: "its vectors and checks are right".to_owned(),
        remedy: None,
    });
    let refused = registry.left_out().map(|error| Check {
        name: "cipher".to_owned(),
        state: CheckState::Fail,
        found: error.to_string(),
        remedy: error.remedy().map(str::to_owned),
    });
    loaded.chain(refused).collect()
}

/// A TUN of a name of its own, gone when its descriptor is.
fn tun() -> Check {
    let queues = netio::tun::Queues::One;
    let options = netio::tun::TunOptions { queues, persist: false, offload: true, queue_len: 1 };
    let result = netio::tun::Tun::open("rvl-probe%d", &options).map(|tun| {
        let uso = if tun.carries_udp_super_packets() { "TCP and UDP" } else { "TCP" };
        format!("vnet header, {uso} super-packets")
    });
    check("tun", result.map_err(|error| error.to_string()), "load the module (modprobe tun) and run as root")
}

/// Who may attach to the instance's TUN, if it is there. Not among the quick checks: a start is what mends it.
fn tun_owner(config: &Config) -> Option<Check> {
    let name = &config.tun.name;
    let links = netio::link::Links::open().and_then(|mut links| links.list()).ok()?;
    let link = links.iter().find(|link| link.name == *name)?;
    let several = link.tun_owner.is_some_and(|owner| owner.several_queues);
    let queues = match several {
        true => "it can have several queues",
        false => {
            "it was made with one queue by an earlier version, and a start without --take-over makes it anew"
        }
    };
    let result = match netio::tun::owner_fault(link) {
        None => Ok(format!("{name} is root's, and nobody else may attach to it; {queues}")),
        Some(fault) => Err(fault),
    };
    Some(check(
        "tun owner",
        result,
        "start the daemon, which makes it root's; until then look at who holds it",
    ))
}

fn raw_sockets() -> Check {
    let result = netio::clear::ClearSender::open().map(|_| "can be opened".to_owned());
    check("raw sockets", result.map_err(|error| error.to_string()), "run with CAP_NET_RAW")
}

fn cgroup(config: Option<&Config>) -> Check {
    let place = match config.and_then(|c| c.cgroup.clone()) {
        Some(path) => Ok(path),
        None => netio::cgroup::unified_root(),
    };
    let result =
        place.and_then(netio::cgroup::Cgroup::open).map(|cgroup| cgroup.path().display().to_string());
    let writable = result.map_err(|error| error.to_string()).and_then(|path| {
        let allowed = rustix::fs::access(&path, rustix::fs::Access::WRITE_OK);
        allowed.map(|()| path.clone()).map_err(|error| format!("{path}: {error}"))
    });
    let remedy = "mount cgroup2 writable (mount -t cgroup2 none /sys/fs/cgroup); do not start through `ip netns exec`, \
                  which hides it: use nsenter --net=/run/netns/NAME";
    check("cgroup v2", writable, remedy)
}

/// The settings that `run` makes must be there to be made.
fn settings() -> Check {
    let result = ["net/ipv4/fwmark_reflect", "net/ipv4/tcp_fwmark_accept", "net/ipv4/conf/all/rp_filter"]
        .into_iter()
        .try_for_each(|name| netio::sysctl::get(name).map(drop))
        .map(|()| "fwmark_reflect, tcp_fwmark_accept, rp_filter can be set".to_owned())
        .map_err(|error| error.to_string())
        .and_then(|found| {
            match rustix::fs::access("/proc/sys/net/ipv4/fwmark_reflect", rustix::fs::Access::WRITE_OK) {
                Ok(()) => Ok(found),
                Err(error) => Err(format!("/proc/sys/net is not writable: {error}")),
            }
        });
    check("kernel settings", result, "mount /proc/sys writable and run as root")
}

fn locked_memory() -> Check {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
    let found =
        limit.current.map_or_else(|| "no limit".to_owned(), |octets| format!("at most {octets} octets"));
    let enough = limit.current.is_none() || rustix::process::geteuid().is_root();
    Check {
        name: "locked memory".to_owned(),
        state: if enough { CheckState::Ok } else { CheckState::Warn },
        found,
        remedy: (!enough).then(|| "raise it (ulimit -l unlimited), or keys may be swapped out".to_owned()),
    }
}

fn uplinks(config: &Config) -> Check {
    let result = crate::uplinks::choose(config).map(|chosen| {
        let names: Vec<&str> = chosen.iter().map(|u| u.name.as_str()).collect();
        names.join(", ")
    });
    check(
        "uplinks",
        result.map_err(|error| error.to_string()),
        "name interfaces that exist in `uplinks`, or set one up; `ip link` lists them",
    )
}

/// The policy as the file has it, as far as it can be read.
fn policy_of(config: &Config) -> Option<policy::Compiled> {
    let text = std::fs::read(&config.policy).ok()?;
    let host = host_files::HostFiles::here(&config.crypto.ciphers.suites, &config::classes_of(config));
    let parsed = policy::parse_bytes_for(&config.policy.display().to_string(), &text, &host);
    Some(policy::compile(&parsed, &mut policy::AppTable::new(), 1))
}

/// Applications that are only watched, which is not protection.
fn observed(compiled: &policy::Compiled) -> Option<Check> {
    let list: Vec<String> = compiled.observed().iter().map(ToString::to_string).collect();
    (!list.is_empty()).then(|| Check {
        name: "observed".to_owned(),
        state: CheckState::Warn,
        found: list.join("; "),
        remedy: Some("take `observe` out of the policy to put it in force".to_owned()),
    })
}

/// Subjects that no program of this host matches.
fn programs(compiled: &policy::Compiled) -> Option<Check> {
    let missing = policy_store::missing(compiled, &policy_store::executables(compiled));
    let list = |text: &dyn Fn(&api::MissingProgram) -> String| missing.iter().map(text).collect::<Vec<_>>();
    (!missing.is_empty()).then(|| Check {
        name: "programs".to_owned(),
        state: CheckState::Warn,
        found: list(&|one| format!("{} {}: {}", one.code, one.at, one.message)).join("; "),
        remedy: Some(list(&|one| format!("{}: {}", one.program, one.remedy)).join("; ")),
    })
}

/// Who is asked for the names of the policy, if it has any.
fn names(config: &Config, compiled: &policy::Compiled) -> Option<Check> {
    let count = compiled.named.hosts().count();
    if count == 0 {
        return None;
    }
    let servers = match config.names.resolvers.is_empty() {
        true => crate::names::system_servers().map(|list| list.iter().map(ToString::to_string).collect()),
        false => Ok(config.names.resolvers.iter().map(ToString::to_string).collect::<Vec<_>>()),
    };
    let found = servers.and_then(|list| match list.is_empty() {
        true => Err("no name server is known".to_owned()),
        false => Ok(format!("{count} in the policy, asked of {}", list.join(", "))),
    });
    let mut check =
        check("names", found, "name servers in [names] resolvers, or write addresses in the policy");
    // What a name protects stays as it was, or is decided by the next shorter network: no reason not to start.
    if check.state == CheckState::Fail {
        check.state = CheckState::Warn;
    }
    Some(check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_is_refused_in_one_sentence() {
        let old = kernel_of("6.1.0-37-amd64");
        assert_eq!(old.state, CheckState::Fail);
        assert!(old.found.starts_with("6.1.0-37-amd64 is too old") && !old.found.contains(". "), "{old:?}");
        assert!(old.remedy.is_some_and(|remedy| remedy.contains("backports")));
        for (release, word) in [
            ("6.18.3", "as proved"),
            ("6.12.117+deb13-amd64", "as proved"),
            ("6.120.1", "proved are"),
            ("6.6.0-rc1", "proved are"),
            ("7.0.1", "proved are"),
        ] {
            let new = kernel_of(release);
            assert!(new.state == CheckState::Ok && new.found.contains(word), "{new:?}");
        }
    }

    #[test]
    fn every_failed_check_has_a_remedy_and_nothing_is_left_behind() {
        let checks = checks(None);
        assert!(checks.len() >= 12, "{checks:#?}");
        for check in &checks {
            assert_eq!(check.remedy.is_none(), check.state == CheckState::Ok, "{check:?}");
            assert!(!check.found.is_empty(), "{check:?}");
        }
        let mut links = netio::link::Links::open().unwrap();
        assert!(links.list().unwrap().iter().all(|link| !link.name.starts_with("rvl-probe")));
    }
}
