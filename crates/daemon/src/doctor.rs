//! `ravelin doctor`: what the daemon needs from the host, each point tried, each failure with its remedy. `run` makes the same
//! checks and refuses to start where one fails; the programs of the kernel half it loads in earnest, once.

mod outer;

use api::{Check, CheckState};

use crate::config::Config;

fn check(name: &str, result: Result<String, String>, remedy: &str) -> Check {
    let (state, found) = match result {
        Ok(found) => (CheckState::Ok, found),
        Err(found) => (CheckState::Fail, found),
    };
    let remedy = (state != CheckState::Ok).then(|| remedy.to_owned());
    Check { name: name.to_owned(), state, found, remedy }
}

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
    out.extend(program_checks());
    out
}

/// Whether the kernel takes the programs, kind by kind; a load of all, which takes seconds.
pub fn program_checks() -> impl Iterator<Item = Check> {
    probed(sockmon::probe_programs())
}

/// Every check but [`program_checks`].
pub fn quick_checks(config: Option<&Config>) -> Vec<Check> {
    let mut out = vec![privileges(), suites(), tun(), raw_sockets(), cgroup(config)];
    out.extend(probed(sockmon::probe()));
    out.push(settings());
    out.push(locked_memory());
    if let Some(config) = config {
        out.push(outer::pins(config));
        out.push(uplinks(config));
        out.extend(outer::io(config));
        out.extend(crate::gateway::checks(config));
        out.extend(
            policy_of(config)
                .iter()
                .flat_map(|compiled| [names(config, compiled), observed(compiled)].into_iter().flatten()),
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
    const NEEDED: [(&str, u32); 6] = [
        ("CAP_NET_ADMIN", 12),
        ("CAP_NET_RAW", 13),
        ("CAP_SYS_PTRACE", 19),
        ("CAP_SYS_ADMIN", 21),
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
    let result = crate::crypto_units::all().map_err(|error| error.to_string()).and_then(known);
    let remedy = "this machine computes wrong answers: do not encrypt on it; test its memory and processor";
    check("cipher suites", result, remedy)
}

/// A TUN of a name of its own, gone when its descriptor is.
fn tun() -> Check {
    let options = netio::tun::TunOptions { persist: false, offload: true, queue_len: 1 };
    let result = netio::tun::Tun::open("rvl-probe%d", &options).map(|tun| {
        let uso = if tun.carries_udp_super_packets() { "TCP and UDP" } else { "TCP" };
        format!("vnet header, {uso} super-packets")
    });
    check("tun", result.map_err(|error| error.to_string()), "load the module (modprobe tun) and run as root")
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
    let parsed = policy::parse_bytes(&config.policy.display().to_string(), &text);
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
