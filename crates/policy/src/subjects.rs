//! The choice of the application that a process belongs to: the compiled form of block headers.
//!
//! Several subjects can fit one process. The most specific decides, whatever the order of the blocks: by the program
//! first (a path, a bare name, an executable without a name, any), then by `from` (a path, a bare name, none), then by
//! the control group (the deepest), then by the users (the fewest). If two still fit, they have two `from` of one kind,
//! and the first in the file decides.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use wire::AppId;

use crate::ast::{Executable, Group, Program, Subject, Users};
use crate::digest::Digest;
use crate::host::{Host, control_group};
use crate::pins::{self, Pins};

/// An executable that a policy names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Image {
    /// The executable of this path.
    Path(String),
    /// Every executable of this file name in the standard directories.
    Name(String),
}

impl Image {
    fn of(executable: &Executable) -> Image {
        let text = executable.name.text.clone();
        if executable.is_path() { Image::Path(text) } else { Image::Name(text) }
    }

    /// Whether it is what `program`, a path or a bare name, says.
    fn is(&self, program: &str) -> bool {
        match self {
            Image::Path(path) => path == program,
            Image::Name(name) => name == program || program.rsplit_once('/').is_some_and(|p| p.1 == name),
        }
    }
}

/// The executables that a subject is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Executables {
    /// An executable with a name.
    Named(Image),
    /// The executables without a name, which were deleted or never were in a file system.
    Anonymous,
    /// All executables, whatever their names.
    Any,
}

/// A subject as it is on one host, where users and units are numbers and paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// The executables that the process runs.
    pub executables: Executables,
    /// The executable that an ancestor executed before.
    pub from: Option<Image>,
    /// The path of the control group, from the root. The process is in it or below.
    pub group: Option<String>,
    /// The first and the last user.
    pub users: Option<(u32, u32)>,
}

/// The error that a subject names a user that the host does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownUser;

/// The rank of a selector; the smaller rank precedes.
type Rank = (u8, u8, Reverse<usize>, u64);

impl Selector {
    /// Makes the selector of a subject on this host.
    pub(crate) fn of(subject: &Subject, host: &dyn Host) -> Result<Selector, UnknownUser> {
        let users = match subject.user.as_ref().map(|user| &user.users) {
            None => None,
            Some(Users::Range(first, last)) => Some((*first, *last)),
            Some(Users::Named(name)) => {
                let number = host.user(name).ok_or(UnknownUser)?;
                Some((number, number))
            }
        };
        Ok(Selector {
            executables: match &subject.program {
                Program::Named(executable) => Executables::Named(Image::of(executable)),
                Program::Anonymous => Executables::Anonymous,
                Program::Any => Executables::Any,
            },
            from: subject.from.as_ref().map(Image::of),
            group: subject.group.as_ref().map(|group| match group {
                Group::Path(path) => path.text.clone(),
                Group::Unit(unit) => control_group(&unit.text, host.unit_file(&unit.text).as_deref()),
            }),
            users,
        })
    }

    /// Makes a selector for whatever runs this executable, with no other condition.
    pub fn program(path: &str) -> Selector {
        let executables = Executables::Named(Image::Path(path.into()));
        Selector { executables, from: None, group: None, users: None }
    }

    /// Whether no qualifier narrows it.
    pub fn is_unqualified(&self) -> bool {
        self.from.is_none() && self.group.is_none() && self.users.is_none()
    }

    /// Whether it is a program and nothing else, as in the paper.
    pub fn is_plain(&self) -> bool {
        matches!(self.executables, Executables::Named(_)) && self.is_unqualified()
    }

    fn rank(&self) -> Rank {
        let executables = match self.executables {
            Executables::Named(Image::Path(_)) => 0,
            Executables::Named(Image::Name(_)) => 1,
            Executables::Anonymous => 2,
            Executables::Any => 3,
        };
        let from = match self.from {
            Some(Image::Path(_)) => 0,
            Some(Image::Name(_)) => 1,
            None => 2,
        };
        let depth = self.group.as_ref().map_or(0, |path| path.matches('/').count());
        let users = self.users.map_or(u64::MAX, |(first, last)| u64::from(last) - u64::from(first));
        (executables, from, Reverse(depth), users)
    }

