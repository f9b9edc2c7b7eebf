//! The compilation of sound blocks to the tables of the data path.
//!
//! A rule's number is its application's number and its place in the block, so nothing in one application's table
//! depends on any other block: exclusiveness (paper 000 section 3.4), level 1, holds byte for byte.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sadb::spd::{AppPolicy, Class, ClearLimits, Item, Level, Network, RuleId, Spd, Terms};
use scrub::Profile;
use wire::{AppId, Services};

use crate::ast::{
    AddressRange, Block, Demand, GUARD, Limit, Limited, NetworkKind, Protection, Quantity, Service, Syntax,
};
use crate::diagnostic::{Lines, Position};
use crate::names::{Named, NamedNetwork};
use crate::pins::{self, Pins};
use crate::sources::{Origin, RuleSource, Rules, Source, Top, rule_id};
use crate::subjects::{Executables, Image, Process, Selector, Subjects};
use crate::unit::{Extent, PlacedBlock};
use crate::{AppTable, Parsed, observe, prefixes};

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

/// Compiles the sound blocks. `table` gives the applications their numbers and grows by the new ones; `generation` goes
/// into the tables.
pub fn compile(parsed: &Parsed, table: &mut AppTable, generation: u64) -> Compiled {
    compile_some(parsed, table, generation, None, |_| true)
}

/// Compiles a text that was read over `before` ([`crate::parse_over`]). The tables of blocks that were taken over are
/// the same objects as before, and not only equal to them.
pub fn compile_over(parsed: &Parsed, table: &mut AppTable, generation: u64, before: &Compiled) -> Compiled {
    compile_some(parsed, table, generation, Some(before), |_| true)
}

/// Compiles only the blocks at places that are `wanted`, and `guard`.
pub(crate) fn compile_some(
    parsed: &Parsed,
    table: &mut AppTable,
    generation: u64,
    before: Option<&Compiled>,
    wanted: impl Fn(usize) -> bool,
) -> Compiled {
    let mut cursor = Cursor::new(&parsed.text);
    let origin = Arc::new(Origin {
        file: parsed.file.clone(),
        text: Arc::clone(&parsed.text),
        top: Arc::new(top(&parsed.protections, &mut cursor)),
    });
    let mut out = Compiled {
        file: parsed.file.clone(),
        spd: Spd::new(generation),
        rules: Rules::default(),
        applications: Vec::new(),
        subjects: Subjects::default(),
        named: Named::default(),
        left_out: Vec::new(),
        errors: parsed.has_errors(),
        syntax: parsed.syntax,
        top: parsed.top.clone(),
    };
    let blocks = parsed.blocks.iter().enumerate();
    for (_, placed) in blocks.filter(|(index, placed)| placed.is_guard || wanted(*index)) {
        let block: &Block = placed;
        let start = cursor.to(placed.start as usize);
        let source = |app, policy| Source {
            app,
            unit: Arc::clone(&placed.unit),
            policy,
            origin: Arc::clone(&origin),
            at: placed.start as usize,
            start: placed.start,
            position: start,
            carried: false,
        };
        if block.is_guard {
            let policy = Share { block, app: GUARD_NUMBER }.policy();
            out.spd.guard = policy.clone();
            out.rules.insert(source(GUARD_NUMBER, Arc::new(policy)));
            continue;
        }
        let subjects: Vec<Position> =
            block.subjects.iter().map(|own| cursor.to(placed.place(own.span).start as usize)).collect();
        let limits = block.limits.iter().map(|limit| LimitLine {
            line: cursor.to(placed.place(limit.span).start as usize).line,
            limited: limit.limited,
            text: limit.text(),
        });
        let limits: Vec<LimitLine> = limits.collect();
        cursor.skip(placed, start);
        for ((subject, selector), at) in block.subjects.iter().zip(&block.selectors).zip(subjects) {
            let name = subject.name();
            let Some(id) = table.assign(&name) else {
                out.left_out.push(OmittedApplication { name, reason: Reason::NoNumber, line: at.line });
                continue;
            };
            let share = Share { block, app: id };
            let had = before.and_then(|before| before.rules.compiled(id, &placed.unit));
            let policy = had.map_or_else(|| Arc::new(share.policy()), Arc::clone);
            if placed.unit.has_hosts {
                out.spd.changing.insert(id);
                out.named.fixed.insert(id, AppPolicy::clone(&policy));
                out.named.networks.extend(share.named());
            }
            out.spd.insert(id, Arc::clone(&policy));
            out.rules.insert(source(id, policy));
            out.applications.push(Application {
                id,
                name,
                selector: selector.clone(),
                chosen_by: subject.chosen_by(),
                pins: pins::pins(subject),
                line: at.line,
                column: at.column,
                block_line: start.line,
                block: block.header_for(subject),
                limits: limits.clone(),
                carried: false,
            });
        }
    }
    out.leave_out(parsed);
    out.find_subjects();
    out.guard_observed();
    out
}

