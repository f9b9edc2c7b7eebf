//! The parser of items of protections: ports and protocol, what is demanded, and on which terms.

use crypto::{SuiteId, UnknownSuite};
use sadb::spd::{Failure, Level, Negotiating, PortRange};
use scrub::Profile;

use super::{Abandon, Parser, Step};
use crate::ast::{
    Aggregate, Demand, Item, Service, Span, Syntax, failure_word, negotiating_word, quoted, same_level,
};
use crate::diagnostic::{Code, Diagnostic, show};
use crate::lexer::Kind;
use crate::unit::Parts;
use crate::{address, services, suggest};

const ITEM_HELP: &str = "an item reads `localport=PORT remoteport=PORT TYPE LEVEL;`, \
                         as in `localport=any remoteport=22 encryption mandatory;`";
const SELECTORS: [&str; 3] = ["protocol", "localport", "remoteport"];
const OPTIONS: [&str; 5] = ["suite", "while-negotiating", "on-failure", "class", "scrub"];
const OPTIONS_SHOWN: [&str; 6] =
    ["`suite`", "`while-negotiating`", "`on-failure`", "`class`", "`scrub`", "`;`"];
const NEGOTIATING: [Negotiating; 3] = [Negotiating::Hold, Negotiating::Pass, Negotiating::Drop];
const FAILURE: [Failure; 2] = [Failure::Drop, Failure::Pass];

/// The flows of an item, as far as they were read.
#[derive(Default)]
struct Flows {
    protocol: Option<(Option<u8>, Span)>,
    local: Option<(Vec<PortRange>, Span)>,
    remote: Option<(Vec<PortRange>, Span)>,
}

/// The terms, as far as they were read.
#[derive(Default)]
struct Options {
    suite: Option<(SuiteId, Span)>,
    negotiating: Option<(Negotiating, Span)>,
    failure: Option<(Failure, Span)>,
    /// The class; inside, nothing if the graph has none of this name, which is an error.
    class: Option<(Option<Box<Aggregate>>, Span)>,
    scrub: Option<(Profile, Span)>,
}

