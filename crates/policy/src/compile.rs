//! From sound blocks to the tables of the data path.
//!
//! A rule's number is its application's number and its place in the block, so nothing in one application's
//! table depends on any other block: exclusiveness (paper 000 section 3.4), level 1, holds byte for byte.

use std::collections::HashSet;

use sadb::spd::{AppPolicy, Class, ClearLimits, Item, Level, Network, RuleId, Spd, Terms};
use wire::{AppId, Services};

use crate::ast::{AddressRange, Block, Demand, GUARD, Limit, NetworkKind, Quantity, Service, Span};
use crate::diagnostic::{Lines, Position};
use crate::digest::{self, Pins};
use crate::names::{Named, NamedNetwork};
use crate::subjects::{Executables, Image, Process, Selector, Subjects};
use crate::{AppTable, Parsed, observe, prefixes};

/// What kind of statement a rule is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleKind {
    /// A network setting; the protection it names, if any.
    Network(Option<String>),
    /// An item of the protection of this name.
    Item(String),
}

/// Where a rule stands and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSource {
    /// Its number.
    pub id: RuleId,
    /// Whose it is.
    pub app: AppId,
    /// What it is.
    pub kind: RuleKind,
    /// The file's name as the caller gave it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The statement on one line.
    pub text: String,
    pub(crate) span: Span,
}

/// One application that has a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Its number.
    pub id: AppId,
    /// What it is called: a program's name or path, or its subject as the policy has it.
    pub name: String,
    /// Whom it is: which processes.
    pub selector: Selector,
    /// What its subject chooses processes by, in words.
    pub chosen_by: Vec<&'static str>,
    /// What the files must be that its subject names.
    pub pins: Pins,
    /// Line of its name in the block's header, from 1.
    pub line: usize,
    /// Column of its name.
    pub column: usize,
    /// Line of the block's `application`.
    pub block_line: usize,
    /// The header, on one line.
    pub block: String,
    /// Its `limit` statements, each with its line.
    pub limits: Vec<(usize, String)>,
    /// Kept from an earlier load ([`Compiled::carry_over`]): its lines are those of the text then.
    pub carried: bool,
}

impl Application {
    /// The executable's path, if the policy names one; else every executable of that file name is meant.
    pub fn path(&self) -> Option<&str> {
        match &self.selector.executables {
            Executables::Named(Image::Path(path)) => Some(path),
            _ => None,
        }
    }
}

/// Why an application has no policy although the file names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its block has errors.
    Broken,
    /// The table of application numbers is full.
    NoNumber,
}

/// An application that the file names and that has no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: Reason,
    /// Line of its name.
    pub line: usize,
}

/// A policy as the data path and `explain` use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The file's name as the caller gave it.
    pub file: String,
    /// The tables.
    pub spd: Spd,
    /// What is behind each rule, by number.
    pub rules: Vec<RuleSource>,
    /// Every application with a policy, in the order of the file.
    pub applications: Vec<Application>,
    /// Which of them a process belongs to.
    pub subjects: Subjects,
    /// Its networks that are names; they have no address before [`Compiled::resolve`].
    pub named: Named,
    /// Applications that the file names and that have no policy from it.
    pub left_out: Vec<LeftOut>,
    /// The text had errors.
    pub errors: bool,
}

/// In numbers of rules: those of `guard`. No application has it ([`crate::MAX_APPLICATIONS`]).
pub const GUARD_NUMBER: AppId = AppId(0xfffe);

