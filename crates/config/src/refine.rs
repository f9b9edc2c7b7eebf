//! What refines a profile, in a configuration file: `rules`, `[packets]`, `[limits]` and some words. The same for a line and for flows in
//! the IPsec path.

use std::ops::Range;
use std::time::Duration;

use scrub::{Config, Midstream, Protect, Urgent};
use toml::de::DeTable;

use super::read::{Reader, Value};
use crate::scrub_text::{pair, set_rule, with};
use crate::suggestion::suggestion;

/// The keys of a table that [`refine`] reads.
pub const REFINING: [&str; 6] = ["rules", "protect", "midstream", "urgent", "limits", "packets"];
const PACKETS: [&str; 10] = [
    "mtu",
    "mss",
    "ttl",
    "flow_labels",
    "fast_open",
    "outside_routers",
    "sanctioned",
    "protocols",
    "ipv6_options",
    "tcp_options",
];
const LIMITS: [&str; 17] = [
    "connections",
    "connections_per_source",
    "closed",
    "half_open",
    "half_open_per_source",
    "handshake",
    "idle",
    "closing",
    "sessions",
    "sessions_per_source",
    "session_idle",
    "store",
    "beyond_hole",
    "pieces",
    "fragmented_packets",
    "fragment_octets",
    "fragment_timeout",
];

/// The shortest MTU of a line: that of IPv6 (RFC 8200 section 5).
const LEAST_MTU: i64 = 1280;

/// Refine a configuration by what a table says; the MTU, if it is said.
pub fn refine(reader: &mut Reader<'_>, root: &DeTable<'_>, config: &mut Config) -> Option<usize> {
    let sides = [("inside", Protect::Inside), ("both", Protect::Both)];
    config.protect = word(reader, root, "protect", config.protect, &sides);
    let strays = [("drop", Midstream::Drop), ("pick-up", Midstream::PickUp)];
    config.midstream = word(reader, root, "midstream", config.midstream, &strays);
    let urgent = [("in-band", Urgent::InBand), ("drop", Urgent::Drop)];
    config.urgent = word(reader, root, "urgent", config.urgent, &urgent);
    rules(reader, root, config);
    limits(reader, root, config);
    packets(reader, root, config)
}

/// Read one of some words; `usual` if the key is missing or its value is wrong.
pub fn word<T: Copy>(
    reader: &mut Reader<'_>,
    root: &DeTable<'_>,
    key: &str,
    usual: T,
    words: &[(&str, T)],
) -> T {
    let Some(value) = root.get(key) else { return usual };
    let Some(text) = reader.string(value, key) else { return usual };
    if let Some((_, found)) = words.iter().find(|(word, _)| *word == text) {
        return *found;
    }
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let remedy = match suggestion(text, &known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("use one of: {}", known.join(", ")),
    };
    reader.fault(value.span(), format!("`{key}` has no value {text:?}"), remedy);
    usual
}

/// Read a number in `range` that also fits into a `T`; a fault if there is another value.
pub fn number<T: TryFrom<i64>>(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    key: &str,
    range: std::ops::RangeInclusive<i64>,
    why: &str,
) -> Option<T> {
    reader.integer(value, key, range, why).and_then(|number| T::try_from(number).ok())
}

/// Read true or false, if the key is there; a fault if there is another value.
pub fn flag(reader: &mut Reader<'_>, table: &DeTable<'_>, key: &str, into: &mut bool) {
    let Some(value) = table.get(key) else { return };
    match value.get_ref().as_bool() {
        Some(on) => *into = on,
        None => {
            let found = value.get_ref().type_str();
            let message = format!("`{key}` must be true or false, not {found}");
            reader.fault(value.span(), message, format!("write: {key} = true"));
        }
    }
}

/// The items of a list; a fault for what is none.
pub fn list<'v, 't>(
    reader: &mut Reader<'_>,
    value: &'v Value<'t>,
    key: &str,
    example: &str,
) -> impl Iterator<Item = &'v Value<'t>> + use<'v, 't> {
    let array = value.get_ref().as_array();
    if array.is_none() {
        let found = value.get_ref().type_str();
        reader.fault(
            value.span(),
            format!("`{key}` must be a list, not {found}"),
            format!("write: {example}"),
        );
    }
    array.into_iter().flat_map(|array| array.iter())
}

fn rules(reader: &mut Reader<'_>, root: &DeTable<'_>, config: &mut Config) {
    let Some(value) = root.get("rules") else { return };
    let Some(table) = value.get_ref().as_table() else {
        let remedy = "write [rules] on a line of its own, and below it: \"Q.8\" = \"observe\"";
        reader.fault(value.span(), "`rules` must be a table", remedy);
        return;
    };
    for (rule, mode) in table.iter() {
        let Some(mode_word) = reader.string(mode, rule.get_ref()) else { continue };
        if let Err(why) = set_rule(config, rule.get_ref(), mode_word) {
            let at: Range<usize> = rule.span().start..mode.span().end;
            let remedy =
                "rules go by number or name, as in \"Q.8\" = \"observe\" or tcp_first_wins = \"observe\"";
            reader.fault(at, why, remedy);
        }
    }
}

