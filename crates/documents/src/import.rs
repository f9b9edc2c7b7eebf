//! Files of associations and rules: JSON lines, or the language of setkey(8).
//!
//! What enters: text. What leaves: the requests that the control API takes, each with its line, or the first thing that is
//! wrong. Shared by `ravelin replay` and `ravelin import`. No key is ever repeated in an error.

mod bundles;
mod ends;
pub mod faults;

use std::collections::HashMap;
use std::net::IpAddr;

use api::{
    Direction, Encapsulation, Keymat, Lifetime, Limits, Mode, SaAdd, SaType, SpdAdd, SpdDirection, Spi,
    SpiRequest, Verdict,
};
use crypto::Suites;
use sadb::rules::Template;
use sadb::sa::SaProtocol;
use sadb::setkey::{
    self, AddStatement, Address, PolicyAction, PolicyDirection, PolicyLevel, PolicyStatement, Request,
    Statement, Upper,
};
use sadb::spd::PortRange;

use bundles::Bundles;
pub use ends::{Ends, ImportError};
use ends::{at, directions};

/// The longest file that is read.
pub const MAX_FILE: u64 = 16 << 20;

/// Every address of both families.
const EVERYTHING: &str = "::/0";

/// What the names of rules begin with that a file of setkey makes; the line follows.
pub const SETKEY_RULE: &str = "setkey-";

/// One request of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its line, from 1.
    pub line: usize,
    /// What it asks for.
    pub what: ImportItem,
}

/// What a line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportItem {
    /// An association to be added.
    Sa(Box<SaAdd>),
    /// A rule to be added.
    Rule(Box<SpdAdd>),
    /// Delete all associations first (`flush`).
    FlushSas,
    /// Delete all rules first (`spdflush`).
    FlushRules,
}

/// A line of JSON that is a rule.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleLine {
    rule: SpdAdd,
}

/// Read a file; its first statement says which of the two languages it is in. A setkey file may name what `suites` has.
///
/// # Errors
/// The first line that is wrong.
pub fn read(text: &str, ends: Ends<'_>, suites: &Suites) -> Result<Vec<Entry>, ImportError> {
    let first = text.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with('#'));
    match first {
        Some(line) if line.starts_with('{') => json_lines(text),
        _ => setkey_file(text, ends, suites),
    }
}

fn json_lines(text: &str) -> Result<Vec<Entry>, ImportError> {
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        // Looked at instead of tried: what is tried would leave copies of keys behind.
        let inside = line.trim_start_matches('{').trim_start();
        let what = if inside.starts_with("\"rule\"") {
            let read = serde_json::from_str::<RuleLine>(line);
            ImportItem::Rule(Box::new(read.map_err(|error| at(number, rule_fault(line, &error)))?.rule))
        } else {
            // Its own message may quote the key.
            let read = serde_json::from_str(line);
            ImportItem::Sa(Box::new(
                read.map_err(|error| at(number, faults::fault(line, faults::ASSOCIATION, &error)))?,
            ))
        };
        entries.push(Entry { line: number, what });
    }
    Ok(entries)
}

fn rule_fault(line: &str, error: &serde_json::Error) -> String {
    match faults::only_value(line).map(|rule| (rule, serde_json::from_str::<SpdAdd>(rule))) {
        Some((rule, Err(error))) => faults::fault(rule, faults::RULE, &error),
        Some((_, Ok(_))) => format!("this is not a rule: {error}"),
        None => "a rule stands alone in its line: {\"rule\":{...}}".to_owned(),
    }
}