impl Parser<'_> {
    pub(super) fn item(&mut self) -> Step<Item> {
        let start = self.here();
        let flows = self.flows()?;
        let selectors = start.to(self.last());
        let (service, level, demand) = self.demand(flows.protocol.is_some() || flows.local.is_some())?;
        let options = self.options()?;
        let end = self.end_of("item", Self::skip_item);
        let demand = match (service, level) {
            (Some(service), Some(level)) => {
                self.terms(level, &options, demand);
                if let Some((suite, span)) = options.suite
                    && service == Service::Encryption
                    && !suite.encrypts()
                {
                    let message = format!("suite `{suite}` does not encrypt");
                    self.contradiction(
                        span,
                        message,
                        "name a suite that encrypts, or write `authentication`",
                    );
                }
                Demand::Protect {
                    service,
                    level,
                    suite: options.suite.map(|o| o.0),
                    negotiating: options.negotiating.map(|o| o.0),
                    failure: options.failure.map(|o| o.0),
                    class: options.class.and_then(|o| o.0),
                    scrub: options.scrub.map(|o| o.0),
                }
            }
            _ => {
                let spans = [
                    options.suite.map(|o| o.1),
                    options.negotiating.map(|o| o.1),
                    options.failure.map(|o| o.1),
                ];
                for span in spans.into_iter().flatten() {
                    let message = "`never` negotiates nothing and uses no suite".to_string();
                    self.contradiction(span, message, "leave this out, or demand a service and a level");
                }
                if let Some((_, span)) = options.class {
                    let message = "flows of a `never` item are in clear, and have no class".to_string();
                    let help =
                        "leave this out: packets in clear are classified by DSCP and packet mark alone";
                    self.contradiction(span, message, help);
                }
                self.in_clear(options.scrub, demand, "flows of a `never` item are in clear");
                Demand::Never
            }
        };
        let ported = |ports: &Option<(Vec<PortRange>, Span)>| {
            ports.as_ref().is_some_and(|(list, _)| list.iter().any(|range| *range != PortRange::ANY))
        };
        if let Some((Some(number), _)) = flows.protocol
            && !wire::protocol::has_ports(number)
            && (ported(&flows.local) || ported(&flows.remote))
        {
            let what = crate::ast::protocol_text(number);
            let message = format!("protocol `{what}` has no ports");
            self.contradiction(selectors, message, "leave `localport` and `remoteport` out");
        }
        Ok(Item {
            protocol: flows.protocol.and_then(|p| p.0),
            local: flows.local.map(|p| p.0).unwrap_or_default(),
            remote: flows.remote.map(|p| p.0).unwrap_or_default(),
            demand,
            span: start.to(end),
        })
    }

    fn contradiction(&mut self, span: Span, message: String, help: &str) {
        self.error(
            Diagnostic::new(Code::Contradiction, span, message).label("contradicts the rest").help(help),
        );
    }

    fn repeated(&mut self, span: Span, first: Span, what: &str) {
        self.error(
            Diagnostic::new(Code::RepeatedPart, span, format!("`{what}` is given twice"))
                .label("the second")
                .related(first, "the first")
                .help("keep one of them"),
        );
    }

    /// Reads `protocol=`, `localport=` and `remoteport=`. In the paper's language these are the two ports, in this
    /// order; otherwise any of them.
    fn flows(&mut self) -> Step<Flows> {
        let mut flows = Flows::default();
        if self.syntax == Syntax::Paper {
            if self.word() == Some("protocol") {
                self.extension(self.here(), "`protocol`");
                flows.protocol = Some(self.protocol()?);
            }
            flows.local = Some(self.port_setting("localport")?);
            flows.remote = Some(self.port_setting("remoteport")?);
            return Ok(flows);
        }
        loop {
            let assigns = self.look(1).is_some_and(|t| t.kind == Kind::Equals);
            match self.word() {
                Some("protocol") => {
                    let got = self.protocol()?;
                    match flows.protocol {
                        Some((_, first)) => self.repeated(got.1, first, "protocol"),
                        None => flows.protocol = Some(got),
                    }
                }
                Some(word @ ("localport" | "remoteport")) => {
                    let is_local = word == "localport";
                    let got = self.port_setting(if is_local { "localport" } else { "remoteport" })?;
                    let place = if is_local { &mut flows.local } else { &mut flows.remote };
                    match place {
                        Some((_, first)) => {
                            let first = *first;
                            self.repeated(got.1, first, if is_local { "localport" } else { "remoteport" });
                        }
                        None => *place = Some(got),
                    }
                }
                Some(_) if assigns => {
                    let shown = SELECTORS.map(|word| format!("`{word}`"));
                    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
                    return Err(self.unexpected(Code::ExpectedItem, &shown, ITEM_HELP));
                }
                _ => return Ok(flows),
            }
        }
    }

    /// Reads `protocol=P`; the keyword is next.
    fn protocol(&mut self) -> Step<(Option<u8>, Span)> {
        let keyword = self.here();
        self.bump();
        self.equals("protocol", "tcp")?;
        let span = self.here();
        let parsed = self.word().and_then(services::protocol);
        let Some(parsed) = parsed else {
            let help = "write `tcp`, `udp`, `sctp`, `icmp`, a number from 1 to 254 (not one of an IPv6 extension \
                        header), or `any`";
            let shown = services::PROTOCOLS.map(|word| format!("`{word}`"));
            let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
            return Err(self.unexpected(Code::BadProtocol, &shown, help));
        };
        self.bump();
        if self.is(Kind::Comma) {
            let help = "write an item for each protocol, or leave `protocol=` out for all of them";
            self.error(
                Diagnostic::new(Code::BadProtocol, self.here(), "an item has one protocol")
                    .label("a list")
                    .help(help),
            );
            return Err(Abandon);
        }
        Ok((parsed, keyword.to(span)))
    }

    fn equals(&mut self, keyword: &str, example: &str) -> Step<()> {
        if self.eat(Kind::Equals).is_some() {
            return Ok(());
        }
        let help = match keyword {
            "protocol" => format!("write `protocol={example}`"),
            _ => format!("write `{keyword}=any` or `{keyword}=NUMBER`"),
        };
        Err(self.unexpected(Code::ExpectedItem, &["`=`"], help))
    }

    /// Reads a list of ports: `KEYWORD = PORT, PORT`.
    fn port_setting(&mut self, keyword: &'static str) -> Step<(Vec<PortRange>, Span)> {
        let shown = format!("`{keyword}`");
        let Some(start) = self.eat_word(keyword) else {
            let help = match (keyword, self.word()) {
                ("localport", Some("remoteport")) => "`localport=PORT` comes first, `remoteport=PORT` second",
                _ => ITEM_HELP,
            };
            return Err(self.unexpected(Code::ExpectedItem, &[&shown], help));
        };
        self.equals(keyword, "any")?;
        let mut ports = vec![self.port()?];
        while let Some(comma) = self.eat(Kind::Comma) {
            self.extension(comma, "a list of ports");
            self.count(Parts::STATEMENT);
            ports.push(self.port()?);
        }
        Ok((ports, start.to(self.last())))
    }

    fn port(&mut self) -> Step<PortRange> {
        let span = self.here();
        let help = "a port is a number from 0 to 65535, FIRST-LAST, the name of a service, or `any`";
        let word = self.value();
        let name = |word: &str| word.starts_with(|c: char| c.is_ascii_alphabetic());
        let demand =
            |word: &str| matches!(word, "encryption" | "authentication" | "localport" | "remoteport");
        let parsed = match word {
            Some(word) => match (address::ports(word), services::port(word)) {
                (Some(parsed), _) => {
                    if word != "any" && word.contains('-') {
                        self.extension(span, "a range of ports");
                    }
                    parsed
                }
                (None, Some(port)) => {
                    self.extension(span, "the name of a service");
                    Ok(PortRange::one(port))
                }
                (None, None) if name(word) && !demand(word) && suggest::nearest(word, ["any"]).is_none() => {
                    // Slips are rare at the first letter.
                    let alike = services::names().filter(|known| known.as_bytes()[0] == word.as_bytes()[0]);
                    let near = suggest::nearest(word, alike);
                    let near = near.or_else(|| suggest::nearest(word, services::names()));
                    let help = match near {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => {
                            "write the port's number; ravelin-policy(5) says which names are known".into()
                        }
                    };
                    let message = format!("no service is called `{}`", show(word));
                    self.error(
                        Diagnostic::new(Code::UnknownService, span, message)
                            .label("not a service known here")
                            .help(help),
                    );
                    self.bump();
                    return Err(Abandon);
                }
                _ => return Err(self.no_port(help)),
            },
            None => return Err(self.no_port(help)),
        };
        self.bump();
        parsed.map_err(|fault| {
            self.error(Diagnostic::new(fault.code, span, fault.message).label("here").help(fault.help));
            Abandon
        })
    }

    fn no_port(&mut self, help: &str) -> Abandon {
        let near = self.word().is_some_and(|w| suggest::nearest(w, ["any"]).is_some());
        let help = if near { "did you mean `any`?" } else { help };
        self.unexpected(Code::ExpectedPort, &["a port number", "`any`"], help)
    }

    /// Reads `SERVICE LEVEL`, with the place of the level, or `never`.
    fn demand(&mut self, any: bool) -> Step<(Option<Service>, Option<Level>, Span)> {
        if let Some(never) = self.eat_word("never") {
            self.extension(never, "`never`");
            return Ok((None, None, never));
        }
        let service = match self.word() {
            Some("encryption") => Service::Encryption,
            Some("authentication") => Service::Authentication,
            _ => {
                let help = match any || self.syntax == Syntax::Paper {
                    true => "`encryption` (which implies authentication) or `authentication`",
                    false => ITEM_HELP,
                };
                let code = if any { Code::ExpectedService } else { Code::ExpectedItem };
                let code = if self.syntax == Syntax::Paper { Code::ExpectedService } else { code };
                return Err(self.unexpected(code, &["`encryption`", "`authentication`"], help));
            }
        };
        let first = self.here();
        self.bump();
        let span = self.here();
        if self.word() == Some("never") {
            self.bump();
            let message = "`never` takes no service".to_string();
            self.contradiction(first, message, "write `never` alone");
            return Ok((None, None, span));
        }
        let level = self.level()?;
        Ok((Some(service), Some(level), span))
    }

    /// Reads a level by any of its words.
    pub(super) fn level(&mut self) -> Step<Level> {
        let Some(level) = self.word().and_then(same_level) else {
            let help =
                "`mandatory` (nothing passes unprotected), `optional`, or `accept-only` (which never asks)";
            let paper = ["`mandatory`", "`optional`"];
            let all = ["`mandatory`", "`require`", "`optional`", "`prefer`", "`accept-only`"];
            let words = if self.syntax == Syntax::Paper { &paper[..] } else { &all[..] };
            return Err(self.unexpected(Code::ExpectedLevel, words, help));
        };
        if let Some(word @ ("require" | "prefer" | "accept-only")) = self.word() {
            self.extension(self.here(), &format!("`{word}`"));
        }
        self.bump();
        Ok(level)
    }

    /// Reads the options that follow the level.
    fn options(&mut self) -> Step<Options> {
        let mut options = Options::default();
        while let Some(word) = self.word() {
            let Some(near) = suggest::nearest(word, OPTIONS) else { break };
            if near != word {
                let help = format!("did you mean `{near}`?");
                return Err(self.unexpected(Code::ExpectedOption, &OPTIONS_SHOWN, help));
            }
            let keyword = self.here();
            self.extension(keyword, &format!("`{near}`"));
            self.bump();
            match near {
                "suite" => {
                    let got = self.suite()?;
                    self.set(&mut options.suite, got, keyword, near);
                }
                "while-negotiating" => {
                    let got = self.choice(&NEGOTIATING, negotiating_word)?;
                    self.set(&mut options.negotiating, got, keyword, near);
                }
                "on-failure" => {
                    let got = self.choice(&FAILURE, failure_word)?;
                    self.set(&mut options.failure, got, keyword, near);
                }
                "scrub" => {
                    let got = self.profile()?;
                    self.set(&mut options.scrub, got, keyword, near);
                }
                _ => {
                    let got = self.class(keyword)?;
                    self.set(&mut options.class, got, keyword, near);
                }
            }
        }
        Ok(options)
    }

    fn set<T>(&mut self, place: &mut Option<(T, Span)>, value: T, keyword: Span, what: &str) {
        match place {
            Some((_, first)) => {
                let first = *first;
                self.repeated(keyword, first, what);
            }
            None => *place = Some((value, keyword.to(self.last()))),
        }
    }

    fn suite(&mut self) -> Step<SuiteId> {
        let span = self.here();
        let Some(word) = self.value() else {
            let help = "name a suite, as `aes256gcm`; `ravelin status --units` lists them";
            return Err(self.unexpected(Code::ExpectedOption, &["a suite"], help));
        };
        self.bump();
        match self.host.suites().find(word) {
            Ok(suite) => {
                self.alone(suite, span);
                if let Some(status) = suite.legacy_status() {
                    self.sink.push(
                        Diagnostic::new(
                            Code::LegacySuite,
                            span,
                            format!("suite `{suite}` is legacy: {status}"),
                        )
                        .label("RFC 8221 says so")
                        .help("use aes128gcm, aes256gcm or chacha20poly1305 where both ends can"),
                    );
                }
                Ok(suite)
            }
            Err(error) => {
                let message = format!("`{}` is not a suite", show(word));
                let is_word = matches!(error, UnknownSuite::Cipher(_) | UnknownSuite::CipherOrOwn { .. });
                let help = match self.near_suite(word).filter(|_| is_word) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => error.to_string(),
                };
                self.error(Diagnostic::new(Code::BadSuite, span, message).label("no such suite").help(help));
                Err(Abandon)
            }
        }
    }

    /// The suite that a misspelt one may be meant for: a common one, or one of a cipher of one's own.
    fn near_suite(&self, word: &str) -> Option<String> {
        let own = self.host.suites().all().filter(|suite| suite.custom().is_some());
        let own: Vec<String> = own.map(|suite| suite.to_string()).collect();
        let known = ["aes128gcm", "aes256gcm", "chacha20poly1305"].into_iter();
        suggest::nearest(word, known.chain(own.iter().map(String::as_str))).map(str::to_owned)
    }

    /// The word `alone` behind a suite. It must be there if integrity rests on a cipher of one's own, and only then.
    fn alone(&mut self, suite: SuiteId, span: Span) {
        let word = self.here();
        let has = self.value() == Some("alone");
        if has {
            self.bump();
        }
        let wrong = match (suite.is_alone(), has) {
            (true, false) => Diagnostic::new(
                Code::BadAlone,
                span,
                format!("suite `{suite}` rests on a cipher of one's own alone, also for integrity"),
            )
            .label("`alone` is missing behind it")
            .help(format!(
                "write `suite {suite} alone` if that is meant; a suite with an integrity algorithm of its own, or a cascade, does \
                 not need it"
            )),
            (false, true) => Diagnostic::new(
                Code::BadAlone,
                word,
                format!("suite `{suite}` does not rest on a cipher of one's own alone"),
            )
            .label("out of place")
            .help("leave `alone` out"),
            _ => return,
        };
        self.error(wrong);
    }

    fn choice<T: Copy>(&mut self, all: &[T], word_of: fn(T) -> &'static str) -> Step<T> {
        let found = self.word().and_then(|word| all.iter().find(|one| word_of(**one) == word));
        match found {
            Some(one) => {
                self.bump();
                Ok(*one)
            }
            None => {
                let shown: Vec<String> = all.iter().map(|one| format!("`{}`", word_of(*one))).collect();
                let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
                let help = "say what becomes of the packets: they wait (`hold`), `pass` in clear, or `drop`";
                Err(self.unexpected(Code::ExpectedOption, &shown, help))
            }
        }
    }

    fn profile(&mut self) -> Step<Profile> {
        let all = Profile::ALL.map(Profile::name);
        let shown = all.map(|word| format!("`{word}`"));
        let Some(name) = self.name() else {
            let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
            let help = "name a profile; `standard` is for a network with hosts of all kinds";
            return Err(self.unexpected(Code::ExpectedOption, &shown, help));
        };
        if let Some(profile) = Profile::find(&name.text) {
            return Ok(profile);
        }
        let help = match suggest::nearest(&name.text, all) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", shown.join(", ")),
        };
        let message = format!("`{}` is not a scrub profile", show(&name.text));
        self.error(Diagnostic::new(Code::BadScrub, name.span, message).label("no such profile").help(help));
        Err(Abandon)
    }

    /// Reads the name of a class; `None` if the graph has none of this name, which is reported.
    fn class(&mut self, keyword: Span) -> Step<Option<Box<Aggregate>>> {
        let Some(name) = self.name() else {
            let help = "name a class of the graph that `[qos]` in ravelin.toml says";
            return Err(self.unexpected(Code::ExpectedOption, &["a class"], help));
        };
        let classes = self.host.aggregates();
        if let Some(id) = classes.find(&name.text) {
            return Ok(Some(Box::new(Aggregate { id, name: name.text })));
        }
        let shown = show(&quoted(&name.text));
        let (message, help) = if classes.is_empty() {
            let help = "leave it out, or configure a graph that has the class: `[qos]` in ravelin.toml";
            (format!("`class {shown}`: no graph is configured"), help.to_owned())
        } else {
            let near = suggest::nearest(&name.text, classes.iter().map(|(_, name)| name));
            let meant = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
            let all: Vec<String> = classes.iter().map(|(_, name)| format!("`{name}`")).collect();
            let help =
                format!("{meant}the graph has {}; `[qos]` in ravelin.toml says which graph", all.join(", "));
            (format!("the graph has no class `{shown}`"), help)
        };
        self.error(
            Diagnostic::new(Code::NoClass, keyword.to(name.span), message)
                .label("no such class in the graph")
                .help(help),
        );
        Ok(None)
    }

    /// Refuses `scrub` where packets may pass in clear. On a host these go past user space, and a scrubber must see
    /// both directions.
    fn in_clear(&mut self, scrub: Option<(Profile, Span)>, place: Span, why: &str) {
        let Some((profile, span)) = scrub else { return };
        let message = format!("`scrub {}` cannot be enforced here: {why}", profile.name());
        self.error(
            Diagnostic::new(Code::NoScrub, span, message)
                .label("would miss packets: those in clear do not come by the scrubber")
                .related(place, "lets packets pass in clear")
                .help("leave it out, or demand `mandatory`, where every packet comes by"),
        );
    }

    /// Checks that the terms go with the level.
    fn terms(&mut self, level: Level, options: &Options, place: Span) {
        let negotiating = options.negotiating;
        let failure = options.failure;
        match level {
            Level::Mandatory => {
                let help = "write `optional` if clear traffic is meant, or let the packets wait or drop";
                if let Some((Negotiating::Pass, span)) = negotiating {
                    let message =
                        "nothing passes unprotected, so nothing passes while negotiating".to_string();
                    self.contradiction(span, message, help);
                }
                if let Some((Failure::Pass, span)) = failure {
                    let message = "nothing passes unprotected, so nothing passes on failure".to_string();
                    self.contradiction(span, message, help);
                }
            }
            Level::AcceptOnly => {
                self.in_clear(options.scrub, place, "`accept-only` lets packets pass in clear");
                let both = [negotiating.map(|o| o.1), failure.map(|o| o.1)];
                for span in both.into_iter().flatten() {
                    self.error(
                        Diagnostic::new(Code::Contradiction, span, "`accept-only` does not negotiate")
                            .label("contradicts the level")
                            .related(place, "the level")
                            .help("leave this out, or write `prefer`, which asks for an association"),
                    );
                }
            }
            Level::Optional => {
                self.in_clear(options.scrub, place, "packets pass in clear where no association serves them");
            }
        }
    }
}
