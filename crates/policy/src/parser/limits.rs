//! The parser of `limit clear RATE [burst AMOUNT];` and `limit accept RATE [burst AMOUNT];` in an application's block.

use super::{Abandon, Parser, Step};
use crate::ast::{Limit, Limited, Quantity, Span};
use crate::diagnostic::{Code, Diagnostic, show};
use crate::lexer::Kind;
use crate::suggest;

const HELP: &str = "write `limit clear 10 mbit/s;` or `limit clear 5000 packets/s burst 200;`";

impl Parser<'_> {
    /// Reads the statement; its keyword is next.
    pub(super) fn limit(&mut self) -> Step<Limit> {
        let keyword = self.here();
        self.extension(keyword, "`limit`");
        self.bump();
        let Some(limited) = Limited::ALL.into_iter().find(|limited| self.eat_word(limited.word()).is_some())
        else {
            let help = "what leaves in clear can be limited (`limit clear RATE;`), and what each source sends in clear \
                        (`limit accept RATE;`)";
            return Err(self.unexpected(Code::ExpectedLimit, &["`clear`", "`accept`"], help));
        };
        let (rate, quantity) = self.amount("/s", None)?;
        let mut burst = None;
        if self.eat_word("burst").is_some() {
            burst = Some(self.amount("", Some(quantity))?.0);
        }
        if !self.is(Kind::Semicolon) && !self.leads() && self.word().is_some() {
            return Err(self.unexpected(Code::ExpectedLimit, &["`burst`", "`;`"], HELP));
        }
        let span = keyword.to(self.end_of("limit", Self::skip_statement));
        Ok(Limit { limited, quantity, rate, burst, span })
    }

    /// Reads a number and its unit, which `behind` follows. The unit is of this quantity, if one is given. The number
    /// of packets at once needs no unit.
    fn amount(&mut self, behind: &str, wanted: Option<Quantity>) -> Step<(u64, Quantity)> {
        let start = self.here();
        let Some(word) = self.word().filter(|word| word.starts_with(|c: char| c.is_ascii_digit())) else {
            return Err(self.unexpected(Code::ExpectedLimit, &["a number"], HELP));
        };
        self.bump();
        let digits = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
        let (number, glued) = word.split_at(digits);
        let mut span = start;
        let mut unit = glued;
        let is_unit = |word: &str| word.strip_suffix(behind).and_then(Quantity::of_unit).is_some();
        // What is no unit is taken for a bad one, but not the word that leads the next line.
        if glued.is_empty()
            && let Some(next) = self.word()
            && (is_unit(next) || wanted != Some(Quantity::Packets) && !self.leads())
        {
            span = span.to(self.here());
            unit = next;
            self.bump();
        }
        let (quantity, each) = match unit.strip_suffix(behind).and_then(Quantity::of_unit) {
            Some(known) => known,
            None if unit.is_empty() && wanted == Some(Quantity::Packets) => (Quantity::Packets, 1),
            None => return self.bad_unit(span, unit, behind, wanted),
        };
        if wanted.is_some_and(|wanted| wanted != quantity) {
            let message = "the burst is in another unit than the rate";
            let help = "a rate in bits has a burst in bits (`burst 1 mbit`), one in packets a burst in packets (`burst 200`)";
            return self.bad_limit(span, message.into(), help);
        }
        // A number of too many digits is too large as well.
        let amount = number.parse::<u64>().ok().and_then(|number| number.checked_mul(each));
        match amount.filter(|amount| *amount <= quantity.max()) {
            Some(amount) if amount >= quantity.min() => Ok((amount, quantity)),
            Some(_) => {
                let message = match quantity {
                    Quantity::Bits => "less than an octet: nothing could ever pass",
                    Quantity::Packets => "no packet could ever pass",
                };
                let help = "to refuse clear text, write `network RANGE untrusted;` or `mandatory`";
                self.bad_limit(span, message.into(), help)
            }
            None => {
                let help = match quantity {
                    Quantity::Bits => "at most 1000 gbit; without a limit there is none",
                    Quantity::Packets => "at most 1000000000 packets; without a limit there is none",
                };
                self.bad_limit(span, format!("`{}` is too large", show(span.of(self.text))), help)
            }
        }
    }

    fn bad_unit(
        &mut self,
        span: Span,
        unit: &str,
        behind: &str,
        wanted: Option<Quantity>,
    ) -> Step<(u64, Quantity)> {
        let fits = |unit: &&str| wanted.is_none() || Quantity::of_unit(unit).map(|(of, _)| of) == wanted;
        let known: Vec<String> =
            Quantity::units().filter(fits).map(|unit| format!("{unit}{behind}")).collect();
        let list = known.iter().map(|unit| format!("`{unit}`")).collect::<Vec<_>>().join(", ");
        let message = match unit {
            "" => "a number without its unit".to_owned(),
            unit => format!("`{}` is not a unit", show(unit)),
        };
        let help = match suggest::nearest(unit, known.iter().map(String::as_str)) {
            Some(near) => format!("`{near}` is meant? The units are {list}, with whole numbers"),
            None => format!("the units are {list}, with whole numbers"),
        };
        self.bad_limit(span, message, &help)
    }

    fn bad_limit<T>(&mut self, span: Span, message: String, help: &str) -> Step<T> {
        self.error(Diagnostic::new(Code::BadLimit, span, message).label("here").help(help));
        Err(Abandon)
    }
}
