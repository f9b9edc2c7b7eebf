//! Subjects: the processes that a block is about.

use super::name::{Name, always_quoted, quoted};
use crate::digest::Digest;
use crate::lexer::Span;

/// A subject, which is a program with qualifiers: `curl from /usr/bin/backup uid alice`, `unit "nginx.service"`,
/// `anonymous`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The executable of the process.
    pub program: Program,
    /// The executable of an ancestor that started the process, directly or through others.
    pub from: Option<Executable>,
    /// The control group that the process is in, or below.
    pub group: Option<Group>,
    /// The users that the process runs as.
    pub user: Option<User>,
    /// The place of the subject as written.
    pub span: Span,
    /// Whether a part of it could not be read. What is left may be a wider subject, and so stands for nobody.
    pub damaged: bool,
}

/// The executables that a subject is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// An executable with a name.
    Named(Executable),
    /// An executable without a name, which was deleted or never was in a file system.
    Anonymous,
    /// Any executable at all.
    Any,
}

/// An executable as a policy names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// The name: a whole path, or a bare file name that stands for the files of that name in the standard directories.
    pub name: Name,
    /// The digests of which the file must have one, if there are any.
    pub digests: Vec<(Digest, Span)>,
    /// Whether one of the digests could not be read.
    pub unread: bool,
}

impl Executable {
    /// Whether the name is a path.
    pub fn is_path(&self) -> bool {
        self.name.text.starts_with('/')
    }
}

/// The executables that a subject names.
pub(crate) fn executables(subject: &Subject) -> impl Iterator<Item = &Executable> {
    let program = match &subject.program {
        Program::Named(executable) => Some(executable),
        Program::Anonymous | Program::Any => None,
    };
    program.into_iter().chain(&subject.from)
}

/// A control group of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// The control group of this systemd unit.
    Unit(Name),
    /// The control group of this path, from the root of the hierarchy.
    Path(Name),
}

/// The users of a subject, with their place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user or users.
    pub users: Users,
    /// The place of the users as written.
    pub span: Span,
}

/// Users by number or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Users {
    /// The users with these numbers, both ends included.
    Range(u32, u32),
    /// The user of this name.
    Named(String),
}

/// Words of the language that make a name that holds them look like another subject.
const WORDS: [&str; 8] = ["from", "unit", "cgroup", "uid", "sha256", "anonymous", "default", "application"];

impl Subject {
    /// Makes a subject that is a program and nothing else.
    pub fn program(name: Name) -> Subject {
        let span = name.span;
        let program = Program::Named(Executable { name, digests: Vec::new(), unread: false });
        Subject { program, from: None, group: None, user: None, span, damaged: false }
    }

    /// Makes the subject of `default { ... }`, whose keyword stands at `span`.
    pub fn default_at(span: Span) -> Subject {
        Subject { program: Program::Any, from: None, group: None, user: None, span, damaged: false }
    }

    /// The subject with its places moved on by `by` octets, with overflow, so that `by` may lead back.
    pub(crate) fn moved(&self, by: u32) -> Subject {
        let mut out = self.clone();
        let executable = |executable: &mut Executable| {
            executable.name.span = executable.name.span.moved(by);
            executable.digests.iter_mut().for_each(|(_, span)| *span = span.moved(by));
        };
        if let Program::Named(program) = &mut out.program {
            executable(program);
        }
        out.from.as_mut().map(executable);
        if let Some(Group::Unit(name) | Group::Path(name)) = &mut out.group {
            name.span = name.span.moved(by);
        }
        if let Some(user) = &mut out.user {
            user.span = user.span.moved(by);
        }
        out.span = out.span.moved(by);
        out
    }

    /// Whether the subject is a program and nothing else, as in the paper.
    pub fn is_plain(&self) -> bool {
        matches!(self.program, Program::Named(_)) && self.is_unqualified()
    }

    fn is_unqualified(&self) -> bool {
        self.from.is_none() && self.group.is_none() && self.user.is_none()
    }

    /// Whether the subject is everything that no other subject is.
    pub fn is_default(&self) -> bool {
        self.program == Program::Any && self.is_unqualified()
    }

    /// The name by which the subject is shown and gets its number. It is the bare name of a plain program, and
    /// otherwise the subject as the language writes it. Digests are left out, so that an upgrade does not make it
    /// another one. Different subjects have different names.
    pub fn name(&self) -> String {
        match &self.program {
            Program::Named(program) if self.is_unqualified() => {
                let name = &program.name.text;
                let confusing = name.split(' ').any(|word| WORDS.contains(&word));
                if confusing { always_quoted(name) } else { name.clone() }
            }
            _ if self.is_default() => "default".into(),
            _ => self.text(),
        }
    }

    /// The criteria by which the subject chooses processes, in a word each: `program` or `anonymous`, `digest`, `from`,
    /// `unit` or `cgroup`, `uid`; `default` if there is none.
    pub fn chosen_by(&self) -> Vec<&'static str> {
        let program = match &self.program {
            Program::Named(_) => Some("program"),
            Program::Anonymous => Some("anonymous"),
            Program::Any => None,
        };
        let group = self.group.as_ref().map(|group| match group {
            Group::Unit(_) => "unit",
            Group::Path(_) => "cgroup",
        });
        let digest = executables(self).any(|executable| !executable.digests.is_empty());
        let words = [
            program,
            digest.then_some("digest"),
            self.from.as_ref().map(|_| "from"),
            group,
            self.user.as_ref().map(|_| "uid"),
            self.is_default().then_some("default"),
        ];
        words.into_iter().flatten().collect()
    }

    /// The subject as the language writes it, without digests.
    pub fn text(&self) -> String {
        let mut words = Vec::new();
        let named = |name: &str| {
            if WORDS.contains(&name) { always_quoted(name) } else { quoted(name) }
        };
        match &self.program {
            Program::Named(program) => words.push(named(&program.name.text)),
            Program::Anonymous => words.push("anonymous".into()),
            Program::Any => {}
        }
        words.extend(self.from.as_ref().map(|from| format!("from {}", named(&from.name.text))));
        words.extend(self.group.as_ref().map(|group| match group {
            Group::Unit(name) => format!("unit {}", quoted(&name.text)),
            Group::Path(name) => format!("cgroup {}", quoted(&name.text)),
        }));
        words.extend(self.user.as_ref().map(|user| format!("uid {}", user.users)));
        words.join(" ")
    }
}

impl std::fmt::Display for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Users::Range(first, last) if first == last => write!(f, "{first}"),
            Users::Range(first, last) => write!(f, "{first}-{last}"),
            Users::Named(name) => f.write_str(&quoted(name)),
        }
    }
}
