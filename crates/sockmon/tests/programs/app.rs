//! A program to be watched: reads commands, one a line, makes the socket call, answers with one line: `ok`, a number,
//! or the name of the error. Its descriptors stay open over exec, so a socket can change hands.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int, c_void};
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd};
use std::str::SplitWhitespace;

mod compat;
mod frames;
mod fuse;
mod rights;

type Sockets = BTreeMap<String, c_int>;

/// The level of Ravelin's own options (include/ravelin.h).
const SOL_RAVELIN: c_int = 0x52564c;
/// The environment variable that names the descriptors for the next image after exec.
const SOCKETS: &str = "SOCKMON_TEST_SOCKETS";

fn main() {
    let mut sockets: Sockets = std::env::var(SOCKETS)
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|pair| {
            pair.split_once('=').map(|(name, fd)| (name.into(), fd.parse().expect("a number")))
        })
        .collect();
    say("ready");
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        match run(&mut line.split_whitespace(), &mut sockets) {
            Ok(answer) => say(&answer),
            Err(error) => say(&name_of(&error)),
        }
    }
}

fn say(answer: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{answer}");
    let _ = out.flush();
}

fn name_of(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => "EPERM".into(),
        Some(libc::EACCES) => "EACCES".into(),
        Some(libc::EINPROGRESS) => "EINPROGRESS".into(),
        Some(libc::ETIMEDOUT) => "ETIMEDOUT".into(),
        Some(libc::ECONNREFUSED) => "ECONNREFUSED".into(),
        Some(libc::EMSGSIZE) => "EMSGSIZE".into(),
        Some(libc::EINVAL) => "EINVAL".into(),
        Some(libc::EOPNOTSUPP) => "EOPNOTSUPP".into(),
        Some(libc::ENOPROTOOPT) => "ENOPROTOOPT".into(),
        Some(n) => format!("errno {n}"),
        None => format!("{error}"),
    }
}

fn ret(value: c_int) -> io::Result<c_int> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

fn word<'a>(words: &mut SplitWhitespace<'a>) -> &'a str {
    words.next().expect("the command has more words")
}

fn number(words: &mut SplitWhitespace<'_>) -> usize {
    word(words).parse().expect("a number")
}