/// Compile the sound blocks. `table` gives the applications their numbers and grows by the new ones; `generation`
/// goes into the tables.
pub fn compile(parsed: &Parsed, table: &mut AppTable, generation: u64) -> Compiled {
    let lines = Lines::new(&parsed.text);
    let place = |span: Span| lines.position(&parsed.text, span.start as usize);
    let mut out = Compiled {
        file: parsed.file.clone(),
        spd: Spd::new(generation),
        rules: Vec::new(),
        applications: Vec::new(),
        subjects: Subjects::default(),
        named: Named::default(),
        left_out: Vec::new(),
        errors: parsed.has_errors(),
    };
    for block in &parsed.blocks {
        let header = block.header_text();
        if block.is_guard {
            let unit = Unit { file: &parsed.file, block, app: GUARD_NUMBER, place: &place };
            out.spd.guard = unit.policy();
            unit.sources(&mut out.rules);
            continue;
        }
        for (subject, selector) in block.subjects.iter().zip(&block.selectors) {
            let at = place(subject.span);
            let name = subject.name();
            let Some(id) = table.assign(&name) else {
                out.left_out.push(LeftOut { name, reason: Reason::NoNumber, line: at.line });
                continue;
            };
            let unit = Unit { file: &parsed.file, block, app: id, place: &place };
            let policy = unit.policy();
            let named = unit.named();
            if !named.is_empty() {
                out.spd.changing.insert(id);
                out.named.fixed.insert(id, policy.clone());
                out.named.networks.extend(named);
            }
            out.spd.insert(id, policy);
            unit.sources(&mut out.rules);
            out.applications.push(Application {
                id,
                name,
                selector: selector.clone(),
                chosen_by: subject.chosen_by(),
                pins: digest::pins(subject),
                line: at.line,
                column: at.column,
                block_line: place(block.header).line,
                block: header.clone(),
                limits: block.limits.iter().map(|limit| (place(limit.span).line, limit.text())).collect(),
                carried: false,
            });
        }
    }
    let mut known: HashSet<&str> = out.applications.iter().map(|a| a.name.as_str()).collect();
    known.extend(out.left_out.iter().map(|l| l.name.as_str()));
    let mut broken = Vec::new();
    for name in parsed.broken.iter().flat_map(|b| &b.names) {
        if known.insert(&name.text) {
            let line = place(name.span).line;
            broken.push(LeftOut { name: name.text.clone(), reason: Reason::Broken, line });
        }
    }
    out.left_out.extend(broken);
    out.find_subjects();
    out.rules.sort_by_key(|rule| rule.id);
    out.guard_observed();
    out
}

/// One application's share of a block.
struct Unit<'u, P: Fn(Span) -> Position> {
    file: &'u str,
    block: &'u Block,
    app: AppId,
    place: &'u P,
}

impl<P: Fn(Span) -> Position> Unit<'_, P> {
    /// The rule at `place` of the block, counted from 1: networks first, then the items of each protection.
    fn rule(&self, place: usize) -> RuleId {
        RuleId(u32::from(self.app.0) << 16 | u16::try_from(place).map_or(0xffff, u32::from))
    }

    fn policy(&self) -> AppPolicy {
        let mut networks = Vec::new();
        let mut hole = false;
        for (index, network) in self.block.networks.iter().enumerate() {
            let class = self.class(&network.kind);
            let rule = self.rule(index + 1);
            for prefix in prefixes::of(&network.range) {
                hole |= prefixes::needs_hole(prefix);
                networks.push(Network { prefix, class, rule });
            }
        }
        if hole && !networks.iter().any(|n| n.prefix == prefixes::mapped()) {
            // IPv4 peers are not in the IPv6 network around them; no rule stands behind this entry.
            networks.push(Network { prefix: prefixes::mapped(), class: Class::Trusted, rule: RuleId::NONE });
        }
        let mut place = self.block.networks.len();
        let protections = self.block.protections.iter().map(|protection| {
            let items = protection.items.iter().flat_map(|item| {
                place += 1;
                let rule = self.rule(place);
                let (services, level, terms) = demand(&item.demand);
                let one = move |(local, remote)| Item {
                    protocol: item.protocol,
                    local,
                    remote,
                    services,
                    level,
                    terms,
                    rule,
                };
                item.pairs().map(one)
            });
            items.collect()
        });
        let protections = protections.collect();
        let observed = observe::intended(self.block, |place| self.rule(place), |kind| self.class(kind));
        AppPolicy::new(networks, protections).observing(observed).limited(self.limits())
    }

    fn limits(&self) -> ClearLimits {
        let of = |quantity| self.block.limits.iter().find(|l| l.quantity == quantity).map(Limit::compiled);
        ClearLimits { octets: of(Quantity::Bits), packets: of(Quantity::Packets) }
    }

    fn named(&self) -> Vec<NamedNetwork> {
        let host = |(index, network): (usize, &crate::ast::Network)| match &network.range {
            AddressRange::Host(name) => Some(NamedNetwork {
                app: self.app,
                name: name.clone(),
                class: match self.block.observed.is_some() || network.observed {
                    true => Class::Trusted,
                    false => self.class(&network.kind),
                },
                rule: self.rule(index + 1),
            }),
            _ => None,
        };
        self.block.networks.iter().enumerate().filter_map(host).collect()
    }

    fn class(&self, kind: &NetworkKind) -> Class {
        match kind {
            NetworkKind::Trusted => Class::Trusted,
            NetworkKind::Untrusted => Class::Untrusted,
            NetworkKind::Protected(name) => {
                match self.block.protections.iter().position(|p| p.name.text == name.text) {
                    Some(index) => Class::Protected(index),
                    // The checks have refused such a block; refuse the peer should one come by.
                    None => Class::Untrusted,
                }
            }
        }
    }

    fn sources(&self, out: &mut Vec<RuleSource>) {
        let mut push = |place: usize, span: Span, kind: RuleKind, text: String| {
            let at = (self.place)(span);
            let id = self.rule(place);
            let file = self.file.to_string();
            let (line, column) = (at.line, at.column);
            out.push(RuleSource { id, app: self.app, kind, file, line, column, text, span });
        };
        for (index, network) in self.block.networks.iter().enumerate() {
            let protection = match &network.kind {
                NetworkKind::Protected(name) => Some(name.text.clone()),
                _ => None,
            };
            push(index + 1, network.span, RuleKind::Network(protection), network.text());
        }
        let items = self.block.protections.iter().flat_map(|p| p.items.iter().map(move |item| (p, item)));
        for (index, (protection, item)) in items.enumerate() {
            let place = self.block.networks.len() + index + 1;
            push(place, item.span, RuleKind::Item(protection.name.text.clone()), item.text());
        }
    }
}

