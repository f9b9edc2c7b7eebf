//! The parser of network and protection settings: the two grammars of paper 000 section 3.3.

use super::block::{OBSERVE, STATEMENTS};
use super::{Abandon, Parser, Step};
use crate::address;
use crate::ast::{AddressRange, Name, Network, NetworkKind, Protection, Span};
use crate::diagnostic::{Code, Diagnostic, show};
use crate::lexer::Kind;
use crate::tree::NodeKind;
use crate::unit::Parts;

const TYPES: [&str; 3] = ["trusted", "untrusted", "protected"];
const TYPES_SHOWN: [&str; 3] = ["`trusted`", "`untrusted`", "`protected`"];
impl Parser<'_> {
    /// Reads `network RANGE, RANGE TYPE;`, a setting for each range; the keyword is next.
    pub(super) fn network(&mut self, out: &mut Vec<Network>) -> Step<()> {
        let keyword = self.here();
        self.bump();
        let mut ranges = vec![self.range()?];
        while let Some(comma) = self.eat(Kind::Comma) {
            self.extension(comma, "a list of ranges");
            self.count(Parts::STATEMENT);
            ranges.push(self.range()?);
        }
        let observed = self.word() == Some(OBSERVE) && self.word_at(1).is_some_and(|w| TYPES.contains(&w));
        if observed {
            self.extension(self.here(), "`observe`");
            self.bump();
        }
        let kind = self.network_kind()?;
        let span = keyword.to(self.end_of("statement", Self::skip_statement));
        out.extend(ranges.into_iter().map(|(range, range_span)| Network {
            range,
            range_span,
            kind: kind.clone(),
            observed,
            span,
        }));
        Ok(())
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
            Ok(range) => {
                if let AddressRange::Single(a) | AddressRange::Prefix(a, _) | AddressRange::Range(a, _) =
                    &range
                    && (a.is_ipv6() || text.contains(':'))
                {
                    self.extension(span, "IPv6");
                }
                Ok((range, span))
            }
            Err(fault) => {
                self.error(Diagnostic::new(fault.code, span, fault.message).label("here").help(fault.help));
                Err(Abandon)
            }
        }
    }

    /// Joins the words of a range: `A - B` and `A / N` may be written with blanks.
    fn joined(&mut self) -> (String, Span) {
        let mut text = String::new();
        let mut span = self.here();
        while let Some(word) = self.word() {
            let glued = text.is_empty()
                || text.ends_with(['-', '/'])
                || (word.starts_with(['-', '/']) && !text.contains(['-', '/']));
            if !glued || (!text.is_empty() && self.at_top()) {
                break;
            }
            text.push_str(word);
            span = span.to(self.here());
            self.bump();
        }
        (text, span)
    }

    fn network_kind(&mut self) -> Step<NetworkKind> {
        let help = "a network is `trusted` (clear), `untrusted` (refused) or `protected NAME`";
        let Some(word) = self.word().filter(|w| TYPES.contains(w)) else {
            return Err(self.unexpected(Code::ExpectedType, &TYPES_SHOWN, help));
        };
        self.bump();
        match word {
            "trusted" => Ok(NetworkKind::Trusted),
            "untrusted" => Ok(NetworkKind::Untrusted),
            _ => Ok(NetworkKind::Protected(self.protection_name(NodeKind::Reference)?)),
        }
    }

    fn protection_name(&mut self, kind: NodeKind) -> Step<Name> {
        let help = "name the protection that decides, as in `protected P1`";
        match if self.at_block() { None } else { self.node(kind, Self::name) } {
            Some(name) => Ok(name),
            None => Err(self.unexpected(Code::ExpectedProtection, &["a protection name"], help)),
        }
    }

    /// Reads `protection NAME { ITEM... }`; the keyword is next.
    pub(super) fn protection(&mut self) -> Step<Protection> {
        let keyword = self.here();
        self.bump();
        let name = self.protection_name(NodeKind::Definition)?;
        if self.eat(Kind::Open).is_none() {
            return Err(self.unexpected(Code::ExpectedOpen, &["`{`"], "`{` opens the list of items"));
        }
        let mut items = Vec::new();
        loop {
            if let Some(close) = self.eat(Kind::Close) {
                let span = keyword.to(close);
                return Ok(Protection { name, items, span, shared: false });
            }
            let next = self.word();
            let setting = next.is_some_and(|w| STATEMENTS.contains(&w)) && self.names_at(1);
            if self.peek().is_none() || setting || self.at_top() {
                let message = format!("protection `{}` is not closed", show(&name.text));
                self.error(
                    Diagnostic::new(Code::MissingClose, self.last().after(), message)
                        .label("`}` missing here")
                        .help("close the protection with `}`")
                        .related(keyword.to(name.span), "the protection starts here")
                        .expected(&["`}`"]),
                );
                let span = keyword.to(self.last());
                return Ok(Protection { name, items, span, shared: false });
            }
            self.node(NodeKind::Item, |parser| match parser.item() {
                Ok(item) => items.push(item),
                Err(Abandon) => parser.skip_item(),
            });
        }
    }

    /// Skips the item: behind its `;`, or in front of what can only follow it.
    pub(super) fn skip_item(&mut self) {
        let starts = |word: Option<&str>| matches!(word, Some("localport" | "protocol"));
        if self.leads() && starts(self.word()) {
            return;
        }
        let start = self.last();
        let mut depth = 0usize;
        while let Some(token) = self.peek() {
            let word = self.word();
            let setting = word.is_some_and(|w| STATEMENTS.contains(&w)) && self.names_at(1);
            let item = self.last() != start && starts(word);
            if self.at_top() || (self.leads() && depth == 0 && (setting || item)) {
                return;
            }
            match token.kind {
                Kind::Close if depth == 0 => return,
                Kind::Close => depth -= 1,
                Kind::Open => depth += 1,
                _ => {}
            }
            self.bump();
            if depth == 0 && token.kind == Kind::Semicolon {
                return;
            }
        }
    }
}
