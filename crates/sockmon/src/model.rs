//! What this room answers: sockets, identities, refusals, checks.

use crate::abi;
use crate::gateway::Span;
use crate::inside_icmp::InsideIcmp;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use wire::Marks;
use wire::{AppId, Flow, Prefix, addr};

pub use crate::abi::Identity;

/// The programs whose flows are counted one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// No flow is counted: this costs the test of one word.
    #[default]
    Nothing,
    /// The flows of applications are counted.
    Applications,
    /// The flows of applications and of programs without policy are counted.
    Everything,
}

/// The settings that [`crate::Sockmon::attach`] takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the instance: its pins are under `/sys/fs/bpf/ravelin/INSTANCE`. 1 to 32 of `A-Z a-z 0-9 - _`.
    pub instance: String,
    /// The cgroup v2 directory whose programs are watched; the root for the whole host.
    pub cgroup: PathBuf,
    /// The cgroup v2 directory of the daemon: sockets made in it are never stamped and leave untouched.
    pub exempt_cgroup: PathBuf,
    /// Interface index of the TUN, in the calling thread's network namespace.
    pub tun_ifindex: u32,
    /// Interface indices of the guarded devices, in the calling thread's network namespace.
    pub uplinks: Vec<u32>,
    /// Interface indices of every device beside these, `lo` and the TUN: frames of packet sockets leave there by policy too.
    pub others: Vec<u32>,
    /// The addresses of this host: [`crate::Sockmon::set_locals`].
    pub locals: Vec<Prefix>,
    /// Interface indices of the networks behind this host, in the same namespace; none: it is no gateway.
    pub insides: Vec<u32>,
    /// What passes a gateway without the engine by the rules that will be in force. Of what passes under a daemon before this
    /// one, the rest ends, and this does not pause.
    pub spans: Vec<Span>,
    /// Tell what sockets do ([`crate::Sockmon::socket_events`]), and of a datagram socket's flow again when it sends there so long
    /// afterwards, in milliseconds; `None`: nothing is told, and what only that needs is not attached.
    pub per_socket: Option<u32>,
    /// Where bare names of executables are looked for.
    pub directories: Vec<PathBuf>,
    /// Which bits of marks are ours.
    pub marks: Marks,
    /// Which programs' flows are counted one by one.
    pub flows: Counted,
    /// Programs may not ask for protection on their own sockets (docs/socket-api.md).
    pub no_requests: bool,
    /// The ICMP errors for a gateway itself that are believed from the networks behind it.
    pub inside_icmp: InsideIcmp,
    /// For tests only: programs (by their names in `bpf/`) that are not attached, to show that traffic leaks without them.
    pub omit: Vec<String>,
}

