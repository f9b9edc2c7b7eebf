//! Two hosts and what stands between them: the kernel that forwards, a scrubber in line, or a proxy (paper 003 Figure 5). Each is put in
//! place for a measurement and taken away behind it, so that all of them are measured in turn.
//!
//! In line frames go from alice to bob as on one wire. The kernel and the proxies route: both hosts have addresses in networks of their
//! own for that, and the gateway one in each.

use crate::product;
use crate::stage::{program, succeeded};
use anyhow::{Context, ensure};
use lab::{Program, Side};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tests::line::LineRig;

/// The service's port, everywhere.
pub const PORT: u16 = 7000;
/// Added to the last octets of a proxy's clients: at the server its connections have another clock than those of the
/// clients themselves, and for a while no others may have their ports.
const PROXIED: u8 = 100;
/// Addresses of clients: with one alone the pairs of ports would be used up by connections that have ended.
const CLIENTS: u8 = 8;
const PATIENCE: Duration = Duration::from_secs(60);

/// What stands between the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Middle {
    /// Nothing but the kernel, which routes.
    Forward,
    /// A line whose scrubber is left out: the same way through user space.
    Bare,
    /// A line, by the profile `standard`.
    Scrub,
    /// HAProxy, transparent both ways (TPROXY), the client's address kept.
    HaProxy,
    /// socat, a process for each connection: what `plug-gw` was.
    Socat,
}

impl Middle {
    /// All of them, in the order of tables.
    pub const ALL: [Middle; 5] =
        [Middle::Forward, Middle::Bare, Middle::Scrub, Middle::HaProxy, Middle::Socat];

    /// The name of the middle in figures.
    pub const fn name(self) -> &'static str {
        match self {
            Middle::Forward => "forward",
            Middle::Bare => "bare",
            Middle::Scrub => "scrub",
            Middle::HaProxy => "haproxy",
            Middle::Socat => "socat",
        }
    }

    /// The name of the middle in plots and tables.
    pub const fn title(self) -> &'static str {
        match self {
            Middle::Forward => "kernel forwarding",
            Middle::Bare => "in line, no scrubber",
            Middle::Scrub => "scrubber in line",
            Middle::HaProxy => "HAProxy, TPROXY",
            Middle::Socat => "socat, forking",
        }
    }

    const fn is_line(self) -> bool {
        matches!(self, Middle::Bare | Middle::Scrub)
    }

    /// Whether it ends connections itself.
    pub const fn is_proxy(self) -> bool {
        matches!(self, Middle::HaProxy | Middle::Socat)
    }
}

/// The hosts, the gateway, and what is in place there.
pub struct Between {
    rig: LineRig,
    proxy: Option<Proxy>,
    folder: PathBuf,
}

/// A process that ends with this value.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const NET: &str = "
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.ip_nonlocal_bind=1
ip address add 192.0.2.254/24 dev alice
ip address add 203.0.113.254/24 dev bob
ip rule add fwmark 1 lookup 100
ip route add local 0.0.0.0/0 dev lo table 100
";

/// Connections of the proxy's own ends, both ways, are the gateway's.
const TPROXY: &str = "
table ip proxied {
  chain prerouting {
    type filter hook prerouting priority mangle; policy accept;
    tcp dport 7000 iifname \"alice\" tproxy to :7000 meta mark set 1 accept
    tcp sport 7000 iifname \"bob\" socket transparent 1 meta mark set 1 accept
  }
}
";

