//! The parts of the full form: uplinks, tunnels, classes, hooks, schedulers, queues, units, kernel queues.

use toml::de::DeTable;

use super::super::description::{
    Child, Class, Directions, Hook, HookPoint, KernelQueue, Mark, Name, Queue, Scheduler, Spanned, Tunnel,
    Unit, UnitKind, Uplink,
};
use super::super::fault::Code;
use super::super::kinds::{Component, Kind, Part};
use super::values::{RATE, TIME};
use super::{Node, Reader};
use crate::unit::MOST_AWAY;

/// Keys of a class in either form.
pub(super) const CLASS: &[&str] =
    &["match", "direction", "delay", "precedence", "unpoliced", "socket_priority"];
const HOOK: &[&str] = &["at", "unit", "direction", "chain", "from"];
const CHILD: &[&str] = &["to", "weight", "share", "deadline"];
const QUEUE: &[&str] = &["classes", "tunnel", "limit", "shape", "enqueue", "store", "dequeue"];
const UNIT: &[&str] =
    &["kind", "step", "lanes", "depth", "suites", "reserved", "low", "high", "most_committed"];
const KERNEL: &[&str] = &["classes", "queues", "direction", "limit"];
/// The most work that is committed to a unit, where nothing is said.
const MOST_COMMITTED: u64 = 200_000;
/// The longest step of a sliced unit, where nothing is said.
const STEP: u64 = 10_000;
/// The jobs that an asynchronous unit can take at once: the least and the most.
const DEPTH: (u64, u64) = (1, MOST_AWAY as u64);

impl Reader {
    pub(super) fn uplink(&mut self, name: Name, table: &DeTable<'_>) -> Option<Uplink> {
        self.keys(table, &["rate", "overhead"], "of an uplink");
        let owner = format!("the uplink `{}`", name.value);
        let rate = self.required(table, "rate", &owner, &name.span, "\"100Mbit\"")?;
        let rate = self.measure(rate, "rate", RATE)?;
        let overhead = match table.get("overhead") {
            Some(value) => self.count(value, "overhead", (0, 1024))?,
            None => Spanned::at(0, name.span.clone()),
        };
        Some(Uplink { name, rate, overhead })
    }

    pub(super) fn tunnel(&mut self, name: Name, table: &DeTable<'_>) -> Option<Tunnel> {
        self.keys(table, &["match"], "of a tunnel in the full form");
        let owner = format!("the tunnel `{}`", name.value);
        let rules = self.required(table, "match", &owner, &name.span, "[{ peer = [\"192.0.2.7\"] }]")?;
        let rules = self.rules(rules)?;
        Some(Tunnel { name, rules })
    }

    pub(super) fn class(&mut self, name: Name, table: &DeTable<'_>) -> Option<Class> {
        self.keys(table, CLASS, "of a class in the full form");
        self.class_of(name, table)
    }

    /// The keys of a class that both forms have.
    pub(super) fn class_of(&mut self, name: Name, table: &DeTable<'_>) -> Option<Class> {
        let owner = format!("the class `{}`", name.value);
        let example = "[{ dscp = [\"EF\"] }], or \"named\" (by policy, rules, associations), or \"rest\"";
        let matches = self.required(table, "match", &owner, &name.span, example)?;
        let matches = self.matches(matches)?;
        let delay = table.get("delay").and_then(|value| self.measure(value, "delay", TIME));
        let unpoliced = table.get("unpoliced").and_then(|value| self.flag(value, "unpoliced"));
        let precedence = table.get("precedence").and_then(|value| self.precedence(value));
        let direction = self.direction(table);
        let unpoliced = unpoliced.unwrap_or_default();
        let socket_priority =
            table.get("socket_priority").and_then(|value| self.socket_priority(value, "socket_priority"));
        Some(Class { name, matches, direction, delay, precedence, unpoliced, socket_priority })
    }

    fn precedence(&mut self, value: &Node<'_>) -> Option<Spanned<[u8; 3]>> {
        let span = self.of(value);
        let dscps = self.dscps(value, "precedence")?;
        match <[u8; 3]>::try_from(dscps) {
            Ok(three) => Some(Spanned::at(three, span)),
            Err(dscps) => {
                let message = format!("`precedence` has {} DSCPs, and there are three colours", dscps.len());
                let remedy = "write: precedence = [\"AF41\", \"AF42\", \"AF43\"]";
                self.fault(span, Code::OutOfRange, message, remedy);
                None
            }
        }
    }