impl Options {
    /// Options with no uplink yet.
    pub fn new(instance: &str, cgroup: PathBuf, exempt_cgroup: PathBuf, tun_ifindex: u32) -> Options {
        Options {
            instance: instance.into(),
            cgroup,
            exempt_cgroup,
            tun_ifindex,
            uplinks: Vec::new(),
            others: Vec::new(),
            locals: Vec::new(),
            insides: Vec::new(),
            spans: Vec::new(),
            per_socket: None,
            directories: policy::STANDARD_DIRECTORIES.iter().map(PathBuf::from).collect(),
            marks: Marks::default(),
            flows: Counted::default(),
            no_requests: false,
            inside_icmp: InsideIcmp::default(),
            omit: Vec::new(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The kernel's own encoding: 12 bits of major, 20 of minor number.
        write!(f, "inode {} on device {}:{}", self.inode, self.device >> 20, self.device & 0xf_ffff)
    }
}

/// State of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketState {
    /// A connected TCP socket, or a UDP socket with a peer.
    Established,
    /// A TCP socket that has sent its SYN and has no answer yet.
    SynSent,
    /// A TCP connection whose SYN was received, and which is not established yet.
    SynReceived,
    /// A TCP socket that is closing (FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING).
    Closing,
    /// A TCP socket in TIME_WAIT.
    TimeWait,
    /// A listening TCP socket.
    Listen,
    /// A socket that is neither connected nor listening.
    Unconnected,
}

impl SocketState {
    /// The state that the kernel's number stands for.
    pub fn from_kernel(state: u8) -> SocketState {
        match state {
            1 => SocketState::Established,
            2 => SocketState::SynSent,
            3 | 12 => SocketState::SynReceived,
            4 | 5 | 8 | 9 | 11 => SocketState::Closing,
            6 => SocketState::TimeWait,
            10 => SocketState::Listen,
            _ => SocketState::Unconnected,
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            SocketState::Established => "established",
            SocketState::SynSent => "syn-sent",
            SocketState::SynReceived => "syn-received",
            SocketState::Closing => "closing",
            SocketState::TimeWait => "time-wait",
            SocketState::Listen => "listen",
            SocketState::Unconnected => "unconnected",
        }
    }
}

/// One descriptor of one process that is an IPv4 or IPv6 socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketInfo {
    /// The number of the process.
    pub pid: u32,
    /// The name of the process (its `comm`).
    pub comm: String,
    /// The file that the process executed.
    pub identity: Identity,
    /// The number of the descriptor in the process.
    pub fd: u32,
    /// Application the socket is stamped with; [`AppId::NONE`]: none.
    pub app: AppId,
    /// Whether policy reaches it: it is in the watched control group, or stamped.
    pub watched: bool,
    /// What its program asked for beyond policy: 1 authentication, 2 encryption.
    pub required: u8,
    /// The mark that the socket has.
    pub mark: u32,
    /// The IP protocol number of the socket.
    pub protocol: u8,
    /// The socket's own address; IPv4 also where an IPv6 socket carries it.
    pub local: SocketAddr,
    /// The socket's peer; unspecified address and port 0: none.
    pub remote: SocketAddr,
    /// The state that the socket is in.
    pub state: SocketState,
    /// The kernel's cookie: the one in the record of its packets. 0: none given yet.
    pub cookie: u64,
    /// The cookie of the socket's network namespace.
    pub netns: u64,
    /// Number of the socket's inode, as in `/proc/PID/fd` and `/proc/net`.
    pub inode: u64,
}

impl SocketInfo {
    /// The socket's flow, if it has a peer.
    pub fn flow(&self) -> Option<Flow> {
        (self.remote.port() != 0).then(|| Flow {
            opaque: false,
            local: self.local.ip().to_canonical(),
            remote: self.remote.ip().to_canonical(),
            local_port: self.local.port(),
            remote_port: self.remote.port(),
            protocol: self.protocol,
        })
    }

    pub(crate) fn from_report(report: &abi::SocketReport) -> SocketInfo {
        let at = |bytes: [u8; 16], port| SocketAddr::new(canonical(bytes, report.family), port);
        SocketInfo {
            pid: report.pid,
            comm: abi::text(&report.comm),
            identity: report.identity,
            fd: report.fd,
            app: AppId(report.app),
            watched: report.stamped != abi::UNWATCHED,
            required: report.required,
            mark: report.mark,
            protocol: report.protocol,
            local: at(report.local, report.local_port),
            remote: at(report.remote, report.remote_port),
            state: SocketState::from_kernel(report.state),
            cookie: report.cookie,
            netns: report.netns,
            inode: report.inode,
        }
    }
}

fn canonical(bytes: [u8; 16], family: u16) -> IpAddr {
    match addr::from_bits(u128::from_be_bytes(bytes)) {
        // The wildcard of an IPv6 socket stays one.
        IpAddr::V4(v4) if v4.is_unspecified() && i32::from(family) == libc::AF_INET6 => {
            IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED)
        }
        other => other,
    }
}

/// What a program tried when it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// A call of connect(2).
    Connect,
    /// A call of sendto(2), or of sendmsg(2) with an address.
    Send,
    /// A call of bind(2).
    Bind,
    /// A call of listen(2); it cannot be refused, the socket keeps its old stamp.
    Listen,
    /// A call of setsockopt(2) with SO_MARK.
    SetMark,
    /// A call of setsockopt(2) with RAVELIN_REQUIRE (docs/socket-api.md).
    Require,
    /// A call of socket(2) for a kind that policy cannot be enforced on.
    Create,
    /// No refusal: it executed a file that came to a place of the policy since that was loaded, and this file is now what policy
    /// means (or there was no room for it, or it is not known to have the digest that policy asks for: refused).
    Execute(Identity),
    /// A packet that a socket of an application sent.
    PacketOut,
    /// A packet that arrived for a socket of an application.
    PacketIn,
    /// An attempt that this version does not know, by the kernel half's number.
    Other(u8),
}

