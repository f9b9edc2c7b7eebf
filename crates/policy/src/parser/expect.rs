//! The parser of tests in the file, which say what flows of programs must get.

use super::subjects::users;
use super::{Abandon, Parser, Step};
use crate::ast::{Expectation, ExpectedTreatment, Service, Span, Test};
use crate::diagnostic::{Code, Diagnostic, show};
use crate::host::control_group;
use crate::lexer::Kind;
use crate::subjects::{Process, RunningProgram};
use crate::tree::NodeKind;
use crate::{MAX_EXPECTATIONS, Target, address};

const HELP: &str = "a line reads `PROGRAM to ADDRESS:PORT/PROTOCOL WHAT;`, as in \
                    `curl to 192.0.2.1:443/tcp encryption mandatory;`";
const WORDS: [&str; 6] = ["from-program", "unit", "cgroup", "uid", "to", "from"];

impl Parser<'_> {
    /// Reads `test NAME { LINE... }`; the keyword is next.
    pub(super) fn test(&mut self) {
        let keyword = self.here();
        self.extension(keyword, "`test`");
        self.bump();
        let Some(name) = self.name() else { return };
        self.eat(Kind::Open);
        let mut expectations = Vec::new();
        loop {
            if self.eat(Kind::Close).is_some() {
                break;
            }
            if self.peek().is_none() || self.at_top() {
                let message = format!("test `{}` is not closed", show(&name.text));
                self.test_errors += 1;
                self.error(
                    Diagnostic::new(Code::MissingClose, self.last().after(), message)
                        .label("`}` missing here")
                        .help("close the test with `}`")
                        .related(keyword.to(name.span), "the test starts here")
                        .expected(&["`}`"]),
                );
                break;
            }
            self.node(NodeKind::Expectation, |parser| {
                let before = std::mem::take(&mut parser.broken);
                let line = parser.expectation();
                parser.test_errors += usize::from(parser.broken);
                parser.broken |= before;
                match line {
                    Ok(line) => expectations.push(line),
                    Err(Abandon) => parser.skip_line(),
                }
            });
        }
        let count = self.expectations;
        if let Some(line) = expectations.get(MAX_EXPECTATIONS.saturating_sub(count)) {
            let message = format!("the tests have more than {MAX_EXPECTATIONS} lines");
            let at = line.span;
            self.test_errors += 1;
            self.error(
                Diagnostic::new(Code::TooManyExpectations, at, message)
                    .label("the first one too many")
                    .help("keep those that matter; each asks one question"),
            );
            expectations.truncate(MAX_EXPECTATIONS.saturating_sub(count));
        }
        self.expectations += expectations.len();
        self.tests.push(Test { name, expectations });
    }

    /// Skips the rest of the line.
    fn skip_line(&mut self) {
        while let Some(token) = self.peek() {
            if self.at_top() || token.kind == Kind::Close {
                return;
            }
            self.bump();
            if token.kind == Kind::Semicolon {
                return;
            }
        }
    }

    fn expectation(&mut self) -> Step<Expectation> {
        let start = self.here();
        let mut process = Process::default();
        let mut user = None;
        let keyword = self.word().filter(|word| WORDS.contains(word));
        if self.word() == Some("anonymous") {
            self.bump();
            process.program = RunningProgram::Anonymous;
        } else if keyword.is_none() {
            let Some(name) = self.name() else {
                return Err(self.unexpected(Code::ExpectedTest, &["a program"], HELP));
            };
            self.checked(&name)?;
            process.program = RunningProgram::Program(name.text);
        }
        let target = loop {
            let Some(word) = self.word().filter(|word| WORDS.contains(word)) else {
                return Err(self.unexpected(Code::ExpectedTest, &["`to`", "`from`"], HELP));
            };
            self.bump();
            if matches!(word, "to" | "from") {
                break self.target()?;
            }
            let span = self.here();
            let Some(name) = self.name() else {
                return Err(self.unexpected(Code::ExpectedQualifier, &["a name"], HELP));
            };
            match word {
                "from-program" => {
                    self.checked(&name)?;
                    process.ancestors.push(name.text);
                }
                "unit" => {
                    let file = self.host.unit_file(&name.text);
                    process.group = Some(control_group(&name.text, file.as_deref()));
                    self.group(word, name);
                }
                "cgroup" => {
                    process.group = Some(name.text.clone());
                    self.group(word, name);
                }
                _ => {
                    process.user = self.user(&name.text, span)?;
                    user = Some(name);
                }
            }
        };
        let mut local_port = 0;
        if self.word() == Some("localport") {
            local_port = self.local_port()?;
        }
        let wants_span = self.here();
        let wants = self.wants()?;
        let wants_span = wants_span.to(self.last());
        let Some(end) = self.eat(Kind::Semicolon) else {
            self.no_semicolon("line");
            return Err(Abandon);
        };
        Ok(Expectation { process, user, target, local_port, wants, span: start.to(end), wants_span })
    }

    fn checked(&mut self, name: &crate::ast::Name) -> Step<()> {
        address::application_name(&name.text).map_err(|fault| {
            self.error(Diagnostic::new(fault.code, name.span, fault.message).label("here").help(fault.help));
            Abandon
        })
    }

    fn user(&mut self, text: &str, span: Span) -> Step<Option<u32>> {
        let (code, message) = match users(text) {
            Some(Ok((first, last))) if first == last => return Ok(Some(first)),
            Some(Ok(_)) => (Code::BadUser, format!("`{}` is a range: a process has one user", show(text))),
            Some(Err(message)) => (Code::BadUser, message),
            None => match self.host.user(text) {
                Some(number) => return Ok(Some(number)),
                None => (Code::UnknownUser, format!("no user is called `{}` here", show(text))),
            },
        };
        let help = "write the number of a user";
        self.error(Diagnostic::new(code, span, message).label("here").help(help));
        Err(Abandon)
    }

    fn target(&mut self) -> Step<Target> {
        let span = self.here();
        let Some(word) = self.value() else {
            return Err(self.unexpected(Code::ExpectedTest, &["a peer"], HELP));
        };
        self.bump();
        word.parse::<Target>().map_err(|error| {
            let help =
                "write ADDRESS:PORT/PROTOCOL, as 192.0.2.1:443/tcp, [2001:db8::1]:53/udp or 192.0.2.1/icmp";
            let message = format!("`{}`: {}", show(word), error.fault());
            self.error(Diagnostic::new(Code::BadTarget, span, message).label("here").help(help));
            Abandon
        })
    }

    /// Reads `localport = N`; the keyword is next.
    fn local_port(&mut self) -> Step<u16> {
        self.bump();
        if self.eat(Kind::Equals).is_none() {
            return Err(self.unexpected(Code::ExpectedTest, &["`=`"], "write `localport=NUMBER`"));
        }
        match self.word().and_then(|word| word.parse().ok()) {
            Some(port) => {
                self.bump();
                Ok(port)
            }
            None => {
                let help = "a flow has one local port: write its number, from 0 to 65535";
                Err(self.unexpected(Code::ExpectedPort, &["a port number"], help))
            }
        }
    }

    fn wants(&mut self) -> Step<ExpectedTreatment> {
        let service = match self.word() {
            Some("trusted") => return self.wanted(ExpectedTreatment::Trusted),
            Some("untrusted") => return self.wanted(ExpectedTreatment::Untrusted),
            Some("never") => return self.wanted(ExpectedTreatment::Never),
            Some("encryption") => Service::Encryption,
            Some("authentication") => Service::Authentication,
            _ => {
                let words = ["`trusted`", "`untrusted`", "`never`", "`encryption`", "`authentication`"];
                return Err(self.unexpected(Code::ExpectedTest, &words, "say what the flow must get"));
            }
        };
        self.bump();
        Ok(ExpectedTreatment::Protect(service, self.level()?))
    }

    fn wanted(&mut self, wants: ExpectedTreatment) -> Step<ExpectedTreatment> {
        self.bump();
        Ok(wants)
    }
}