/// What a demand is in the tables.
pub(crate) fn demand(demand: &Demand) -> (Services, Level, Terms) {
    let Demand::Protect { service, level, suite, negotiating, failure } = *demand else {
        return (Services::NONE, Level::AcceptOnly, Terms::of(Level::AcceptOnly));
    };
    let services = match service {
        Service::Encryption => Services::ENCRYPTED,
        Service::Authentication => Services::AUTHENTICATED,
    };
    let usual = Terms::of(level);
    let terms = Terms {
        suite,
        negotiating: negotiating.unwrap_or(usual.negotiating),
        failure: failure.unwrap_or(usual.failure),
    };
    (services, level, terms)
}

impl Compiled {
    /// What is behind a rule; `None` for [`RuleId::NONE`] and rules of another policy.
    pub fn rule(&self, id: RuleId) -> Option<&RuleSource> {
        self.rules.binary_search_by_key(&id, |r| r.id).ok().and_then(|at| self.rules.get(at))
    }

    /// The application of this number.
    pub fn application(&self, id: AppId) -> Option<&Application> {
        self.applications.iter().find(|a| a.id == id)
    }

    /// The application of this name; else the one that a process belongs to of which nothing is known but that it runs this
    /// program.
    pub fn find(&self, program: &str) -> Option<&Application> {
        let named = self.applications.iter().find(|a| a.name == program);
        named.or_else(|| self.find_process(&Process::running(program)))
    }

    /// The application that a process belongs to.
    pub fn find_process(&self, process: &Process) -> Option<&Application> {
        self.application(self.subjects.choose(process)?)
    }

    /// Put the subjects of its applications in order; after applications came or went.
    pub fn find_subjects(&mut self) {
        let list = self.applications.iter().map(|app| (app.selector.clone(), app.id));
        self.subjects = Subjects::new(list.collect()).pinned(self.applications.iter().map(|app| &app.pins));
    }

    /// For a daemon that loads this policy over `old`: if the text has errors, every application that had a policy and
    /// has none now keeps the one it had, its block being broken, or its name too broken to be read. An error never
    /// takes protection away; removing an application needs a text without errors. Both must have their
    /// numbers from one table. Returns the names that were kept.
    pub fn carry_over(&mut self, old: &Compiled) -> Vec<String> {
        if !self.errors {
            return Vec::new();
        }
        let mut kept = Vec::new();
        for app in &old.applications {
            if self.spd.get(app.id).is_some() || !self.keep_application(old, app.id) {
                continue;
            }
            if let Some(added) = self.applications.last_mut() {
                added.carried = true;
            }
            kept.push(app.name.clone());
        }
        if self.keep_guard(old) {
            kept.push(GUARD.into());
        }
        self.guard_observed();
        self.find_subjects();
        self.rules.sort_by_key(|rule| rule.id);
        kept
    }

    /// Let `guard` of the old policy stay if this one's is broken, or an error may hide that it has one. Whether that was so.
    /// [`Compiled::rules`] must be sorted again.
    pub fn keep_guard(&mut self, old: &Compiled) -> bool {
        let has = |compiled: &Compiled| !compiled.spd.guard.networks().is_empty();
        if !self.errors || has(self) || !has(old) {
            return false;
        }
        self.spd.guard = old.spd.guard.clone();
        self.rules.extend(old.rules.iter().filter(|rule| rule.app == GUARD_NUMBER).cloned());
        true
    }
}
