//! The sources of a policy's rules: for each application its block, and where that is. A rule's line and text are made
//! when somebody asks for them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sadb::spd::{AppPolicy, RuleId};
use wire::AppId;

use crate::ast::{Item, Network, NetworkKind, Protection, Span};
use crate::diagnostic::Position;
use crate::unit::Unit;

/// The kind of statement that a rule is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleKind {
    /// A network setting, with the protection that it names, if any.
    Network(Option<String>),
    /// An item of the protection of this name.
    Item(String),
}

/// The place and the text of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSource {
    /// The number of the rule.
    pub id: RuleId,
    /// The application that it belongs to.
    pub app: AppId,
    /// The kind of statement.
    pub kind: RuleKind,
    /// The file's name as the caller gave it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The statement on one line.
    pub text: String,
    pub(crate) span: Span,
}

/// A text in which rules stand.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The file's name as the caller gave it.
    pub file: String,
    /// The whole text, or one block of it.
    pub text: Arc<str>,
    /// The places of the items of the protections at its top, by the protection's name.
    pub top: Arc<Top>,
}

/// The places of items that several blocks use.
pub(crate) type Top = HashMap<String, Vec<(Position, Span)>>;

/// The block of one application.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub app: AppId,
    pub unit: Arc<Unit>,
    /// The policy that it compiles to, before host names have addresses and `guard` is applied.
    pub policy: Arc<AppPolicy>,
    pub origin: Arc<Origin>,
    /// The offset where the block starts in the origin's text.
    pub at: usize,
    /// The offset where it starts in the text that it was loaded from.
    pub start: u32,
    /// The line and column where it starts in that text.
    pub position: Position,
    /// Whether it is kept from an earlier load.
    pub carried: bool,
}

/// A statement that has a number.
enum Statement<'u> {
    Network(&'u Network),
    Item(&'u Protection, usize, &'u Item),
}

/// The number of the rule at `place` of an application's block, counted from 1. Networks come first, then the items of
/// each protection.
pub(crate) fn rule_id(app: AppId, place: usize) -> RuleId {
    RuleId(u32::from(app.0) << 16 | u16::try_from(place).map_or(0xffff, u32::from))
}

impl Source {
    /// Whether the octets of its block are here.
    pub fn stands_at(&self, text: &str, at: usize, patience: &mut usize) -> bool {
        let own = self.text().as_bytes();
        let here = text.as_bytes().get(at..at + own.len()).is_some_and(|there| there == own);
        if !here {
            *patience = patience.saturating_sub(own.len());
        }
        here
    }

    /// The text of the block.
    pub fn text(&self) -> &str {
        self.origin.text.get(self.at..self.at + self.unit.len()).unwrap_or("")
    }

    /// The source with a text of its own, so that the text of the whole file need not be held for it.
    pub fn carried(&self) -> Source {
        let mut out = Source { carried: true, ..self.clone() };
        if self.origin.text.len() > self.unit.len() {
            let Origin { file, top, .. } = &*self.origin;
            let origin = Origin { file: file.clone(), text: self.text().into(), top: Arc::clone(top) };
            (out.origin, out.at) = (Arc::new(origin), 0);
        }
        out
    }

