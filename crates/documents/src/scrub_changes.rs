//! What is not as it came: stretches of octets, with the names of the header fields in them.

use api::ScrubChange;
use wire::ip::Headers;
use wire::protocol;

/// Octets of a stretch that are shown.
const SHOWN: usize = 64;
/// Stretches that are shown.
const MOST: usize = 16;

type Field = (usize, usize, &'static str);

/// Begin, end, name; from the IPv4 header.
const IPV4: &[Field] = &[
    (0, 1, "ip.version_and_length"),
    (1, 2, "ip.tos"),
    (2, 4, "ip.total_length"),
    (4, 6, "ip.id"),
    (6, 8, "ip.flags_and_offset"),
    (8, 9, "ip.ttl"),
    (9, 10, "ip.protocol"),
    (10, 12, "ip.checksum"),
    (12, 16, "ip.source"),
    (16, 20, "ip.destination"),
    (20, 60, "ip.options"),
];
const IPV6: &[Field] = &[
    (0, 4, "ip.class_and_label"),
    (4, 6, "ip.payload_length"),
    (6, 7, "ip.next_header"),
    (7, 8, "ip.hop_limit"),
    (8, 24, "ip.source"),
    (24, 40, "ip.destination"),
    (40, usize::MAX, "ip.extension_headers"),
];
const TCP: &[Field] = &[
    (0, 2, "tcp.source_port"),
    (2, 4, "tcp.destination_port"),
    (4, 8, "tcp.sequence"),
    (8, 12, "tcp.acknowledgment"),
    (12, 14, "tcp.flags"),
    (14, 16, "tcp.window"),
    (16, 18, "tcp.checksum"),
    (18, 20, "tcp.urgent_pointer"),
    (20, 60, "tcp.options"),
];
const UDP: &[Field] = &[
    (0, 2, "udp.source_port"),
    (2, 4, "udp.destination_port"),
    (4, 6, "udp.length"),
    (6, 8, "udp.checksum"),
];
const ICMP: &[Field] =
    &[(0, 1, "icmp.type"), (1, 2, "icmp.code"), (2, 4, "icmp.checksum"), (4, 8, "icmp.rest")];

/// How a packet is divided: IP header, transport header, the rest.
struct Layout {
    version: u8,
    ip: usize,
    transport: usize,
    protocol: u8,
}

impl Layout {
    fn of(packet: &[u8]) -> Layout {
        let Ok(headers) = Headers::parse(packet) else {
            return Layout { version: 0, ip: 0, transport: 0, protocol: protocol::NO_NEXT };
        };
        let rest = packet.get(headers.header_len..).unwrap_or_default();
        let transport = if headers.fragment.is_some() {
            0
        } else {
            match headers.protocol {
                protocol::TCP => rest.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4),
                protocol::UDP | protocol::ICMP | protocol::ICMPV6 => 8,
                _ => 0,
            }
        };
        Layout {
            version: headers.version,
            ip: headers.header_len,
            transport: transport.min(rest.len()),
            protocol: headers.protocol,
        }
    }

    fn fields(&self, begin: usize, end: usize) -> Vec<String> {
        let ip = if self.version == 6 { IPV6 } else { IPV4 };
        let transport = match self.protocol {
            protocol::TCP => TCP,
            protocol::UDP => UDP,
            protocol::ICMP | protocol::ICMPV6 => ICMP,
            _ => &[],
        };
        let data = self.ip + self.transport;
        let within = |fields: &'static [Field], base: usize, limit: usize| {
            fields.iter().filter_map(move |(from, to, name)| {
                let (from, to) = (base + from, to.saturating_add(base).min(limit));
                (from.max(begin) < to.min(end)).then(|| (*name).to_owned())
            })
        };
        let mut names: Vec<String> = within(ip, 0, self.ip).chain(within(transport, self.ip, data)).collect();
        if end > data {
            names.push("payload".to_owned());
        }
        names
    }
}

