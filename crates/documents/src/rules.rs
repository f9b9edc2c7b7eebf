//! The rules of the security policy database as people name them (RFC 4301 section 4.4.1).
//!
//! What enters: [`api::SpdAdd`]. What leaves: a snapshot for the data threads, and the rules with what each decided. Shared
//! by the control plane and by replay.

use std::collections::HashMap;
use std::sync::Arc;

use api::{SpdAdd, SpdCount, SpdDirection, SpdRule, Verdict};
use crypto::{SuiteId, Suites};
use engine::{SPD_RULE, Traffic};
use sadb::Selectors;
use sadb::rules::{
    Action, Direction, Place, Protection, Rule, RuleError, RuleKey, RuleTable, Snapshot, Template,
};
use sadb::selector::{Condition, TrafficSelector, field};
use sadb::spd::Level;
use scrub::Profile;
use wire::{ScrubId, Services, protocol};

use crate::api_error::{ApiError, Blame};
use crate::classes::{Classes, class_name};
use crate::users;

/// The longest name of a rule.
const LONGEST_NAME: usize = 64;

/// The rules, in order and by name.
#[derive(Clone, Debug)]
pub struct SpdRules {
    table: RuleTable,
    names: HashMap<String, RuleKey>,
    /// The number of the next rule; never given twice.
    next: u32,
    /// What no rule matches passes in clear.
    bypass_the_rest: bool,
    /// The suites that rules may name.
    suites: Suites,
    /// The classes that rules may name.
    classes: Classes,
}

/// What each rule decided, both ways.
#[derive(Clone, Debug, Default)]
pub struct RuleCounts {
    /// What each rule decided of outbound packets.
    pub outbound: Vec<(RuleKey, Traffic)>,
    /// What each rule decided of inbound packets.
    pub inbound: Vec<(RuleKey, Traffic)>,
}

impl Default for SpdRules {
    fn default() -> SpdRules {
        // The classifier in use does not hash, so nothing depends on the seed.
        SpdRules {
            table: RuleTable::new(0),
            names: HashMap::new(),
            next: 1,
            bypass_the_rest: false,
            suites: Suites::standard(),
            classes: Classes::default(),
        }
    }
}

impl SpdRules {
    /// No rules yet, and these suites and classes that they may name.
    pub fn naming(suites: &Suites, classes: Classes) -> SpdRules {
        SpdRules { suites: suites.clone(), classes, ..SpdRules::default() }
    }

    /// The classes that rules may name.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Set the classes that rules may name from now on. Those that are there stay.
    pub fn set_classes(&mut self, classes: Classes) {
        self.classes = classes;
    }