fn setkey_file(text: &str, ends: Ends<'_>, suites: &Suites) -> Result<Vec<Entry>, ImportError> {
    let statements = setkey::parse(text, suites).map_err(|error| at(error.line, error.text))?;
    let bundles = Bundles::of(&statements, ends)?;
    let mut entries = Vec::new();
    let mut policies = HashMap::new();
    for (number, statement) in statements.iter().enumerate() {
        match statement {
            Statement::Add(add) => {
                for direction in directions(add, ends)? {
                    entries.push(Entry {
                        line: add.line as usize,
                        what: ImportItem::Sa(Box::new(association(add, direction, &bundles)?)),
                    });
                }
            }
            Statement::SpdAdd(policy) => entries.push(Entry {
                line: policy.line as usize,
                what: ImportItem::Rule(Box::new(SpdAdd {
                    name: Some(name_of(policy.line, &mut policies)),
                    ..rule(policy, number, &bundles)?
                })),
            }),
            Statement::Flush { line, protocol } => {
                let flushes = |entry: &Entry| match &entry.what {
                    ImportItem::Sa(sa) => protocol.is_none_or(|protocol| kind(protocol) == sa.kind),
                    _ => false,
                };
                if entries.iter().any(flushes) {
                    return Err(at(*line, "this would delete what stands above it; write flush first"));
                }
                entries.push(Entry { line: *line as usize, what: ImportItem::FlushSas });
            }
            Statement::SpdFlush { line } => {
                if entries.iter().any(|entry| matches!(entry.what, ImportItem::Rule(_))) {
                    return Err(at(*line, "this would delete what stands above it; write spdflush first"));
                }
                entries.push(Entry { line: *line as usize, what: ImportItem::FlushRules });
            }
            Statement::Delete { line, .. } => {
                return Err(at(*line, "an import only adds; delete with `ravelin sa del SPI`"));
            }
            Statement::SpdDelete(policy) => {
                return Err(at(policy.line, "an import only adds; delete with `ravelin spd del NAME`"));
            }
            Statement::Show => {}
        }
    }
    Ok(entries)
}

/// The name of the rule that a policy makes; a line may hold several.
fn name_of(line: u32, policies: &mut HashMap<u32, u32>) -> String {
    let count = policies.entry(line).and_modify(|count| *count += 1).or_insert(1);
    if *count == 1 { format!("{SETKEY_RULE}{line}") } else { format!("{SETKEY_RULE}{line}-{count}") }
}

/// A name like this one that none of `taken` is: with `-2` behind it, or the next number.
pub fn free_name(name: &str, taken: &[&str]) -> String {
    let numbered = (2_u32..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !taken.contains(&name.as_str())).unwrap_or_else(|| name.to_owned())
}

fn kind(protocol: SaProtocol) -> SaType {
    match protocol {
        SaProtocol::Esp => SaType::Esp,
        SaProtocol::Ah => SaType::Ah,
        SaProtocol::IpComp => SaType::Ipcomp,
        SaProtocol::IpIp => SaType::Ipip,
    }
}

fn association(add: &AddStatement, direction: Direction, bundles: &Bundles) -> Result<SaAdd, ImportError> {
    let (local, remote) = match direction {
        Direction::Out => (add.src, add.dst),
        Direction::In => (add.dst, add.src),
    };
    // What a tunnel carries is the rules' matter in setkey.
    let all = (add.mode == sadb::Mode::Tunnel).then(|| EVERYTHING.to_owned());
    let limits = |limits: sadb::sa::Limits| Limits {
        bytes: limits.bytes,
        packets: limits.packets,
        seconds: limits.seconds,
        seconds_used: limits.seconds_used,
    };
    let suite = match (add.protocol, add.suite) {
        (SaProtocol::Ah, Some(suite)) => suite.integrity().name().to_owned(),
        (_, Some(suite)) => suite.to_string(),
        (_, None) => String::new(),
    };
    Ok(SaAdd {
        direction,
        spi: SpiRequest::This(Spi(add.spi.0)),
        local,
        remote,
        local_port: config::ESP_PORT,
        remote_port: config::ESP_PORT,
        kind: kind(add.protocol),
        mode: match add.mode {
            sadb::Mode::Transport => Mode::Transport,
            sadb::Mode::Tunnel => Mode::Tunnel,
            sadb::Mode::Beet => Mode::Beet,
        },
        encapsulation: Some(match add.encapsulation {
            sadb::sa::Encapsulation::Udp => Encapsulation::Udp,
            sadb::sa::Encapsulation::None => Encapsulation::None,
        }),
        suite,
        esn: false,
        lifetime: Lifetime { soft: limits(add.lifetime.soft), hard: limits(add.lifetime.hard), jitter: 0 },
        headers: None,
        tfc: None,
        padding: None,
        keepalive: None,
        dummy: None,
        follow_peer: false,
        takes_over: false,
        next: match direction {
            Direction::Out => bundles.next(add).map(|spi| Spi(spi.0)),
            Direction::In => None,
        },
        found_by: None,
        class: None,
        sequence: None,
        selector_local: all.clone(),
        selector_remote: all,
        protocol: None,
        local_ports: None,
        remote_ports: None,
        app: None,
        replay_window: add.replay_window.filter(|_| direction == Direction::In),
        path_mtu: None,
        keymat: Keymat::from_octets(add.keymat.expose()),
    })
}