fn run(words: &mut SplitWhitespace<'_>, sockets: &mut Sockets) -> io::Result<String> {
    let command = word(words);
    match command {
        "pid" => return Ok(std::process::id().to_string()),
        "exec" => return Err(exec(word(words), sockets)),
        // Somebody else must write what its numbers mean.
        // SAFETY: a number.
        "unshare" => return ret(unsafe { libc::unshare(libc::CLONE_NEWUSER) }).map(|_| "ok".into()),
        "threadexec" => return Err(exec_from_thread(word(words), sockets)),
        "fuseexec" => {
            let (at, file, inode) = (word(words), word(words), number(words) as u64);
            fuse::mount(at, file, inode)?;
            return Err(exec(&format!("{at}/x"), sockets));
        }
        "fuselink" => {
            let (at, target, user) = (word(words), word(words), number(words) as u32);
            return fuse::mount_link(at, target, user).map(|()| "ok".into());
        }
        "child" => return child(words, sockets),
        "fork" => return fork(),
        // So many children, one behind the other, each of which sends to the discard port of `lo`.
        "forks" => return forks(number(words)),
        "descend" => return descend(),
        "memfd" => return Err(execute_copy(word(words), sockets, true)),
        "unlinked" => return Err(execute_copy(word(words), sockets, false)),
        // From here on user 65534, without a capability ("none") or with CAP_NET_RAW alone ("raw").
        "stranger" => return stranger(word(words) == "raw"),
        "enter" => return std::fs::write(word(words), "0").map(|()| "ok".into()),
        "uid" => {
            let user = number(words) as libc::uid_t;
            // SAFETY: numbers.
            return ret(unsafe { libc::setresuid(user, user, user) }).map(|_| "ok".into());
        }
        _ => {}
    }
    let name = word(words);
    if command == "open" {
        sockets.insert(name.into(), open(word(words))?);
        return Ok("ok".into());
    }
    let fd = *sockets.get(name).expect("a socket of that name");
    if command == "chown" {
        // SAFETY: numbers.
        return ret(unsafe { libc::fchown(fd, number(words) as libc::uid_t, u32::MAX) }).map(|_| "ok".into());
    }
    match command {
        // SAFETY: an address and its length.
        "bind" => with_address(words, |a, n| unsafe { libc::bind(fd, a, n) })?,
        // SAFETY: as above.
        "connect" => with_address(words, |a, n| unsafe { libc::connect(fd, a, n) })?,
        // SAFETY: no pointer is passed.
        "listen" => ret(unsafe { libc::listen(fd, 16) })?,
        "accept" => {
            let new = word(words).to_owned();
            wait(fd, number(words))?;
            // SAFETY: null: the peer's address is not wanted.
            let accepted = ret(unsafe { libc::accept(fd, std::ptr::null_mut(), std::ptr::null_mut()) })?;
            sockets.insert(new, accepted);
            0
        }
        // An association of an SCTP socket for all becomes a socket: SCTP_GET_ASSOC_ID_LIST, SCTP_SOCKOPT_PEELOFF (RFC 6458).
        "peeloff" => {
            let new = word(words).to_owned();
            wait(fd, number(words))?;
            let mut list = [0u32; 2];
            let mut len = size_of_val(&list) as libc::socklen_t;
            // SAFETY: the buffer has the length that is passed.
            ret(unsafe {
                libc::getsockopt(fd, libc::IPPROTO_SCTP, 29, list.as_mut_ptr().cast(), &raw mut len)
            })?;
            let mut peeled = [list[1] as c_int, 0];
            let mut len = size_of_val(&peeled) as libc::socklen_t;
            // SAFETY: the buffer has the length that is passed.
            let made = ret(unsafe {
                libc::getsockopt(fd, libc::IPPROTO_SCTP, 102, peeled.as_mut_ptr().cast(), &raw mut len)
            })?;
            sockets.insert(new, made);
            0
        }
        // Into the queue of a Unix socket and out again: meanwhile it is in no table of descriptors.
        "stow" => return rights::stow(fd, name, sockets),
        "take" => {
            let taken = rights::take(fd)?;
            sockets.insert(word(words).into(), taken);
            0
        }
        // Closed, but for a message under way that nobody can receive: a worker of the kernel's finds that out.
        "knot" => return rights::knot(fd),
        // As many keys for other peers as there is room for: anybody may, and it is taken from the socket's own.
        "crowd" => return crowd(fd),
        // A filter that takes all room but for a few octets; whoever is accepted has the same.
        "burden" => return burden(fd),
        "sendto" => return sendto(fd, words, 0),
        // These octets, in hexadecimal, to an address.
        "sendhex" => return sendhex(fd, words),
        // A datagram with a mark beside it: address, octets, the mark in hexadecimal.
        "sendmark" => return sendmark(fd, words),
        // Send by this device alone; a source that is not this host's (IPV6_FREEBIND).
        "device" => {
            let name = CString::new(word(words)).expect("no zero octet");
            // SAFETY: a C string and its length.
            ret(unsafe {
                let (value, len) = (name.as_ptr().cast(), name.as_bytes().len() as u32);
                libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, value, len)
            })?
        }
        "freebind" => option(fd, libc::SOL_IPV6, 78, 1)?,
        // The next datagrams bring their own IPv4 header, with this source, to this address and port.
        "spoof" => return spoof(fd, words),
        "sweep" => return sweep(fd, words),
        "fastopen" => return sendto(fd, words, libc::MSG_FASTOPEN),
        "frame" => return frames::frame(fd, words),
        "summed" => return frames::summed(fd, words),
        // A question of ARP by this device.
        "arp" => return frames::arp(fd, word(words)),
        // "more": there is more to come (MSG_MORE), so that the kernel may wait with it.
        "send" | "more" => {
            let data = vec![b'x'; number(words)];
            let flags = if command == "more" { libc::MSG_MORE } else { 0 };
            // SAFETY: the buffer has the length that is passed.
            ret(unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), flags) } as c_int)?
        }
        "recv" => {
            wait(fd, number(words))?;
            let mut data = vec![0u8; 65536];
            // SAFETY: the buffer has the length that is passed.
            let n = ret(unsafe { libc::recv(fd, data.as_mut_ptr().cast(), data.len(), 0) } as c_int)?;
            return Ok(n.to_string());
        }
        // Read so many octets; an FNV-1a hash of them.
        "collect" => {
            let (wanted, mut have, mut hash) = (number(words), 0, 0xcbf2_9ce4_8422_2325_u64);
            while have < wanted {
                wait(fd, 5000)?;
                let mut data = vec![0u8; wanted - have];
                // SAFETY: the buffer has the length that is passed.
                let n = ret(unsafe { libc::recv(fd, data.as_mut_ptr().cast(), data.len(), 0) } as c_int)?;
                let octets = &data[..n as usize];
                hash = octets.iter().fold(hash, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
                have += octets.len();
                if n == 0 {
                    break;
                }
            }
            return Ok(format!("{hash:x}"));
        }
        "mark" => {
            let mut mark = 0u32;
            let mut len = 4;
            // SAFETY: the buffer has the length that is passed.
            ret(unsafe {
                libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MARK, (&raw mut mark).cast(), &raw mut len)
            })?;
            return Ok(format!("{mark:#x}"));
        }
        "setmark" => {
            let mark = u32::from_str_radix(word(words).trim_start_matches("0x"), 16).expect("a mark");
            option(fd, libc::SOL_SOCKET, libc::SO_MARK, mark as c_int)?
        }
        // Ask for services (docs/socket-api.md); a second number is the length that the kernel is told.
        "require" => {
            let value = [number(words) as u32, 0];
            let len = words.next().map_or(4, |len| len.parse().expect("a length"));
            // SAFETY: the buffer has at least the length that is passed.
            ret(unsafe { libc::setsockopt(fd, SOL_RAVELIN, 1, value.as_ptr().cast(), len) })?
        }
        // An option of any level, into a buffer of so many octets: words of four octets.
        "get" => {
            let (level, name, mut len) =
                (number(words) as c_int, number(words) as c_int, number(words) as u32);
            let mut words = vec![0u32; len as usize / 4 + 1];
            // SAFETY: the buffer has at least the length that is passed.
            ret(unsafe { libc::getsockopt(fd, level, name, words.as_mut_ptr().cast(), &raw mut len) })?;
            let words: Vec<String> = words[..len as usize / 4].iter().map(u32::to_string).collect();
            return Ok(words.join(" "));
        }
        // Set an option to so many octets, the first of which are a one.
        "set" => {
            let (level, name, len) = (number(words) as c_int, number(words) as c_int, number(words));
            let mut value = vec![0u8; len];
            value[0] = 1;
            // SAFETY: the buffer has the length that is passed.
            ret(unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), len as u32) })?
        }
        // The same by a system call of 32 bits.
        "set32" => {
            let (level, name, len) = (number(words) as c_int, number(words) as c_int, number(words));
            compat::set(fd, level, name, len)?
        }
        // The TOS octet of IPv4, or the traffic class of IPv6.
        "tos" => {
            let tos = number(words) as c_int;
            option(fd, libc::SOL_IPV6, libc::IPV6_TCLASS, tos)
                .or_else(|_| option(fd, libc::SOL_IP, libc::IP_TOS, tos))?
        }
        "segment" => option(fd, libc::SOL_UDP, libc::UDP_SEGMENT, number(words) as c_int)?,
        // A loose source route by way of another host (RFC 791).
        "route" => {
            let hop: std::net::Ipv4Addr = word(words).parse().expect("an address");
            let [a, b, c, d] = hop.octets();
            let options = [131u8, 7, 4, a, b, c, d, 0];
            // SAFETY: the buffer has the length that is passed.
            ret(unsafe { libc::setsockopt(fd, libc::SOL_IP, libc::IP_OPTIONS, options.as_ptr().cast(), 8) })?
        }
        // What the kernel takes out of the datagrams of a socket before it looks at the socket (UDP_ENCAP_L2TPINUDP); nothing, without L2TP.
        "encapsulate" => option(fd, libc::SOL_UDP, 100, 3)?,
        "fragment" => option(fd, libc::SOL_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT)?,
        // SAFETY: no pointer is passed.
        "close" => ret(unsafe { libc::close(fd) })?,
        other => panic!("no such command: {other}"),
    };
    Ok("ok".into())
}

