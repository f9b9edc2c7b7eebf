//! Checks of the subjects of all blocks together: none occurs twice, and none is ambiguous.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::MAX_APPLICATIONS;
use crate::ast::{Block, Group, Item, Program, Span, Subject, Users, executables};
use crate::diagnostic::{Code, Diagnostic, Sink, show};
use crate::digest::Digest;
use crate::host::{Host, ProgramFile, is_unit};
use crate::subjects::Selector;

/// The most octets of a file name that the kernel half's table of places holds (`RVL_PLACE_NAME`).
const MAX_PINNED_NAME: usize = 63;

/// The most programs of a policy for which another one is proposed. Each proposal searches the standard directories of
/// the host, which takes a millisecond or two. A policy that names more missing programs was written for another host.
const PROPOSALS: usize = 8;

/// The first and the last user of a range.
type Range = (u32, u32);

/// Whether the ranges share users and neither holds the other, so that neither is the more specific.
fn clash(a: Range, b: Range) -> bool {
    let apart = a.1 < b.0 || b.1 < a.0;
    let inside = |a: Range, b: Range| b.0 <= a.0 && a.1 <= b.1;
    !apart && !inside(a, b) && !inside(b, a)
}

/// The most network entries of all applications together: names times prefixes.
pub(super) const MAX_ENTRIES: usize = 1 << 20;

/// State about the blocks checked before.
pub(super) struct CheckState<'h> {
    host: &'h dyn Host,
    seen: HashMap<Selector, Span>,
    order: Vec<(usize, Subject)>,
    /// The users of subjects, by what else these subjects say. Only subjects with users can be ambiguous.
    users: HashMap<Selector, Vec<(Range, Span)>>,
    /// The digests of each path, and where they were first given.
    pins: HashMap<String, (BTreeSet<Digest>, Span)>,
    block: usize,
    /// Number of proposals that may still be asked for.
    proposals: usize,
    /// Number of network entries and items of all blocks so far, times names.
    pub entries: usize,
    /// Number of prefixes of the block that was checked last.
    pub prefixes: usize,
    /// The host names so far.
    pub hosts: HashSet<String>,
}

impl<'h> CheckState<'h> {
    /// Whether the graph still has each class that the block's items name, under the same number.
    pub(super) fn knows_classes(&self, block: &Block) -> bool {
        let classes = self.host.aggregates();
        let mut named = block.items().filter_map(Item::class);
        named.all(|class| classes.find(&class.name) == Some(class.id))
    }

