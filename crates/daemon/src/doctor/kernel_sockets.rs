//! Sockets of the kernel's own, by which a program sends what no socket of its own sends. They belong to no process, so no application's
//! policy decides about their packets: `guard` does (docs/design/0016).

use api::{Check, CheckState};
use std::fs;

/// A family of sockets that any user may open and for which the kernel sends by UDP or TCP of its own.
struct Family {
    word: &'static str,
    number: u32,
    /// The name of the family in `/proc/net/protocols`.
    listed: &'static str,
    module: &'static str,
}

const FAMILIES: [Family; 4] = [
    Family { word: "AF_RDS", number: 21, listed: "RDS", module: "rds" },
    Family { word: "AF_TIPC", number: 30, listed: "TIPC", module: "tipc" },
    Family { word: "AF_RXRPC", number: 33, listed: "RXRPC", module: "rxrpc" },
    Family { word: "AF_SMC", number: 43, listed: "SMC", module: "smc" },
];

/// Modules that send over the network for whoever uses a file system or a device.
const CLIENTS: [&str; 10] =
    ["9pnet_fd", "cifs", "dlm", "drbd", "iscsi_tcp", "kafs", "libceph", "nbd", "nfs", "nvme_tcp"];

/// What the host says of itself.
struct Host {
    /// The text of `/proc/net/protocols`.
    protocols: String,
    /// The text of `/proc/modules`.
    modules: String,
    /// The text of `modules.alias` of the running kernel.
    aliases: String,
    /// The texts of all files in `/etc/modprobe.d`.
    settings: String,
}

fn first_words(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.split_whitespace().next())
}

impl Host {
    fn read() -> Host {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let release = text("/proc/sys/kernel/osrelease");
        let settings = fs::read_dir("/etc/modprobe.d").into_iter().flatten().flatten();
        Host {
            protocols: text("/proc/net/protocols"),
            modules: text("/proc/modules"),
            aliases: text(&format!("/lib/modules/{}/modules.alias", release.trim())),
            settings: settings.filter_map(|file| fs::read_to_string(file.path()).ok()).collect(),
        }
    }

    /// Whether `modprobe` has been told to do something else than loading this module.
    fn is_off(&self, module: &str) -> bool {
        self.settings.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some("install") && words.next() == Some(module)
        })
    }

    /// Whether opening a socket of the family loads its module.
    fn comes(&self, family: &Family) -> bool {
        let alias = format!("net-pf-{}", family.number);
        let named = |line: &str| line.split_whitespace().nth(1) == Some(&alias);
        !self.is_off(family.module) && self.aliases.lines().any(named)
    }

    fn check(&self) -> Check {
        let is_there = |family: &&Family| first_words(&self.protocols).any(|word| word == family.listed);
        let (there, others): (Vec<&Family>, Vec<&Family>) = FAMILIES.iter().partition(is_there);
        let loadable: Vec<&Family> = others.into_iter().filter(|family| self.comes(family)).collect();
        let is_loaded = |client: &&str| first_words(&self.modules).any(|word| word == *client);
        let clients: Vec<&str> = CLIENTS.into_iter().filter(is_loaded).collect();
        let words = |list: &[&Family]| list.iter().map(|family| family.word).collect::<Vec<_>>().join(", ");
        let mut found = Vec::new();
        if !there.is_empty() {
            found.push(format!("any program may send by {}", words(&there)));
        }
        if !loadable.is_empty() {
            found.push(format!("{} loaded as soon as any program asks", words(&loadable)));
        }
        if !clients.is_empty() {
            found.push(format!("the kernel sends for {}", clients.join(", ")));
        }
        let is_clean = found.is_empty();
        Check {
            name: "kernel sockets".to_owned(),
            state: if is_clean { CheckState::Ok } else { CheckState::Warn },
            found: if is_clean { "no module is known to send on a program's behalf".to_owned() } else { found.join("; ") },
            remedy: (!is_clean).then(|| {
                "no application's policy decides about what these send: close the networks to everybody else with `guard`, \
                 unload what nobody needs, and keep it out (`install rxrpc /bin/false` in a file of /etc/modprobe.d)"
                    .to_owned()
            }),
        }
    }
}

/// Whether a program of this host can have the kernel send for it.
pub fn check() -> Check {
    Host::read().check()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(protocols: &str, modules: &str, aliases: &str, settings: &str) -> Check {
        let own = str::to_owned;
        Host {
            protocols: own(protocols),
            modules: own(modules),
            aliases: own(aliases),
            settings: own(settings),
        }
        .check()
    }

    #[test]
    fn families_and_clients_by_which_the_kernel_sends_are_named() {
        let header = "protocol  size sockets  memory press maxhdr\n";
        let clean = host(
            &format!("{header}TCP 2000 3\nUDP 1000 4\n"),
            "veth 1 0\nnfs_acl 1 0\n",
            "alias net-pf-17 af_packet\n",
            "",
        );
        assert_eq!((clean.state, clean.remedy), (CheckState::Ok, None));
        let there = host(
            &format!("{header}RXRPC 900 0\nSMC 900 0\n"),
            "nfs 1 0\niscsi_tcp 1 0\n",
            "alias net-pf-21 rds\nalias net-pf-33 rxrpc\n",
            "",
        );
        assert_eq!(
            there.found,
            "any program may send by AF_RXRPC, AF_SMC; AF_RDS loaded as soon as any program asks; the kernel sends for iscsi_tcp, nfs"
        );
        assert_eq!(there.state, CheckState::Warn);
        let off = host(header, "", "alias net-pf-21 rds\n", "# no\ninstall rds /bin/false\n");
        assert_eq!(off.state, CheckState::Ok);
        let only_listed = host(header, "", "alias net-pf-21 rds\n", "blacklist rds\n");
        assert_eq!(
            only_listed.state,
            CheckState::Warn,
            "a blacklist keeps nobody from asking by the alias' name"
        );
    }
}
