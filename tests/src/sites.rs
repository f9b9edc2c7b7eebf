//! Two networks, each behind a gateway, with a router of somebody else's between them. On the hosts nothing is installed.
//!
//! ```text
//! a host         gateway alice          the router           gateway bob          a host
//! 10.1.0.2 --- 10.1.0.1  198.51.100.1 --- .254 .254 --- 198.51.100.2  10.2.0.1 --- 10.2.0.2
//! fd01::2      fd01::1   2001:db8:51::1   ::fe ::fe   2001:db8:51::2  fd02::1      fd02::2
//!                                      203.0.113.9
//!                                    2001:db8:99::9
//! ```

use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use lab::Side;
use lab::rig::{Pair, Rig, RigOptions};
use netio::link::{End, Links};
use netio::netns::Netns;

use crate::binary;

/// What everybody can reach behind the router.
pub const WORLD: [&str; 2] = ["203.0.113.9", "2001:db8:99::9"];

/// The gateways with their daemons, the hosts behind them.
pub struct Sites {
    /// The gateways and the router, which the eavesdropper sits in.
    pub rig: Rig,
    /// The hosts behind alice and bob.
    pub hosts: [Netns; 2],
}

/// The address of a site's host.
pub const fn host(side: Side, v6: bool) -> &'static str {
    match (side, v6) {
        (Side::Alice, false) => "10.1.0.2",
        (Side::Alice, true) => "fd01::2",
        (Side::Bob, false) => "10.2.0.2",
        (Side::Bob, true) => "fd02::2",
    }
}

/// The addresses of a site.
pub const fn network(side: Side, v6: bool) -> &'static str {
    match (side, v6) {
        (Side::Alice, false) => "10.1.0.0/16",
        (Side::Alice, true) => "fd01::/64",
        (Side::Bob, false) => "10.2.0.0/16",
        (Side::Bob, true) => "fd02::/64",
    }
}

fn other(side: Side) -> Side {
    if side == Side::Alice { Side::Bob } else { Side::Alice }
}

/// Run a script of commands in a namespace.
///
/// # Errors
/// With what it printed, if it fails.
pub fn sh(netns: &Netns, script: &str) -> anyhow::Result<String> {
    let mut command = Command::new("sh");
    command.args(["-ec", script]);
    let output = netns.prepare(&mut command, None)?.output()?;
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    ensure!(output.status.success(), "{script}: {}{}", text(&output.stdout), text(&output.stderr));
    Ok(text(&output.stdout))
}

/// A program that runs until this goes.
pub struct Server(Child, ChildStdout);

