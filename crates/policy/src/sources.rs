//! What is behind the rules of a policy: for each application its block, and where that is. A rule's line and text are made when somebody
//! asks for them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sadb::spd::{AppPolicy, RuleId};
use wire::AppId;

use crate::ast::{Item, Network, NetworkKind, Protection, Span};
use crate::diagnostic::Position;
use crate::unit::Unit;

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

/// A text that rules stand in.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The file's name as the caller gave it.
    pub file: String,
    /// All of it, or one block of it.
    pub text: Arc<str>,
    /// The items of the protections at its top, by the protection's name.
    pub top: Arc<Top>,
}

/// Where items are that several blocks use.
pub(crate) type Top = HashMap<String, Vec<(Position, Span)>>;

/// One application's block.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub app: AppId,
    pub unit: Arc<Unit>,
    /// What it compiles to, before host names have addresses and `guard` has its say.
    pub policy: Arc<AppPolicy>,
    pub origin: Arc<Origin>,
    /// Where the block starts in the origin's text.
    pub at: usize,
    /// Where it starts in the text that it was loaded from.
    pub start: u32,
    /// The same as a line and a column.
    pub position: Position,
    /// It is kept from an earlier load.
    pub carried: bool,
}

/// A statement that has a number.
enum Statement<'u> {
    Network(&'u Network),
    Item(&'u Protection, usize, &'u Item),
}

/// The number of the rule at `place` of an application's block, counted from 1: networks first, then the items of each protection.
pub(crate) fn rule_id(app: AppId, place: usize) -> RuleId {
    RuleId(u32::from(app.0) << 16 | u16::try_from(place).map_or(0xffff, u32::from))
}

impl Source {
    /// The block's text.
    pub fn text(&self) -> &str {
        self.origin.text.get(self.at..self.at + self.unit.len()).unwrap_or("")
    }

    /// The same with a text of its own: that of the whole file need not be held for it.
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

    /// The statement at a place counted from 1.
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

    /// Where a statement is in the text that was loaded.
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

/// What is behind each rule.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    of: BTreeMap<AppId, Source>,
}

impl Rules {
    /// What is behind a rule; `None` for [`RuleId::NONE`] and rules of another policy.
    pub fn get(&self, id: RuleId) -> Option<RuleSource> {
        let source = self.of.get(&AppId((id.0 >> 16) as u16))?;
        let place = (id.0 & 0xffff) as usize;
        Some(source.rule(place, &source.statement(place)?))
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = RuleSource> + '_ {
        self.of.values().flat_map(|source| {
            let numbered = source.statements().enumerate();
            numbered.map(|(index, statement)| source.rule(index + 1, &statement))
        })
    }

    /// How many network settings an application has.
    pub(crate) fn networks(&self, app: AppId) -> usize {
        self.of.get(&app).map_or(0, |source| source.unit.block.networks.len())
    }

    pub(crate) fn insert(&mut self, source: Source) {
        self.of.insert(source.app, source);
    }

    /// Keep those of an application of an earlier load.
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

    /// What the application's block compiled to, if it is this one.
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
