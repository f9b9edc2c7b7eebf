//! The types of the monitor's answers: sockets, identities, refusals, checks.

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
pub enum FlowCounting {
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
    /// The name of the instance, 1 to 32 of `A-Z a-z 0-9 - _`. Its pins are under `/sys/fs/bpf/ravelin/INSTANCE`.
    pub instance: String,
    /// The cgroup v2 directory whose programs are watched; the root for the whole host.
    pub cgroup: PathBuf,
    /// The cgroup v2 directory of the daemon. Sockets made in it are never stamped, and their packets leave untouched.
    pub exempt_cgroup: PathBuf,
    /// The interface index of the TUN, in the calling thread's network namespace.
    pub tun_ifindex: u32,
    /// The interface indices of the guarded devices, in the calling thread's network namespace.
    pub uplinks: Vec<u32>,
    /// The interface indices of every other device except `lo` and the TUN. Policy also decides about frames of packet
    /// sockets that leave there.
    pub others: Vec<u32>,
    /// The addresses of this host; see [`crate::Sockmon::set_locals`].
    pub locals: Vec<Prefix>,
    /// The interface indices of the networks behind this host, in the same namespace. The list is empty if the host is
    /// no gateway.
    pub insides: Vec<u32>,
    /// The prefixes whose packets pass a gateway without the engine, by the rules that will be in force. Prefixes that
    /// pass under an earlier daemon and are in this list go on without a pause; the others stop passing.
    pub spans: Vec<Span>,
    /// The report of what sockets do ([`crate::Sockmon::socket_events`]). The value is the time in milliseconds after
    /// which a datagram socket that sends to the same peer is reported again. With `None` nothing is reported, and
    /// programs that only the report needs are not attached.
    pub per_socket: Option<u32>,
    /// The directories where bare names of executables are looked for.
    pub directories: Vec<PathBuf>,
    /// The bits of marks that belong to this instance.
    pub marks: Marks,
    /// The programs whose flows are counted one by one.
    pub flows: FlowCounting,
    /// Whether programs are refused when they ask for protection on their own sockets (docs/socket-api.md).
    pub no_requests: bool,
    /// The ICMP errors for a gateway itself that are believed from the networks behind it.
    pub inside_icmp: InsideIcmp,
    /// For tests only: programs (by their names in `bpf/`) that are not attached, to show that traffic leaks without them.
    pub omit: Vec<String>,
}

impl Options {
    /// Makes options without uplinks, with the defaults of everything else.
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
            flows: FlowCounting::default(),
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

/// The state of a socket.
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

    /// The word for the state, as commands print it.
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
    /// The application that the socket is stamped with; [`AppId::NONE`] if there is none.
    pub app: AppId,
    /// Whether policy decides about the socket: it is in the watched control group, or it is stamped.
    pub watched: bool,
    /// The services that the program asked for beyond policy: 1 authentication, 2 encryption.
    pub required: u8,
    /// The mark that the socket has.
    pub mark: u32,
    /// The IP protocol number of the socket.
    pub protocol: u8,
    /// The local address of the socket. An IPv4 address stands as such even if an IPv6 socket carries it.
    pub local: SocketAddr,
    /// The peer's address; an unspecified address and port 0 if there is none.
    pub remote: SocketAddr,
    /// The state that the socket is in.
    pub state: SocketState,
    /// The kernel's cookie of the socket, as in the record of its packets; 0 if the kernel has given none yet.
    pub cookie: u64,
    /// The cookie of the socket's network namespace.
    pub netns: u64,
    /// The number of the socket's inode, as in `/proc/PID/fd` and `/proc/net`.
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

/// The action of a program that the kernel half refused or reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// A call of connect(2).
    Connect,
    /// A call of sendto(2), or of sendmsg(2) with an address.
    Send,
    /// A call of bind(2).
    Bind,
    /// A call of listen(2). It cannot be refused; the socket keeps its old stamp.
    Listen,
    /// A call of setsockopt(2) with SO_MARK.
    SetMark,
    /// A call of setsockopt(2) with RAVELIN_REQUIRE (docs/socket-api.md).
    Require,
    /// A call of socket(2) for a kind that policy cannot be enforced on.
    Create,
    /// A program executed a file that appeared at a place of the policy after the policy was loaded. This is no refusal
    /// if the file is now known as that of the policy. It is a refusal if there was no room for it, or if policy asks
    /// for a digest that nobody has verified.
    Execute(Identity),
    /// A packet that a socket of an application sent.
    PacketOut,
    /// A packet that arrived for a socket of an application.
    PacketIn,
    /// An attempt that this version does not know, by the kernel half's number.
    Other(u8),
}