    pub(super) fn hooks(&mut self, value: Option<&Node<'_>>) -> Vec<Hook> {
        let Some(value) = value else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            self.wrong_type(value, "hook", "a list", "write [[hook]] with two brackets, once for each hook");
            return Vec::new();
        };
        array.iter().filter_map(|item| self.hook(item)).collect()
    }

    fn hook(&mut self, value: &Node<'_>) -> Option<Hook> {
        let table = self.maybe_table(Some(value), "hook")?;
        let span = Spanned::at((), self.of(value));
        self.keys(table, HOOK, "of a hook");
        let at = self.required(table, "at", "the hook", &span.span, "\"1a\"")?;
        let at = self.word(at, "at", HookPoint::WORDS)?;
        let unit = table.get("unit").and_then(|value| self.text(value, "unit"));
        let direction = self.direction(table);
        let from = table.get("from").and_then(|value| self.text(value, "from"));
        let chain = match table.get("chain").map(|value| self.array(value, "chain")) {
            Some(array) => {
                array?.iter().filter_map(|item| self.component(item, "chain", &[Part::Behaviour])).collect()
            }
            None => Vec::new(),
        };
        Some(Hook { at, unit, direction, chain, from, span })
    }

    pub(super) fn scheduler(&mut self, name: Name, table: &DeTable<'_>) -> Option<Scheduler> {
        let owner = format!("the scheduler `{}`", name.value);
        let kind = self.required(table, "kind", &owner, &name.span, "\"wfq\"")?;
        let kind = self.kind(kind, &[Part::Discipline])?;
        let component = Component { kind, settings: Vec::new(), span: Spanned::at((), name.span.clone()) };
        let discipline = self.with_settings(table, component, &["kind", "children", "shape"])?;
        let children = self.required(table, "children", &owner, &name.span, "[{ to = \"ef\" }]")?;
        let children = self.array(children, "children")?;
        let children = children.iter().filter_map(|item| self.child(item)).collect();
        let shape = table.get("shape").and_then(|value| self.shaper(value));
        Some(Scheduler { name, discipline, shape, children })
    }

    /// A shaper: its settings without the kind.
    pub(super) fn shaper(&mut self, value: &Node<'_>) -> Option<Component> {
        let table = self.maybe_table(Some(value), "shape")?;
        let span = self.of(value);
        let kind = Spanned::at(Kind::Shape, span.clone());
        let component = Component { kind, settings: Vec::new(), span: Spanned::at((), span) };
        self.with_settings(table, component, &[])
    }

    /// A child: its name alone, or a table with its properties.
    fn child(&mut self, value: &Node<'_>) -> Option<Child> {
        if value.get_ref().as_str().is_some() {
            let to = self.text(value, "children")?;
            return Some(Child { to, weight: None, share: None, deadline: None });
        }
        let table = self.maybe_table(Some(value), "children")?;
        self.keys(table, CHILD, "of a child");
        let to =
            self.required(table, "to", "the child", &self.of(value), "\"NAME\", a queue or scheduler")?;
        let to = self.text(to, "to")?;
        let weight = table.get("weight").and_then(|value| self.count(value, "weight", (1, 1_000_000)));
        let share = table.get("share").and_then(|value| self.share(value, "share"));
        let deadline = table.get("deadline").and_then(|value| self.measure(value, "deadline", TIME));
        Some(Child { to, weight, share, deadline })
    }

    pub(super) fn queue(&mut self, name: Name, table: &DeTable<'_>) -> Option<Queue> {
        self.keys(table, QUEUE, "of a queue");
        let owner = format!("the queue `{}`", name.value);
        let classes = self.required(table, "classes", &owner, &name.span, "[\"ef\"]")?;
        let classes = self.names(classes, "classes");
        let tunnel = table.get("tunnel").and_then(|value| self.text(value, "tunnel"));
        let limit = self.limits(table.get("limit"), "limit");
        let enqueue = self.part(table, "enqueue", Kind::Tail, &name)?;
        let store = self.part(table, "store", Kind::Fifo, &name)?;
        let dequeue = self.part(table, "dequeue", Kind::Give, &name)?;
        let shape = table.get("shape").and_then(|value| self.shaper(value));
        Some(Queue { name, classes, tunnel, limit, shape, enqueue, store, dequeue })
    }

    /// A part of a queue, or the usual one.
    fn part(&mut self, table: &DeTable<'_>, key: &str, usual: Kind, owner: &Name) -> Option<Component> {
        match table.get(key) {
            Some(value) => self.component(value, key, &[usual.part()]),
            None => {
                let kind = Spanned::at(usual, owner.span.clone());
                Some(Component { kind, settings: Vec::new(), span: Spanned::at((), owner.span.clone()) })
            }
        }
    }

    pub(super) fn unit(&mut self, name: Name, table: &DeTable<'_>) -> Option<Unit> {
        self.keys(table, UNIT, "of a unit");
        let kind = self.unit_kind(&name, table)?;
        let suites = match table.get("suites") {
            Some(value) if value.get_ref().as_str() == Some("all") => None,
            Some(value) => Some(self.names(value, "suites")),
            None => None,
        };
        let reserved = table.get("reserved").map_or_else(Vec::new, |value| self.names(value, "reserved"));
        let low = self.mark(table, "low");
        let high = self.mark(table, "high");
        let most = match table.get("most_committed") {
            Some(value) => self.measure(value, "most_committed", TIME)?,
            None => Spanned::at(MOST_COMMITTED, name.span.clone()),
        };
        Some(Unit { name, kind, suites, reserved, low, high, most_committed: most })
    }

    fn unit_kind(&mut self, name: &Name, table: &DeTable<'_>) -> Option<Spanned<UnitKind>> {
        let owner = format!("the unit `{}`", name.value);
        let value = self.required(table, "kind", &owner, &name.span, "\"inline\"")?;
        let words = [
            ("inline", UnitKind::Inline),
            ("sliced", UnitKind::Sliced(STEP)),
            ("batch", UnitKind::Batch(8)),
            ("worker", UnitKind::Worker),
            ("async", UnitKind::Async(32)),
        ];
        let mut kind = self.word(value, "kind", &words)?;
        for (key, of) in [("step", "sliced"), ("lanes", "batch"), ("depth", "async")] {
            let Some(value) = table.get(key) else { continue };
            kind.value = match (key, kind.value) {
                ("step", UnitKind::Sliced(_)) => UnitKind::Sliced(self.measure(value, key, TIME)?.value),
                ("lanes", UnitKind::Batch(_)) => UnitKind::Batch(self.count(value, key, (2, 64))?.value),
                ("depth", UnitKind::Async(_)) => UnitKind::Async(self.count(value, key, DEPTH)?.value),
                (_, other) => {
                    let message = format!("`{key}` is of {of} units, and `{}` is another", name.value);
                    let remedy = format!("remove it, or write: kind = \"{of}\"");
                    self.fault(self.of(value), Code::UnknownSetting, message, remedy);
                    other
                }
            };
        }
        Some(kind)
    }

    fn mark(&mut self, table: &DeTable<'_>, key: &str) -> Spanned<Mark> {
        let Some(value) = table.get(key) else { return Spanned::default() };
        let span = self.of(value);
        if value.get_ref().as_str() == Some("auto") {
            return Spanned::at(Mark::Auto, span);
        }
        let fixed = self.measure(value, key, TIME).map(|time| Mark::Fixed(time.value));
        Spanned::at(fixed.unwrap_or_default(), span)
    }

    pub(super) fn kernel(&mut self, name: Name, table: &DeTable<'_>) -> Option<KernelQueue> {
        self.keys(table, KERNEL, "of a kernel queue");
        let owner = format!("the kernel queue `{}`", name.value);
        let classes = self.required(table, "classes", &owner, &name.span, "[\"ef\"]")?;
        let classes = self.names(classes, "classes");
        let queues = match table.get("queues") {
            Some(value) => self.count(value, "queues", (1, 1024))?,
            None => Spanned::at(1, name.span.clone()),
        };
        let direction: Spanned<Directions> = self.direction(table);
        let limit = self.limits(table.get("limit"), "limit");
        Some(KernelQueue { name, classes, queues, direction, limit })
    }
}
