//! A router in the lab's wire: the two hosts are no neighbours any more, and what is between them is the router's matter.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use lab::{Lab, Side};

use crate::program;
use crate::strongswan::ip;

/// The router's IPv4 address on both sides.
pub const V4: &str = "198.51.100.254";
/// The router's IPv6 address on both sides.
pub const V6: &str = "2001:db8:51::fe";

/// Take the bridge's ports apart and let the namespace between them forward. Both hosts keep their addresses.
///
/// # Errors
/// With what a command printed.
pub fn build(lab: &Lab) -> anyhow::Result<()> {
    lab.wire().run(|| -> anyhow::Result<()> {
        for (name, value) in [
            ("net/ipv4/ip_forward", 1),
            ("net/ipv6/conf/all/disable_ipv6", 0),
            ("net/ipv6/conf/all/forwarding", 1),
            // Each of the errors that the tests ask for is to come.
            ("net/ipv4/icmp_ratelimit", 0),
            ("net/ipv6/icmp/ratelimit", 0),
        ] {
            netio::sysctl::set(name, value)?;
        }
        for side in Side::BOTH {
            let port = side.name();
            here("ip", &["link", "set", port, "nomaster"], "")?;
            netio::sysctl::set(&format!("net/ipv6/conf/{port}/disable_ipv6"), 0)?;
            netio::sysctl::set(&format!("net/ipv6/conf/{port}/accept_dad"), 0)?;
            here("ip", &["addr", "add", &format!("{V4}/32"), "dev", port], "")?;
            here("ip", &["addr", "add", &format!("{V6}/128"), "dev", port, "nodad"], "")?;
        }
        Ok(())
    })??;
    for side in Side::BOTH {
        let host = lab.host(side);
        for (address, wide, narrow, gateway, any) in
            [(side.v4().to_string(), 24, 32, V4, "0.0.0.0/0"), (side.v6().to_string(), 64, 128, V6, "::/0")]
        {
            ip(host, &format!("addr del {address}/{wide} dev eth0"))?;
            ip(host, &format!("addr add {address}/{narrow} dev eth0"))?;
            ip(host, &format!("route add {gateway} dev eth0"))?;
            ip(host, &format!("route add {any} via {gateway}"))?;
        }
    }
    narrow(lab, 1500)
}

/// From now on the router's way to each host carries packets of `mtu` octets; for longer ones it sends ICMP errors, or
/// fragments them.
///
/// # Errors
/// With what a command printed.
pub fn narrow(lab: &Lab, mtu: u16) -> anyhow::Result<()> {
    lab.wire().run(|| -> anyhow::Result<()> {
        for side in Side::BOTH {
            for address in [side.v4().to_string(), side.v6().to_string()] {
                let args = format!("route replace {address} dev {} mtu lock {mtu}", side.name());
                here("ip", &args.split(' ').collect::<Vec<_>>(), "")?;
            }
        }
        Ok(())
    })?
}

/// Whether the router says that a packet is too long for it. If not, such packets vanish.
///
/// # Errors
/// With what a command printed.
pub fn tell(lab: &Lab, on: bool) -> anyhow::Result<()> {
    let rules = if on {
        "delete table inet mute\n"
    } else {
        "add table inet mute\n\
         add chain inet mute out { type filter hook output priority 0; policy accept; }\n\
         add rule inet mute out icmp type destination-unreachable drop\n\
         add rule inet mute out icmpv6 type packet-too-big drop\n"
    };
    run(lab, "nft", &["-f", "-"], rules).map(drop)
}

/// Run a program on the router; what it printed.
///
/// # Errors
/// With what it printed, if it fails.
pub fn run(lab: &Lab, name: &str, args: &[&str], input: &str) -> anyhow::Result<String> {
    lab.wire().run(|| here(name, args, input))?
}

/// Run a program like [`run`], on a thread that is in the namespace already.
fn here(name: &str, args: &[&str], input: &str) -> anyhow::Result<String> {
    let mut child = Command::new(program(name))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("running {name}"))?;
    child.stdin.take().context("a pipe")?.write_all(input.as_bytes())?;
    let done = child.wait_with_output()?;
    ensure!(done.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