impl Attempt {
    /// The action in one word.
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

/// A refusal, which a program saw as EPERM or which ended a packet; or a new executable ([`Attempt::Execute`]). The
/// event of a packet has process 0, no user and no name.
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
    /// The name of the counter that the event was added to.
    pub reason: &'static str,
    /// Whether it passed because its network is observed. It would have been refused otherwise.
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

/// The number of sockets that [`crate::Sockmon::adopt`] found, by what was done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// The number of sockets of applications with a policy that some process holds.
    pub sockets: usize,
    /// The number of sockets whose mark was set through the process (UDP, raw, TCP that is not yet connected).
    pub marked: usize,
    /// The number of sockets whose mark could not be set. The kernel half steers them by their storage all the same.
    pub unmarked: usize,
    /// The number of connections that were ended because there was no room for a stamp (RFC 9293 section 3.10.5).
    pub ended: usize,
    /// The number of sockets that have no stamp for lack of room and were not ended. They cannot send, but accept what
    /// arrives in clear.
    pub unstamped: usize,
    /// The number of listeners for which there was no room. Connections that wait to be accepted there are not stamped.
    pub listeners_left_out: usize,
}

/// A result of [`crate::Sockmon::load_policy`] that the user may not have meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadWarning {
    /// The path is a `#!` script. The kernel runs the interpreter, and the process has the interpreter's identity.
    Script {
        /// The path of the script.
        path: PathBuf,
        /// The interpreter that the script's first line names.
        interpreter: String,
    },
    /// The executable does not exist. It counts as soon as it does.
    Missing {
        /// The path that policy names.
        path: PathBuf,
        /// The reason why the path has no executable.
        reason: String,
    },
    /// The path leads, by a name of one user, to a file of another. The policy of the name does not hold for that file.
    Foreign {
        /// The path that policy names.
        path: PathBuf,
        /// The name that leads astray, and its owner.
        reason: String,
    },
    /// The file system of the path does not answer: the server of a mount is gone. What was known of the path before
    /// stays in force.
    NoAnswer {
        /// The path that does not answer.
        path: PathBuf,
    },
    /// No standard directory has an executable of this name. It counts as soon as one does.
    Nowhere {
        /// The bare name of the executable.
        name: String,
    },
    /// The path is a symbolic link to a file of another name (alternatives, multi-call programs). Every process of that
    /// file is meant.
    Link {
        /// The path of the link.
        path: PathBuf,
        /// The file that the link leads to.
        file: PathBuf,
    },
    /// The path is a symbolic link, and policy gives a digest. The digest is that of the file behind the link.
    PinnedLink {
        /// The path of the link.
        path: PathBuf,
        /// The file that the link leads to.
        file: PathBuf,
    },
    /// The file name is too long for the kernel half's table. A new file of this name becomes known some seconds after
    /// it appears.
    LongName {
        /// The path with the long file name.
        path: PathBuf,
    },
    /// A subject that means this file never decides, because another one that means the file fits every process.
    Shadowed {
        /// The path of the file.
        path: PathBuf,
        /// The application whose subject never decides about the file.
        app: AppId,
        /// The application whose subject decides about it instead.
        by: AppId,
    },
    /// Pairs of policies were not compared, or the results had no room. Sockets do not change hands between their
    /// applications.
    Uncompared {
        /// The number of pairs that were not compared or had no room.
        pairs: usize,
    },
    /// The new policy is in force, but a step behind it could not be done. The next load repeats the step.
    Unfinished {
        /// The step that was not done.
        step: &'static str,
        /// The reason why the step could not be done.
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

/// A difference from what [`crate::Sockmon::attach`] left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The program or the pin that is affected.
    pub what: String,
    /// A description of what is wrong.
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

/// The runs of a program and the time they took, while statistics were on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramStats {
    /// The name of the program, as in `bpf/`.
    pub name: &'static str,
    /// The number of runs of the program.
    pub runs: u64,
    /// The time of all runs together, in nanoseconds.
    pub nanoseconds: u64,
}