impl Between {
    /// Build it, with nothing in place but the kernel.
    ///
    /// # Errors
    /// If it cannot be built.
    pub fn build(name: &str) -> anyhow::Result<Between> {
        let rig = LineRig::of(name, product::ravelin()?)?;
        let folder = std::env::temp_dir().join(format!("{name}-between"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let between = Between { rig, proxy: None, folder };
        between.gateway(NET)?;
        let mut alice = String::from("ip route add 203.0.113.0/24 via 192.0.2.254\n");
        for at in 1..=CLIENTS {
            alice = format!(
                "ip address add 192.0.2.{at}/24 dev eth0\nip address add 192.0.2.{}/24 dev eth0\n\
                 ip address add 198.51.100.{}/24 dev eth0\n{alice}",
                PROXIED + at,
                10 + at
            );
        }
        between.host(Side::Alice, &alice)?;
        between.host(
            Side::Bob,
            "ip address add 203.0.113.2/24 dev eth0\nip route add 192.0.2.0/24 via 203.0.113.254\n",
        )?;
        Ok(between)
    }

    /// The hosts and the gateway between them.
    pub fn rig(&self) -> &LineRig {
        &self.rig
    }

    /// Run lines of a shell on the gateway.
    fn gateway(&self, script: &str) -> anyhow::Result<()> {
        let mut command = Command::new(program("bash")?);
        command.args(["-ec", script]);
        self.rig.lab.wire().prepare(&mut command, None)?;
        let done = command.output()?;
        ensure!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(())
    }

    /// Run lines of a shell on a host.
    ///
    /// # Errors
    /// With what they printed, if one fails.
    pub fn host(&self, side: Side, script: &str) -> anyhow::Result<()> {
        let shell = Program::new(program("bash")?).args(["-ec", script]);
        let done = self.rig.lab.host(side).run_program(shell, PATIENCE)?;
        succeeded(script, &done).map(drop)
    }

    /// Lose so many of a hundred packets, both ways, in front of the gateway; zero: none.
    ///
    /// # Errors
    /// If nft does not take it.
    pub fn lose(&self, percent: u32) -> anyhow::Result<()> {
        let chain = |name: &str, hook: &str| {
            format!(
                "chain {name} {{ type filter hook {hook} priority 0; numgen random mod 100 < {percent} drop; }}\n"
            )
        };
        let table = format!("table ip loss {{ {} {} }}", chain("i", "input"), chain("o", "output"));
        let set = if percent > 0 { format!("nft '{table}'") } else { String::new() };
        self.host(Side::Alice, &format!("nft delete table ip loss 2>/dev/null || true\n{set}"))
    }

    /// Put something in place; what was there goes.
    ///
    /// # Errors
    /// If it does not come up: a proxy may not be installed.
    pub fn put(&mut self, middle: Middle) -> anyhow::Result<()> {
        self.clear()?;
        match middle {
            Middle::Forward => {}
            // As many threads as there are directions to serve: the hosts need processors, too.
            Middle::Bare => self.rig.start(&["--workers", "1", "--measure-without-scrubber"])?,
            Middle::Scrub => self.rig.start(&["--workers", "1"])?,
            Middle::HaProxy => self.haproxy()?,
            Middle::Socat => {
                let listen = format!("TCP4-LISTEN:{PORT},fork,reuseaddr,backlog=1024");
                let to = format!("TCP4:203.0.113.2:{PORT}");
                self.start(Command::new(program("socat")?).args([listen, to]))?;
            }
        }
        Ok(())
    }

    fn clear(&mut self) -> anyhow::Result<()> {
        self.proxy = None;
        self.rig.stop()?;
        self.rig.ravelin(&["inline", "detach"])?;
        self.gateway("nft delete table ip proxied 2>/dev/null || true")
    }

    fn haproxy(&mut self) -> anyhow::Result<()> {
        let path = self.folder.join("haproxy.cfg");
        let text = format!(
            "global\n maxconn 4000\ndefaults\n mode tcp\n timeout connect 10s\n timeout client 30s\n timeout server 30s\n\
             listen pages\n bind 0.0.0.0:{PORT} transparent\n source 0.0.0.0 usesrc clientip\n server one 203.0.113.2:{PORT}\n"
        );
        fs::write(&path, text)?;
        self.gateway(&format!("nft '{TPROXY}'"))?;
        self.start(Command::new(program("haproxy")?).args(["-db", "-q", "-f"]).arg(&path))
    }

    fn start(&mut self, command: &mut Command) -> anyhow::Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.rig.lab.wire().prepare(command, None)?;
        let mut child = Proxy(command.spawn()?);
        let probe = || {
            let mut command = Command::new(program("ss")?);
            command.args(["-ltnH", &format!("sport = :{PORT}")]);
            self.rig.lab.wire().prepare(&mut command, None)?;
            anyhow::Ok(!command.output()?.stdout.is_empty())
        };
        tests::try_wait_until("the proxy listens", PATIENCE, || {
            ensure!(child.0.try_wait()?.is_none(), "it has ended");
            probe()
        })
        .context("starting a proxy")?;
        self.proxy = Some(child);
        Ok(())
    }

    /// The address that clients go to, and the addresses they come from.
    pub fn way(&self, middle: Middle) -> (SocketAddr, Vec<Ipv4Addr>) {
        let (to, from) = match middle {
            Middle::Socat => (Ipv4Addr::new(192, 0, 2, 254), [192, 0, 2]),
            _ if middle.is_line() => (Side::Bob.v4(), [198, 51, 100]),
            _ => (Ipv4Addr::new(203, 0, 113, 2), [192, 0, 2]),
        };
        let first = match middle {
            _ if middle.is_line() => 11,
            _ if middle.is_proxy() => PROXIED + 1,
            _ => 1,
        };
        let [a, b, c] = from;
        let clients = (first..first + CLIENTS).map(|d| Ipv4Addr::new(a, b, c, d)).collect();
        (SocketAddr::V4(SocketAddrV4::new(to, PORT)), clients)
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        let _ = self.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