fn open(kind: &str) -> io::Result<c_int> {
    let family = if kind.ends_with('6') { libc::AF_INET6 } else { libc::AF_INET };
    let (kind, protocol) = match &kind[..kind.len() - 1] {
        "tcp" => (libc::SOCK_STREAM, 0),
        "udp" => (libc::SOCK_DGRAM, 0),
        // One socket for each association, and one for all.
        "sctp" => (libc::SOCK_STREAM, libc::IPPROTO_SCTP),
        "sctpmany" => (libc::SOCK_SEQPACKET, libc::IPPROTO_SCTP),
        "unix" => {
            // SAFETY: no pointer is passed.
            return ret(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) });
        }
        // L2TP over IP.
        "l2tpip" => (libc::SOCK_DGRAM, 115),
        "icmp" => (libc::SOCK_RAW, libc::IPPROTO_ICMP),
        "raw" => (libc::SOCK_RAW, libc::IPPROTO_RAW),
        // Is shown copies of every packet of the protocol.
        "rawudp" => (libc::SOCK_RAW, libc::IPPROTO_UDP),
        "rawtcp" => (libc::SOCK_RAW, libc::IPPROTO_TCP),
        "rawesp" => (libc::SOCK_RAW, libc::IPPROTO_ESP),
        // Frames, and a socket of AF_XDP: nothing is received.
        "packet" | "xdp" => {
            let family = if kind.starts_with('p') { libc::AF_PACKET } else { libc::AF_XDP };
            // SAFETY: no pointer is passed.
            return ret(unsafe { libc::socket(family, libc::SOCK_RAW, 0) });
        }
        other => panic!("no such kind: {other}"),
    };
    // Its handshake is the kernel's alone, so whoever waits for it waits for nothing that a test has to do.
    let waits = if protocol == libc::IPPROTO_SCTP { 0 } else { libc::SOCK_NONBLOCK };
    // SAFETY: no pointer is passed.
    ret(unsafe { libc::socket(family, kind | waits, protocol) })
}

