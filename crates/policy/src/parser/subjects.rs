//! The parser of subjects in the header of a block: a program and its qualifiers.

use super::{Abandon, Parser, Step};
use crate::MAX_DIGESTS;
use crate::address;
use crate::ast::{Executable, Group, Name, Program, Span, Subject, Syntax, User, Users, executables};
use crate::diagnostic::{Code, Diagnostic, show};
use crate::digest::Digest;
use crate::host;
use crate::lexer::Kind;

const QUALIFIERS: [&str; 5] = ["from", "unit", "cgroup", "uid", "sha256"];

impl Parser<'_> {
    /// Reads one subject of a list, as far as it can be read; `None` if there is none.
    pub(super) fn subject(&mut self) -> Option<Subject> {
        let start = self.here();
        let qualifies = self.at_qualifier() && self.names_at(1);
        let program = if self.word() == Some("anonymous") && self.syntax == Syntax::Extended {
            self.bump();
            Program::Anonymous
        } else if qualifies {
            Program::Any
        } else {
            let name = self.name()?;
            Program::Named(self.executable(name))
        };
        let mut subject =
            Subject { program, from: None, group: None, user: None, span: start, damaged: false };
        while self.at_qualifier() && !subject.damaged {
            if self.qualifier(&mut subject).is_err() {
                subject.damaged = true;
            }
        }
        let unread = executables(&subject).any(|executable| executable.unread);
        subject.damaged |= unread;
        subject.span = start.to(self.last());
        Some(subject)
    }

    fn at_qualifier(&self) -> bool {
        self.word().is_some_and(|word| QUALIFIERS.contains(&word))
    }

    /// Reads the digests behind an executable's name.
    fn executable(&mut self, name: Name) -> Executable {
        if let Err(fault) = address::application_name(&name.text) {
            self.error(
                Diagnostic::new(fault.code, name.span, fault.message)
                    .label("not an application name")
                    .help(fault.help),
            );
        }
        let mut executable = Executable { name, digests: Vec::new(), unread: false };
        while self.word() == Some("sha256") && executable.is_path() {
            let keyword = self.here();
            self.extension(keyword, "`sha256`");
            self.bump();
            match self.digest() {
                Ok(digest) => self.pin(&mut executable, digest, keyword.to(self.last())),
                Err(Abandon) => executable.unread = true,
            }
        }
        executable
    }

    fn digest(&mut self) -> Step<Digest> {
        const HELP: &str =
            "`ravelin policy digest PATH` prints the path with the digest of the file that is there now";
        let span = self.here();
        let Some(name) = self.name() else {
            return Err(self.unexpected(Code::ExpectedQualifier, &["64 hexadecimal digits"], HELP));
        };
        Digest::parse(&name.text).map_err(|reason| {
            let message = format!("`{}` is not a SHA-256 digest: {reason}", show(&name.text));
            self.error(Diagnostic::new(Code::BadDigest, span, message).label("here").help(HELP));
            Abandon
        })
    }

    fn pin(&mut self, executable: &mut Executable, digest: Digest, span: Span) {
        if let Some((_, first)) = executable.digests.iter().find(|(known, _)| *known == digest) {
            let message = "this digest is given twice";
            self.sink.push(
                Diagnostic::new(Code::RepeatedDigest, span, message)
                    .label("again")
                    .related(*first, "the first one")
                    .help("remove the second one"),
            );
            return;
        }
        if executable.digests.len() == MAX_DIGESTS {
            let message = format!("`{}` has more than {MAX_DIGESTS} digests", show(&executable.name.text));
            self.error(
                Diagnostic::new(Code::TooManyDigests, span, message)
                    .label("one too many")
                    .help("remove those of versions that are not used any more"),
            );
            return;
        }
        executable.digests.push((digest, span));
    }

    /// Reads a qualifier; its keyword is next.
    fn qualifier(&mut self, subject: &mut Subject) -> Step<()> {
        let keyword = self.here();
        let Some(word) = self.word() else { return Err(Abandon) };
        self.extension(keyword, &format!("`{word}`"));
        self.bump();
        if word == "sha256" {
            return Err(self.pinned_nothing(keyword));
        }
        let taken = match word {
            "from" => subject.from.is_some(),
            "uid" => subject.user.is_some(),
            _ => subject.group.is_some(),
        };
        let value = match word {
            "from" => "a program",
            "unit" => "a unit",
            "cgroup" => "the path of a control group",
            _ => "a user",
        };
        let help = format!("write `{word}` and {value}, or put the name `{word}` in quotes");
        let span = self.here();
        match word {
            "uid" => {
                let users = self.users(&help)?;
                subject.user = Some(User { users, span });
            }
            _ => {
                let Some(name) = self.name() else {
                    return Err(self.unexpected(Code::ExpectedQualifier, &[value], help));
                };
                match word {
                    "from" => subject.from = Some(self.executable(name)),
                    _ => subject.group = Some(self.group(word, name)),
                }
            }
        }
        if taken {
            subject.damaged = true;
            let message = match word {
                "unit" | "cgroup" => "a subject is in one unit or control group".to_string(),
                _ => format!("`{word}` is given twice"),
            };
            let code =
                if matches!(word, "unit" | "cgroup") { Code::ImpossibleSubject } else { Code::RepeatedPart };
            self.error(
                Diagnostic::new(code, keyword.to(self.last()), message)
                    .label("one too many")
                    .help("keep one of them; for both, write two subjects, separated by a comma"),
            );
        }
        Ok(())
    }

    /// Reports a digest that stands behind no path.
    fn pinned_nothing(&mut self, keyword: Span) -> Abandon {
        // What it is the digest of is not known: nothing of it is used.
        let _ = self.name();
        self.error(
            Diagnostic::new(
                Code::PinWithoutPath,
                keyword.to(self.last()),
                "a digest says what is in one file, so it stands behind the path of that file",
            )
            .label("there is no path before it")
            .help("write the whole path and its digest first, as `/usr/bin/curl sha256 HEX uid alice`; a bare name can be several files"),
        );
        Abandon
    }

    /// Makes the group of `unit NAME` or `cgroup PATH`, which must be in plain form.
    pub(super) fn group(&mut self, word: &str, name: Name) -> Group {
        let is_unit = word == "unit";
        let sound = if is_unit { host::is_unit(&name.text) } else { host::is_group(&name.text) };
        if !sound {
            let (what, help) = match is_unit {
                true => (
                    "a unit with a control group",
                    "write the whole name of a service, scope, slice, socket, mount or swap unit, as \
                     `unit \"nginx.service\"`",
                ),
                false => (
                    "the path of a control group",
                    "write the path from the root of the hierarchy, without `//`, `.`, `..` or a slash at its end, as \
                     `cgroup \"/machine.slice/web\"`",
                ),
            };
            let message = format!("`{}` is not {what}", show(&name.text));
            self.error(Diagnostic::new(Code::BadGroup, name.span, message).label("here").help(help));
        }
        if is_unit { Group::Unit(name) } else { Group::Path(name) }
    }

    /// Reads a user's name or number, or FIRST-LAST.
    fn users(&mut self, help: &str) -> Step<Users> {
        let span = self.here();
        let is_word = self.is(Kind::Word);
        let Some(name) = self.name() else {
            return Err(self.unexpected(Code::ExpectedQualifier, &["a user"], help));
        };
        match users(&name.text).filter(|_| is_word) {
            None => Ok(Users::Named(name.text)),
            Some(Ok((first, last))) => Ok(Users::Range(first, last)),
            Some(Err(message)) => {
                self.bad_user(span, message);
                Err(Abandon)
            }
        }
    }

    fn bad_user(&mut self, span: Span, message: String) {
        self.error(
            Diagnostic::new(Code::BadUser, span, message)
                .label("here")
                .help("a user is a name, a number from 0 to 4294967294, or FIRST-LAST"),
        );
    }
}

/// The numbers of users; `None` for a name.
pub(super) fn users(text: &str) -> Option<Result<(u32, u32), String>> {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    if !digits(first) || !digits(last) {
        return None;
    }
    // The last number means "no user" to the kernel.
    let number = |s: &str| s.parse::<u32>().ok().filter(|n| *n != u32::MAX);
    let (Some(first), Some(last)) = (number(first), number(last)) else {
        return Some(Err(format!("`{}` is not the number of a user", show(text))));
    };
    if first > last {
        return Some(Err(format!("the range of users starts at {first}, above its end {last}")));
    }
    Some(Ok((first, last)))
}
