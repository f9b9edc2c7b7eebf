//! The compilation of sound blocks to the tables of the data path.
//!
//! A rule's number is its application's number and its place in the block, so nothing in one application's table
//! depends on any other block: exclusiveness (paper 000 section 3.4), level 1, holds byte for byte.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sadb::spd::{AppPolicy, Class, ClearLimits, Item, Level, Network, RuleId, Spd, Terms};
use scrub::Profile;
use wire::{AppId, Services};

use crate::ast::{AddressRange, Block, Demand, Limit, Limited, NetworkKind, Protection, Quantity, Service};
use crate::compiled::{Application, Compiled, GUARD_NUMBER, LimitLine, OmittedApplication, Reason};
use crate::diagnostic::{Lines, Position};
use crate::names::{Named, NamedNetwork};
use crate::sources::{Origin, Rules, Source, Top, rule_id};
use crate::subjects::Subjects;
use crate::unit::{Extent, PlacedBlock};
use crate::{AppTable, Parsed, observe, pins, prefixes};

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
    leave_out(&mut out, parsed);
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
    let &Demand::Protect { service, level, suite, negotiating, failure, ref class, scrub } = demand else {
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
        class: class.as_ref().map_or(usual.class, |class| class.id),
    };
    (terms.demanding(services), level, terms)
}

/// Notes the applications that the file names and that have no policy from it.
fn leave_out(compiled: &mut Compiled, parsed: &Parsed) {
    if parsed.broken.is_empty() {
        return;
    }
    let lines = Lines::new(&parsed.text);
    let mut known: HashSet<&str> = compiled.applications.iter().map(|a| a.name.as_str()).collect();
    known.extend(compiled.left_out.iter().map(|l| l.name.as_str()));
    let mut broken = Vec::new();
    for name in parsed.broken.iter().flat_map(|b| &b.names) {
        if known.insert(&name.text) {
            let line = lines.position(&parsed.text, name.span.start as usize).line;
            broken.push(OmittedApplication { name: name.text.clone(), reason: Reason::Broken, line });
        }
    }
    compiled.left_out.extend(broken);
}