/// The rule that a policy of setkey is. There ESP says nothing about encryption, so the least service is authentication and
/// the protocol is demanded by the bundle.
fn rule(policy: &PolicyStatement, number: usize, bundles: &Bundles) -> Result<SpdAdd, ImportError> {
    let outbound = policy.direction == PolicyDirection::Out;
    let (local, remote) = if outbound { (policy.src, policy.dst) } else { (policy.dst, policy.src) };
    let mut made = SpdAdd {
        name: None,
        place: None,
        direction: if outbound { SpdDirection::Out } else { SpdDirection::In },
        selectors: vec![selector(local, remote, policy.upper)],
        action: Verdict::Bypass,
        service: None,
        level: None,
        bundle: Vec::new(),
        suite: None,
        scrub: None,
        class: None,
    };
    match &policy.action {
        PolicyAction::Bypass => {}
        PolicyAction::Discard => made.action = Verdict::Discard,
        PolicyAction::Protect(requests) => {
            let keyed = |request: &&Request| request.protocol.is_keyed();
            if !requests.iter().any(|request| request.protocol.is_keyed()) {
                return Err(at(policy.line, "ipcomp alone protects nothing; add esp or ah behind it"));
            }
            let optional = requests.iter().filter(keyed).all(|request| request.level == PolicyLevel::Use);
            made.action = Verdict::Protect;
            made.service = Some("authentication".to_owned());
            made.level = Some(if optional { "optional" } else { "mandatory" }.to_owned());
            let templates =
                requests.iter().enumerate().map(|(place, request)| match bundles.bound(number, place) {
                    Some(spi) => Template::of_spi(spi),
                    None => template(request, outbound),
                });
            made.bundle = templates.map(|template| template.to_string()).collect();
        }
    }
    Ok(made)
}

fn template(request: &Request, outbound: bool) -> Template {
    let (src, dst) = request.ends.unzip();
    let (local, remote) = if outbound { (src, dst) } else { (dst, src) };
    Template { spi: None, protocol: Some(request.protocol), mode: Some(request.mode), local, remote }
}

fn selector(local: Address, remote: Address, upper: Upper) -> String {
    let mut text = format!("local {} remote {}", local.prefix, remote.prefix);
    match upper {
        Upper::Any => {}
        Upper::Protocol(protocol) => text.push_str(&format!(" proto {protocol}")),
        Upper::Icmp { protocol, kind, code } => {
            text.push_str(&format!(" proto {protocol} type {kind}"));
            if let Some(code) = code {
                text.push_str(&format!(" code {code}"));
            }
        }
    }
    for (side, ports) in [("local", local.ports), ("remote", remote.ports)] {
        if ports != PortRange::ANY {
            text.push_str(&format!(" {side}-port {}-{}", ports.first, ports.last));
        }
    }
    text
}

