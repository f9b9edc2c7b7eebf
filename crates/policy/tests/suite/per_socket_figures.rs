//! Figures 4 and 5 of paper 000: every entry there is after each call, as the text of section 3.4 tells.

use std::sync::Arc;
use std::time::Duration;

use policy::{AppTable, Compiled, compile, parse};
use sadb::per_socket::{Call, PacketDirection};
use sadb::spd::{Action, DecisionReason, Level};
use sadb::{EntryLimits, PerSocket, SocketEvent};
use wire::{AppId, Flow, Services, Time, protocol};

/// Without a time for packets on their way: closed is gone, as the paper says it.
const TO_THE_LETTER: EntryLimits = EntryLimits {
    sockets: 16,
    entries: 64,
    each_app: 64,
    destinations: 16,
    ttl: Duration::from_secs(30),
    time_wait: Duration::ZERO,
    drain: Duration::ZERO,
};

struct Host {
    compiled: Compiled,
    table: PerSocket,
    now: Time,
}

impl Host {
    fn new(text: &str) -> Host {
        let parsed = parse("figure", text);
        assert!(!parsed.has_errors(), "{}", parsed.render(false));
        let compiled = compile(&parsed, &mut AppTable::new(), 1);
        let table = PerSocket::new(Arc::new(compiled.spd.clone()), TO_THE_LETTER);
        Host { compiled, table, now: Time::from_secs(1) }
    }

    fn app(&self, name: &str) -> AppId {
        self.compiled.find(name).expect("a block of the figure").id
    }

    fn call(&mut self, app: &str, socket: u64, call: Call, local: &str, remote: &str) {
        let flow = flow(local, remote, call);
        self.table.apply(&SocketEvent { socket, app: self.app(app), call, flow, now: self.now });
    }

    /// Each entry as the figures draw them.
    fn entries(&self) -> Vec<String> {
        let entries = self.table.list().map(|entry| {
            let action = match entry.decision.action {
                Action::Bypass => "bypass".to_owned(),
                Action::Discard => "discard".to_owned(),
                Action::Protect { services, level } => {
                    let service = if services == Services::ENCRYPTED { "ESP" } else { "AH" };
                    format!("{} {service}", if level == Level::Optional { "optional" } else { "mandatory" })
                }
            };
            format!("{} {}: {action}", entry.direction.name(), entry.selector)
        });
        entries.collect()
    }
}

fn flow(local: &str, remote: &str, call: Call) -> Flow {
    let (local, remote): (std::net::SocketAddr, std::net::SocketAddr) =
        (local.parse().unwrap(), remote.parse().unwrap());
    let datagram = matches!(call, Call::RecvFrom | Call::SendTo);
    Flow {
        opaque: false,
        local: local.ip(),
        remote: remote.ip(),
        local_port: local.port(),
        remote_port: remote.port(),
        protocol: if datagram { protocol::UDP } else { protocol::TCP },
    }
}

const NOBODY: &str = "0.0.0.0:0";

/// "1.1.1.0/24 is the local trusted network ... packets with remote port number 21 must be encrypted, and the other
/// traffic should be authenticated."
const FTP: &str = "application ftp {
  network 1.1.1.0/24 trusted;
  network 0.0.0.0/0 protected P;
  protection P {
    localport=any remoteport=21 encryption mandatory;
    localport=any remoteport=any authentication mandatory;
  }
}";

/// "2.2.2.0/24 is the local trusted network ... local port number 21 may be encrypted in option, and the other traffic
/// may be authenticated as an option too."
const VSFTPD: &str = "application vsftpd {
  network 2.2.2.0/24 trusted;
  network 0.0.0.0/0 protected P;
  protection P {
    localport=21 remoteport=any encryption optional;
    localport=any remoteport=any authentication optional;
  }
}";

