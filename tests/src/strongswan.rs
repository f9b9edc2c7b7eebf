//! strongSwan on a lab host: an IKE daemon with its own data path in user space (kernel-libipsec, ESP in UDP, tunnel mode).
//!
//! What enters: the proposals that it may negotiate. What leaves: its associations with their keys, read from its log, so that
//! another implementation can open its packets or take its place. The log is in the lab's folder and goes with it; the keys
//! are those of a lab.

use anyhow::{Context, ensure};
use lab::{Finished, Host, Program, Running, Side};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use crate::{PATIENCE, program, try_wait_until};

/// A suite in the words of both sides.
#[derive(Clone, Copy, Debug)]
pub struct Proposal {
    /// The suite as strongSwan's `esp_proposals` has it.
    pub theirs: &'static str,
    /// The suite as Ravelin calls it.
    pub ours: &'static str,
}

/// An association pair as one daemon has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The SPI, in hexadecimal, of the association by which this daemon receives.
    pub spi_in: String,
    /// The SPI, in hexadecimal, of the association by which this daemon sends.
    pub spi_out: String,
    /// Keying material of the inbound association as hexadecimal digits: cipher key, its salt, integrity key.
    pub key_in: String,
    /// Keying material of the outbound association, in the same form.
    pub key_out: String,
}

/// A running charon, strongSwan's daemon.
#[derive(Debug)]
pub struct Charon {
    folder: PathBuf,
    daemon: Running,
}

/// The plugins: `kernel-libipsec` is the data path, `kernel-netlink` knows addresses and routes.
const LOAD: &str = "random nonce aesni aes md5 sha1 sha2 hmac kdf gcm ccm ctr xcbc cmac openssl curve25519 chapoly \
                    kernel-libipsec kernel-netlink socket-default vici updown";

/// The address inside the tunnel; `kernel-libipsec` wants another one than IKE's.
pub const fn inner(side: Side) -> Ipv4Addr {
    match side {
        Side::Alice => Ipv4Addr::new(10, 9, 1, 1),
        Side::Bob => Ipv4Addr::new(10, 9, 2, 1),
    }
}

/// The address outside the tunnel.
pub const fn outer(side: Side, v6: bool) -> IpAddr {
    if v6 { IpAddr::V6(side.v6()) } else { IpAddr::V4(side.v4()) }
}

const fn other(side: Side) -> Side {
    match side {
        Side::Alice => Side::Bob,
        Side::Bob => Side::Alice,
    }
}

/// Run `ip` on a host.
///
/// # Errors
/// With what it printed, if it fails.
pub fn ip(host: &Host, args: &str) -> anyhow::Result<()> {
    let command = Program::new(program("ip")).args(args.split(' '));
    let done = host.run_program(command, PATIENCE)?;
    ensure!(done.status.success(), "ip {args}: {}", done.err());
    Ok(())
}

/// Give a host its address inside the tunnel.
///
/// # Errors
/// As [`ip`].
pub fn add_inner(host: &Host) -> anyhow::Result<()> {
    ip(host, &format!("addr add {}/32 dev lo", inner(host.side())))
}

impl Charon {
    /// Start it: on alice the initiator, with a child for each proposal, named by Ravelin's suite; on bob the responder; `v6`: outer
    /// packets of IPv6. Returns when it answers.
    ///
    /// # Errors
    /// With everything it printed, if it does not start.
    pub fn start(host: &Host, folder: &Path, v6: bool, proposals: &[Proposal]) -> anyhow::Result<Charon> {
        let folder = folder.join(format!("charon-{}", host.side().name()));
        // What an earlier one left would look like its answer.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("strongswan.conf"), settings(&folder))?;
        fs::write(folder.join("swanctl.conf"), connection(host.side(), v6, proposals))?;
        let daemon = Program::new(program("charon-systemd"));
        let daemon = host.spawn(daemon.env("STRONGSWAN_CONF", folder.join("strongswan.conf")))?;
        let mut charon = Charon { folder, daemon };
        let answers = try_wait_until("an answer of strongSwan", PATIENCE, || {
            ensure!(!charon.daemon.has_ended()?, "strongSwan has ended");
            Ok(charon.swanctl(host, &["--stats"])?.status.success())
        });
        answers.with_context(|| format!("on {}: {}", host.side().name(), charon.daemon.output()))?;
        let file = charon.folder.join("swanctl.conf").display().to_string();
        let loaded = charon.swanctl(host, &["--load-all", "--file", &file])?;
        ensure!(loaded.status.success(), "swanctl --load-all: {}{}", loaded.out(), loaded.err());
        Ok(charon)
    }

