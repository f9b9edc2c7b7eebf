//! Who holds a UDP port that we want: what a start says when it cannot have it.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;

/// A process that has a socket on a UDP port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The process; none where the socket is in no process's table (it is the kernel's, or under way between processes).
    pub pid: Option<u32>,
    /// The program that the process executes, as far as /proc says.
    pub program: String,
    /// The user that owns the socket.
    pub uid: u32,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid} ({}, user {})", self.program, self.uid),
            None => write!(f, "a socket of user {} that no process has open", self.uid),
        }
    }
}

/// A socket of the list.
struct Bound {
    uid: u32,
    inode: u64,
}

/// The processes that have sockets on the UDP port `port` of the calling thread's network namespace. The list is empty
/// if nobody has one any more, or if /proc does not say.
pub fn holders(port: u16) -> Vec<Holder> {
    let mut bound = Vec::new();
    for file in ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"] {
        bound.extend(on_port(&fs::read_to_string(file).unwrap_or_default(), port));
    }
    let mut out = BTreeSet::new();
    for socket in bound {
        let processes = processes_with(socket.inode);
        if processes.is_empty() {
            out.insert(Holder { pid: None, program: String::new(), uid: socket.uid });
        }
        for pid in processes {
            out.insert(Holder { pid: Some(pid), program: program_of(pid), uid: socket.uid });
        }
    }
    out.into_iter().collect()
}

/// The sockets of a port in a list of /proc/net/udp: `sl local_address rem_address st queues timer retransmits uid timeout inode`.
fn on_port(list: &str, port: u16) -> Vec<Bound> {
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = words.get(1)?.rsplit_once(':')?;
        (u16::from_str_radix(local, 16).ok()? == port)
            .then(|| Some(Bound { uid: words.get(7)?.parse().ok()?, inode: words.get(9)?.parse().ok()? }))?
    };
    list.lines().skip(1).filter_map(socket).collect()
}

fn processes_with(inode: u64) -> Vec<u32> {
    let wanted = format!("socket:[{inode}]");
    let has = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|to| to.as_os_str() == wanted.as_str())
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has).collect()
}

fn program_of(pid: u32) -> String {
    let by_path = fs::read_link(format!("/proc/{pid}/exe")).map(|path| path.display().to_string());
    by_path
        .or_else(|_| fs::read_to_string(format!("/proc/{pid}/comm")).map(|name| name.trim_end().to_owned()))
        .unwrap_or_else(|_| "a program that has ended".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_port_user_and_inode() {
        let list = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
                    2104: 00000000:1194 00000000:0000 07 00000000:00000000 00:00000000 00000000 65534        0 4711 2 0000000000000000 0\n\
                    2105: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 0\n";
        let found = on_port(list, 4500);
        assert_eq!(
            found.iter().map(|socket| (socket.uid, socket.inode)).collect::<Vec<_>>(),
            [(65534, 4711)]
        );
        assert!(on_port(list, 4501).is_empty());
        assert!(on_port("", 4500).is_empty());
    }

    #[test]
    fn a_socket_of_our_own_is_found() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let found = holders(socket.local_addr().unwrap().port());
        let own = std::process::id();
        assert!(found.iter().any(|holder| holder.pid == Some(own)), "{found:?}");
        let text = found.iter().find(|holder| holder.pid == Some(own)).unwrap().to_string();
        assert!(text.starts_with(&format!("process {own} (/")), "{text}");
    }
}