#[test]
fn figure_4_tcp() {
    let mut server = Host::new(VSFTPD);
    let mut client = Host::new(FTP);
    let (policy_1, policy_2) = (
        "mirrored any:21 - 2.2.2.0/24 port any tcp: bypass",
        "mirrored any:21 - 0.0.0.0/0 port any tcp: optional ESP",
    );
    server.call("vsftpd", 1, Call::Listen, "0.0.0.0:21", NOBODY);
    assert_eq!(server.entries(), [policy_1, policy_2]);

    let control = "mirrored 1.1.1.1:2222 - 2.2.2.2 port 21 tcp: mandatory ESP";
    client.call("ftp", 1, Call::Connect, "1.1.1.1:2222", "2.2.2.2:21");
    assert_eq!(client.entries(), [control]);
    // The connection that comes in needs nothing of its own.
    server.call("vsftpd", 2, Call::Accept, "2.2.2.2:21", "1.1.1.1:2222");
    assert_eq!(server.entries(), [policy_1, policy_2]);

    let (policy_3, policy_4) = (
        "mirrored any:3333 - 2.2.2.0/24 port any tcp: bypass",
        "mirrored any:3333 - 0.0.0.0/0 port any tcp: optional AH",
    );
    server.call("vsftpd", 3, Call::Listen, "0.0.0.0:3333", NOBODY);
    assert_eq!(server.entries(), [policy_1, policy_2, policy_3, policy_4]);
    let data = "mirrored 1.1.1.1:4444 - 2.2.2.2 port 3333 tcp: mandatory AH";
    client.call("ftp", 2, Call::Connect, "1.1.1.1:4444", "2.2.2.2:3333");
    assert_eq!(client.entries(), [control, data]);
    server.call("vsftpd", 4, Call::Accept, "2.2.2.2:3333", "1.1.1.1:4444");

    // "After the socket is closed": the listener of the data connection, while the connection goes on. The paper does not say what
    // becomes of that; here it gets an entry of its own.
    server.call("vsftpd", 3, Call::Close, NOBODY, NOBODY);
    let own = "mirrored 2.2.2.2:3333 - 1.1.1.1 port 4444 tcp: optional AH";
    assert_eq!(server.entries(), [policy_1, policy_2, own]);
    server.call("vsftpd", 4, Call::Close, NOBODY, NOBODY);
    assert_eq!(server.entries(), [policy_1, policy_2]);
    client.call("ftp", 2, Call::TimeWait, NOBODY, NOBODY);
    assert_eq!(client.entries(), [control]);
    client.call("ftp", 1, Call::Close, NOBODY, NOBODY);
    assert_eq!(client.entries(), [""; 0]);
    server.call("vsftpd", 2, Call::Close, NOBODY, NOBODY);
    assert_eq!(server.entries(), [policy_1, policy_2]);
    server.call("vsftpd", 1, Call::Close, NOBODY, NOBODY);
    assert!(server.table.is_empty() && server.table.sockets() == 0 && client.table.sockets() == 0);
}

#[test]
fn a_connect_to_a_trusted_or_an_untrusted_peer() {
    let text = "application ftp {
      network 1.1.1.0/24 trusted; network 6.6.6.0/24 untrusted; network 0.0.0.0/0 protected P;
      protection P { localport=any remoteport=21 encryption mandatory; }
    }";
    let mut host = Host::new(text);
    host.call("ftp", 1, Call::Connect, "1.1.1.1:2222", "1.1.1.9:80");
    host.call("ftp", 2, Call::Connect, "1.1.1.1:2223", "6.6.6.6:80");
    host.call("ftp", 3, Call::Connect, "1.1.1.1:2224", "7.7.7.7:80");
    assert_eq!(
        host.entries(),
        [
            "mirrored 1.1.1.1:2222 - 1.1.1.9 port 80 tcp: bypass",
            "mirrored 1.1.1.1:2223 - 6.6.6.6 port 80 tcp: discard",
            "mirrored 1.1.1.1:2224 - 7.7.7.7 port 80 tcp: discard",
        ]
    );
    assert_eq!(host.table.list().last().unwrap().decision.why, DecisionReason::NoItem);
}

/// An item that depends on the remote port: nobody knows it when the socket listens, so each that can still match has
/// its entry, in order, and one discards the rest.
#[test]
fn a_listener_has_an_entry_for_each_item_that_can_still_match() {
    let text = "application srv {
      network 9.0.0.0/8 untrusted;
      network 10.0.0.0/8 protected P;
      protection P {
        localport=22 remoteport=any encryption mandatory;
        localport=21-30 remoteport=1024-2000 encryption mandatory;
        localport=any remoteport=1500-1600 authentication mandatory;
        localport=21 remoteport=1900-3000 authentication optional;
      }
    }";
    let mut host = Host::new(text);
    host.call("srv", 1, Call::Listen, "10.0.0.1:21", NOBODY);
    assert_eq!(
        host.entries(),
        [
            "mirrored 10.0.0.1:21 - 9.0.0.0/8 port any tcp: discard",
            "mirrored 10.0.0.1:21 - 10.0.0.0/8 port 1024-2000 tcp: mandatory ESP",
            "mirrored 10.0.0.1:21 - 10.0.0.0/8 port 1900-3000 tcp: optional AH",
            "mirrored 10.0.0.1:21 - 10.0.0.0/8 port any tcp: discard",
            // The host's default, of peers that no network covers.
            "mirrored 10.0.0.1:21 - 0.0.0.0/0 port any tcp: bypass",
        ]
    );
}