    fn swanctl(&self, host: &Host, args: &[&str]) -> anyhow::Result<Finished> {
        let socket = format!("unix://{}", self.folder.join("vici").display());
        let command = Program::new(program("swanctl")).args(args).arg("--uri").arg(socket);
        let command = command.env("SWANCTL_DIR", &self.folder);
        Ok(host.run_program(command.env("STRONGSWAN_CONF", self.folder.join("strongswan.conf")), PATIENCE)?)
    }

    /// Negotiate a child as the initiator, on its `host`; its associations.
    ///
    /// # Errors
    /// With what `swanctl` printed, or if the log says no key.
    pub fn initiate(&self, host: &Host, suite: &str) -> anyhow::Result<Child> {
        let done = self.swanctl(host, &["--initiate", "--child", suite])?;
        ensure!(done.status.success(), "negotiating {suite}: {}{}", done.out(), done.err());
        let log = fs::read_to_string(self.folder.join("log"))?;
        last_child(&log, suite).with_context(|| format!("no keys for {suite} in strongSwan's log"))
    }

    /// End a child of it, on its `host`, on both sides.
    ///
    /// # Errors
    /// With what `swanctl` printed.
    pub fn terminate(&self, host: &Host, suite: &str) -> anyhow::Result<()> {
        let done = self.swanctl(host, &["--terminate", "--child", suite])?;
        ensure!(done.status.success(), "ending {suite}: {}{}", done.out(), done.err());
        Ok(())
    }

    /// The daemon's process id.
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// End it at once, so that it tells its peer nothing and the peer keeps its associations.
    ///
    /// # Errors
    /// If it cannot be killed.
    pub fn kill(self) -> anyhow::Result<()> {
        self.daemon.kill()?;
        Ok(())
    }
}

fn settings(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "charon-systemd {{\n  load = {LOAD}\n  plugins {{\n    vici {{\n      socket = unix://{folder}/vici\n    }}\n  }}\n  \
         filelog {{\n    log {{\n      path = {folder}/log\n      default = 1\n      chd = 4\n      flush_line = yes\n    \
         }}\n  }}\n}}\n"
    )
}

fn connection(side: Side, v6: bool, proposals: &[Proposal]) -> String {
    let peer = other(side);
    // A responder takes the first child whose addresses fit, whatever its name: there is one, with all proposals.
    let of_bob = || proposals.iter().map(|proposal| proposal.theirs).collect::<Vec<_>>().join(",");
    let wanted: Vec<(&str, String)> = match side {
        Side::Alice => proposals.iter().map(|proposal| (proposal.ours, proposal.theirs.to_owned())).collect(),
        Side::Bob => vec![("any", of_bob())],
    };
    let mut children = String::new();
    for (name, theirs) in wanted {
        children.push_str(&format!(
            "      {name} {{\n        mode = tunnel\n        local_ts = {}/32\n        remote_ts = {}/32\n        \
             esp_proposals = {theirs}\n        rekey_time = 0\n      }}\n",
            inner(side),
            inner(peer),
        ));
    }
    format!(
        "connections {{\n  lab {{\n    version = 2\n    local_addrs = {}\n    remote_addrs = {}\n    proposals = \
         aes128-sha256-curve25519\n    encap = yes\n    mobike = no\n    local {{\n      auth = psk\n      id = {}\n    \
         }}\n    remote {{\n      auth = psk\n      id = {}\n    }}\n    children {{\n{children}    }}\n  }}\n}}\n\
         secrets {{\n  ike-lab {{\n    secret = \"of a lab, known to all\"\n  }}\n}}\n",
        outer(side, v6),
        outer(peer, v6),
        side.name(),
        peer.name(),
    )
}