impl Server {
    /// The next line that it prints.
    ///
    /// # Errors
    /// If it ends without one.
    pub fn line(&mut self) -> anyhow::Result<String> {
        let mut line = Vec::new();
        let mut octet = [0];
        while self.1.read(&mut octet)? == 1 && octet != *b"\n" {
            line.push(octet[0]);
        }
        ensure!(!line.is_empty(), "the program ended without a word");
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Start a Python program in a namespace and wait until it prints a line: the line.
///
/// # Errors
/// If it ends instead.
pub fn serve(netns: &Netns, script: &str, args: &[&str]) -> anyhow::Result<(Server, String)> {
    let mut command = Command::new("python3");
    command.args(["-u", "-c", script]).args(args).stdout(Stdio::piped()).stdin(Stdio::null());
    let mut child = netns.prepare(&mut command, None)?.spawn()?;
    let out = child.stdout.take().context("no output")?;
    let mut server = Server(child, out);
    let line = server.line()?;
    Ok((server, line))
}

/// Run a Python program in a namespace: what it printed.
///
/// # Errors
/// With what it printed, if it fails or takes longer than `patience`.
pub fn python(netns: &Netns, script: &str, args: &[&str], patience: Duration) -> anyhow::Result<String> {
    // Its own watchman: here its output and its end are awaited.
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", &patience.as_secs().to_string(), "python3", "-c", script]);
    let output = netns.prepare(command.args(args).stdin(Stdio::null()), None)?.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let why = || format!("{args:?}: {}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), why());
    Ok(text)
}

/// Link a gateway (its `lan0`) and the host behind it.
fn lan(number: u32, mtu: u32, gateway: &Netns, host: &Netns) -> anyhow::Result<()> {
    let here = End { name: "eth0", namespace: Some(host.as_fd()) };
    let there = End { name: "lan0", namespace: Some(gateway.as_fd()) };
    Links::open()?.add_veth(here, there)?;
    sh(
        gateway,
        &format!(
            "ip link set lan0 mtu {mtu} up; \
             ip addr add 10.{number}.0.1/16 dev lan0; ip -6 addr add fd0{number}::1/64 dev lan0 nodad"
        ),
    )?;
    sh(
        host,
        &format!(
            "ip link set eth0 mtu {mtu} up; ip addr add 10.{number}.0.2/16 dev eth0; \
             ip -6 addr add fd0{number}::2/64 dev eth0 nodad; \
             ip route add default via 10.{number}.0.1; ip -6 route add default via fd0{number}::1"
        ),
    )?;
    Ok(())
}

impl Sites {
    /// Build it all, with links of `mtu` octets; `rules` are the lines for a side's file of rules, and `gateway` what its
    /// configuration says beside. The daemons run and have associations for both families.
    ///
    /// # Errors
    /// Without root, or where the kernel refuses a part.
    pub fn build(
        name: &str,
        mtu: u32,
        rules: impl Fn(Side) -> String,
        gateway: &str,
    ) -> anyhow::Result<Sites> {
        let mut sites = Sites::without_daemons(name, mtu)?;
        sites.start(rules, gateway)?;
        Ok(sites)
    }

    /// The same sites as [`Sites::build`] makes, but no daemon runs, and each has an empty policy.
    ///
    /// # Errors
    /// Without root, or where the kernel refuses a part.
    pub fn without_daemons(name: &str, mtu: u32) -> anyhow::Result<Sites> {
        let options =
            RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
        for side in Side::BOTH {
            Netns::remove(&format!("{name}-host-{}", side.name()))?;
        }
        let rig = Rig::build(&options)?;
        let router = rig.lab.wire();
        // The bridge becomes a router: the ports are the eavesdropper's still.
        sh(
            router,
            &format!(
                "for c in all default alice bob lo; do sysctl -qw net.ipv6.conf.$c.disable_ipv6=0; done; \
                 sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1; \
                 for p in alice bob; do ip link set $p nomaster mtu {mtu}; \
                 ip addr add 198.51.100.254/32 dev $p; ip -6 addr add 2001:db8:51::fe/128 dev $p nodad; done; \
                 ip route add 198.51.100.1 dev alice; ip route add 198.51.100.2 dev bob; \
                 ip -6 route add 2001:db8:51::1 dev alice; ip -6 route add 2001:db8:51::2 dev bob; \
                 ip addr add {} dev lo; ip -6 addr add {} dev lo nodad; \
                 ip route add {} via 198.51.100.1; ip -6 route add {} via 2001:db8:51::1 dev alice; \
                 ip route add {} via 198.51.100.2; ip -6 route add {} via 2001:db8:51::2 dev bob",
                WORLD[0],
                WORLD[1],
                network(Side::Alice, false),
                network(Side::Alice, true),
                network(Side::Bob, false),
                network(Side::Bob, true),
            ),
        )?;
        let mut hosts = Vec::new();
        for (number, side) in [(1, Side::Alice), (2, Side::Bob)] {
            rig.set_policy(side, "")?;
            let gateway = rig.lab.host(side).netns();
            let netns = Netns::create(&format!("{name}-host-{}", side.name()))?;
            sh(
                gateway,
                &format!(
                    "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1; \
                     ip link set eth0 mtu {mtu}; \
                     ip addr del {v4}/24 dev eth0; ip addr add {v4}/32 dev eth0; \
                     ip -6 addr del {v6}/64 dev eth0; ip -6 addr add {v6}/128 dev eth0 nodad; \
                     ip route add 198.51.100.254 dev eth0; ip route add default via 198.51.100.254; \
                     ip -6 route add 2001:db8:51::fe dev eth0; ip -6 route add default via 2001:db8:51::fe dev eth0",
                    v4 = side.v4(),
                    v6 = side.v6(),
                ),
            )?;
            lan(number, mtu, gateway, &netns)?;
            hosts.push(netns);
        }
        let [alice, bob] = hosts.try_into().map_err(|_| anyhow::anyhow!("two hosts"))?;
        Ok(Sites { rig, hosts: [alice, bob] })
    }

    /// Start the daemons with these rules, and give them associations.
    ///
    /// # Errors
    /// If one does not start.
    pub fn start(&mut self, rules: impl Fn(Side) -> String, gateway: &str) -> anyhow::Result<()> {
        for side in Side::BOTH {
            let file = self.rig.folder().join(format!("{}.rules", side.name()));
            std::fs::write(&file, rules(side))?;
            let text = format!("[gateway]\ninside = [\"lan0\"]\nrules = \"{}\"\n{gateway}\n", file.display());
            self.rig.configure(side, &text);
        }
        self.rig.start_both()?;
        self.associate(&[])
    }

    /// A tunnel for each family between the sites, with fresh keys.
    ///
    /// # Errors
    /// If a daemon refuses.
    pub fn associate(&self, more: &[&str]) -> anyhow::Result<()> {
        for v6 in [false, true] {
            let args = |side: Side| {
                let (local, remote) = (network(side, v6), network(other(side), v6));
                let own = ["--selector-local", local, "--selector-remote", remote];
                own.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
            };
            let suite = if v6 { "chacha20poly1305" } else { "aes128gcm" };
            self.rig.associate(&Pair {
                v6,
                mode: "tunnel",
                suite,
                alice: args(Side::Alice),
                bob: args(Side::Bob),
            })?;
        }
        Ok(())
    }

    /// Take a gateway's inside interface away, and make it anew with the same name and addresses.
    ///
    /// # Errors
    /// If the kernel refuses a part.
    pub fn remake_inside(&self, side: Side, mtu: u32) -> anyhow::Result<()> {
        let gateway = self.rig.lab.host(side).netns();
        sh(gateway, "ip link del lan0")?;
        lan(1 + side as u32, mtu, gateway, self.host(side))
    }

    /// The host behind a gateway.
    pub fn host(&self, side: Side) -> &Netns {
        &self.hosts[side as usize]
    }
}