/// The stretches in which two packets differ, and how many more there are. Headers of equal length are compared field by field, the
/// rest after what is the same at both ends.
pub fn between(before: &[u8], after: &[u8]) -> (Vec<ScrubChange>, usize) {
    if before == after {
        return (Vec::new(), 0);
    }
    let (old, new) = (Layout::of(before), Layout::of(after));
    let mut side_by_side = before.len().min(after.len());
    if before.len() != after.len() {
        side_by_side = if old.ip != new.ip {
            // The part of the IP header that has no options.
            if old.version == 6 { 40 } else { 20 }.min(old.ip).min(new.ip)
        } else if old.transport != new.transport && old.protocol == protocol::TCP {
            old.ip + old.transport.min(new.transport).min(20)
        } else {
            old.ip + old.transport.min(new.transport)
        }
        .min(side_by_side);
    }
    let mut stretches = Vec::new();
    let mut at = 0;
    while at < side_by_side {
        let differs = |at: usize| before.get(at) != after.get(at);
        let end = (at..side_by_side).find(|at| !differs(*at)).unwrap_or(side_by_side);
        if end > at {
            stretches.push((at, at..end, at..end));
        }
        at = end.max(at + 1);
    }
    let (rest_old, rest_new) =
        (before.get(side_by_side..).unwrap_or_default(), after.get(side_by_side..).unwrap_or_default());
    let same = |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| pairs.take_while(|(a, b)| a == b).count();
    let front = same(&mut rest_old.iter().zip(rest_new));
    let back = same(&mut rest_old.iter().rev().zip(rest_new.iter().rev()))
        .min(rest_old.len().min(rest_new.len()) - front);
    if rest_old.len() + rest_new.len() > 2 * (front + back) {
        let at = side_by_side + front;
        stretches.push((at, at..before.len() - back, at..after.len() - back));
    }
    let more = stretches.len().saturating_sub(MOST);
    let shown = |octets: &[u8]| crate::text::hex(octets.get(..SHOWN).unwrap_or(octets));
    let changes = stretches.into_iter().take(MOST).map(|(offset, was, is)| {
        let mut fields = old.fields(was.start, was.end);
        fields.extend(
            new.fields(is.start, is.end)
                .into_iter()
                .filter(|name| !old.fields(was.start, was.end).contains(name)),
        );
        let cut = was.len().max(is.len()) > SHOWN;
        let (was, is) = (before.get(was).unwrap_or_default(), after.get(is).unwrap_or_default());
        ScrubChange { offset, fields, before: shown(was), after: shown(is), cut }
    });
    (changes.collect(), more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(options: &[u8], data: &[u8]) -> Vec<u8> {
        let mut out = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        let mut tcp = vec![0; 20];
        tcp[12] = (((20 + options.len()) / 4) << 4) as u8;
        tcp.extend_from_slice(options);
        tcp.extend_from_slice(data);
        out.extend(tcp);
        out[3] = out.len() as u8;
        out
    }

    fn of(before: &[u8], after: &[u8]) -> Vec<(usize, Vec<String>, String, String)> {
        between(before, after).0.into_iter().map(|c| (c.offset, c.fields, c.before, c.after)).collect()
    }

    #[test]
    fn fields_are_named_and_stretches_are_exact() {
        let before = segment(&[], b"hello");
        let mut after = before.clone();
        after[8] = 65;
        after[41] = b'E';
        let expected = [
            (8, vec!["ip.ttl".to_owned()], "40".to_owned(), "41".to_owned()),
            (41, vec!["payload".to_owned()], "65".to_owned(), "45".to_owned()),
        ];
        assert_eq!(of(&before, &after), expected);
        assert_eq!(between(&before, &before), (Vec::new(), 0));
    }

    #[test]
    fn what_is_cut_or_taken_out_is_one_stretch() {
        let (long, short) = (segment(&[], b"hello"), segment(&[], b"hel"));
        let changes = of(&long, &short);
        assert_eq!(changes[0].1, ["ip.total_length"]);
        assert_eq!((changes[1].0, changes[1].2.as_str(), changes[1].3.as_str()), (43, "6c6f", ""));
        let (with, without) = (segment(&[1, 1, 1, 0], b"data"), segment(&[], b"data"));
        let changes = of(&with, &without);
        assert!(changes.iter().any(|c| c.1 == ["tcp.flags"]), "{changes:?}");
        assert_eq!(
            changes.last().map(|c| (c.2.as_str(), c.3.as_str())),
            Some(("01010100", "")),
            "{changes:?}"
        );
    }

    #[test]
    fn the_report_is_bounded() {
        let before = vec![0; 4000];
        let after: Vec<u8> = (0..4000).map(|n| u8::from(n % 2 == 0)).collect();
        let (changes, more) = between(&before, &after);
        assert_eq!((changes.len(), more), (16, 1984));
        let (changes, more) = between(&before, &vec![1; 4000]);
        assert_eq!((changes.len(), more, changes[0].before.len(), changes[0].cut), (1, 0, 128, true));
    }
}