/// The places of the items of protections for every block, which stand in front of all blocks.
fn top(protections: &[Protection], cursor: &mut Cursor<'_>) -> Top {
    let mut place = |item: &crate::ast::Item| (cursor.to(item.span.start as usize), item.span);
    let items = |protection: &Protection| protection.items.iter().map(&mut place).collect();
    protections
        .iter()
        .map(items)
        .zip(protections)
        .map(|(items, own)| (own.name.text.clone(), items))
        .collect()
}

/// A cursor over places of a text in order, each counted on from the one before.
struct Cursor<'t> {
    text: &'t str,
    at: usize,
    position: Position,
}

impl<'t> Cursor<'t> {
    fn new(text: &'t str) -> Cursor<'t> {
        Cursor { text, at: 0, position: Position { line: 1, column: 1 } }
    }

    /// The place of an octet that is not before the last one.
    fn to(&mut self, offset: usize) -> Position {
        if let Some(between) = self.text.get(self.at..offset) {
            self.position = Extent::of(between).behind(self.position);
            self.at = offset;
        }
        self.position
    }

    /// Moves on behind a block that starts here; its extent is known.
    fn skip(&mut self, placed: &PlacedBlock, start: Position) {
        self.position = placed.unit.extent.behind(start);
        self.at = placed.start as usize + placed.unit.len();
    }
}

/// The share of one application in a block.
struct Share<'u> {
    block: &'u Block,
    app: AppId,
}

impl Share<'_> {
    fn rule(&self, place: usize) -> RuleId {
        rule_id(self.app, place)
    }

    fn policy(&self) -> AppPolicy {
        let mut networks = Vec::with_capacity(self.block.networks.len());
        let mut hole = false;
        let by_name = self.protections();
        let class = |kind: &NetworkKind| class(&by_name, kind);
        for (index, network) in self.block.networks.iter().enumerate() {
            let class = class(&network.kind);
            let rule = self.rule(index + 1);
            prefixes::each(&network.range, |prefix| {
                hole |= prefixes::needs_hole(prefix);
                networks.push(Network { prefix, class, rule });
            });
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
        let observed = observe::intended(self.block, |place| self.rule(place), class);
        let policy = AppPolicy::new(networks, protections).observing(observed);
        policy.limited(self.limits(Limited::Clear)).accepting(self.limits(Limited::Accept))
    }

    fn limits(&self, limited: Limited) -> ClearLimits {
        let of = |quantity| {
            let mut limits = self.block.limits.iter().filter(|limit| limit.limited == limited);
            limits.find(|limit| limit.quantity == quantity).map(Limit::compiled)
        };
        ClearLimits { octets: of(Quantity::Bits), packets: of(Quantity::Packets) }
    }

    fn named(&self) -> Vec<NamedNetwork> {
        let by_name = self.protections();
        let host = |(index, network): (usize, &crate::ast::Network)| match &network.range {
            AddressRange::Host(name) => Some(NamedNetwork {
                app: self.app,
                name: name.clone(),
                class: match self.block.observed.is_some() || network.observed {
                    true => Class::Trusted,
                    false => class(&by_name, &network.kind),
                },
                rule: self.rule(index + 1),
            }),
            _ => None,
        };
        self.block.networks.iter().enumerate().filter_map(host).collect()
    }

    /// The index of each of the block's protections by name.
    fn protections(&self) -> HashMap<&str, usize> {
        let names = self.block.protections.iter().map(|protection| protection.name.text.as_str());
        // The first of a name; the checks have refused a second one.
        names.enumerate().map(|(index, name)| (name, index)).rev().collect()
    }
}

fn class(by_name: &HashMap<&str, usize>, kind: &NetworkKind) -> Class {
    match kind {
        NetworkKind::Trusted => Class::Trusted,
        NetworkKind::Untrusted => Class::Untrusted,
        NetworkKind::Protected(name) => match by_name.get(name.text.as_str()) {
            Some(index) => Class::Protected(*index),
            // The checks have refused such a block; refuse the peer should one come by.
            None => Class::Untrusted,
        },
    }
}

/// The services, level and terms of a demand in the tables.
pub(crate) fn demand(demand: &Demand) -> (Services, Level, Terms) {
    let Demand::Protect { service, level, suite, negotiating, failure, scrub } = *demand else {
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
        scrub: scrub.map_or(usual.scrub, Profile::id),
    };
    (services, level, terms)
}

impl Compiled {
    /// The source of a rule; `None` for [`RuleId::NONE`] and rules of another policy.
    pub fn rule(&self, id: RuleId) -> Option<RuleSource> {
        self.rules.get(id)
    }

    /// Notes the applications that the file names and that have no policy from it.
    fn leave_out(&mut self, parsed: &Parsed) {
        if parsed.broken.is_empty() {
            return;
        }
        let lines = Lines::new(&parsed.text);
        let mut known: HashSet<&str> = self.applications.iter().map(|a| a.name.as_str()).collect();
        known.extend(self.left_out.iter().map(|l| l.name.as_str()));
        let mut broken = Vec::new();
        for name in parsed.broken.iter().flat_map(|b| &b.names) {
            if known.insert(&name.text) {
                let line = lines.position(&parsed.text, name.span.start as usize).line;
                broken.push(OmittedApplication { name: name.text.clone(), reason: Reason::Broken, line });
            }
        }
        self.left_out.extend(broken);
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