fn option(fd: c_int, level: c_int, name: c_int, value: c_int) -> io::Result<c_int> {
    // SAFETY: the buffer has the length that is passed.
    ret(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast::<c_void>(), 4) })
}

fn wait(fd: c_int, milliseconds: usize) -> io::Result<()> {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry is passed, and one there is.
    match ret(unsafe { libc::poll(&raw mut poll, 1, milliseconds as c_int) })? {
        0 => Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
        _ => Ok(()),
    }
}

fn with_address(
    words: &mut SplitWhitespace<'_>,
    call: impl FnOnce(*const libc::sockaddr, libc::socklen_t) -> c_int,
) -> io::Result<c_int> {
    let (storage, len) = address(word(words).parse().expect("ADDRESS:PORT"));
    ret(call((&raw const storage).cast(), len))
}

fn address(addr: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: zeroes are a sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let len = match addr {
        SocketAddr::V4(v4) => {
            let to = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: a sockaddr_storage is larger and at least as aligned.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(to) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let to = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: 0,
            };
            // SAFETY: a sockaddr_storage is larger and at least as aligned.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(to) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as libc::socklen_t)
}

fn sendto(fd: c_int, words: &mut SplitWhitespace<'_>, flags: c_int) -> io::Result<String> {
    let (to, len) = address(word(words).parse().expect("ADDRESS:PORT"));
    let mut data = vec![b'x'; number(words)];
    // An ICMP echo request, for raw sockets.
    if data.len() >= 8 && to.ss_family == libc::AF_INET as u16 && words.next() == Some("echo") {
        data[..8].copy_from_slice(&[8, 0, 0, 0, 0, 1, 0, 1]);
    }
    // SAFETY: the buffers have the lengths that are passed.
    let n = unsafe { libc::sendto(fd, data.as_ptr().cast(), data.len(), flags, (&raw const to).cast(), len) };
    ret(n as c_int).map(|_| "ok".into())
}

/// A datagram with SO_MARK as a control message.
fn sendhex(fd: c_int, words: &mut SplitWhitespace<'_>) -> io::Result<String> {
    let (to, len) = address(word(words).parse().expect("ADDRESS:PORT"));
    let digits = word(words);
    let octet = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
    let data: Vec<u8> = (0..digits.len()).step_by(2).map(octet).collect();
    // SAFETY: the buffers have the lengths that are passed.
    ret(unsafe { libc::sendto(fd, data.as_ptr().cast(), data.len(), 0, (&raw const to).cast(), len) }
        as c_int)
    .map(|_| "ok".into())
}

fn sendmark(fd: c_int, words: &mut SplitWhitespace<'_>) -> io::Result<String> {
    let (mut to, len) = address(word(words).parse().expect("ADDRESS:PORT"));
    let mut data = vec![b'x'; number(words)];
    let mark = u32::from_str_radix(word(words).trim_start_matches("0x"), 16).expect("a mark");
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    let mut control = [0u64; 4];
    // SAFETY: zeroes are a msghdr; the buffers have the lengths that are passed, and the control message fits into its own.
    ret(unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_name = (&raw mut to).cast();
        message.msg_namelen = len;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SO_MARK;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<u32>().write_unaligned(mark);
        libc::sendmsg(fd, &raw const message, 0)
    } as c_int)
    .map(|_| "ok".into())
}

