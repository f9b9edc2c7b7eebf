//! What is wrong with a line of JSON: the field, what was given, what is allowed. Never keying material: neither the value
//! of `keymat`, nor anything else that looks like a key somebody put into the wrong field.

use std::net::IpAddr;

use api::{
    ClassOrMatch, Direction, Encapsulation, Headers, Keymat, Lifetime, Mode, ReplaceOne, SaType,
    SpdDirection, Spi, SpiRequest, Verdict, WordOr,
};
use serde::de::{DeserializeOwned, IgnoredAny};

/// Digits behind which a word is taken for a key.
const KEY_DIGITS: usize = 16;
/// Characters of a value that are repeated.
const SHOWN: usize = 32;

/// One field of an object.
pub struct Field {
    name: &'static str,
    required: bool,
    allowed: &'static str,
    check: fn(&str) -> Result<(), serde_json::Error>,
    /// What serde says of it names a field inside, and is worth repeating.
    nested: bool,
}

const fn field(
    name: &'static str,
    check: fn(&str) -> Result<(), serde_json::Error>,
    allowed: &'static str,
) -> Field {
    Field { name, required: false, allowed, check, nested: false }
}

const fn required(mut field: Field) -> Field {
    field.required = true;
    field
}

const fn nested(mut field: Field) -> Field {
    field.nested = true;
    field
}

fn is<T: DeserializeOwned>(text: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<T>(text).map(drop)
}

const ADDRESS: &str = "an address: \"192.0.2.1\", \"2001:db8::1\"";
const PREFIX: &str = "a prefix: \"10.1.0.0/16\", \"2001:db8::/32\"";
const PORT: &str = "a number from 0 to 65535";
const PORTS: &str = "ports: \"443\", \"1000-2000\"";
const AN_SPI: &str = "an SPI: a number, or \"0x1002\"";
const YES_NO: &str = "true or false";

/// The fields of an association.
pub const ASSOCIATION: &[Field] = &[
    required(field("direction", is::<Direction>, "\"in\" or \"out\"")),
    required(field(
        "spi",
        is::<SpiRequest>,
        "a number from 256 to 4294967295, or \"0x1001\"; of ipcomp 2 or one from 256 to 65535",
    )),
    required(field("local", is::<IpAddr>, ADDRESS)),
    required(field("remote", is::<IpAddr>, ADDRESS)),
    required(field("mode", is::<Mode>, "\"transport\", \"tunnel\" or \"beet\"")),
    field("local_port", is::<u16>, PORT),
    field("remote_port", is::<u16>, PORT),
    field("type", is::<SaType>, "\"esp\", \"ah\", \"ipcomp\" or \"ipip\""),
    field("encapsulation", is::<Option<Encapsulation>>, "\"udp\" or \"none\""),
    field("suite", is::<String>, "a name: \"aes128gcm\", \"aes256cbc-sha256\"; for AH \"sha256\""),
    field("esn", is::<bool>, YES_NO),
    nested(field("lifetime", is::<Lifetime>, "{\"soft\":{...},\"hard\":{...},\"jitter\":10}")),
    nested(field(
        "headers",
        is::<Option<Headers>>,
        "{\"dscp\":\"copy\" or 0 to 63 or 64 of them,\"dscp_inward\":false,\"ecn\":true,\"df\":\"copy\",\"hop_limit\":64,\"fragment\":\"after\"}",
    )),
    field("tfc", is::<Option<WordOr<u16>>>, "\"none\", \"full\" or a number of octets up to 65535"),
    field("padding", is::<Option<String>>, "\"least\" or \"blocks\""),
    field("keepalive", is::<Option<WordOr<u16>>>, "\"on\" or a number of seconds up to 65535"),
    field("dummy", is::<Option<u16>>, "a number of packets in a second, up to 1000"),
    field("follow_peer", is::<bool>, YES_NO),
    field("takes_over", is::<bool>, YES_NO),
    field("next", is::<Option<Spi>>, AN_SPI),
    field("match", is::<Option<String>>, "\"spi\", \"spi+dst\" or \"spi+dst+src\""),
    field("class", is::<Option<ClassOrMatch>>, "the name of a class of the graph, as \"voice\""),
    field("sequence", is::<Option<u64>>, "a number"),
    field("selector_local", is::<Option<String>>, PREFIX),
    field("selector_remote", is::<Option<String>>, PREFIX),
    field("protocol", is::<Option<String>>, "a word or digits in quotes: \"tcp\", \"6\""),
    field("local_ports", is::<Option<String>>, PORTS),
    field("remote_ports", is::<Option<String>>, PORTS),
    field("app", is::<Option<String>>, "a name"),
    field("replay_window", is::<Option<u32>>, "a power of two from 64 to 65536, or 0"),
    field("path_mtu", is::<Option<u16>>, "a number of octets up to 65535"),
    field("keymat", is::<Keymat>, "hexadecimal digits in quotes"),
];

