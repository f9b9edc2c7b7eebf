//! Services that a gateway does not need (paper 004 section 8, first remedy): what listens, and what is enabled.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::Check;

use crate::finding::{Outcome, Tally, check, or_unknown};
use crate::tree::{ReadError, Tree};
use crate::units;

/// Ports of services that send passwords in clear, or that offer a network more than a gateway should.
const PORTS: [(&str, u16, &str); 25] = [
    ("tcp", 7, "echo"),
    ("tcp", 13, "daytime"),
    ("tcp", 19, "chargen"),
    ("tcp", 21, "ftp"),
    ("tcp", 23, "telnet"),
    ("tcp", 37, "time"),
    ("tcp", 79, "finger"),
    ("tcp", 111, "rpcbind"),
    ("tcp", 139, "netbios"),
    ("tcp", 445, "smb"),
    ("tcp", 512, "rexec"),
    ("tcp", 513, "rlogin"),
    ("tcp", 514, "rsh"),
    ("tcp", 631, "cups"),
    ("tcp", 873, "rsync"),
    ("tcp", 2049, "nfs"),
    ("tcp", 6000, "X11"),
    ("udp", 7, "echo"),
    ("udp", 19, "chargen"),
    ("udp", 69, "tftp"),
    ("udp", 111, "rpcbind"),
    ("udp", 137, "netbios"),
    ("udp", 161, "snmp"),
    ("udp", 1900, "ssdp"),
    ("udp", 5353, "mdns (avahi)"),
];

/// Units of such services, without `.service` or `.socket`.
const UNITS: [&str; 30] = [
    "avahi-daemon",
    "bluetooth",
    "cups",
    "cups-browsed",
    "finger",
    "inetd",
    "inetutils-inetd",
    "ModemManager",
    "nfs-kernel-server",
    "nfs-server",
    "nmbd",
    "openbsd-inetd",
    "pure-ftpd",
    "proftpd",
    "rexec",
    "rlogin",
    "rpcbind",
    "rsh",
    "rwhod",
    "samba",
    "smb",
    "smbd",
    "telnet",
    "telnetd",
    "tftp",
    "tftpd-hpa",
    "vsftpd",
    "xinetd",
    "ypbind",
    "ypserv",
];

/// Makes the checks of the services.
pub(crate) fn checks(tree: &Tree) -> Vec<Check> {
    let listening = "`ss -lntup` names the program of each; `systemctl disable --now UNIT` ends it, or `apt purge PACKAGE`";
    let (found, names) = enabled(tree).unwrap_or_else(|error| (error.into(), Vec::new()));
    let remedy = match names.is_empty() {
        true => "list them: `systemctl list-unit-files --state=enabled`".to_owned(),
        false => format!("`systemctl disable --now {}`", names.join(" ")),
    };
    vec![
        check("listening", or_unknown(listening_sockets(tree)), listening),
        check("services enabled", found, remedy),
    ]
}

fn listening_sockets(tree: &Tree) -> Result<Outcome, ReadError> {
    let mut tally = Tally::default();
    let mut sockets = 0_usize;
    let has_v6 = tree.has("/proc/sys/net/ipv6")?;
    for table in ["tcp", "udp", "tcp6", "udp6"] {
        let path = format!("/proc/net/{table}");
        let text = match tree.text(&path) {
            Err(error) if error.is_absent() && table.ends_with('6') && !has_v6 => continue,
            text => text?,
        };
        let protocol = table.trim_end_matches('6');
        for line in text.lines().skip(1).filter(|line| !line.trim().is_empty()) {
            let Some((address, port, state)) = socket(line) else {
                tally.unknown(format!("{path}: a line that cannot be read"));
                continue;
            };
            // TCP_LISTEN, and TCP_CLOSE, which is a UDP socket that is not connected (net/tcp_states.h).
            let waits = state == if protocol == "tcp" { 10 } else { 7 };
            if !waits || is_loopback(address) {
                continue;
            }
            sockets = sockets.saturating_add(1);
            let known = PORTS.iter().find(|(of, number, _)| *of == protocol && *number == port);
            if let Some((_, _, name)) = known {
                tally.bad(format!("{name} at {address} port {port}/{protocol}"));
            }
        }
    }
    Ok(tally.outcome(format!(
        "of the sockets that wait for others ({sockets}) none is of a service that a gateway does not need"
    )))
}

/// The local address, port and state in a line of /proc/net/tcp and its neighbours (proc(5)).
fn socket(line: &str) -> Option<(IpAddr, u16, u8)> {
    let mut words = line.split_whitespace();
    let (address, port) = words.nth(1)?.split_once(':')?;
    let state = words.nth(1)?;
    // Each word of an address is printed as a number of the machine's own order.
    let word =
        |at: usize| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let address = match address.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let octets: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(octets))
        }
        _ => return None,
    };
    Some((address.to_canonical(), u16::from_str_radix(port, 16).ok()?, u8::from_str_radix(state, 16).ok()?))
}

fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => Ipv4Addr::is_loopback(&address),
        IpAddr::V6(address) => address.is_loopback(),
    }
}

fn enabled(tree: &Tree) -> Result<(Outcome, Vec<String>), ReadError> {
    let mut tally = Tally::default();
    let all = units::enabled(tree)?;
    let is_unneeded = |unit: &&String| {
        let bare = unit.strip_suffix(".service").or_else(|| unit.strip_suffix(".socket"));
        bare.is_some_and(|bare| UNITS.contains(&bare))
    };
    let mut names: Vec<String> = all.iter().filter(is_unneeded).cloned().collect();
    // Scripts of System V are units, too, if no unit has their name (systemd-sysv-generator(8)).
    for level in 2..=5 {
        for script in tree.names_if_there(format!("/etc/rc{level}.d"))? {
            let started =
                script.strip_prefix('S').map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
            let unit = started.filter(|name| UNITS.contains(name)).map(|name| format!("{name}.service"));
            names.extend(unit.filter(|unit| matches!(units::file(tree, unit), Ok(None))));
        }
    }
    names.sort();
    names.dedup();
    names.iter().for_each(|name| tally.bad(format!("{name} is enabled")));
    let lines = tree.text_if_there("/etc/inetd.conf")?.unwrap_or_default();
    let offered = lines.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for service in offered.filter_map(|line| line.split_whitespace().next()) {
        tally.bad(format!("/etc/inetd.conf offers {service}"));
    }
    Ok((
        tally.outcome(format!(
            "of the enabled units ({}) none is of a service that a gateway does not need",
            all.len()
        )),
        names,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn a_line_of_the_kernels_table_is_read() {
        let v4 =
            "   0: 0100007F:0017 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1";
        assert_eq!(socket(v4), Some(("127.0.0.1".parse().unwrap(), 23, 10)));
        let v6 =
            "   1: 000080FE00000000FF005450B6AD1DFE:14E9 00000000000000000000000000000000:0000 07 0:0 0 0";
        assert_eq!(socket(v6), Some(("fe80::5054:ff:fe1d:adb6".parse().unwrap(), 5353, 7)));
        let mapped = " 2: 0000000000000000FFFF00000100007F:0050 00000000000000000000000000000000:0000 0A";
        assert!(socket(mapped).is_some_and(|(address, ..)| is_loopback(address)));
        for wrong in
            ["", "0:", "0: 0100007F 0 0A", "0: 0100:0017 0 0A", "0: \u{e9}\u{e9}\u{e9}\u{e9}:0017 0 0A"]
        {
            assert_eq!(socket(wrong), None, "{wrong}");
        }
    }
}