/// A UDP datagram whose IPv4 header says another source (IP_HDRINCL): source, address and port.
fn spoof(fd: c_int, words: &mut SplitWhitespace<'_>) -> io::Result<String> {
    let source: std::net::Ipv4Addr = word(words).parse().expect("an address");
    let to: SocketAddr = word(words).parse().expect("ADDRESS:PORT");
    let SocketAddr::V4(to4) = to else { panic!("IPv4") };
    let mut data = vec![0x45, 0, 0, 35, 0, 0, 0, 0, 64, 17, 0, 0];
    data.extend(source.octets());
    data.extend(to4.ip().octets());
    data.extend([0, 9]);
    data.extend(to4.port().to_be_bytes());
    data.extend([0, 15, 0, 0]);
    data.extend(b"forged!");
    let (to, len) = address(SocketAddr::from((*to4.ip(), 0)));
    // SAFETY: the buffers have the lengths that are passed.
    let n = unsafe { libc::sendto(fd, data.as_ptr().cast(), data.len(), 0, (&raw const to).cast(), len) };
    ret(n as c_int).map(|_| "ok".into())
}

/// User 65534 with one capability at most.
fn stranger(raw: bool) -> io::Result<String> {
    const PERMITTED_AND_EFFECTIVE: u32 = 1 << 13; // CAP_NET_RAW
    let bits = if raw { PERMITTED_AND_EFFECTIVE } else { 0 };
    // linux/capability.h, version 3: two words each of effective, permitted, inheritable.
    let header = [0x2008_0522u32, 0];
    let data = [bits, bits, 0, 0, 0, 0];
    // SAFETY: numbers; for capset a header and data as the kernel defines them.
    unsafe {
        ret(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0))?;
        ret(libc::setresgid(65534, 65534, 65534))?;
        ret(libc::setresuid(65534, 65534, 65534))?;
        ret(libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) as c_int)?;
    }
    Ok("ok".into())
}

/// Become another program; its `ready` is the answer.
fn exec(path: &str, sockets: &Sockets) -> io::Error {
    match File::open(path) {
        Ok(file) => execute(&file, Some(path), sockets),
        Err(error) => error,
    }
}