    /// Whether the process is one of those that it is about. Ancestors, which cost most to find, are asked for last.
    pub fn fits(&self, process: &mut impl Facts) -> bool {
        let below = |own: &str, path: &str| {
            own.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        process.executes(&self.executables)
            && self.group.as_ref().is_none_or(|path| process.group().is_some_and(|own| below(own, path)))
            && self
                .users
                .is_none_or(|(first, last)| process.user().is_some_and(|user| first <= user && user <= last))
            && self.from.as_ref().is_none_or(|image| process.descends_from(image))
    }
}

/// The facts about a process that a subject asks for, each only if the answers before leave it open. An unknown fact
/// fits no qualifier.
pub trait Facts {
    /// Whether the process executes one of these.
    fn executes(&mut self, executables: &Executables) -> bool;

    /// Whether the process, or an ancestor, executed this before.
    fn descends_from(&mut self, image: &Image) -> bool;

    /// The path of its control group.
    fn group(&mut self) -> Option<&str>;

    /// The number of its real user.
    fn user(&mut self) -> Option<u32>;
}

/// The program that a process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum RunningProgram {
    /// The executable of this path, or of this bare name.
    Program(String),
    /// An executable without a name.
    Anonymous,
    /// An executable that no policy names.
    #[default]
    Unnamed,
}

/// A process, as far as the policy asks about it. An unknown fact fits no qualifier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// The program that it runs.
    pub program: RunningProgram,
    /// The programs that its ancestors run, and that it ran before.
    pub ancestors: Vec<String>,
    /// The path of its control group.
    pub group: Option<String>,
    /// The number of its user.
    pub user: Option<u32>,
}

impl Process {
    /// A process that runs this program, a path or a bare name. Nothing else is known about it.
    pub fn running(program: &str) -> Process {
        Process { program: RunningProgram::Program(program.into()), ..Process::default() }
    }
}

impl Facts for &Process {
    fn executes(&mut self, executables: &Executables) -> bool {
        match (executables, &self.program) {
            (Executables::Any, _) | (Executables::Anonymous, RunningProgram::Anonymous) => true,
            (Executables::Named(image), RunningProgram::Program(program)) => image.is(program),
            _ => false,
        }
    }

    fn descends_from(&mut self, image: &Image) -> bool {
        self.ancestors.iter().any(|ancestor| image.is(ancestor))
    }

    fn group(&mut self) -> Option<&str> {
        self.group.as_deref()
    }

    fn user(&mut self) -> Option<u32> {
        self.user
    }
}

/// Every subject of a policy with its application, the one that precedes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subjects {
    list: Vec<(Selector, AppId)>,
    pins: Pins,
}

impl Subjects {
    /// Sorts subjects that are given in any order. Of two that precede each other in nothing, the first stays in front.
    pub fn new(mut list: Vec<(Selector, AppId)>) -> Subjects {
        list.sort_by_key(|(selector, _)| selector.rank());
        Subjects { list, pins: Pins::new() }
    }

    /// Adds the digests that files must have to be what a path means.
    pub fn pinned<'p>(mut self, pins: impl IntoIterator<Item = &'p Pins>) -> Subjects {
        for (path, digests) in pins.into_iter().flatten() {
            pins::join(&mut self.pins, path, digests);
        }
        self
    }

    /// The digests of every path that has some.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// The digests that a file may have which is all of these images; `None` for any.
    pub fn digests<'i>(&self, images: impl IntoIterator<Item = &'i Image>) -> Option<BTreeSet<Digest>> {
        let of = |image: &Image| match image {
            Image::Path(path) => self.pins.get(path),
            Image::Name(_) => None,
        };
        images.into_iter().filter_map(of).fold(None, |all, digests| match all {
            None => Some(digests.clone()),
            Some(all) => Some(&all & digests),
        })
    }

    /// Makes the subjects of programs by their paths, with no other condition.
    pub fn of_programs<'p>(programs: impl IntoIterator<Item = (AppId, &'p str)>) -> Subjects {
        Subjects::new(programs.into_iter().map(|(app, path)| (Selector::program(path), app)).collect())
    }

    /// The subjects in order of precedence: the first that fits decides.
    pub fn iter(&self) -> impl Iterator<Item = (&Selector, AppId)> {
        self.list.iter().map(|(selector, app)| (selector, *app))
    }

    /// The application of a process.
    pub fn choose(&self, mut process: impl Facts) -> Option<AppId> {
        self.iter().find(|(selector, _)| selector.fits(&mut process)).map(|(_, app)| app)
    }

    /// Whether every subject is a program and nothing else.
    pub fn is_plain(&self) -> bool {
        self.list.iter().all(|(selector, _)| selector.is_plain())
    }
}