/// The fields of a rule.
pub(super) const RULE: &[Field] = &[
    field("name", is::<Option<String>>, "a name"),
    field("place", is::<Option<String>>, "\"first\", \"last\", \"before:NAME\", \"after:NAME\" or \"at:N\""),
    field("direction", is::<SpdDirection>, "\"in\", \"out\" or \"both\""),
    required(field("selectors", is::<Vec<String>>, "a list: [\"proto tcp remote-port 443\"]")),
    required(field("action", is::<Verdict>, "\"protect\", \"bypass\" or \"discard\"")),
    field("service", is::<Option<String>>, "\"authentication\" or \"encryption\""),
    field("level", is::<Option<String>>, "\"mandatory\" or \"optional\""),
    field("suite", is::<Option<String>>, "the name of a suite, as \"aes256gcm\""),
    field("bundle", is::<Vec<String>>, "a list: [\"esp/transport\", \"0x1001\"]"),
    field("scrub", is::<Option<String>>, "\"observe\", \"minimal\", \"standard\" or \"strict\""),
    field("class", is::<Option<String>>, "the name of a class of the graph, as \"voice\""),
];

/// The fields of a replacement, and of each of its halves.
const REPLACEMENT: &[Field] = &[
    field("inbound", is::<Option<ReplaceOne>>, HALF_SHAPE),
    field("outbound", is::<Option<ReplaceOne>>, HALF_SHAPE),
    field("overlap_seconds", is::<u64>, "a number of seconds"),
];
const HALF_SHAPE: &str = "{\"old\":\"0x1001\",\"spi\":\"0x2001\",\"keymat\":\"...\"}";
const HALF: &[Field] = &[
    required(field("old", is::<Spi>, AN_SPI)),
    field("remote", is::<Option<IpAddr>>, ADDRESS),
    required(field("spi", is::<SpiRequest>, "an SPI: a number, or \"0x1002\"; inbound also \"auto\"")),
    field("suite", is::<Option<String>>, "a name: \"aes128gcm\", \"aes256cbc-sha256\""),
    field("keymat", is::<Keymat>, "hexadecimal digits in quotes"),
];

/// The first thing that is wrong with a replacement of associations.
pub fn fault_of_replacement(text: &str, error: &serde_json::Error) -> String {
    let Some(halves) = split(text) else {
        return format!("this is no JSON object, as {{\"outbound\":{HALF_SHAPE}}}");
    };
    let mut halves = halves
        .into_iter()
        .filter(|(name, half)| matches!(*name, "inbound" | "outbound") && half.starts_with('{'));
    let wrong =
        halves.find_map(|(name, half)| Some((name, half, serde_json::from_str::<ReplaceOne>(half).err()?)));
    match wrong {
        Some((name, half, error)) => format!("{name:?}: {}", fault(half, HALF, &error)),
        None => fault(text, REPLACEMENT, error),
    }
}

