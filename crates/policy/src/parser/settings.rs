//! Network and protection settings: the two grammars of paper 000 section 3.3.

use sadb::spd::{Level, PortRange};

use super::{Abandon, Parser, Step};
use crate::address;
use crate::ast::{AddressRange, Item, Name, Network, NetworkKind, Protection, Service, Span};
use crate::diagnostic::{Code, Diagnostic, show};
use crate::lexer::Kind;
use crate::suggest;

const TYPES: [&str; 3] = ["trusted", "untrusted", "protected"];
const TYPES_SHOWN: [&str; 3] = ["`trusted`", "`untrusted`", "`protected`"];
const ITEM_HELP: &str = "an item reads `localport=PORT remoteport=PORT TYPE LEVEL;`, \
                         as in `localport=any remoteport=22 encryption mandatory;`";

impl Parser<'_> {
    /// `network RANGE TYPE;`; the keyword is next.
    pub(super) fn network(&mut self) -> Step<Network> {
        let keyword = self.here();
        self.at += 1;
        let (range, range_span) = self.range()?;
        let kind = self.network_kind()?;
        let end = self.semicolon();
        Ok(Network { range, range_span, kind, span: keyword.to(end) })
    }

    fn range(&mut self) -> Step<(AddressRange, Span)> {
        let help = "write an address, a prefix (192.0.2.0/24), a range (192.0.2.1-192.0.2.9) or a host name";
        let word = self.word();
        let is_type = word.is_some_and(|w| TYPES.contains(&w));
        // `network trusted;` lacks its range; `network trusted trusted;` speaks of a host called so.
        let host = self.word_at(1).is_some_and(|w| TYPES.contains(&w));
        if word.is_none() || (is_type && !host) || self.at_block() {
            let help = match self.is(Kind::Quoted) {
                true => "write the address without quotes",
                false => help,
            };
            return Err(self.unexpected(Code::ExpectedAddress, &["an address range"], help));
        }
        let (text, span) = self.joined();
        match address::address_range(&text) {
            Ok(range) => Ok((range, span)),
            Err(fault) => {
                self.error(Diagnostic::new(fault.code, span, fault.message).label("here").help(fault.help));
                Err(Abandon)
            }
        }
    }

    /// The words of a range: `A - B` and `A / N` may be written with blanks.
    fn joined(&mut self) -> (String, Span) {
        let mut text = String::new();
        let mut span = self.here();
        while let Some(word) = self.word() {
            let glued = text.is_empty()
                || text.ends_with(['-', '/'])
                || (word.starts_with(['-', '/']) && !text.contains(['-', '/']));
            if !glued || (!text.is_empty() && self.at_application()) {
                break;
            }
            text.push_str(word);
            span = span.to(self.here());
            self.at += 1;
        }
        (text, span)
    }

    fn network_kind(&mut self) -> Step<NetworkKind> {
        let help = "a network is `trusted` (clear), `untrusted` (refused) or `protected NAME`";
        let Some(word) = self.word().filter(|w| TYPES.contains(w)) else {
            return Err(self.unexpected(Code::ExpectedType, &TYPES_SHOWN, help));
        };
        self.at += 1;
        match word {
            "trusted" => Ok(NetworkKind::Trusted),
            "untrusted" => Ok(NetworkKind::Untrusted),
            _ => Ok(NetworkKind::Protected(self.protection_name()?)),
        }
    }

    fn protection_name(&mut self) -> Step<Name> {
        let help = "name the protection that decides, as in `protected P1`";
        match if self.at_block() { None } else { self.name() } {
            Some(name) => Ok(name),
            None => Err(self.unexpected(Code::ExpectedProtection, &["a protection name"], help)),
        }
    }

    /// `protection NAME { ITEM... }`; the keyword is next.
    pub(super) fn protection(&mut self) -> Step<Protection> {
        let keyword = self.here();
        self.at += 1;
        let name = self.protection_name()?;
        if self.eat(Kind::Open).is_none() {
            return Err(self.unexpected(Code::ExpectedOpen, &["`{`"], "`{` opens the list of items"));
        }
        let mut items = Vec::new();
        loop {
            if let Some(close) = self.eat(Kind::Close) {
                let span = keyword.to(close);
                return Ok(Protection { name, items, span });
            }
            let next = self.word();
            let setting = next.is_some_and(|w| super::STATEMENTS.contains(&w)) && self.names_at(1);
            if self.peek().is_none() || setting || self.at_application() {
                let message = format!("protection `{}` is not closed", show(&name.text));
                self.error(
                    Diagnostic::new(Code::MissingClose, self.last().after(), message)
                        .label("`}` missing here")
                        .help("close the protection with `}`")
                        .related(keyword.to(name.span), "the protection starts here")
                        .expected(&["`}`"]),
                );
                let span = keyword.to(self.last());
                return Ok(Protection { name, items, span });
            }
            match self.item() {
                Ok(item) => items.push(item),
                Err(Abandon) => self.skip_item(),
            }
        }
    }

    /// Go on behind the item: behind its `;`, or in front of what can only follow it.
    fn skip_item(&mut self) {
        if self.leads() && self.word() == Some("localport") {
            return;
        }
        let start = self.at;
        let mut depth = 0usize;
        while let Some(token) = self.peek() {
            let word = self.word();
            let setting = word.is_some_and(|w| super::STATEMENTS.contains(&w)) && self.names_at(1);
            let item = self.at > start && word == Some("localport");
            if self.at_application() || (self.leads() && depth == 0 && (setting || item)) {
                return;
            }
            match token.kind {
                Kind::Close if depth == 0 => return,
                Kind::Close => depth -= 1,
                Kind::Open => depth += 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 && token.kind == Kind::Semicolon {
                return;
            }
        }
    }

    fn item(&mut self) -> Step<Item> {
        let start = self.here();
        let local = self.port_setting("localport")?;
        let remote = self.port_setting("remoteport")?;
        let service = match self.word() {
            Some("encryption") => Service::Encryption,
            Some("authentication") => Service::Authentication,
            _ => {
                let help = "`encryption` (which implies authentication) or `authentication`";
                return Err(self.unexpected(
                    Code::ExpectedService,
                    &["`encryption`", "`authentication`"],
                    help,
                ));
            }
        };
        self.at += 1;
        let level = match self.word() {
            Some("mandatory") => Level::Mandatory,
            Some("optional") => Level::Optional,
            _ => {
                let help = "`mandatory` (nothing passes unprotected) or `optional`";
                return Err(self.unexpected(Code::ExpectedLevel, &["`mandatory`", "`optional`"], help));
            }
        };
        self.at += 1;
        let end = self.item_end();
        Ok(Item { local, remote, service, level, span: start.to(end) })
    }

    /// The `;` of an item.
    fn item_end(&mut self) -> Span {
        if let Some(span) = self.eat(Kind::Semicolon) {
            return span;
        }
        self.broken = true;
        let at = self.last().after();
        if !self.peek().is_some_and(|t| t.kind.is_error()) {
            self.error(
                Diagnostic::new(Code::ExpectedSemicolon, at, "expected `;` at the end of the item")
                    .label("`;` missing here")
                    .help("end the item with `;`")
                    .expected(&["`;`"]),
            );
        }
        if !self.leads() {
            self.skip_item();
        }
        at
    }

    /// `KEYWORD = PORT`.
    fn port_setting(&mut self, keyword: &'static str) -> Step<PortRange> {
        let shown = format!("`{keyword}`");
        if self.eat_word(keyword).is_none() {
            let help = match (keyword, self.word()) {
                ("localport", Some("remoteport")) => "`localport=PORT` comes first, `remoteport=PORT` second",
                _ => ITEM_HELP,
            };
            return Err(self.unexpected(Code::ExpectedItem, &[&shown], help));
        }
        if self.eat(Kind::Equals).is_none() {
            let help = format!("write `{keyword}=any` or `{keyword}=NUMBER`");
            return Err(self.unexpected(Code::ExpectedItem, &["`=`"], help));
        }
        let help =
            "a port is a number from 0 to 65535, FIRST-LAST, or `any`; service names are not looked up";
        let parsed = self.word().and_then(|word| Some((address::ports(word)?, self.here())));
        let Some((parsed, span)) = parsed else {
            let near = self.word().is_some_and(|w| suggest::nearest(w, ["any"]).is_some());
            let help = if near { "did you mean `any`?" } else { help };
            return Err(self.unexpected(Code::ExpectedPort, &["a port number", "`any`"], help));
        };
        self.at += 1;
        match parsed {
            Ok(range) => Ok(range),
            Err(fault) => {
                self.error(Diagnostic::new(fault.code, span, fault.message).label("here").help(fault.help));
                Err(Abandon)
            }
        }
    }
}
