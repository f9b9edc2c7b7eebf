//! One host of the lab: a namespace with one Ethernet device, a cgroup, and the programs in them.

use crate::program::{Finished, Program, Running};
use crate::side::Side;
use netio::cgroup::Cgroup;
use netio::link::{Link, Links, Offload, Scope, Watch, set_offload};
use netio::netns::Netns;
use netio::{Error, IoContext, Result};
use netio::{clock, poll, sysctl};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

/// The device that leads to the wire.
pub(crate) const DEVICE: &str = "eth0";

/// How long a new device may take to get its carrier.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the table of sockets is read while waiting for a listener: the kernel has no event for it.
const LISTENER_INTERVAL: Duration = Duration::from_millis(5);

/// What a server listens for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A TCP socket in state LISTEN.
    Tcp,
    /// A UDP socket that is bound.
    Udp,
}

/// One host of the lab, with its namespace and cgroup.
#[derive(Debug)]
pub struct Host {
    side: Side,
    netns: Netns,
    cgroup: Cgroup,
}

impl Host {
    pub(crate) fn build(lab: &str, side: Side, parent: &Cgroup) -> Result<Host> {
        let netns = Netns::create(&format!("{lab}-{}", side.name()))?;
        // Addresses can be used at once, and no address is made behind our back.
        netns.run(|| {
            ["all", "default"].iter().try_for_each(|conf| {
                sysctl::set(&format!("net/ipv6/conf/{conf}/accept_dad"), 0)?;
                sysctl::set(&format!("net/ipv6/conf/{conf}/accept_ra"), 0)
            })
        })??;
        let cgroup = Cgroup::create(parent.path(), side.name())?;
        Ok(Host { side, netns, cgroup })
    }

    pub(crate) fn configure(&self) -> Result<()> {
        self.run(|| {
            let mut links = Links::open()?;
            let index = links.index(DEVICE)?;
            links.set_up(index, true)?;
            links.add_address(index, IpAddr::V4(self.side.v4()), 24, Scope::Universe)?;
            links.add_address(index, IpAddr::V6(self.side.v6()), 64, Scope::Universe)
        })?
    }

    /// Which of the two hosts this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// The network namespace of this host.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// The cgroup of all its programs; a socket monitor is attached here.
    pub fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    /// The device of this host on the wire.
    pub fn device(&self) -> Result<Link> {
        self.run(|| Links::open()?.find(DEVICE))?
    }

    /// Do something inside its namespace, on a thread of its own.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.netns.run(work)
    }

    /// Let the device cut TCP and other super-packets and join received ones, or none of it: then the stack makes packets of
    /// the MTU's size.
    pub fn set_segmentation(&self, on: bool) -> Result<()> {
        self.run(|| {
            [Offload::Tso, Offload::Gso, Offload::Gro]
                .iter()
                .try_for_each(|&work| set_offload(DEVICE, work, on))
        })?
    }

    /// Start a program on this host.
    pub fn spawn(&self, program: Program) -> Result<Running> {
        program.spawn(&self.netns, &self.cgroup)
    }

    /// Start a program and wait for its end, at most `patience`; then it is killed and that is an error.
    pub fn run_program(&self, program: Program, patience: Duration) -> Result<Finished> {
        self.spawn(program)?.finish(patience)
    }

    /// Wait until a socket of this host listens on `port`; if `server` ends first, its output is in the error.
    pub fn wait_for_listener(
        &self,
        transport: Transport,
        port: u16,
        server: &mut Running,
        patience: Duration,
    ) -> Result<()> {
        let deadline = clock::monotonic() + patience;
        self.run(|| {
            while !listens(transport, port)? {
                if clock::monotonic() >= deadline || server.has_ended()? {
                    return Err(Error::unfit(
                        format!(
                            "{} does not listen on {transport:?} port {port}: {}",
                            server.name(),
                            server.output()
                        ),
                        "see what it printed",
                    ));
                }
                std::thread::sleep(LISTENER_INTERVAL);
            }
            Ok(())
        })?
    }
}

/// Whether a socket of the calling thread's namespace listens on `port` (/proc/net/tcp and its like).
fn listens(transport: Transport, port: u16) -> Result<bool> {
    // Socket states as the kernel prints them: 0A is LISTEN, 07 an unconnected UDP socket.
    let (tables, state) = match transport {
        Transport::Tcp => (["tcp", "tcp6"], "0A"),
        Transport::Udp => (["udp", "udp6"], "07"),
    };
    for table in tables {
        let path = format!("/proc/thread-self/net/{table}");
        let text = match std::fs::read_to_string(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            text => text.doing(|| format!("reading {path}"))?,
        };
        if text.lines().skip(1).any(|line| entry(line) == Some((port, state))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Local port and state of a line `sl: ADDR:PORT ADDR:PORT STATE ...`.
fn entry(line: &str) -> Option<(u16, &str)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (_, port) = fields.next()?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    Some((u16::from_str_radix(port, 16).ok()?, state))
}

/// Wait until a device of the calling thread's namespace can send. A veth whose peer has just come up drops what it is
/// given, without an error, until the kernel's worker for carriers has run.
///
/// # Errors
/// If there is no such device, or if it has no carrier after 10 s.
pub fn wait_for_carrier(name: &str) -> Result<()> {
    // Listening starts before the look, so that no change falls between.
    let mut watch = Watch::open()?;
    let deadline = clock::monotonic() + PATIENCE;
    while !Links::open()?.find(name)?.running {
        let left = deadline.since(clock::monotonic());
        if left.is_zero() {
            return Err(Error::unfit(format!("the device {name} gets no carrier"), "see `ip link`"));
        }
        poll::readable([watch.as_fd()], Some(left)).doing(|| "waiting for a carrier".into())?;
        watch.events()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::entry;

    #[test]
    fn lines_of_the_socket_table() {
        let line =
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1";
        assert_eq!(entry(line), Some((8080, "0A")));
        let v6 = "  1: 00000000000000000000000000000000:1194 00000000000000000000000000000000:0000 07 0:0";
        assert_eq!(entry(v6), Some((4500, "07")));
        assert_eq!(entry("  sl  local_address rem_address   st"), None);
        assert_eq!(entry(""), None);
    }
}