/// Become another program by another thread than the first.
fn exec_from_thread(path: &str, sockets: &Sockets) -> io::Error {
    let (path, sockets) = (path.to_owned(), sockets.clone());
    std::thread::spawn(move || exec(&path, &sockets)).join().expect("it returns")
}

fn crowd(fd: c_int) -> io::Result<String> {
    const TCP_MD5SIG: c_int = 14;
    // struct tcp_md5sig: address, flags, prefix length, length of the key, interface, key.
    let mut key = [0u8; 128 + 8 + 80];
    key[0] = libc::AF_INET as u8;
    key[130..132].copy_from_slice(&1u16.to_ne_bytes());
    for n in 1u32.. {
        key[4..8].copy_from_slice(&(0xc612_0000 + n).to_be_bytes());
        // SAFETY: the buffer has the length that is passed.
        let set =
            unsafe { libc::setsockopt(fd, libc::SOL_TCP, TCP_MD5SIG, key.as_ptr().cast(), key.len() as u32) };
        if let Err(error) = ret(set) {
            return if error.raw_os_error() == Some(libc::ENOMEM) { Ok(n.to_string()) } else { Err(error) };
        }
    }
    Ok("ok".into())
}

/// Attach the longest classic filter that the socket has room for, and say how many instructions it has. It lets everything pass.
fn burden(fd: c_int) -> io::Result<String> {
    const LONG: libc::sock_filter = libc::sock_filter { code: 0xb1, jt: 0, jf: 0, k: 0 };
    const SHORT: libc::sock_filter = libc::sock_filter { code: 0x07, jt: 0, jf: 0, k: 0 };
    const PASS: libc::sock_filter = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: u32::MAX };
    let attach = |long: usize, short: usize| -> io::Result<bool> {
        // The old filter is charged as long as it is there.
        let _ = option(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0);
        let mut code = vec![LONG; long];
        code.extend(std::iter::repeat_n(SHORT, short).chain([PASS]));
        let filter = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
        let len = size_of_val(&filter) as libc::socklen_t;
        // SAFETY: the program has the length that it says.
        let set = unsafe {
            libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const filter).cast(), len)
        };
        match ret(set) {
            Err(error) if error.raw_os_error() != Some(libc::ENOMEM) => Err(error),
            done => Ok(done.is_ok()),
        }
    };
    // LDX MSH becomes several instructions of the kernel's own, TAX one.
    let (mut fits, mut fails) = (0, 4000);
    while fails - fits > 1 {
        let middle = usize::midpoint(fits, fails);
        *(if attach(middle, 0)? { &mut fits } else { &mut fails }) = middle;
    }
    let mut short = 0;
    while short < 90 && attach(fits, short + 1)? {
        short += 1;
    }
    if !attach(fits, short)? {
        return Err(io::Error::other("the room has changed"));
    }
    Ok((fits + short + 1).to_string())
}

/// Execute a copy of a file that has no name: in memory, or removed before.
fn execute_copy(path: &str, sockets: &Sockets, memory: bool) -> io::Error {
    let copy = || -> io::Result<File> {
        let octets = std::fs::read(path)?;
        if memory {
            // SAFETY: a C string; the kernel's descriptor is ours.
            let mut file = unsafe { File::from_raw_fd(ret(libc::memfd_create(c"copy".as_ptr(), 0))?) };
            file.write_all(&octets)?;
            // Opened for writing it is busy, so by another descriptor.
            return File::open(format!("/proc/self/fd/{}", file.as_raw_fd()));
        }
        let aside = format!("{path}.{}", std::process::id());
        std::fs::copy(path, &aside)?;
        let file = File::open(&aside)?;
        std::fs::remove_file(&aside)?;
        Ok(file)
    };
    match copy() {
        Ok(file) => execute(&file, None, sockets),
        Err(error) => error,
    }
}