/// The last child of that name in an initiator's log: what the initiator's keys protect is what it sends.
fn last_child(log: &str, suite: &str) -> Option<Child> {
    let mut keys: [String; 4] = Default::default();
    let mut found = None;
    let mut lines = log.lines();
    while let Some(line) = lines.next() {
        let names =
            ["encryption initiator", "encryption responder", "integrity initiator", "integrity responder"];
        if let Some(at) = names.iter().position(|name| line.contains(&format!("{name} key => "))) {
            let (_, rest) = line.split_once("=> ")?;
            let octets: usize = rest.split(' ').next()?.parse().ok()?;
            keys[at] = dump(&mut lines, octets)?;
        }
        let Some((before, rest)) = line.split_once(" established with SPIs ") else { continue };
        // The null cipher has no key: the next child must not find that of the last one.
        let keys = std::mem::take(&mut keys);
        if before.contains(&format!("CHILD_SA {suite}{{")) {
            let mut spis = rest.split(' ');
            let mut spi = |end| spis.next()?.strip_suffix(end).map(|digits| format!("0x{digits}"));
            found = Some(Child {
                spi_in: spi("_i")?,
                spi_out: spi("_o")?,
                key_in: format!("{}{}", keys[1], keys[3]),
                key_out: format!("{}{}", keys[0], keys[2]),
            });
        }
    }
    found
}

/// A hex dump of so many octets, sixteen a line behind an offset, as digits.
fn dump<'l>(lines: &mut impl Iterator<Item = &'l str>, octets: usize) -> Option<String> {
    let mut digits = String::new();
    while digits.len() < 2 * octets {
        let (_, octets_of_line) = lines.next()?.split_once(": ")?;
        let left = octets - digits.len() / 2;
        octets_of_line.split_whitespace().take(left.min(16)).for_each(|octet| digits.push_str(octet));
    }
    Some(digits.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_the_log() {
        let log = "\
11[CHD] encryption initiator key => 20 bytes @ 0x7f23a4002d80
11[CHD]    0: DF F6 86 C3 01 D1 0E 61 85 02 C0 9A 7E D7 CB 9E  .......a....~...
11[CHD]   16: 8C 7D 86 D9                                      .}..
11[CHD] encryption responder key => 2 bytes @ 0x7f23a4002b10
11[CHD]    0: 75 3A                                            u:
11[CHD] integrity initiator key => 1 bytes @ 0x7f23a4002b10
11[CHD]    0: 01                                               .
11[CHD] integrity responder key => 1 bytes @ 0x7f23a4002b10
11[CHD]    0: 02                                               .
11[IKE] CHILD_SA aes128gcm{1} established with SPIs 2f79ec5b_i 51412854_o and TS 10.9.1.1/32 === 10.9.2.1/32
";
        let child = last_child(log, "aes128gcm").unwrap();
        assert_eq!((child.spi_in.as_str(), child.spi_out.as_str()), ("0x2f79ec5b", "0x51412854"));
        assert_eq!(child.key_out, "dff686c301d10e618502c09a7ed7cb9e8c7d86d901");
        assert_eq!(child.key_in, "753a02");
        assert_eq!(last_child(log, "aes256gcm"), None);
        let null = &log[log.find("11[CHD] integrity").unwrap()..];
        let child =
            last_child(&format!("{log}{}", null.replace("aes128gcm", "null-sha256")), "null-sha256").unwrap();
        assert_eq!((child.key_out.as_str(), child.key_in.as_str()), ("01", "02"));
    }
}