impl Attempt {
    /// What was tried, in a word.
    pub fn word(self) -> &'static str {
        match self {
            Attempt::Connect => "connect",
            Attempt::Send => "sendmsg",
            Attempt::Bind => "bind",
            Attempt::Listen => "listen",
            Attempt::SetMark => "setsockopt SO_MARK",
            Attempt::Require => "setsockopt RAVELIN_REQUIRE",
            Attempt::Create => "socket",
            Attempt::PacketOut => "packet out",
            Attempt::PacketIn => "packet in",
            Attempt::Execute(_) => "execute",
            Attempt::Other(_) => "unknown",
        }
    }
}

/// A refusal: EPERM that a program saw, or a packet that ended; or a new executable ([`Attempt::Execute`]). A packet has no process
/// (0), no user and no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number of the process.
    pub pid: u32,
    /// The user number of the process.
    pub uid: u32,
    /// The name of the process (its `comm`).
    pub comm: String,
    /// The application that the process or packet belongs to.
    pub app: AppId,
    /// What the program tried when it was refused.
    pub attempt: Attempt,
    /// The peer that the call or packet named.
    pub peer: SocketAddr,
    /// The IP protocol number of the socket or packet.
    pub protocol: u8,
    /// The name of the counter that counted it.
    pub reason: &'static str,
    /// Whether it was let pass because the network is observed: it would have been refused.
    pub observed: bool,
}

impl Event {
    pub(crate) fn from_kernel(event: &abi::Event) -> Event {
        Event {
            pid: event.pid,
            uid: event.uid,
            comm: abi::text(&event.comm),
            app: AppId(event.app),
            attempt: match event.hook & !abi::HOOK_OBSERVED {
                1 => Attempt::Connect,
                2 => Attempt::Send,
                3 => Attempt::Bind,
                4 => Attempt::Listen,
                5 => Attempt::SetMark,
                6 => Attempt::Require,
                abi::HOOK_EXECUTE => {
                    Attempt::Execute(<Identity as abi::Wire>::read(&event.addr).unwrap_or(Identity {
                        inode: 0,
                        device: 0,
                        generation: 0,
                    }))
                }
                8 => Attempt::PacketOut,
                9 => Attempt::PacketIn,
                10 => Attempt::Create,
                n => Attempt::Other(n),
            },
            peer: SocketAddr::new(canonical(event.addr, u16::from(event.family)), event.port),
            protocol: event.protocol,
            reason: abi::COUNTERS.get(usize::from(event.counter)).copied().unwrap_or("unknown"),
            observed: event.hook & abi::HOOK_OBSERVED != 0,
        }
    }
}

/// The sockets that [`crate::Sockmon::adopt`] found, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Sockets of policed applications that some process holds.
    pub sockets: usize,
    /// Sockets whose mark had to be set through the process (UDP, raw, not yet connected TCP).
    pub marked: usize,
    /// Sockets whose mark could not be set; they are steered by their storage all the same.
    pub unmarked: usize,
    /// Connections without room for a stamp, which were ended (RFC 9293 section 3.10.5).
    pub ended: usize,
    /// Sockets without room for a stamp that were not ended: they cannot send, but take what comes in clear.
    pub unstamped: usize,
    /// Listeners for which there was no room: what waits to be accepted behind them is not stamped.
    pub listeners_left_out: usize,
}