    /// Add a rule; its name.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    pub fn add(&mut self, request: &SpdAdd) -> Result<String, ApiError> {
        self.put(request, true)
    }

    /// `is_new`: not a rule that an earlier daemon has taken, which stays although it can match nothing.
    fn put(&mut self, request: &SpdAdd, is_new: bool) -> Result<String, ApiError> {
        let key = RuleKey(self.next);
        if key.0 >= SPD_RULE {
            return Err(ApiError::new(Blame::Failed, "every number for rules was used")
                .remedy("restart the daemon to begin anew"));
        }
        let name = match &request.name {
            Some(name) => checked_name(name)?.to_owned(),
            None => format!("rule-{}", key.0),
        };
        if self.names.contains_key(&name) {
            return Err(ApiError::new(Blame::Conflict, format!("there is a rule {name:?} already"))
                .remedy("choose another name, or delete that rule first"));
        }
        let place = self.place(request.place.as_deref())?;
        let rule = Rule { label: name.clone(), ..rule(key, request, &self.suites, &self.classes)? };
        users::check(&rule)?;
        if is_new {
            check_ports(&rule)?;
        }
        self.table.add(place, rule).map_err(|error| refused(&error))?;
        self.names.insert(name.clone(), key);
        self.next += 1;
        Ok(name)
    }

    /// Rules where there are no others: outbound, what an association covers is protected by it, and anything else passes in
    /// clear; inbound, what one of these associations covers must not arrive in clear. They have no names and are not listed.
    pub fn add_associations_decide<'s>(&mut self, inbound: impl Iterator<Item = &'s Selectors>) {
        let protection = |level| {
            let services = Services::AUTHENTICATED;
            Action::Protect(Protection { bundle: vec![Template::ANY], services, level, suite: None })
        };
        let any = TrafficSelector::ANY;
        let outbound = Rule::new(RuleKey(0), Direction::Out, any.clone(), protection(Level::Optional));
        let covered = inbound.zip(1..SPD_RULE - 1).map(|(selectors, number)| {
            let selector = TrafficSelector::from(selectors);
            Rule::new(RuleKey(number), Direction::In, selector, protection(Level::Mandatory))
        });
        let rest = Rule::new(RuleKey(SPD_RULE - 1), Direction::In, any, Action::Bypass);
        for rule in std::iter::once(outbound).chain(covered).chain([rest]) {
            // Where the table is full the rest is discarded.
            let _ = self.table.add(Place::Last, rule);
        }
    }

    /// Where there are rules, but none for outbound packets: one that no packet of a network matches, so that these are
    /// packets which no rule matches, and not ones of a host without an SPD.
    pub fn close_outbound(&mut self) {
        let outbound = |rule: &Rule| rule.is_for(Direction::Out);
        if self.table.is_empty() || self.table.list().any(outbound) {
            return;
        }
        if let Ok(nobody) = "local 0.0.0.0 remote 0.0.0.0 proto 255".parse::<TrafficSelector>() {
            let rule = Rule::new(RuleKey::NONE, Direction::Out, nobody, Action::Discard);
            let _ = self.table.add(Place::Last, rule);
        }
    }

    /// Take out a rule.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn remove(&mut self, name: &str) -> Result<(), ApiError> {
        let key = self.key(name)?;
        self.table.remove(key).map_err(|error| refused(&error))?;
        self.names.remove(name);
        Ok(())
    }

    /// Take out all rules.
    pub fn clear(&mut self) {
        self.table.clear();
        self.names.clear();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// What no rule matches passes in clear, or is discarded.
    pub fn set_bypass_the_rest(&mut self, bypass: bool) {
        self.bypass_the_rest = bypass;
    }

    /// The rules in order, with one for the rest if that passes in clear.
    pub fn in_order(&self) -> Vec<Rule> {
        let rest = self.bypass_the_rest.then(rest_bypassed);
        self.table.list().cloned().chain(rest).collect()
    }

    /// For the data threads; `None`: there is no rule, so no SPD.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        if self.bypass_the_rest {
            let mut all = self.table.clone();
            // Full is full: then the rest is discarded.
            let _ = all.add(Place::Last, rest_bypassed());
            return Some(all.snapshot());
        }
        (!self.table.is_empty()).then(|| self.table.snapshot())
    }

    /// The name of a rule by the number that packets and events carry; `None`: that number is none of ours.
    pub fn name_of(&self, number: u32) -> Option<String> {
        if number & SPD_RULE == 0 {
            return None;
        }
        let rule = self.table.get(RuleKey(number & !SPD_RULE))?;
        (!rule.label.is_empty()).then(|| rule.label.clone())
    }

    /// The rules in order, with what each decided.
    pub fn list(&self, counts: &RuleCounts) -> Vec<SpdRule> {
        let by_key = |list: &[(RuleKey, Traffic)]| list.iter().copied().collect::<HashMap<_, _>>();
        let (outbound, inbound) = (by_key(&counts.outbound), by_key(&counts.inbound));
        let count = |from: &HashMap<RuleKey, Traffic>, key: RuleKey| {
            let traffic = from.get(&key).copied().unwrap_or_default();
            SpdCount { packets: traffic.packets, bytes: traffic.bytes }
        };
        let named = self.table.list().filter(|rule| !rule.label.is_empty());
        named
            .enumerate()
            .map(|(position, rule)| {
                let SpdAdd {
                    direction, selectors, action, service, level, suite, bundle, scrub, class, ..
                } = self.document(rule);
                SpdRule {
                    position,
                    name: rule.label.clone(),
                    direction,
                    selectors,
                    action,
                    service,
                    level,
                    suite,
                    bundle,
                    scrub,
                    class,
                    outbound: count(&outbound, rule.key),
                    inbound: count(&inbound, rule.key),
                }
            })
            .collect()
    }

    /// The requests that make these rules again, in order.
    pub fn documents(&self) -> Vec<SpdAdd> {
        self.table.list().map(|rule| self.document(rule)).collect()
    }

    /// The rules that [`SpdRules::documents`] told of.
    ///
    /// # Errors
    /// What is wrong with one.
    pub fn of(documents: &[SpdAdd], suites: &Suites, classes: Classes) -> Result<SpdRules, ApiError> {
        let mut book = SpdRules::naming(suites, classes);
        for document in documents {
            book.put(document, false)?;
        }
        Ok(book)
    }

    /// The request that makes this rule.
    fn document(&self, rule: &Rule) -> SpdAdd {
        let class = match &self.classes {
            Classes::Of(classes) => class_name(classes, rule.class),
            Classes::OfWhoeverTakesIt => None,
        };
        SpdAdd { class, ..document(rule) }
    }

    fn key(&self, name: &str) -> Result<RuleKey, ApiError> {
        self.names.get(name).copied().ok_or_else(|| {
            let name: String = name.chars().take(LONGEST_NAME).collect();
            ApiError::new(Blame::NotFound, format!("there is no rule {name:?}"))
                .remedy("`ravelin spd list` shows the rules with their names")
        })
    }

    fn place(&self, text: Option<&str>) -> Result<Place, ApiError> {
        let text = text.unwrap_or("last");
        let wrong = || {
            let text: String = text.chars().take(LONGEST_NAME).collect();
            ApiError::new(Blame::BadRequest, format!("{text:?} is no place for a rule"))
                .remedy("write first, last, before:NAME, after:NAME or at:N (counted from 0)")
        };
        match text.split_once(':') {
            None if text == "first" => Ok(Place::First),
            None if text == "last" => Ok(Place::Last),
            Some(("before", name)) => Ok(Place::Before(self.key(name)?)),
            Some(("after", name)) => Ok(Place::After(self.key(name)?)),
            Some(("at", number)) => number.parse().map(Place::At).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// The last rule where the rest passes in clear. It has no name and is not listed.
fn rest_bypassed() -> Rule {
    Rule::new(RuleKey(0), Direction::Both, TrafficSelector::ANY, Action::Bypass)
}

/// A name that fits into a path, a list and a line of a log.
fn checked_name(name: &str) -> Result<&str, ApiError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(fits) {
        return Ok(name);
    }
    let shown: String = name.chars().take(LONGEST_NAME).collect();
    Err(ApiError::new(Blame::BadRequest, format!("{shown:?} cannot be the name of a rule"))
        .remedy(format!("use 1 to {LONGEST_NAME} letters, digits, `-`, `_` and `.`")))
}

fn refused(error: &RuleError) -> ApiError {
    let fault = match error {
        RuleError::Duplicate(_) | RuleError::TooMany(_) => Blame::Conflict,
        RuleError::Unknown(_) => Blame::NotFound,
        _ => Blame::BadRequest,
    };
    ApiError::new(fault, error.to_string()).remedy(error.remedy())
}

fn word_error(field: &str, word: &str, allowed: &str) -> ApiError {
    let word: String = word.chars().take(32).collect();
    ApiError::new(Blame::BadRequest, format!("{field} cannot be {word:?}")).remedy(format!("write {allowed}"))
}

fn rule(key: RuleKey, request: &SpdAdd, suites: &Suites, classes: &Classes) -> Result<Rule, ApiError> {
    let bad = |text: String| ApiError::new(Blame::BadRequest, text);
    // A variable that a script left empty must not make a rule for every packet.
    if request.selectors.iter().any(|text| text.trim().is_empty()) {
        return Err(bad("an empty selector says nothing about packets".to_owned())
            .remedy("write any where every packet is meant"));
    }
    let selectors = request.selectors.iter().map(|text| text.parse::<TrafficSelector>());
    let selectors: Vec<_> = selectors.collect::<Result<_, _>>().map_err(|error| bad(error.to_string()))?;
    let asks = request.service.is_some()
        || request.level.is_some()
        || request.suite.is_some()
        || !request.bundle.is_empty();
    let action = match request.action {
        Verdict::Bypass | Verdict::Discard if asks => {
            return Err(bad("service, level, suite and bundle belong to rules that protect".to_owned())
                .remedy("leave them out, or make the action protect"));
        }
        Verdict::Bypass => Action::Bypass,
        Verdict::Discard => Action::Discard,
        Verdict::Protect => {
            let services = match request.service.as_deref() {
                None | Some("encryption") => Services::ENCRYPTED,
                Some("authentication") => Services::AUTHENTICATED,
                Some(word) => return Err(word_error("service", word, "authentication or encryption")),
            };
            let level = match request.level.as_deref() {
                None | Some("mandatory") => Level::Mandatory,
                Some("optional") => Level::Optional,
                Some(word) => return Err(word_error("level", word, "mandatory or optional")),
            };
            let bundle = request.bundle.iter().map(|text| text.parse::<Template>());
            let mut bundle: Vec<_> =
                bundle.collect::<Result<_, _>>().map_err(|error| bad(error.to_string()))?;
            if bundle.is_empty() {
                bundle.push(Template::ANY);
            }
            let suite = request.suite.as_deref().map(|text| suite_of(text, suites)).transpose()?;
            if let Some(suite) = suite.filter(|suite| services.encrypts() && !suite.encrypts()) {
                return Err(bad(format!("suite {suite} does not encrypt"))
                    .remedy("name a suite that encrypts, or ask for the service authentication"));
            }
            Action::Protect(Protection { bundle, services, level, suite })
        }
    };
    let direction = match request.direction {
        SpdDirection::In => Direction::In,
        SpdDirection::Out => Direction::Out,
        SpdDirection::Both => Direction::Both,
    };
    if request.class.is_some() && request.action == Verdict::Discard {
        return Err(bad("packets of a rule that discards are in no class".to_owned())
            .remedy("leave class out, or make the action protect or bypass"));
    }
    let (scrub, class) = (scrub_of(request)?, classes.number(request.class.as_deref())?);
    Ok(Rule { key, label: String::new(), names: Vec::new(), direction, selectors, action, scrub, class })
}

/// The suite that a rule demands, with the word `alone` behind it where integrity rests on a cipher of one's own.
fn suite_of(text: &str, suites: &Suites) -> Result<SuiteId, ApiError> {
    let bad = |text: String| ApiError::new(Blame::BadRequest, text);
    let (name, alone) = match text.strip_suffix(" alone") {
        Some(name) => (name, true),
        None => (text, false),
    };
    let suite = suites
        .find(name)
        .map_err(|error| bad(error.to_string()).remedy("`ravelin status --units` lists the suites"))?;
    match (suite.is_alone(), alone) {
        (true, false) => {
            Err(bad(format!("suite {suite} rests on a cipher of one's own alone, also for integrity"))
                .remedy(format!("write \"{suite} alone\" if that is meant")))
        }
        (false, true) => Err(bad(format!("suite {suite} does not rest on a cipher of one's own alone"))
            .remedy("leave alone out")),
        _ => Ok(suite),
    }
}

/// A suite as a rule demands it.
fn suite_text(suite: SuiteId) -> String {
    if suite.is_alone() { format!("{suite} alone") } else { suite.to_string() }
}

/// Whether some packet can be inside each selector.
fn check_ports(rule: &Rule) -> Result<(), ApiError> {
    match rule.selectors.iter().find(|selector| is_portless(selector)) {
        None => Ok(()),
        Some(selector) => {
            let text = format!("\"{selector}\" matches no packet: no protocol in it has ports");
            Err(ApiError::new(Blame::BadRequest, text)
                .remedy("leave the ports out, or name a protocol that has them: tcp, udp, sctp, dccp, 136"))
        }
    }
}

/// Whether ports are selected of protocols that have none.
fn is_portless(selector: &TrafficSelector) -> bool {
    let protocols = selector.condition(&field::PROTOCOL);
    let selects = |field| matches!(selector.condition(field), Condition::In(_));
    *protocols != Condition::Any
        && [&field::LOCAL_PORT, &field::REMOTE_PORT].into_iter().any(selects)
        && !(0..=u8::MAX).any(|number| protocol::has_ports(number) && protocols.admits(Some(number.into())))
}

/// The profile by which the rule's packets are scrubbed.
fn scrub_of(request: &SpdAdd) -> Result<ScrubId, ApiError> {
    let Some(word) = &request.scrub else { return Ok(ScrubId::NONE) };
    let Some(profile) = Profile::find(word) else {
        return Err(word_error("scrub", word, &Profile::ALL.map(Profile::name).join(", ")));
    };
    let bad = |text: &str| ApiError::new(Blame::BadRequest, text);
    if request.direction != SpdDirection::Both {
        return Err(bad("a rule of one direction cannot scrub: a connection must be seen both ways")
            .remedy("make its direction both, or leave scrub out"));
    }
    if request.action == Verdict::Discard {
        return Err(bad("a rule that discards has nothing to scrub")
            .remedy("leave scrub out, or make the action protect or bypass"));
    }
    Ok(profile.id())
}

/// The request that makes this rule, without its class, which the graph names.
fn document(rule: &Rule) -> SpdAdd {
    let (action, protection) = match &rule.action {
        Action::Bypass => (Verdict::Bypass, None),
        Action::Discard => (Verdict::Discard, None),
        Action::Protect(protection) => (Verdict::Protect, Some(protection)),
    };
    let encrypts = |p: &Protection| p.services.encrypts();
    SpdAdd {
        name: Some(rule.label.clone()),
        place: None,
        direction: match rule.direction {
            Direction::In => SpdDirection::In,
            Direction::Out => SpdDirection::Out,
            Direction::Both => SpdDirection::Both,
        },
        selectors: rule.selectors.iter().map(ToString::to_string).collect(),
        action,
        service: protection.map(|p| if encrypts(p) { "encryption" } else { "authentication" }.to_owned()),
        level: protection
            .map(|p| if p.level == Level::Mandatory { "mandatory" } else { "optional" }.to_owned()),
        suite: protection.and_then(|p| p.suite).map(suite_text),
        bundle: protection.map(|p| p.bundle.iter().map(ToString::to_string).collect()).unwrap_or_default(),
        scrub: Profile::of_id(rule.scrub).map(|profile| profile.name().to_owned()),
        class: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qos::graph::Aggregates;
    use wire::AggregateId;

    fn request(name: &str, place: &str) -> SpdAdd {
        SpdAdd {
            name: Some(name.into()),
            place: Some(place.into()),
            direction: SpdDirection::Both,
            selectors: vec!["remote 192.0.2.0/24 proto tcp remote-port 443 pfp".into()],
            action: Verdict::Protect,
            service: None,
            level: None,
            bundle: vec!["esp/tunnel/192.0.2.1-192.0.2.2".into(), "0x1001".into()],
            suite: None,
            scrub: None,
            class: None,
        }
    }

    /// A graph with the classes `ef` and `voice`.
    fn graph() -> Classes {
        let mut graph = Aggregates::default().only(|name| name == "ef");
        graph.number("voice").unwrap();
        Classes::Of(graph)
    }

    #[test]
    fn a_rule_may_name_a_suite_also_of_a_cipher_of_ones_own() {
        let mut suites = Suites::standard();
        suites.register(&crypto_maes::description(), crypto_maes::TRANSFORM_ID, true).unwrap();
        let asks = |suite: &str, service: &str| SpdAdd {
            suite: Some(suite.to_owned()),
            service: Some(service.to_owned()),
            bundle: Vec::new(),
            ..request("site", "last")
        };
        for suite in ["aes256gcm", "maes512ctr-sha256", "maes512ctr-aes256gcm", "maes512gcm alone"] {
            let mut book = SpdRules::naming(&suites, Classes::default());
            book.add(&asks(suite, "encryption")).unwrap();
            assert_eq!(book.documents()[0].suite.as_deref(), Some(suite));
            // A daemon that takes over reads the same, if it has the cipher.
            let again = SpdRules::of(&book.documents(), &suites, Classes::default()).unwrap();
            assert_eq!(again.documents(), book.documents());
            let elsewhere = SpdRules::of(&book.documents(), &Suites::standard(), graph());
            assert_eq!(elsewhere.is_err(), suite.starts_with("maes"), "{suite}");
        }
        for (suite, service, want) in [
            ("maes512gcm", "encryption", "rests on a cipher of one's own alone"),
            ("aes256gcm alone", "encryption", "does not rest on"),
            ("maes512", "encryption", "a suite names its mode"),
            ("rot13", "encryption", "no cipher is called"),
            ("null-sha256", "encryption", "does not encrypt"),
        ] {
            let refused =
                SpdRules::naming(&suites, Classes::default()).add(&asks(suite, service)).unwrap_err();
            assert!(refused.message.contains(want), "{suite}: {}", refused.message);
            assert!(refused.remedy.is_some(), "{suite}");
        }
        assert!(SpdRules::default().add(&asks("null-sha256", "authentication")).is_ok());
        let bypass = SpdAdd { action: Verdict::Bypass, service: None, level: None, ..asks("aes256gcm", "x") };
        let bypass = SpdAdd { service: None, ..bypass };
        assert!(SpdRules::default().add(&bypass).unwrap_err().message.contains("suite"));
    }

    #[test]
    fn rules_stand_where_they_were_put_and_survive_a_hand_over() {
        let mut book = SpdRules::default();
        for (name, place) in
            [("b", "last"), ("d", "last"), ("a", "first"), ("c", "before:d"), ("e", "after:d"), ("f", "at:2")]
        {
            book.add(&request(name, place)).unwrap();
        }
        let order = |book: &SpdRules| -> Vec<String> {
            book.list(&RuleCounts::default()).into_iter().map(|rule| rule.name).collect()
        };
        assert_eq!(order(&book), ["a", "b", "f", "c", "d", "e"]);
        let unnamed = SpdAdd { name: None, ..request("x", "last") };
        assert_eq!(book.add(&unnamed).unwrap(), "rule-7");
        let again = SpdRules::of(&book.documents(), &Suites::standard(), graph()).unwrap();
        assert_eq!(again.documents(), book.documents());
        assert_eq!(again.documents()[0].bundle[0], "esp/tunnel/192.0.2.1-192.0.2.2");
        // An earlier daemon may have taken what is refused now.
        let old = SpdAdd { selectors: vec!["proto gre remote-port 80".into()], ..request("old", "last") };
        assert!(book.add(&old).is_err());
        let taken = SpdRules::of(std::slice::from_ref(&old), &Suites::standard(), Classes::default());
        assert_eq!(taken.unwrap().len(), 1);
        book.remove("f").unwrap();
        assert_eq!(order(&book).len(), 6);
        assert_eq!(book.remove("f").unwrap_err().fault, Blame::NotFound);
    }

    #[test]
    fn every_refusal_says_what_to_do() {
        type Edit = fn(&mut SpdAdd);
        let cases: [(Edit, Blame, &str); 22] = [
            (|r| r.name = Some("a b".into()), Blame::BadRequest, "cannot be the name"),
            (|r| r.name = Some("there".into()), Blame::Conflict, "already"),
            (|r| r.place = Some("middle".into()), Blame::BadRequest, "no place"),
            (|r| r.place = Some("at:x".into()), Blame::BadRequest, "no place"),
            (|r| r.place = Some("before:nobody".into()), Blame::NotFound, "no rule \"nobody\""),
            (|r| r.selectors = vec![], Blame::BadRequest, "at least one selector"),
            (|r| r.selectors = vec!["colour red".into()], Blame::BadRequest, "not a selector field"),
            (|r| r.selectors = vec!["".into()], Blame::BadRequest, "an empty selector"),
            (|r| r.selectors.push(" ".into()), Blame::BadRequest, "an empty selector"),
            (|r| r.bundle = vec!["0x0".into()], Blame::BadRequest, "0 to 255 are reserved"),
            (|r| r.bundle = vec!["esp/any/::1-192.0.2.1".into()], Blame::BadRequest, "two families"),
            (|r| r.bundle = vec!["any".into(); 5], Blame::BadRequest, "bundle of 5"),
            (|r| r.selectors = vec!["proto gre,icmp dport 80".into()], Blame::BadRequest, "has ports"),
            (|r| r.service = Some("magic".into()), Blame::BadRequest, "service cannot be"),
            (|r| r.level = Some("maybe".into()), Blame::BadRequest, "level cannot be"),
            (|r| r.bundle = vec!["gre".into()], Blame::BadRequest, "no association of a bundle"),
            (|r| r.action = Verdict::Bypass, Blame::BadRequest, "belong to rules that protect"),
            (
                |r| {
                    (r.action, r.bundle) = (Verdict::Discard, vec![]);
                },
                Blame::BadRequest,
                "pfp",
            ),
            (|r| r.scrub = Some("standart".into()), Blame::BadRequest, "scrub cannot be"),
            (
                |r| (r.scrub, r.direction) = (Some("strict".into()), SpdDirection::In),
                Blame::BadRequest,
                "both ways",
            ),
            (
                |r| (r.scrub, r.direction) = (Some("strict".into()), SpdDirection::Out),
                Blame::BadRequest,
                "both ways",
            ),
            (
                |r| {
                    (r.scrub, r.action, r.bundle) = (Some("strict".into()), Verdict::Discard, vec![]);
                },
                Blame::BadRequest,
                "nothing to scrub",
            ),
        ];
        for (edit, fault, text) in cases {
            let mut book = SpdRules::default();
            book.add(&request("there", "last")).unwrap();
            let mut request = request("new", "last");
            edit(&mut request);
            let refused = book.add(&request).unwrap_err();
            assert_eq!(refused.fault, fault, "{refused:?}");
            assert!(refused.message.contains(text), "{refused:?}");
            assert!(refused.remedy.is_some() || !text.contains("scrub"), "{refused:?}");
        }
    }

    #[test]
    fn the_class_of_a_rule_is_told_and_survives_a_hand_over() {
        let of = |name: &str, class: &str| SpdAdd { class: Some(class.into()), ..request(name, "last") };
        let clear = |name: &str, action: Verdict| SpdAdd { action, bundle: Vec::new(), ..of(name, "ef") };
        let selectors = vec!["remote 198.51.100.0/24".to_owned()];
        let mut book = SpdRules::naming(&Suites::standard(), graph());
        book.add(&request("plain", "last")).unwrap();
        book.add(&of("calls", "voice")).unwrap();
        book.add(&SpdAdd { selectors: selectors.clone(), ..clear("clear", Verdict::Bypass) }).unwrap();
        let again = SpdRules::of(&book.documents(), &Suites::standard(), graph()).unwrap();
        for book in [&book, &again] {
            let ids: Vec<AggregateId> = book.in_order().iter().map(|rule| rule.class).collect();
            assert_eq!(ids, [AggregateId::DEFAULT, AggregateId(8), AggregateId(2)]);
            let told: Vec<_> = book.list(&RuleCounts::default()).into_iter().map(|rule| rule.class).collect();
            assert_eq!(told, [None, Some("voice".to_owned()), Some("ef".to_owned())]);
        }
        for (request, classes, fault, text) in [
            (of("x", "vioce"), graph(), Blame::NotFound, "the graph has no class \"vioce\""),
            (of("x", "be"), graph(), Blame::NotFound, "the graph has no class \"be\""),
            (of("x", "ef"), Classes::default(), Blame::NotFound, "no graph is configured"),
            (
                SpdAdd { selectors, ..clear("x", Verdict::Discard) },
                graph(),
                Blame::BadRequest,
                "a rule that discards",
            ),
        ] {
            let refused = SpdRules::naming(&Suites::standard(), classes).add(&request).unwrap_err();
            assert!(refused.fault == fault && refused.message.contains(text), "{refused:?}");
            assert!(refused.remedy.is_some(), "{refused:?}");
        }
        // A daemon without the graph takes over no rule of which it could not keep the class.
        let without = SpdRules::of(&book.documents(), &Suites::standard(), Classes::default());
        assert!(without.unwrap_err().message.contains("no graph is configured"));
        // Rules that are there keep their class when the graph loses it, and its name is told.
        book.set_classes(Classes::default());
        assert_eq!(book.documents()[1].class.as_deref(), Some("#8"));
        assert_eq!(book.documents()[2].class.as_deref(), Some("ef"));
        assert!(book.add(&of("late", "voice")).is_err());
    }

    #[test]
    fn the_profile_of_a_rule_is_told_and_survives_a_hand_over() {
        let mut book = SpdRules::default();
        book.add(&request("plain", "last")).unwrap();
        book.add(&SpdAdd { scrub: Some("strict".into()), ..request("site", "last") }).unwrap();
        let (action, bundle) = (Verdict::Bypass, Vec::new());
        let selectors = vec!["remote 198.51.100.0/24".to_owned()];
        let clear = SpdAdd { selectors, action, bundle, ..request("clear", "last") };
        book.add(&SpdAdd { scrub: Some("observe".into()), ..clear }).unwrap();
        let again = SpdRules::of(&book.documents(), &Suites::standard(), graph()).unwrap();
        for book in [&book, &again] {
            let ids: Vec<ScrubId> = book.in_order().iter().map(|rule| rule.scrub).collect();
            assert_eq!(ids, [ScrubId::NONE, Profile::Strict.id(), Profile::Observe.id()]);
            let told: Vec<_> = book.list(&RuleCounts::default()).into_iter().map(|rule| rule.scrub).collect();
            assert_eq!(told, [None, Some("strict".to_owned()), Some("observe".to_owned())]);
        }
    }
}