/// The addresses of this host.
///
/// # Errors
/// If the kernel does not list them.
pub fn host_addresses() -> netio::Result<Vec<IpAddr>> {
    Ok(netio::link::Links::open()?.addresses()?.iter().map(|address| address.addr).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: &str = "192.0.2.1";
    const FILE: &str = "flush; spdflush;\n\
        add 192.0.2.1 192.0.2.2 esp 0x1001 -m tunnel -u 7 -E aes-gcm-16 0x000102030405060708090a0b0c0d0e0f10111213;\n\
        add 192.0.2.2 192.0.2.1 ah 0x1002 -A hmac-sha256 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f;\n\
        spdadd 10.1.0.0/16[443] 10.2.0.0/16 tcp -P out ipsec esp/tunnel/192.0.2.1-192.0.2.2/unique:7;\n\
        spdadd 10.2.0.0/16 10.1.0.0/16 icmp,8,0 -P in ipsec esp/tunnel/192.0.2.2-192.0.2.1/use;\n\
        spdadd 0.0.0.0/0 0.0.0.0/0 any -P in discard;\n";

    fn read(text: &str, ends: Ends<'_>) -> Result<Vec<Entry>, ImportError> {
        super::read(text, ends, &Suites::standard())
    }

    fn sas(entries: &[Entry]) -> Vec<&SaAdd> {
        entries
            .iter()
            .filter_map(|entry| match &entry.what {
                ImportItem::Sa(sa) => Some(sa.as_ref()),
                _ => None,
            })
            .collect()
    }

    fn rules(entries: &[Entry]) -> Vec<&SpdAdd> {
        entries
            .iter()
            .filter_map(|entry| match &entry.what {
                ImportItem::Rule(rule) => Some(rule.as_ref()),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn what_a_flush_would_undo_is_refused() {
        let own = [ALICE.parse().unwrap()];
        for (command, line) in [("flush", 7), ("flush esp", 7), ("spdflush", 7)] {
            let error = read(&format!("{FILE}{command};\n"), Ends::Local(&own)).unwrap_err();
            assert!(error.line == line && error.text.contains("first"), "{error}");
        }
        // Each deletes only its own kind.
        let three = "add 192.0.2.1 192.0.2.2 ipcomp 2 -C deflate;\nspdflush;\nflush esp;\n";
        assert_eq!(read(three, Ends::Local(&own)).unwrap().len(), 3);
    }

    #[test]
    fn a_setkey_file_becomes_requests() {
        let own = [ALICE.parse().unwrap()];
        let entries = read(FILE, Ends::Local(&own)).unwrap();
        assert_eq!((&entries[0].what, &entries[1].what), (&ImportItem::FlushSas, &ImportItem::FlushRules));
        let sas = sas(&entries);
        assert_eq!((sas[0].direction, sas[1].direction), (Direction::Out, Direction::In));
        assert_eq!((sas[0].suite.as_str(), sas[1].suite.as_str()), ("aes128gcm", "sha256"));
        assert_eq!((sas[1].local, sas[1].kind), (ALICE.parse().unwrap(), SaType::Ah));
        assert_eq!(sas[0].encapsulation, Some(Encapsulation::None));
        let rules = rules(&entries);
        assert_eq!(rules[0].selectors, ["local 10.1.0.0/16 remote 10.2.0.0/16 proto 6 local-port 443-443"]);
        assert_eq!(rules[0].bundle, ["0x00001001"]);
        assert_eq!(rules[1].selectors, ["local 10.1.0.0/16 remote 10.2.0.0/16 proto 1 type 8 code 0"]);
        assert_eq!(rules[1].bundle, ["esp/tunnel/192.0.2.1-192.0.2.2"]);
        assert_eq!(rules[1].level.as_deref(), Some("optional"));
        assert_eq!(rules[2].action, Verdict::Discard);
        // Each is one that the SPD takes.
        let mut book = crate::rules::SpdRules::default();
        for rule in rules {
            book.add(rule).unwrap();
        }
    }

    #[test]
    fn a_file_for_both_hosts_makes_two_of_each() {
        assert_eq!(sas(&read(FILE, Ends::Both).unwrap()).len(), 4);
    }

    #[test]
    fn what_cannot_be_imported_is_named_by_line() {
        let own = [ALICE.parse().unwrap()];
        let add = "add 192.0.2.8 192.0.2.9 esp 0x1001 -E null -A hmac-sha1 \"twenty octets of key\";";
        for (text, line, part) in [
            (format!("\n{add}"), 2, "neither 192.0.2.8"),
            (add.replace("0.2.8", "0.2.1").replace("0.2.9", "0.2.1"), 1, "both addresses"),
            ("\n\ndelete 192.0.2.1 192.0.2.2 esp 0x1001;".into(), 3, "only adds"),
            ("spddelete ::1 ::2 any -P out;".into(), 1, "only adds"),
            (
                "spdadd ::1 ::2 any -P out ipsec esp/transport//unique:9;".into(),
                1,
                "no add of this file has -u 9",
            ),
            ("spdadd ::1 ::2 any -P out ipsec ipcomp/transport//require;".into(), 1, "protects nothing"),
            (
                "{\"rule\":{\"selectors\":[\"any\"],\"action\":\"x\"}}".into(),
                1,
                "\"action\" cannot be \"x\"; write",
            ),
            ("# comment\n{\"spi\":1}".into(), 2, "\"direction\" is missing"),
        ] {
            let error = read(&text, Ends::Local(&own)).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.text.contains(part) && !error.text.contains("octets of key"), "{error}");
        }
    }

    const PAIR: &str = "add 192.0.2.1 192.0.2.2 esp 0x1003 -E null -A hmac-sha1 \"twenty octets of key\";\n\
        add 192.0.2.1 192.0.2.2 ah 0x1004 -A hmac-sha1 \"twenty octets of key\";\n";
    const BUNDLE: &str =
        "spdadd 192.0.2.1 192.0.2.2 any -P out ipsec esp/transport//require ah/transport//require;\n";

    #[test]
    fn a_policy_of_several_requests_ties_its_associations_together() {
        let own = [ALICE.parse().unwrap()];
        for text in [format!("{PAIR}{BUNDLE}"), format!("{BUNDLE}{PAIR}")] {
            let entries = read(&text, Ends::Local(&own)).unwrap();
            let nexts: Vec<_> = sas(&entries).iter().map(|sa| sa.next).collect();
            assert_eq!(nexts, [Some(Spi(0x1004)), None]);
            assert_eq!(rules(&entries)[0].bundle, ["esp/transport", "ah/transport"]);
        }
        // The other host only opens.
        let other = ["192.0.2.2".parse().unwrap()];
        let entries = read(&format!("{PAIR}{BUNDLE}"), Ends::Local(&other)).unwrap();
        assert!(sas(&entries).iter().all(|sa| sa.next.is_none()));
    }

    #[test]
    fn unique_without_a_number_shares_with_no_other_policy() {
        let own = [ALICE.parse().unwrap()];
        let more = PAIR.replace("0x100", "0x200");
        let unique = "spdadd 192.0.2.1 192.0.2.2 tcp -P out ipsec ah/transport//unique;\n";
        let second = unique.replace("tcp", "udp");
        let rest = unique.replace("tcp", "any").replace("unique", "require");
        let entries = read(&[PAIR, &more, unique, &second].concat(), Ends::Local(&own)).unwrap();
        let of = rules(&entries);
        assert_eq!((&of[0].bundle[0], &of[1].bundle[0]), (&"0x00001004".into(), &"0x00002004".into()));
        for (text, line, part) in [
            ([PAIR, unique, &second].concat(), 4, "unique wants an association of its own"),
            ([PAIR, unique, &rest].concat(), 4, "belongs to the policy of line 3"),
            ([PAIR, BUNDLE, &rest.replace("ah/", "esp/")].concat(), 4, "belongs to the policy of line 3"),
            ([&PAIR.replace(" ah ", " esp "), BUNDLE].concat(), 3, "ah/transport follows in this policy"),
            (
                [PAIR, &more, BUNDLE, &BUNDLE.replace("ah/transport//require", "").replace("any", "tcp")]
                    .concat(),
                0,
                "",
            ),
        ] {
            match read(&text, Ends::Local(&own)) {
                Ok(entries) => assert_eq!((line, rules(&entries)[1].bundle[0].as_str()), (0, "0x00001003")),
                Err(error) => assert!(error.line == line && error.text.contains(part), "{error}\n{text}"),
            }
        }
    }

    /// The ends of a tunnel both ways, ESP and AH under one number, and another pair under another one.
    const NUMBERED: &str = "add 192.0.2.1 192.0.2.2 ah 0x1001 -u 7 -A hmac-sha1 \"twenty octets of key\";\n\
        add 192.0.2.1 192.0.2.2 esp 0x1002 -u 7 -E null -A hmac-sha1 \"twenty octets of key\";\n\
        add 192.0.2.2 192.0.2.1 ah 0x2001 -u 7 -A hmac-sha1 \"twenty octets of key\";\n\
        add 192.0.2.2 192.0.2.1 esp 0x2002 -u 7 -E null -A hmac-sha1 \"twenty octets of key\";\n\
        add 192.0.2.2 192.0.2.1 esp 0x2003 -u 8 -E null -A hmac-sha1 \"twenty octets of key\";\n";

    #[test]
    fn a_number_means_the_association_that_fits_the_request() {
        let own = [ALICE.parse().unwrap()];
        let of = |policy: &str| {
            let text = format!("{NUMBERED}{policy}\n");
            read(&text, Ends::Local(&own)).map(|entries| rules(&entries)[0].bundle.clone())
        };
        let out = "spdadd 192.0.2.1 192.0.2.2 any -P out ipsec esp/transport//unique:7;";
        assert_eq!(of(out).unwrap(), ["0x00001002"]);
        assert_eq!(of(&out.replace("esp/", "ah/")).unwrap(), ["0x00001001"]);
        let both = out.replace(";", " ah/transport//unique:7;");
        assert_eq!(of(&both).unwrap(), ["0x00001002", "0x00001001"]);
        // Two of one kind take one each.
        let twice = out.replace(";", " esp/transport//unique:7;");
        assert!(of(&twice).unwrap_err().text.contains("unique:7 wants esp/transport"));
        for (policy, part) in [
            (
                out.replace("esp/transport//", "esp/tunnel/192.0.2.1-192.0.2.2/"),
                "that of line 1 (and others) is ah/",
            ),
            (
                out.replace("esp/transport//", "esp/transport/192.0.2.1-192.0.2.3/"),
                "from 192.0.2.1 to 192.0.2.3",
            ),
            // The only one with this number goes the other way.
            (out.replace(":7", ":8"), "that of line 5 is esp/transport from 192.0.2.2"),
            (out.replace(":7", ":9"), "no add of this file has -u 9"),
        ] {
            let error = of(&policy).unwrap_err();
            assert!(error.line == 6 && error.text.contains(part), "{error}");
        }
    }

    #[test]
    fn a_number_binds_what_comes_in_too() {
        let own = [ALICE.parse().unwrap()];
        let read = |text: &str| {
            super::read(text, Ends::Local(&own), &Suites::standard())
                .map(|entries| rules(&entries)[0].bundle.clone())
        };
        let policy =
            "spdadd 192.0.2.2 192.0.2.1 any -P in ipsec esp/transport//unique:7 ah/transport//unique:7;\n";
        assert_eq!(read(&[NUMBERED, policy].concat()).unwrap(), ["0x00002002", "0x00002001"]);
        // While keys change, both are good; the request still says what they must be.
        let change = NUMBERED.replace("-u 8", "-u 7");
        assert_eq!(read(&[&change, policy].concat()).unwrap(), ["esp/transport", "0x00002001"]);
        let absent = read(&[NUMBERED, &policy.replace(":7", ":9")].concat()).unwrap_err();
        assert!(absent.line == 6 && absent.text.contains("has -u 9"), "{absent}");
        // What would not become shorter comes without IPComp.
        let compressed = "add 192.0.2.2 192.0.2.1 ipcomp 0x2004 -u 7 -C deflate;\n";
        let policy = policy.replace("ipsec", "ipsec ipcomp/transport//unique:7");
        let of = read(&[NUMBERED, compressed, &policy].concat()).unwrap();
        assert_eq!(of, ["ipcomp/transport", "0x00002002", "0x00002001"]);
    }

    #[test]
    fn policies_of_one_line_have_their_own_associations() {
        let own = [ALICE.parse().unwrap()];
        let policies = "spdadd 192.0.2.1 192.0.2.2 tcp -P out ipsec ah/transport//unique:7; \
            spdadd 192.0.2.1 192.0.2.2 udp -P out ipsec esp/transport//unique:7;";
        let entries = read(&[NUMBERED, policies].concat(), Ends::Local(&own)).unwrap();
        let of: Vec<_> = rules(&entries).iter().map(|rule| rule.bundle[0].clone()).collect();
        assert_eq!(of, ["0x00001001", "0x00001002"]);
        let names: Vec<_> = rules(&entries).iter().filter_map(|rule| rule.name.as_deref()).collect();
        assert_eq!(names, ["setkey-6", "setkey-6-2"]);
        assert_eq!(free_name("setkey-6", &["setkey-6", "setkey-6-2"]), "setkey-6-3");
        assert_eq!(free_name("setkey-7", &names), "setkey-7");
    }

    #[test]
    fn a_key_in_the_place_of_a_rule_is_not_repeated() {
        let key = "000102030405060708090a0b0c0d0e0f10111213";
        for text in [format!("{{\"rule\":\"{key}\"}}"), format!("{{\"rule\":{{\"{key}\":1}}}}")] {
            let error = read(&text, Ends::Both).unwrap_err();
            assert!(error.text.contains("JSON") || error.text.contains("no field"), "{error}");
            assert!(!error.text.contains(&key[..20]), "{error}");
        }
    }

    #[test]
    fn json_lines_hold_associations_and_rules() {
        let text = "# both\n{\"rule\":{\"selectors\":[\"any\"],\"action\":\"bypass\"}}\n\
            {\"direction\":\"out\",\"spi\":\"0x1000\",\"local\":\"192.0.2.1\",\"remote\":\"192.0.2.2\",\
            \"mode\":\"transport\",\"suite\":\"aes128gcm\",\"keymat\":\"00\"}\n";
        let entries = read(text, Ends::Both).unwrap();
        assert_eq!((sas(&entries).len(), rules(&entries).len()), (1, 1));
        assert_eq!(entries[1].line, 3);
    }

    #[test]
    fn the_examples_of_the_manual_are_good() {
        let manual = include_str!("../../../docs/replay.md");
        let mut count = (0, 0);
        for block in manual.split("```").skip(1).step_by(2) {
            let Some((kind @ ("json" | "text"), text)) = block.split_once('\n') else { continue };
            let entries = read(text, Ends::Both).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert!(!entries.is_empty(), "{text}");
            for sa in sas(&entries) {
                let sa = SaAdd { sequence: None, ..sa.clone() };
                crate::associations::check(&sa, None).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
            }
            let mut book = crate::rules::SpdRules::default();
            for rule in rules(&entries) {
                book.add(rule).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
            }
            if kind == "json" { count.0 += 1 } else { count.1 += 1 }
        }
        assert_eq!(count, (9, 2));
    }
}
