//! A compiled policy: the tables of the data path, and what stands behind each of their rules.
//!
//! [`crate::compile`] makes it. What it answers about itself stands here and in the modules below.

mod classes;
mod explain;
mod observe;
mod resolve;
mod scrubbed;

use sadb::spd::{RuleId, Spd};
use wire::AppId;

use crate::ast::{GUARD, Limited, Syntax};
use crate::names::Named;
use crate::pins::Pins;
use crate::sources::{RuleSource, Rules};
use crate::subjects::{Executables, Image, Process, Selector, Subjects};

/// An application that has a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// The number of the application.
    pub id: AppId,
    /// The name of the application: a program's name or path, or its subject as the policy has it.
    pub name: String,
    /// The processes that belong to it.
    pub selector: Selector,
    /// The criteria by which its subject chooses processes, in words.
    pub chosen_by: Vec<&'static str>,
    /// The digests that the files of its subject must have.
    pub pins: Pins,
    /// The line of its name in the block's header, counted from 1.
    pub line: usize,
    /// The column of its name.
    pub column: usize,
    /// The line of the block's `application`.
    pub block_line: usize,
    /// The header on one line. Of several subjects, it has this one and how many more there are.
    pub block: String,
    /// The `limit` statements of the block.
    pub limits: Vec<LimitLine>,
    /// Whether it is kept from an earlier load ([`Compiled::carry_over`]). Its lines are those of that text.
    pub carried: bool,
}

/// A `limit` statement of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitLine {
    /// The line of the statement, counted from 1.
    pub line: usize,
    /// The traffic that it limits.
    pub limited: Limited,
    /// The statement on one line.
    pub text: String,
}

impl Application {
    /// The executable's path, if the policy names one. Otherwise every executable of that file name is meant.
    pub fn path(&self) -> Option<&str> {
        match &self.selector.executables {
            Executables::Named(Image::Path(path)) => Some(path),
            _ => None,
        }
    }
}

/// The reason why an application has no policy although the file names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The block has errors.
    Broken,
    /// The table of application numbers is full.
    NoNumber,
}

/// An application that the file names and that has no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedApplication {
    /// The name of the application.
    pub name: String,
    /// The reason why it has no policy.
    pub reason: Reason,
    /// The line of its name.
    pub line: usize,
}

/// A policy as the data path and `explain` use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The file's name as the caller gave it.
    pub file: String,
    /// The tables of the data path.
    pub spd: Spd,
    /// The source of each rule.
    pub rules: Rules,
    /// Every application with a policy, in the order of the file.
    pub applications: Vec<Application>,
    /// The subjects, which say to which application a process belongs.
    pub subjects: Subjects,
    /// The networks that are host names. They have no address before [`Compiled::resolve`].
    pub named: Named,
    /// Applications that the file names and that have no policy from it.
    pub left_out: Vec<OmittedApplication>,
    /// Whether the text had errors.
    pub errors: bool,
    /// The language of the text.
    pub(crate) syntax: Syntax,
    /// The texts of the protections at the top of the file, if all of them are sound.
    pub(crate) top: Option<Vec<String>>,
}

/// The application number in the numbers of `guard`'s rules. No application has it ([`crate::MAX_APPLICATIONS`]).
pub const GUARD_NUMBER: AppId = AppId(0xfffe);

impl Compiled {
    /// The source of a rule; `None` for [`RuleId::NONE`] and rules of another policy.
    pub fn rule(&self, id: RuleId) -> Option<RuleSource> {
        self.rules.get(id)
    }

    /// The application of this number.
    pub fn application(&self, id: AppId) -> Option<&Application> {
        self.applications.iter().find(|a| a.id == id)
    }

    /// The application of this name; otherwise the one of a process of which nothing is known but that it runs this
    /// program.
    pub fn find(&self, program: &str) -> Option<&Application> {
        let named = self.applications.iter().find(|a| a.name == program);
        named.or_else(|| self.find_process(&Process::running(program)))
    }

    /// The application that a process belongs to.
    pub fn find_process(&self, process: &Process) -> Option<&Application> {
        self.application(self.subjects.choose(process)?)
    }

    /// Sorts the subjects of the policy's applications. It must be called after applications came or went.
    pub fn find_subjects(&mut self) {
        let list = self.applications.iter().map(|app| (app.selector.clone(), app.id));
        self.subjects = Subjects::new(list.collect()).pinned(self.applications.iter().map(|app| &app.pins));
    }

    /// Keeps protection when a daemon loads this policy over `old`. If the text has errors, every application that had
    /// a policy and has none now keeps the one it had, because its block is broken, or its name is too broken to be
    /// read. An error never takes protection away; removing an application needs a text without errors. Both policies
    /// must have their numbers from one table. Returns the names that were kept.
    pub fn carry_over(&mut self, old: &Compiled) -> Vec<String> {
        if !self.errors {
            return Vec::new();
        }
        let lost: Vec<&Application> =
            old.applications.iter().filter(|app| self.spd.get(app.id).is_none()).collect();
        let own = self.applications.len();
        self.keep_applications(old, lost);
        let mut kept = Vec::new();
        for app in self.applications.iter_mut().skip(own) {
            app.carried = true;
            kept.push(app.name.clone());
        }
        if self.keep_guard(old) {
            kept.push(GUARD.into());
        }
        self.guard_observed();
        self.find_subjects();
        kept
    }

    /// Keeps `guard` of the old policy if this one's is broken, or an error may hide that it has one. Whether that was
    /// so.
    pub fn keep_guard(&mut self, old: &Compiled) -> bool {
        let has = |compiled: &Compiled| !compiled.spd.guard.networks().is_empty();
        if !self.errors || has(self) || !has(old) {
            return false;
        }
        self.spd.guard = old.spd.guard.clone();
        self.rules.keep(&old.rules, GUARD_NUMBER);
        true
    }
}