/// The first thing that is wrong with the object of this text. `error`: what serde said of it.
pub fn fault(text: &str, fields: &[Field], error: &serde_json::Error) -> String {
    // What is no JSON is told by place; its text names no value.
    let place = || {
        format!(
            "column {}: this is no JSON object of one line, as {{\"direction\":\"out\",...}}",
            error.column()
        )
    };
    let Some(given) = split(text) else { return place() };
    for (at, (name, value)) in given.iter().enumerate() {
        let Some(known) = fields.iter().find(|field| field.name == *name) else {
            let names: Vec<_> = fields.iter().map(|field| field.name).collect();
            return format!("there is no field {}; the fields are {}", shown(name), names.join(", "));
        };
        if given.iter().take(at).any(|(before, _)| before == name) {
            return format!("the field {name:?} stands there twice; leave one out");
        }
        let Err(error) = (known.check)(value) else { continue };
        let allowed = known.allowed;
        if known.nested {
            let text = error.to_string();
            let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
            return format!("{name:?}: {text}; write {allowed}");
        }
        if matches!(*name, "keymat" | "inbound" | "outbound") {
            return format!("{name:?} is not what it must be; write {allowed}");
        }
        return format!("{name:?} cannot be {}; write {allowed}", shown(value));
    }
    let missing =
        fields.iter().find(|field| field.required && !given.iter().any(|(name, _)| *name == field.name));
    missing.map_or_else(place, |field| format!("{:?} is missing; write {}", field.name, field.allowed))
}

/// The value of the only field of an object.
pub(super) fn only_value(text: &str) -> Option<&str> {
    match split(text)?.as_slice() {
        [(_, value)] => Some(value),
        _ => None,
    }
}

/// The fields of an object, names without quotes, values as they stand. Nothing is copied: a copy of a key would stay behind.
fn split(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut rest = text.trim().strip_prefix('{')?.trim_start();
    let mut fields = Vec::new();
    if rest.starts_with('}') {
        return Some(fields);
    }
    loop {
        let (name, after) = value(rest)?;
        let name = name.strip_prefix('"')?.strip_suffix('"')?;
        let (given, after) = value(after.trim_start().strip_prefix(':')?.trim_start())?;
        fields.push((name, given));
        let after = after.trim_start();
        match after.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None => return (after == "}").then_some(fields),
        }
    }
}

/// The value that a text begins with, and what is behind it.
fn value(text: &str) -> Option<(&str, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    text.split_at_checked(values.byte_offset())
}