    pub(super) fn new(host: &'h dyn Host) -> CheckState<'h> {
        CheckState {
            host,
            seen: HashMap::new(),
            order: Vec::new(),
            users: HashMap::new(),
            pins: HashMap::new(),
            block: 0,
            proposals: PROPOSALS,
            entries: 0,
            prefixes: 0,
            hosts: HashSet::new(),
        }
    }

    /// Checks that subjects do not repeat. Within a list, a repetition is dropped; in a second block, it is an error.
    pub(super) fn subjects(
        &mut self,
        subjects: &mut Vec<Subject>,
        out: &mut Vec<Selector>,
        sink: &mut Sink,
    ) -> bool {
        let mut sound = true;
        let mut own = HashSet::new();
        self.block += 1;
        let mut selectors = Vec::new();
        subjects.retain(|subject| {
            if subject.damaged {
                sound = false;
                return true;
            }
            let Ok(selector) = Selector::of(subject, self.host) else {
                self.unknown_user(subject, sink);
                sound = false;
                return true;
            };
            let fresh = own.insert(selector.clone());
            if !fresh {
                sink.push(
                    Diagnostic::new(
                        Code::RepeatedName,
                        subject.span,
                        format!("application `{}` is already in this list", show(&subject.name())),
                    )
                    .label("again")
                    .help("remove the second one"),
                );
            } else {
                selectors.push((selector, subject.clone()));
            }
            fresh
        });
        out.extend(selectors.iter().map(|(selector, _)| selector.clone()));
        for (selector, subject) in selectors {
            let name = subject.name();
            if let Some(first) = self.seen.get(&selector) {
                sink.push(
                    Diagnostic::new(
                        Code::DuplicateApplication,
                        subject.span,
                        format!("application `{}` has a block already", show(&name)),
                    )
                    .label("this block is left out")
                    .related(*first, "the first block, which stays")
                    .help("merge the two blocks, or remove one"),
                );
                sound = false;
                continue;
            }
            if self.seen.len() == MAX_APPLICATIONS {
                sink.push(
                    Diagnostic::new(
                        Code::TooManyApplications,
                        subject.span,
                        format!("more than {MAX_APPLICATIONS} applications"),
                    )
                    .label("this block is left out")
                    .help("let one bare name stand for the executables of that name"),
                );
                return false;
            }
            sound &= self.is_clear(&selector, &subject, sink);
            sound &= self.pins_agree(&subject, sink);
            self.has_unit_file(&subject, sink);
            self.has_programs(&subject, sink);
            self.seen.insert(selector, subject.span);
            self.order.push((self.block, subject));
        }
        sound
    }

    fn unknown_user(&self, subject: &Subject, sink: &mut Sink) {
        let Some(user) = &subject.user else { return };
        let Users::Named(name) = &user.users else { return };
        sink.push(
            Diagnostic::new(Code::UnknownUser, user.span, format!("no user is called `{}` here", show(name)))
                .label("not known on this host")
                .help("write the number of the user, or make the user first"),
        );
    }

    /// Checks that users do not overlap in part, which would leave open which block decides for those in both.
    fn is_clear(&mut self, selector: &Selector, subject: &Subject, sink: &mut Sink) -> bool {
        let (Some(range), Some(user)) = (selector.users, &subject.user) else { return true };
        let like = Selector { users: None, ..selector.clone() };
        let others = self.users.entry(like).or_default();
        let found = others.iter().find(|(other, _)| clash(*other, range)).map(|(_, span)| *span);
        others.push((range, user.span));
        let Some(first) = found else { return true };
        sink.push(
            Diagnostic::new(
                Code::AmbiguousUsers,
                user.span,
                format!("users `{}` overlap in part with those of another subject", user.users),
            )
            .label("which one decides is open")
            .related(first, "the other")
            .help("end one range where the other starts, or put one inside the other: the narrower decides"),
        );
        false
    }

    /// Checks that digests of a path agree. A path is pinned in all subjects or, by being pinned in one, in those that
    /// say nothing; digests that differ leave open what its file may be.
    fn pins_agree(&mut self, subject: &Subject, sink: &mut Sink) -> bool {
        let mut agree = true;
        for executable in executables(subject) {
            let Some((_, first)) = executable.digests.first() else { continue };
            let span = executable.digests.iter().fold(*first, |all, (_, span)| all.to(*span));
            let path = &executable.name.text;
            let file = path.rsplit('/').next().unwrap_or(path);
            if file.len() > MAX_PINNED_NAME {
                let message = format!("the file name of `{}` is too long to be pinned", show(path));
                sink.push(
                    Diagnostic::new(Code::LongPin, executable.name.span, message)
                        .label("a new file of this name would not be known at once")
                        .help(format!("use a file name of at most {MAX_PINNED_NAME} octets")),
                );
                agree = false;
            }
            let digests: BTreeSet<Digest> = executable.digests.iter().map(|(digest, _)| *digest).collect();
            let (known, at) = self.pins.entry(path.clone()).or_insert_with(|| (digests.clone(), span));
            if *known != digests {
                let message = format!("`{}` has other digests in another subject", show(path));
                sink.push(
                    Diagnostic::new(Code::PinsDiffer, span, message)
                        .label("what the file may be is open")
                        .related(*at, "the others")
                        .help("a digest holds for its path in every subject: give the same ones, or give them once"),
                );
                agree = false;
            }
        }
        agree
    }

    fn has_unit_file(&self, subject: &Subject, sink: &mut Sink) {
        let Some(Group::Unit(unit)) = &subject.group else { return };
        if is_unit(&unit.text) && self.host.unit_file(&unit.text).is_none() {
            let message = format!("unit `{}` has no unit file here", show(&unit.text));
            sink.push(
                Diagnostic::new(Code::UnknownUnit, unit.span, message)
                    .label("taken to be in its default slice")
                    .help("check the name; `cgroup PATH` names a control group that no unit file describes"),
            );
        }
    }

    /// Checks that the host has the programs. A program that no process of this host can execute stands for nobody, and
    /// the one that was meant sends in clear.
    fn has_programs(&mut self, subject: &Subject, sink: &mut Sink) {
        let own = match &subject.program {
            Program::Named(executable) => Some(executable),
            Program::Anonymous | Program::Any => None,
        };
        for executable in own.into_iter().chain(&subject.from) {
            let name = &executable.name.text;
            let found = self.host.program(name);
            let mut near = |sink: &Sink| {
                if !sink.shows_warnings() || self.proposals == 0 {
                    return None;
                }
                self.proposals -= 1;
                // Whole, to be copied.
                Some(self.host.near_program(name)?.escape_debug().to_string())
            };
            let diagnostic = match found {
                ProgramFile::NotKnown | ProgramFile::Executable => continue,
                ProgramFile::Missing => {
                    let message = format!("no executable `{}` is on this host", show(name));
                    let help = match near(sink) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => {
                            "check the name; what runs under another one is in clear. A program that comes later needs \
                             `--allow-missing`"
                                .to_owned()
                        }
                    };
                    Diagnostic::new(Code::UnknownProgram, executable.name.span, message)
                        .label("no process matches it")
                        .help(help)
                }
                ProgramFile::Script { path, interpreter } => {
                    let message =
                        format!("`{}` is a script: its processes execute {interpreter}", show(&path));
                    let help = match near(sink) {
                        Some(near) => format!("name the program that it starts: `{near}`"),
                        None => "name the program that the script starts, or its unit, control group or user"
                            .to_owned(),
                    };
                    Diagnostic::new(Code::ScriptProgram, executable.name.span, message)
                        .label("no process matches it")
                        .help(help)
                }
            };
            sink.push(diagnostic);
        }
    }

    /// Reports `/usr/bin/ssh` in one block and `ssh` in another, which name one program.
    pub(super) fn paths(&self, sink: &mut Sink) {
        let plain = |subject: &Subject| match &subject.program {
            Program::Named(executable) if subject.is_plain() => Some(executable.name.clone()),
            _ => None,
        };
        let named: Vec<_> = self.order.iter().filter_map(|(b, s)| Some((*b, plain(s)?))).collect();
        let block_of: HashMap<&str, (usize, Span)> =
            named.iter().map(|(b, n)| (n.text.as_str(), (*b, n.span))).collect();
        for (block, path) in &named {
            let Some((_, file)) = path.text.rsplit_once('/') else { continue };
            let Some((other, bare)) = block_of.get(file) else { continue };
            if other != block {
                sink.push(
                    Diagnostic::new(
                        Code::NameAndPath,
                        path.span,
                        format!("`{}` is also meant by the bare name `{}`", show(&path.text), show(file)),
                    )
                    .label("this block decides for that executable")
                    .related(*bare, "this block decides for the others of that name")
                    .help("nothing to do if that is meant; else put both names in one list"),
                );
            }
        }
    }
}