/// Execute a file by its path, if there is one, else by the descriptor.
fn execute(file: &File, path: Option<&str>, sockets: &Sockets) -> io::Error {
    let list: Vec<String> = sockets.iter().map(|(name, fd)| format!("{name}={fd}")).collect();
    let environment = CString::new(format!("{SOCKETS}={}", list.join(" "))).expect("no zero octet");
    let name = CString::new(path.unwrap_or("")).expect("no zero octet");
    let arguments = [c"app".as_ptr(), std::ptr::null()];
    let environment = [environment.as_ptr(), std::ptr::null()];
    // SAFETY: both arrays end with a null pointer and hold C strings that live.
    unsafe {
        match path {
            Some(_) => libc::execve(name.as_ptr(), arguments.as_ptr(), environment.as_ptr()),
            None => libc::fexecve(file.as_raw_fd(), arguments.as_ptr(), environment.as_ptr()),
        }
    };
    io::Error::last_os_error()
}

/// Go on as a child; the parent stays until it ends.
fn descend() -> io::Result<String> {
    // SAFETY: this process has one thread.
    let pid = ret(unsafe { libc::fork() })?;
    if pid == 0 {
        return Ok("ok".into());
    }
    // SAFETY: our own child; nothing else is left to do.
    unsafe {
        libc::waitpid(pid, std::ptr::null_mut(), 0);
        libc::_exit(0);
    }
}

/// A child that does nothing and ends with us; its number.
fn fork() -> io::Result<String> {
    let mut pipe = [0; 2];
    // SAFETY: an array of two, as the call wants.
    ret(unsafe { libc::pipe(pipe.as_mut_ptr()) })?;
    // SAFETY: this process has one thread.
    let pid = ret(unsafe { libc::fork() })?;
    if pid == 0 {
        // SAFETY: our descriptors; the read ends when the parent has, and the child with it.
        unsafe {
            libc::close(pipe[1]);
            libc::read(pipe[0], (&raw mut pipe).cast(), 1);
            libc::_exit(0);
        }
    }
    Ok(pid.to_string())
}

/// An error: of these children one may not send.
fn forks(count: usize) -> io::Result<String> {
    for _ in 0..count {
        // SAFETY: this process has one thread.
        let pid = ret(unsafe { libc::fork() })?;
        if pid == 0 {
            let sends = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|s| s.connect("127.0.0.1:9"));
            // SAFETY: a number.
            unsafe { libc::_exit(i32::from(sends.is_err())) };
        }
        let mut status = 0;
        // SAFETY: a number of our own to write to.
        ret(unsafe { libc::waitpid(pid, &raw mut status, 0) })?;
        if status != 0 {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
    }
    Ok("ok".into())
}

/// Let a forked child do the rest of the line; its answer is ours.
fn child(words: &mut SplitWhitespace<'_>, sockets: &mut Sockets) -> io::Result<String> {
    let mut pipe = [0; 2];
    // SAFETY: an array of two, as the call wants.
    ret(unsafe { libc::pipe(pipe.as_mut_ptr()) })?;
    // SAFETY: this process has one thread.
    let pid = ret(unsafe { libc::fork() })?;
    if pid == 0 {
        let answer = run(words, sockets).unwrap_or_else(|e| name_of(&e));
        // SAFETY: the buffer has the length that is passed; the child ends here.
        unsafe {
            libc::write(pipe[1], answer.as_ptr().cast(), answer.len());
            libc::_exit(0);
        }
    }
    let mut answer = vec![0u8; 256];
    // SAFETY: our descriptors; the buffer has the length that is passed.
    let n = unsafe {
        libc::close(pipe[1]);
        let n = libc::read(pipe[0], answer.as_mut_ptr().cast(), answer.len());
        libc::close(pipe[0]);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
        n
    };
    answer.truncate(ret(n as c_int)? as usize);
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// An octet to each of these ports of an IPv4 address.
fn sweep(fd: c_int, words: &mut SplitWhitespace<'_>) -> io::Result<String> {
    let (peer, first, last) = (word(words), number(words), number(words));
    for port in first..=last {
        sendto(fd, &mut format!("{peer}:{port} 1").split_whitespace(), 0)?;
    }
    Ok("ok".into())
}