/// The MTU, if it is said.
fn packets(reader: &mut Reader<'_>, root: &DeTable<'_>, config: &mut Config) -> Option<usize> {
    let table = reader.table(root.get("packets"), "packets", &PACKETS)?;
    if let Some(value) = table.get("mss") {
        let why = "the largest TCP segment that a SYN may offer";
        config.max_segment = number(reader, value, "mss", 88..=65_495, why);
    }
    if let Some(value) = table.get("ttl") {
        let why = "the least time to live and hop limit; 0: none";
        config.least_ttl = number(reader, value, "ttl", 0..=255, why).unwrap_or(0);
    }
    flag(reader, table, "flow_labels", &mut config.flow_labels);
    flag(reader, table, "fast_open", &mut config.fast_open);
    flag(reader, table, "outside_routers", &mut config.outside_routers);
    if let Some(value) = table.get("sanctioned") {
        let example = "sanctioned = [\"192.0.2.0/24=198.51.100.7\"]";
        for item in list(reader, value, "sanctioned", example) {
            let Some(text) = reader.string(item, "sanctioned") else { continue };
            match pair(text) {
                Ok(pair) => config.sanctioned.push(pair),
                Err(why) => reader.fault(item.span(), why, format!("write: {example}")),
            }
        }
    }
    for (key, set, why) in [
        (
            "protocols",
            &mut config.protocols,
            "a protocol that passes beside the usual ones (rule 4.17), as 2 for IGMP",
        ),
        (
            "ipv6_options",
            &mut config.ipv6_options,
            "an IPv6 option that passes beside the router alert (rule 6.10)",
        ),
        (
            "tcp_options",
            &mut config.tcp_options,
            "a TCP option that passes although no rule knows it (rule O.8)",
        ),
    ] {
        let Some(value) = table.get(key) else { continue };
        for item in list(reader, value, key, &format!("{key} = [2]")) {
            *set = with(*set, number::<u8>(reader, item, key, 0..=255, why));
        }
    }
    let why = "octets that both links carry; leave it out: what the interfaces say";
    number(reader, table.get("mtu")?, "mtu", LEAST_MTU..=65_535, why)
}

fn limits(reader: &mut Reader<'_>, root: &DeTable<'_>, config: &mut Config) {
    let Some(table) = reader.table(root.get("limits"), "limits", &LIMITS) else { return };
    let mut count = |key: &str, range, why: &str, into: &mut usize| {
        if let Some(value) = table.get(key)
            && let Some(n) = number(reader, value, key, range, why)
        {
            *into = n;
        }
    };
    const GIB: i64 = 1 << 30;
    let Config { flows, sessions, store, fragments, .. } = config;
    count("connections", 16..=1 << 24, "connections whose handshake is done", &mut flows.established);
    let why = "of these, by one source outside (an IPv6 /64)";
    count("connections_per_source", 1..=1 << 24, why, &mut flows.established_per_source);
    let why = "connections that are closed and remembered: `closing` times as many as close in a second";
    count("closed", 16..=1 << 26, why, &mut flows.closed);
    count("half_open", 16..=1 << 22, "connections whose handshake is not done", &mut flows.half_open);
    let why = "of these, by one source (an IPv6 /64)";
    count("half_open_per_source", 1..=1 << 22, why, &mut flows.half_open_per_source);
    count("sessions", 16..=1 << 24, "flows without connections: UDP, echo", &mut sessions.count);
    count("sessions_per_source", 1..=1 << 24, why, &mut sessions.per_source);
    let why = "octets under way that are kept; a mebibyte for each worker at least";
    count("store", 1 << 20..=64 * GIB, why, &mut store.memory);
    let why = "octets behind a hole, of one connection, once half of `store` is in use";
    count("beyond_hole", 1 << 12..=GIB, why, &mut store.beyond_hole);
    count("pieces", 1..=1 << 16, "separate pieces of one connection", &mut store.pieces);
    count("fragmented_packets", 1..=1 << 20, "packets that wait for fragments", &mut fragments.datagrams);
    count("fragment_octets", 1 << 17..=4 * GIB, "octets of fragments that wait", &mut fragments.memory);
    let mut seconds = |key: &str, most: i64, why: &str, into: &mut Duration| {
        if let Some(value) = table.get(key)
            && let Some(n) = number(reader, value, key, 1..=most, why)
        {
            *into = Duration::from_secs(n);
        }
    };
    seconds("handshake", 600, "seconds that a handshake may take", &mut flows.handshake);
    seconds("idle", 7 * 86_400, "seconds that a connection may be silent", &mut flows.idle);
    seconds("closing", 3600, "seconds that a closed connection is remembered", &mut flows.closing);
    seconds("session_idle", 86_400, "seconds that a session may be silent", &mut sessions.idle);
    seconds("fragment_timeout", 120, "seconds that a fragment may wait", &mut fragments.timeout);
}
