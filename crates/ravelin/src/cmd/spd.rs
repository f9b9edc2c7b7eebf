//! `ravelin spd add|list|del|flush|monitor`: the rules of the security policy database.

use api::{SpdAdd, SpdAdded, SpdDeleted, SpdDirection, SpdList, SpdRule, Verdict, path};
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCandidates;

use super::scrub::Profile;
use crate::client::{Ask, Connect};
use crate::complete;
use crate::output;

/// Rules for packets that no application's policy speaks for, in order: the first that matches decides. They end with the
/// daemon.
#[derive(Debug, Subcommand)]
pub enum Spd {
    Add(Add),
    List(List),
    Del(Del),
    Flush(Flush),
    Monitor(Monitor),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RuleDirection {
    In,
    Out,
    Both,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Action {
    Protect,
    Bypass,
    Discard,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Service {
    Authentication,
    Encryption,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    Mandatory,
    Optional,
}

/// Add a rule to the SPD.
#[derive(Debug, Args)]
pub struct Add {
    #[command(flatten)]
    ask: Ask,
    /// Its name [default: the daemon makes one].
    #[arg(long)]
    name: Option<String>,
    /// Where: first, last, before:NAME, after:NAME or at:N, counted from 0.
    #[arg(long, default_value = "last")]
    place: String,
    /// Packets of which way.
    #[arg(long, value_enum, default_value_t = RuleDirection::Both)]
    direction: RuleDirection,
    /// Which packets: "local 10.0.0.0/8 remote 192.0.2.0/24 proto tcp remote-port 443", or "any". May be repeated.
    #[arg(long = "selector", value_name = "SELECTOR", required = true)]
    selectors: Vec<String>,
    /// What happens to them.
    #[arg(long, value_enum)]
    action: Action,
    /// To protect: at least this [default: encryption].
    #[arg(long, value_enum)]
    service: Option<Service>,
    /// To protect: whether packets may pass clear where there is no association [default: mandatory].
    #[arg(long, value_enum)]
    level: Option<Level>,
    /// To protect: the suite that one of the associations must have; "NAME alone" for one that rests on a cipher of one's
    /// own alone [default: any].
    #[arg(long, value_name = "SUITE")]
    suite: Option<String>,
    /// To protect: an association of the bundle, by its SPI or as PROTOCOL/MODE/LOCAL-REMOTE; repeated, innermost first
    /// [default: any that serves the packet].
    #[arg(long = "by", value_name = "ASSOCIATION")]
    bundle: Vec<String>,
    /// To protect or bypass, of both directions: scrub the packets by this profile [default: they are not scrubbed].
    #[arg(long, value_enum, value_name = "PROFILE")]
    scrub: Option<Profile>,
    /// To protect or bypass: the class of the graph that the packets are in [default: none].
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
}

/// Show the rules in order, with what each decided.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    ask: Ask,
    /// Show the entries of sockets instead, where policy is translated socket by socket.
    #[arg(long)]
    per_socket: bool,
}

/// Delete a rule of the SPD.
#[derive(Debug, Args)]
pub struct Del {
    #[command(flatten)]
    ask: Ask,
    /// The name of the rule.
    #[arg(add = ArgValueCandidates::new(complete::rules))]
    name: String,
}

/// Delete every rule: from then on there is no SPD.
#[derive(Debug, Args)]
pub struct Flush {
    #[command(flatten)]
    ask: Ask,
}

/// Print every change of the rules, one JSON object a line, until interrupted.
#[derive(Debug, Args)]
pub struct Monitor {
    #[command(flatten)]
    connect: Connect,
}

impl Spd {
    pub fn execute(self) -> anyhow::Result<()> {
        match self {
            Spd::Add(add) => add.execute(),
            Spd::List(list) => list.execute(),
            Spd::Del(del) => del.execute(),
            Spd::Flush(flush) => flush.execute(),
            Spd::Monitor(monitor) => monitor.execute(),
        }
    }
}

impl Add {
    fn execute(self) -> anyhow::Result<()> {
        let request = SpdAdd {
            name: self.name,
            place: Some(self.place),
            direction: match self.direction {
                RuleDirection::In => SpdDirection::In,
                RuleDirection::Out => SpdDirection::Out,
                RuleDirection::Both => SpdDirection::Both,
            },
            selectors: self.selectors,
            action: match self.action {
                Action::Protect => Verdict::Protect,
                Action::Bypass => Verdict::Bypass,
                Action::Discard => Verdict::Discard,
            },
            service: self.service.map(|service| match service {
                Service::Authentication => "authentication".to_owned(),
                Service::Encryption => "encryption".to_owned(),
            }),
            level: self.level.map(|level| match level {
                Level::Mandatory => "mandatory".to_owned(),
                Level::Optional => "optional".to_owned(),
            }),
            suite: self.suite,
            bundle: self.bundle,
            scrub: self.scrub.map(|profile| profile.of_scrubber().name().to_owned()),
            class: self.class,
        };
        let added: SpdAdded = self.ask.connect.post(path::SPD, &request)?;
        self.ask.show(&added, |added| {
            format!("rule {} added at position {}\n", added.rule.name, added.rule.position)
        })
    }
}

impl List {
    fn execute(self) -> anyhow::Result<()> {
        if self.per_socket {
            return super::entries::list(&self.ask);
        }
        let list: SpdList = self.ask.connect.get(path::SPD)?;
        self.ask.show(&list, |list| match list.rules.as_slice() {
            [] => "no rules; add them with `ravelin spd add`\n".to_owned(),
            rules => table(rules),
        })
    }
}

impl Del {
    fn execute(self) -> anyhow::Result<()> {
        let at = path::SPD_ONE.replace("{name}", &encoded(&self.name));
        let deleted: SpdDeleted = self.ask.connect.delete(&at)?;
        self.ask.show(&deleted, |_| format!("rule {} deleted\n", self.name))
    }
}

impl Flush {
    fn execute(self) -> anyhow::Result<()> {
        let deleted: SpdDeleted = self.ask.connect.delete(path::SPD)?;
        self.ask.show(&deleted, |deleted| format!("{} rules deleted\n", deleted.rules.len()))
    }
}

impl Monitor {
    fn execute(self) -> anyhow::Result<()> {
        self.connect.stream(path::EVENTS, &mut |line| match is_about_rules(line) {
            true => output::text(&format!("{}\n", String::from_utf8_lossy(line))),
            false => Ok(()),
        })
    }
}

/// Whether a line of the daemon's events is about rules: changes, the word that the stream has begun, and that some were lost.
fn is_about_rules(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Name<'a> {
        event: &'a str,
    }
    serde_json::from_slice::<Name<'_>>(line).is_ok_and(|name| matches!(name.event, "spd" | "ready" | "lost"))
}

/// A name as a part of a path.
fn encoded(name: &str) -> String {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    name.bytes().map(|c| if plain(c) { char::from(c).to_string() } else { format!("%{c:02X}") }).collect()
}

fn table(rules: &[SpdRule]) -> String {
    let rows: Vec<Vec<String>> = rules.iter().map(row).collect();
    let head = [
        "POS",
        "NAME",
        "DIR",
        "ACTION",
        "BY",
        "PACKETS OUT",
        "OCTETS OUT",
        "PACKETS IN",
        "OCTETS IN",
        "SELECTORS",
    ];
    output::table(&head, &rows)
}

fn row(rule: &SpdRule) -> Vec<String> {
    let scrub = rule.scrub.as_ref().map(|profile| format!("scrub {profile}"));
    let suite = rule.suite.as_ref().map(|suite| format!("suite {suite}"));
    let class = rule.class.as_ref().map(|class| format!("class {class}"));
    let terms: Vec<String> =
        [rule.service.clone(), rule.level.clone(), suite, class, scrub].into_iter().flatten().collect();
    let action = match terms.as_slice() {
        [] => rule.action.to_string(),
        terms => format!("{} ({})", rule.action, terms.join(", ")),
    };
    vec![
        rule.position.to_string(),
        rule.name.clone(),
        rule.direction.to_string(),
        action,
        if rule.bundle.is_empty() { "-".to_owned() } else { rule.bundle.join(" then ") },
        rule.outbound.packets.to_string(),
        output::octets(rule.outbound.bytes),
        rule.inbound.packets.to_string(),
        output::octets(rule.inbound.bytes),
        rule.selectors.join(" | "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_says_by_which_profile_and_in_which_class() {
        let rule = |scrub: Option<&str>, level: Option<&str>, class: Option<&str>| SpdRule {
            position: 0,
            name: "site".into(),
            direction: SpdDirection::Both,
            selectors: vec!["any".into()],
            action: level.map_or(Verdict::Bypass, |_| Verdict::Protect),
            service: level.map(|_| "encryption".into()),
            level: level.map(Into::into),
            suite: None,
            bundle: Vec::new(),
            scrub: scrub.map(Into::into),
            class: class.map(Into::into),
            outbound: api::SpdCount::default(),
            inbound: api::SpdCount::default(),
        };
        let whole = "protect (encryption, mandatory, class voice, scrub strict)";
        for (scrub, level, class, want) in [
            (None, None, None, "bypass"),
            (Some("observe"), None, None, "bypass (scrub observe)"),
            (None, None, Some("voice"), "bypass (class voice)"),
            (None, Some("mandatory"), None, "protect (encryption, mandatory)"),
            (Some("strict"), Some("mandatory"), Some("voice"), whole),
        ] {
            assert_eq!(row(&rule(scrub, level, class))[3], want);
        }
    }

    #[test]
    fn the_monitor_of_rules_shows_nothing_of_associations() {
        for (line, shown) in [
            (r#"{"api":1,"event":"spd","change":"added","rules":[]}"#, true),
            (r#"{"api":1,"event":"ready","acquires":false}"#, true),
            (r#"{"api":1,"event":"lost","count":3}"#, true),
            (r#"{"api":1,"event":"expire","spi":"0x00001000"}"#, false),
            ("", false),
        ] {
            assert_eq!(super::is_about_rules(line.as_bytes()), shown, "{line}");
        }
    }

    #[test]
    fn a_name_becomes_a_part_of_a_path() {
        assert_eq!(super::encoded("a-b_c.1"), "a-b_c.1");
        assert_eq!(super::encoded("a/b ?"), "a%2Fb%20%3F");
    }
}