    fn statements(&self) -> impl Iterator<Item = Statement<'_>> {
        let block = &self.unit.block;
        let items = block.protections.iter().flat_map(|protection| {
            let numbered = protection.items.iter().enumerate();
            numbered.map(move |(index, item)| Statement::Item(protection, index, item))
        });
        block.networks.iter().map(Statement::Network).chain(items)
    }

    /// The statement at a place, counted from 1.
    fn statement(&self, place: usize) -> Option<Statement<'_>> {
        let block = &self.unit.block;
        let mut index = place.checked_sub(1)?;
        if let Some(network) = block.networks.get(index) {
            return Some(Statement::Network(network));
        }
        index -= block.networks.len();
        for protection in &block.protections {
            if let Some(item) = protection.items.get(index) {
                return Some(Statement::Item(protection, index, item));
            }
            index -= protection.items.len();
        }
        None
    }

    fn rule(&self, place: usize, statement: &Statement<'_>) -> RuleSource {
        let (span, kind, text) = match statement {
            Statement::Network(network) => {
                let protection = match &network.kind {
                    NetworkKind::Protected(name) => Some(name.text.clone()),
                    _ => None,
                };
                (network.span, RuleKind::Network(protection), network.text())
            }
            Statement::Item(protection, _, item) => {
                (item.span, RuleKind::Item(protection.name.text.clone()), item.text())
            }
        };
        let (at, span) = self.place(statement, span);
        RuleSource {
            id: rule_id(self.app, place),
            app: self.app,
            kind,
            file: self.origin.file.clone(),
            line: at.line,
            column: at.column,
            text,
            span,
        }
    }

    /// The place of a statement in the text that was loaded.
    fn place(&self, statement: &Statement<'_>, span: Span) -> (Position, Span) {
        if let Statement::Item(protection, index, _) = statement
            && protection.shared
        {
            let items = self.origin.top.get(&protection.name.text);
            return items.and_then(|items| items.get(*index)).copied().unwrap_or_default();
        }
        let inside = self.unit.position(self.text(), span);
        let at = match inside.line {
            1 => Position {
                line: self.position.line,
                column: (self.position.column + inside.column).saturating_sub(1),
            },
            line => Position { line: self.position.line + line - 1, column: inside.column },
        };
        (at, span.moved(self.start.wrapping_sub(self.unit.block.span.start)))
    }
}

/// The sources of all rules.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    of: BTreeMap<AppId, Source>,
}

impl Rules {
    /// The source of a rule; `None` for [`RuleId::NONE`] and rules of another policy.
    pub fn get(&self, id: RuleId) -> Option<RuleSource> {
        let source = self.of.get(&AppId((id.0 >> 16) as u16))?;
        let place = (id.0 & 0xffff) as usize;
        Some(source.rule(place, &source.statement(place)?))
    }

    /// The item of a rule; `None` if the rule is no item.
    pub(crate) fn item(&self, id: RuleId) -> Option<&Item> {
        let source = self.of.get(&AppId((id.0 >> 16) as u16))?;
        match source.statement((id.0 & 0xffff) as usize)? {
            Statement::Item(_, _, item) => Some(item),
            Statement::Network(_) => None,
        }
    }

    /// The sources of all rules, by number.
    pub fn iter(&self) -> impl Iterator<Item = RuleSource> + '_ {
        self.of.values().flat_map(|source| {
            let numbered = source.statements().enumerate();
            numbered.map(|(index, statement)| source.rule(index + 1, &statement))
        })
    }

    /// The classes that items name, with these items, by number.
    pub(crate) fn named_classes(&self) -> impl Iterator<Item = (String, RuleSource)> + '_ {
        let sources = self.of.values().filter(|source| source.unit.has_classes);
        sources.flat_map(|source| {
            source.statements().enumerate().filter_map(|(index, statement)| {
                let Statement::Item(_, _, item) = &statement else { return None };
                Some((item.class()?.name.clone(), source.rule(index + 1, &statement)))
            })
        })
    }

    /// Number of network settings of an application.
    pub(crate) fn networks(&self, app: AppId) -> usize {
        self.of.get(&app).map_or(0, |source| source.unit.block.networks.len())
    }

    pub(crate) fn insert(&mut self, source: Source) {
        self.of.insert(source.app, source);
    }

    /// Keeps the rules of an application of an earlier load.
    pub(crate) fn keep(&mut self, old: &Rules, app: AppId) {
        let Some(source) = old.of.get(&app) else { return };
        // Applications of one list have one block: the numbers beside this one are most often of the same.
        let mut beside = self.of.range(..app).next_back().into_iter().chain(self.of.range(app..).next());
        let same = |(_, kept): &(&AppId, &Source)| kept.carried && Arc::ptr_eq(&kept.unit, &source.unit);
        let kept = match beside.find(same) {
            Some((_, kept)) => Source { app, ..kept.clone() },
            None => source.carried(),
        };
        self.of.insert(app, kept);
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.of.values()
    }

    /// The policy that the application's block compiled to, if it is this one.
    pub(crate) fn compiled(&self, app: AppId, unit: &Arc<Unit>) -> Option<&Arc<AppPolicy>> {
        self.of.get(&app).filter(|source| Arc::ptr_eq(&source.unit, unit)).map(|source| &source.policy)
    }
}

impl PartialEq for Rules {
    fn eq(&self, other: &Rules) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Rules {}
