//! Names of services and protocols.
//!
//! A name means one number on every host, whatever its `/etc/services` says: a policy that is checked on one host and
//! loaded on another must not change its meaning. The table holds names of the IANA registry ("Service Name and
//! Transport Protocol Port Number Registry", RFC 6335) that people write in firewalls, and the short names of
//! services(5) that differ from it (`https`, `imaps`). No name has one port for TCP and another for UDP.

use wire::protocol;

/// The ports of services, by name.
const SERVICES: [(&str, u16); 103] = [
    ("acap", 674),
    ("afpovertcp", 548),
    ("amqp", 5672),
    ("amqps", 5671),
    ("bacula-dir", 9101),
    ("bgp", 179),
    ("bootpc", 68),
    ("bootps", 67),
    ("chargen", 19),
    ("coap", 5683),
    ("coaps", 5684),
    ("daytime", 13),
    ("dhcpv6-client", 546),
    ("dhcpv6-server", 547),
    ("diameter", 3868),
    ("dict", 2628),
    ("discard", 9),
    ("domain", 53),
    ("domain-s", 853),
    ("echo", 7),
    ("finger", 79),
    ("ftp", 21),
    ("ftp-data", 20),
    ("ftps", 990),
    ("ftps-data", 989),
    ("git", 9418),
    ("gopher", 70),
    ("http", 80),
    ("http-alt", 8080),
    ("https", 443),
    ("iax", 4569),
    ("imap", 143),
    ("imap2", 143),
    ("imaps", 993),
    ("ipp", 631),
    ("ipsec-nat-t", 4500),
    ("irc", 194),
    ("ircs-u", 6697),
    ("isakmp", 500),
    ("iscsi-target", 3260),
    ("kerberos", 88),
    ("kpasswd", 464),
    ("l2tp", 1701),
    ("ldap", 389),
    ("ldaps", 636),
    ("llmnr", 5355),
    ("mdns", 5353),
    ("microsoft-ds", 445),
    ("mongodb", 27017),
    ("mqtt", 1883),
    ("ms-sql-s", 1433),
    ("mysql", 3306),
    ("nbd", 10809),
    ("netbios-dgm", 138),
    ("netbios-ns", 137),
    ("netbios-ssn", 139),
    ("nfs", 2049),
    ("nntp", 119),
    ("nntps", 563),
    ("ntp", 123),
    ("openvpn", 1194),
    ("pop3", 110),
    ("pop3s", 995),
    ("postgresql", 5432),
    ("pptp", 1723),
    ("ptp-event", 319),
    ("ptp-general", 320),
    ("puppet", 8140),
    ("radius", 1812),
    ("radius-acct", 1813),
    ("radsec", 2083),
    ("redis", 6379),
    ("rdp", 3389),
    ("rfb", 5900),
    ("rsync", 873),
    ("rtsp", 554),
    ("sip", 5060),
    ("sips", 5061),
    ("smtp", 25),
    ("smtps", 465),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("snmptrap", 162),
    ("socks", 1080),
    ("squid", 3128),
    ("ssh", 22),
    ("stun", 3478),
    ("stuns", 5349),
    ("submission", 587),
    ("submissions", 465),
    ("sunrpc", 111),
    ("svn", 3690),
    ("syslog-tls", 6514),
    ("tacacs", 49),
    ("telnet", 23),
    ("telnets", 992),
    ("tftp", 69),
    ("time", 37),
    ("whois", 43),
    ("xdmcp", 177),
    ("xmpp-client", 5222),
    ("xmpp-server", 5269),
    ("zabbix-agent", 10050),
];

/// The port of a service.
pub fn port(name: &str) -> Option<u16> {
    SERVICES.iter().find(|(known, _)| *known == name).map(|(_, port)| *port)
}

/// The names of all services.
pub fn names() -> impl Iterator<Item = &'static str> {
    SERVICES.iter().map(|(name, _)| *name)
}

/// The words that a protocol can be called by.
pub const PROTOCOLS: [&str; 5] = ["tcp", "udp", "sctp", "icmp", "any"];

/// Parses a protocol name or number. The outer `None` says that it is neither, the inner one that it is `any`. ICMP of
/// both families is 1.
pub fn protocol(text: &str) -> Option<Option<u8>> {
    match text {
        "any" => Some(None),
        "tcp" => Some(Some(protocol::TCP)),
        "udp" => Some(Some(protocol::UDP)),
        "sctp" => Some(Some(protocol::SCTP)),
        "icmp" => Some(Some(protocol::ICMP)),
        _ => match text.parse::<u8>().ok()? {
            protocol::ICMPV6 => Some(Some(protocol::ICMP)),
            // Headers in front of the one that a flow has, and numbers that no packet has.
            protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::NO_NEXT
            | protocol::DESTINATION
            | protocol::MOBILITY
            | u8::MAX => None,
            number => Some(Some(number)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_and_have_one_port() {
        for (name, port) in SERVICES {
            assert!(port != 0 && super::port(name) == Some(port), "{name} is there twice");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{name}");
            assert!(name.parse::<u16>().is_err() && name != "any");
        }
        assert_eq!((port("imaps"), port("nothing")), (Some(993), None));
    }

    #[test]
    fn protocols() {
        for (text, want) in [
            ("any", Some(None)),
            ("tcp", Some(Some(6))),
            ("icmp", Some(Some(1))),
            ("58", Some(Some(1))),
            ("47", Some(Some(47))),
            ("0", None),
            ("44", None),
            ("255", None),
            ("256", None),
            ("gre", None),
            ("TCP", None),
        ] {
            assert_eq!(protocol(text), want, "{text}");
        }
    }
}