/// Something [`crate::Sockmon::load_policy`] did, but that the user may not have meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadWarning {
    /// A `#!` script: the kernel runs the interpreter, whose identity the process has.
    Script {
        /// The path of the script.
        path: PathBuf,
        /// What its first line names.
        interpreter: String,
    },
    /// The executable is not there; once it is, it counts.
    Missing {
        /// The path that policy names.
        path: PathBuf,
        /// Why the path has no executable.
        reason: String,
    },
    /// A name of one user's that leads to a file of another's: the policy of the name does not hold for that file.
    Foreign {
        /// The path that policy names.
        path: PathBuf,
        /// Which name, and whose.
        reason: String,
    },
    /// Nobody answers for the path: a mount whose server is gone, or that has none. What was known of it before stays.
    NoAnswer {
        /// The path that does not answer.
        path: PathBuf,
    },
    /// No standard directory has an executable of this name; once one has, it counts.
    Nowhere {
        /// The bare name of the executable.
        name: String,
    },
    /// A symbolic link to a file of another name (alternatives, multi-call programs): every process of that file is meant.
    Link {
        /// The path of the link.
        path: PathBuf,
        /// The file that the link leads to.
        file: PathBuf,
    },
    /// A symbolic link whose digest is asked for: it is that of the file behind it.
    PinnedLink {
        /// The path of the link.
        path: PathBuf,
        /// The file that the link leads to.
        file: PathBuf,
    },
    /// A file name too long for the kernel half's table: a new file there is known some seconds after it was put there.
    LongName {
        /// The path with the long file name.
        path: PathBuf,
    },
    /// A subject that means this file and never decides: another one that means it too fits every process.
    Shadowed {
        /// The path of the file.
        path: PathBuf,
        /// The application whose subject never decides about the file.
        app: AppId,
        /// The application whose subject decides about it instead.
        by: AppId,
    },
    /// So many pairs of policies were not compared, or there was no room for how they do: sockets do not change hands between them.
    Uncompared {
        /// The number of pairs that were not compared or had no room.
        pairs: usize,
    },
    /// The new policy is in force, but something that follows could not be done; the next load does it.
    Unfinished {
        /// What was not done.
        step: &'static str,
        /// Why it could not be done.
        reason: String,
    },
}

impl fmt::Display for LoadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadWarning::Script { path, interpreter } => {
                let program = interpreter.split_whitespace().next().unwrap_or("its interpreter");
                write!(
                    f,
                    "{} is a script: its processes run {program}, so none will match; write what the script executes, or \
                     give it a unit or control group of its own and write that (`unit \"NAME.service\"`)",
                    path.display()
                )
            }
            LoadWarning::Missing { path, reason } => {
                write!(f, "{}: {reason}; no process matches it now", path.display())
            }
            LoadWarning::Foreign { path, reason } => write!(
                f,
                "{}: {reason}; whoever owns a name cannot give what policy says of it to a program of another user's, so no process \
                 matches it now",
                path.display()
            ),
            LoadWarning::NoAnswer { path } => write!(
                f,
                "{}: the file system there does not answer; what was known of the file before stays, and it is looked at again as \
                 soon as it answers",
                path.display()
            ),
            LoadWarning::Nowhere { name } => {
                write!(
                    f,
                    "no executable is called {name} in the standard directories; no process matches it now"
                )
            }
            LoadWarning::Link { path, file } => write!(
                f,
                "{} leads to {}: every process of that file is meant, by whatever name it was started; when the link changes, the \
                 daemon follows some seconds later",
                path.display(),
                file.display()
            ),
            LoadWarning::PinnedLink { path, file } => write!(
                f,
                "{} leads to {}, whose digest is asked for; if the link is turned to another file, that one is not known as this \
                 program until the daemon looks, some seconds later: write the path of the file",
                path.display(),
                file.display()
            ),
            LoadWarning::LongName { path } => write!(
                f,
                "{}: the file name has more than {} octets: when the file is replaced, the new one has no policy until the daemon \
                 looks, some seconds later; use a shorter name",
                path.display(),
                abi::PLACE_NAME - 1
            ),
            LoadWarning::Shadowed { path, app, by } => write!(
                f,
                "application {}: {} is application {}'s already, for every process of it; give one of them a qualifier",
                app.0,
                path.display(),
                by.0
            ),
            LoadWarning::Uncompared { pairs } => write!(
                f,
                "{pairs} pairs of policies were not compared, they are too many: a socket that changes hands between applications of such \
                 a pair is refused (`handover_incomparable` counts them); let applications have equal blocks"
            ),
            LoadWarning::Unfinished { step, reason } => {
                write!(f, "the policy is in force, but it was not possible to {step}: {reason}")
            }
        }
    }
}

/// Something that is not as [`crate::Sockmon::attach`] left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The program or pin.
    pub what: String,
    /// What is wrong with it.
    pub detail: String,
    /// What to do about it.
    pub remedy: String,
}

/// One line of `ravelin doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The name of what is checked.
    pub name: &'static str,
    /// Whether it is as it must be.
    pub ok: bool,
    /// What was found on this host.
    pub detail: String,
    /// What to do if it is not; empty if it is.
    pub remedy: String,
}

/// How often a program ran and for how long, while statistics were on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramStats {
    /// The name of the program, as in `bpf/`.
    pub name: &'static str,
    /// How often the program ran.
    pub runs: u64,
    /// How long all runs took together, in nanoseconds.
    pub nanoseconds: u64,
}