const UDPSRV: &str = "application udpsrv {
  network 2.2.2.0/24 trusted;
  network 0.0.0.0/0 protected P;
  protection P { localport=any remoteport=any encryption optional; }
}";
const UDP_CLI: &str = "application udp-cli {
  network 1.1.1.0/24 trusted;
  network 0.0.0.0/0 protected P;
  protection P { localport=any remoteport=any encryption mandatory; }
}";

#[test]
fn figure_5_udp() {
    let mut server = Host::new(UDPSRV);
    let mut client = Host::new(UDP_CLI);
    let (policy_1, policy_2) = (
        "inbound any:2345 - 2.2.2.0/24 port any udp: bypass",
        "inbound any:2345 - 0.0.0.0/0 port any udp: optional ESP",
    );
    server.call("udpsrv", 1, Call::RecvFrom, "0.0.0.0:2345", NOBODY);
    assert_eq!(server.entries(), [policy_1, policy_2]);

    let sent = "outbound 1.1.1.1:1234 - 2.2.2.2 port 2345 udp: mandatory ESP";
    client.call("udp-cli", 1, Call::SendTo, "1.1.1.1:1234", "2.2.2.2:2345");
    assert_eq!(client.entries(), [sent]);
    // "if the policy has not been created before"
    client.call("udp-cli", 1, Call::SendTo, "1.1.1.1:1234", "2.2.2.2:2345");
    assert_eq!(client.entries(), [sent]);

    client.call("udp-cli", 1, Call::RecvFrom, "0.0.0.0:1234", NOBODY);
    let (received_1, received_2) = (
        "inbound any:1234 - 1.1.1.0/24 port any udp: bypass",
        "inbound any:1234 - 0.0.0.0/0 port any udp: mandatory ESP",
    );
    assert_eq!(client.entries(), [received_1, received_2, sent]);
    let answer = "outbound 2.2.2.2:2345 - 1.1.1.1 port 1234 udp: optional ESP";
    server.call("udpsrv", 1, Call::SendTo, "2.2.2.2:2345", "1.1.1.1:1234");
    assert_eq!(server.entries(), [policy_1, policy_2, answer]);

    // "define a TTL for each outbound UDP policy, and delete it when its TTL expires"; one that is used lives on.
    let ttl = TO_THE_LETTER.ttl;
    let (app, used) = (server.app("udpsrv"), flow("2.2.2.2:2345", "1.1.1.1:1234", Call::SendTo));
    server.now = server.now + (ttl - Duration::from_secs(1));
    assert!(server.table.decide(PacketDirection::Out, app, Some(1), &used, server.now).is_some());
    server.now = server.now + (ttl - Duration::from_secs(1));
    server.table.expire(server.now);
    assert_eq!(server.entries(), [policy_1, policy_2, answer]);
    server.now = server.now + Duration::from_secs(1);
    assert_eq!(server.table.decide(PacketDirection::Out, app, Some(1), &used, server.now), None);
    server.table.expire(server.now);
    assert_eq!(server.entries(), [policy_1, policy_2]);

    server.call("udpsrv", 1, Call::Close, NOBODY, NOBODY);
    client.call("udp-cli", 1, Call::Close, NOBODY, NOBODY);
    assert!(server.table.is_empty() && client.table.is_empty());
}

/// What is on its way when a socket is closed, and TIME_WAIT's answers, still have its entry; another socket has not.
#[test]
fn a_closed_connection_is_served_to_its_end_and_no_longer() {
    let mut host = Host::new(FTP);
    let limits = EntryLimits::default();
    host.table = PerSocket::new(Arc::new(host.compiled.spd.clone()), limits);
    let app = host.app("ftp");
    let sent = flow("1.1.1.1:2222", "2.2.2.2:21", Call::Connect);
    host.call("ftp", 1, Call::Connect, "1.1.1.1:2222", "2.2.2.2:21");
    host.call("ftp", 1, Call::TimeWait, NOBODY, NOBODY);
    let end = host.now + limits.time_wait;
    let before = Time(end.0 - 1);
    assert!(host.table.decide(PacketDirection::Out, app, Some(1), &sent, before).is_some());
    assert!(host.table.decide(PacketDirection::In, app, None, &sent, before).is_some());
    for stranger in [Some(2), None] {
        assert_eq!(host.table.decide(PacketDirection::Out, app, stranger, &sent, before), None);
    }
    assert_eq!(host.table.decide(PacketDirection::Out, app, Some(1), &sent, end), None);
    host.table.expire(end);
    assert!(host.table.is_empty() && host.table.sockets() == 0);
}