/// A value as it may be repeated.
fn shown(value: &str) -> String {
    let word = value.trim_matches('"');
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let mut run = 0;
    let longest = digits.chars().fold(0, |longest, c| {
        run = if c.is_ascii_hexdigit() { run + 1 } else { 0 };
        longest.max(run)
    });
    if longest >= KEY_DIGITS {
        return format!("what was given ({} characters, perhaps a key)", word.chars().count());
    }
    let short: String = value.chars().take(SHOWN).collect();
    let cut = if short.len() < value.len() { "..." } else { "" };
    if value.starts_with(['"', '[', '{']) { format!("{short}{cut}") } else { format!("{short:?}{cut}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::SaAdd;

    const GOOD: &str = r#"{"direction":"out","spi":"0x1000","local":"192.0.2.1","remote":"192.0.2.2","mode":"transport","suite":"aes128gcm","keymat":"00112233445566778899aabbccddeeff00112233"}"#;

    fn told(text: &str) -> String {
        fault(text, ASSOCIATION, &serde_json::from_str::<SaAdd>(text).unwrap_err())
    }

    /// The names of a type's fields, by its own account.
    fn names<T: DeserializeOwned + std::fmt::Debug>() -> Vec<String> {
        let text = serde_json::from_str::<T>(r#"{"nothing":1}"#).unwrap_err().to_string();
        let (_, names) = text.split_once("expected one of ").unwrap();
        let (names, _) = names.split_once(" at line").unwrap();
        names.split(", ").map(|name| name.trim_matches('`').to_owned()).collect()
    }

    #[test]
    fn every_field_is_in_its_table() {
        for (table, mut names) in [
            (ASSOCIATION, names::<SaAdd>()),
            (RULE, names::<api::SpdAdd>()),
            (REPLACEMENT, names::<api::SaReplace>()),
            (HALF, names::<ReplaceOne>()),
        ] {
            let mut known: Vec<_> = table.iter().map(|field| field.name.to_owned()).collect();
            known.sort();
            names.sort();
            assert_eq!(known, names);
        }
    }

    #[test]
    fn the_half_of_a_replacement_is_named() {
        let good = r#"{"outbound":{"old":"0x1000","spi":"0x1001","keymat":"00112233"},"overlap_seconds":9}"#;
        for (from, to, words) in [
            (r#""0x1001""#, "[]", [r#""outbound": "spi" cannot be []"#, "a number"]),
            (r#""00112233""#, "112233", [r#""outbound": "keymat""#, "hexadecimal"]),
            (r#""spi":"0x1001","#, "", [r#""outbound": "spi" is missing"#, "0x1002"]),
            (r#""spi""#, r#""spy""#, [r#""outbound": there is no field "spy""#, "keymat"]),
            ("9}", "-9}", [r#""overlap_seconds" cannot be"#, "seconds"]),
            (r#""outbound""#, r#""both""#, [r#"no field "both""#, "inbound, outbound"]),
            (
                r#"{"old":"0x1000","spi":"0x1001","keymat":"00112233"}"#,
                "7",
                [r#""outbound" is not what it must be"#, "keymat"],
            ),
        ] {
            let text = good.replacen(from, to, 1);
            let text =
                fault_of_replacement(&text, &serde_json::from_str::<api::SaReplace>(&text).unwrap_err());
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
            assert!(!text.contains("2233"), "{text}");
        }
        // Nothing of what stands in the place of a half: it may be a key.
        for text in [r#"{"outbound":"AAECAwQFBgcICQoLDA0ODxAREhM="}"#, r#"["AAECAwQFBgcICQoLDA0ODxAREhM="]"#]
        {
            let error = serde_json::from_str::<api::SaReplace>(text).unwrap_err();
            let told = fault_of_replacement(text, &error);
            assert!(told.contains("0x2001") && !told.contains("AAEC"), "{told}");
        }
    }

    #[test]
    fn field_given_and_allowed_are_told() {
        for (from, to, words) in [
            (r#""transport""#, r#""transprot""#, vec![r#""mode""#, "transprot", r#""tunnel""#]),
            (r#""out""#, r#""outbound""#, vec![r#""direction""#, "outbound", r#""in" or "out""#]),
            (r#""192.0.2.1""#, r#""192.0.2.256""#, vec![r#""local""#, "192.0.2.256", "an address"]),
            (r#""0x1000""#, "-3", vec![r#""spi""#, "-3", "4294967295"]),
            (r#""mode":"transport","#, "", vec![r#""mode" is missing"#, "tunnel"]),
            (r#""mode""#, r#""modus""#, vec!["no field", "modus", "mode"]),
            (r#"{"#, r#"{"mode":"tunnel","#, vec![r#""mode" stands there twice"#]),
            (r#"{"#, r#"{"esn":"yes","#, vec![r#""esn""#, "yes", "true or false"]),
            (r#"{"#, r#"{"path_mtu":70000,"#, vec![r#""path_mtu""#, "70000", "65535"]),
            (r#"{"#, r#"{"tfc":[1],"#, vec![r#""tfc""#, "[1]", "full"]),
            (r#"{"#, r#"{"lifetime":{"hard":{"days":1}},"#, vec![r#""lifetime""#, "days", "seconds"]),
            (r#"{"#, r#"{"headers":{"tos":1},"#, vec![r#""headers""#, "tos", "dscp"]),
            (r#"}"#, "", vec!["column"]),
        ] {
            let text = told(&GOOD.replacen(from, to, 1));
            for word in words {
                assert!(text.contains(word), "{text}");
            }
            assert!(!text.contains("5566"), "{text}");
        }
    }

    #[test]
    fn a_key_is_not_repeated_wherever_it_stands() {
        let key = "00112233445566778899aabbccddeeff00112233";
        for (from, to) in [
            (format!("\"{key}\""), key.trim_start_matches('0').to_owned()),
            (format!("\"{key}\""), format!("[\"{key}\"]")),
            (r#""transport""#.to_owned(), format!("\"{key}\"")),
            (r#""mode""#.to_owned(), format!("\"{key}\"")),
            (r#""192.0.2.1""#.to_owned(), format!("\"0x{key}\"")),
        ] {
            let text = GOOD.replacen(&from, &to, 1);
            let text = told(&text);
            assert!(!text.contains("5566"), "{text}");
        }
    }
}
