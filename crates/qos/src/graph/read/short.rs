//! The short form: classes with what they may have, over a preset or alone.

use toml::de::DeTable;

use super::super::description::{Name, Spanned, Tunnel};
use super::super::expand::{Draft, Sketch, TunnelDraft};
use super::super::fault::{Code, Fault};
use super::super::kinds::{Component, Kind, Part, USERS, Value};
use super::parts::CLASS;
use super::values::{RATE, integer};
use super::{Node, Reader};

const DRAFT: &[&str] =
    &["priority", "weight", "limit", "rate", "police", "meter", "mark", "aqm", "fair", "profiles"];

impl Reader {
    /// The short form of a text, over the preset that it names.
    pub(super) fn sketch(&mut self, root: &DeTable<'_>) -> Option<Sketch> {
        let mut sketch = match root.get("preset") {
            Some(value) => self.preset(value)?,
            None => Sketch::default(),
        };
        if let Some(value) = root.get("dispatch") {
            sketch.dispatch = self.dispatch(value);
        }
        if let Some(value) = root.get("discipline") {
            sketch.discipline = self
                .component(value, "discipline", &[Part::Discipline])
                .and_then(|component| self.only(component, "discipline", &[Part::Discipline]));
        }
        if let Some(value) = root.get("guard") {
            sketch.guard = self.share(value, "guard");
        }
        if let Some(value) = root.get("stages") {
            sketch.stages = self.stages(value);
        }
        replace(&mut sketch.uplinks, self.each(root, "uplink", |r, name, table| r.uplink(name, table)));
        let tunnels = self.each(root, "tunnel", |r, name, table| r.tunnel_draft(name, table));
        replace(&mut sketch.tunnels, tunnels);
        let drafts = self.each(root, "class", |r, name, table| r.draft(name, table));
        self.lost_priority(root, &sketch.classes, &drafts);
        replace_by_name(&mut sketch.classes, drafts);
        replace(&mut sketch.units, self.each(root, "unit", |r, name, table| r.unit(name, table)));
        replace(&mut sketch.kernel, self.each(root, "kernel", |r, name, table| r.kernel(name, table)));
        if sketch.classes.is_empty() {
            // Classes that could not be read are told of already.
            if self.faults.is_empty() {
                let remedy = "write preset = \"two-classes\", or [class.NAME] with `match`";
                self.fault(0..0, Code::MissingKey, "the graph has no classes", remedy);
            }
            return None;
        }
        Some(sketch)
    }

    /// Note each class that takes the place of a preset's with priority and says nothing of `priority`.
    fn lost_priority(&mut self, root: &DeTable<'_>, preset: &[Draft], own: &[Draft]) {
        let classes = root.get("class").and_then(|node| node.get_ref().as_table());
        let says = |name: &str| {
            let class = classes.and_then(|table| table.get(name)).and_then(|node| node.get_ref().as_table());
            class.is_some_and(|class| class.contains_key("priority"))
        };
        for draft in own {
            let name = &draft.class.name;
            let Some(before) = preset.iter().find(|was| was.class.name == *name && was.priority) else {
                continue;
            };
            if says(&name.value) {
                continue;
            }
            let (had, has) = (before.settings(), draft.settings());
            let lost: Vec<String> =
                had.iter().filter(|key| !has.contains(key)).map(|key| format!("`{key}`")).collect();
            let too = if lost.is_empty() {
                String::new()
            } else {
                format!(", and what else is to stay of the preset's: {}", lost.join(", "))
            };
            let class = &name.value;
            let warning = Fault {
                span: name.span.clone(),
                code: Code::LostPriority,
                message: format!(
                    "the class `{class}` has no priority: it replaces the whole class of the preset, which goes before others"
                ),
                remedy: format!(
                    "write priority = true in [class.{class}]{too}; or priority = false, if it is to wait by weight"
                ),
            };
            self.warnings.push(warning);
        }
    }

    /// The queues of paper 002 at which classes wait apart: 1, 3 and 5.
    fn stages(&mut self, value: &Node<'_>) -> Vec<u8> {
        let Some(array) = self.array(value, "stages") else { return Vec::new() };
        let mut stages = Vec::new();
        for item in array.iter() {
            match integer(item).and_then(|n| u8::try_from(n).ok()) {
                Some(stage @ (1 | 3 | 5)) if !stages.contains(&stage) => stages.push(stage),
                _ => self.fault(
                    self.of(item),
                    Code::OutOfRange,
                    "`stages` may hold 1, 3 and 5, each once",
                    "write: stages = [5], the dispatcher's queues alone, or more of them",
                ),
            }
        }
        stages.sort_unstable();
        stages
    }

    fn tunnel_draft(&mut self, name: Name, table: &DeTable<'_>) -> Option<TunnelDraft> {
        self.keys(table, &["match", "rate", "weight"], "of a tunnel");
        let owner = format!("the tunnel `{}`", name.value);
        let rules = self.required(table, "match", &owner, &name.span, "[{ peer = [\"192.0.2.7\"] }]")?;
        let rules = self.rules(rules)?;
        let rate = table.get("rate").and_then(|value| self.measure(value, "rate", RATE));
        let weight = table.get("weight").and_then(|value| self.count(value, "weight", (1, 1_000_000)));
        Some(TunnelDraft { tunnel: Tunnel { name, rules }, rate, weight })
    }

    fn draft(&mut self, name: Name, table: &DeTable<'_>) -> Option<Draft> {
        let known: Vec<&str> = CLASS.iter().chain(DRAFT).copied().collect();
        self.keys(table, &known, "of a class");
        let class = self.class_of(name.clone(), table)?;
        let priority = table.get("priority").and_then(|value| self.flag(value, "priority"));
        let fair: Vec<(&str, &'static str)> =
            std::iter::once(&"flow").chain(USERS).map(|word| (*word, *word)).collect();
        let profiles = table.get("profiles").and_then(|value| {
            let array = self.array(value, "profiles")?;
            let profiles = array.iter().filter_map(|item| self.profile(item)).collect();
            Some(Spanned::at(Value::Profiles(profiles), self.of(value)))
        });
        let fair = table.get("fair").and_then(|value| self.word(value, "fair", &fair));
        if let Some(Spanned { span, .. }) = &profiles
            && fair.as_ref().is_none_or(|by| by.value == "flow")
        {
            let message =
                format!("the class `{}` has profiles of users, and nothing tells users apart", name.value);
            self.fault(
                span.clone(),
                Code::MissingKey,
                message,
                "add: fair = \"application\", or what users are",
            );
        }
        Some(Draft {
            priority: priority.is_some_and(|flag| flag.value),
            weight: table.get("weight").and_then(|value| self.count(value, "weight", (1, 1_000_000))),
            limit: self.limits(table.get("limit"), "limit"),
            rate: table.get("rate").and_then(|value| self.measure(value, "rate", RATE)),
            police: table
                .get("police")
                .and_then(|value| self.of_class(value, "police", Some(Kind::Police), &name)),
            meter: table.get("meter").and_then(|value| self.of_class(value, "meter", None, &name)),
            mark: table
                .get("mark")
                .and_then(|value| Some(Spanned::at(Value::Dscp(self.dscps(value, "mark")?), self.of(value)))),
            aqm: table
                .get("aqm")
                .and_then(|value| self.component(value, "aqm", &[Part::Enqueue, Part::Dequeue]))
                .and_then(|component| self.only(component, "aqm", &[Part::Enqueue, Part::Dequeue])),
            fair,
            profiles,
            class,
        })
    }

    /// A behaviour of the class, whose name need not be written again.
    fn of_class(
        &mut self,
        value: &Node<'_>,
        what: &str,
        kind: Option<Kind>,
        class: &Name,
    ) -> Option<Component> {
        let table = self.maybe_table(Some(value), what)?;
        let span = self.of(value);
        let kind = match kind {
            Some(kind) => Spanned::at(kind, span.clone()),
            None => {
                let word = self.required(table, "kind", &format!("the {what}"), &span, "\"trtcm\"")?;
                let meters = [("srtcm", Kind::Srtcm), ("trtcm", Kind::Trtcm), ("rfc4115", Kind::Rfc4115)];
                self.word(word, "kind", &meters)?
            }
        };
        let mut component = Component { kind, settings: Vec::new(), span: Spanned::at((), span) };
        component.put("class", Spanned::at(Value::Word(class.value.clone()), class.span.clone()));
        self.with_settings(table, component, &["kind"])
    }

    /// The component, if it can stand in one of these parts.
    fn only(&mut self, component: Component, what: &str, parts: &[Part]) -> Option<Component> {
        let kind = component.kind.value;
        if parts.contains(&kind.part()) {
            return Some(component);
        }
        let names: Vec<&str> = Kind::WORDS
            .iter()
            .filter(|(_, kind)| parts.contains(&kind.part()))
            .map(|(word, _)| *word)
            .collect();
        let message = format!("`{}` is {}, and cannot be `{what}`", kind.name(), kind.part().text());
        self.fault(
            component.kind.span,
            Code::WrongPlace,
            message,
            format!("write one of: {}", names.join(", ")),
        );
        None
    }
}

/// Take the parts of the text in place of the preset's, if it has any.
fn replace<T>(old: &mut Vec<T>, new: Vec<T>) {
    if !new.is_empty() {
        *old = new;
    }
}

/// Put classes in place of those with the same name; the rules of further ones are asked first.
fn replace_by_name(old: &mut Vec<Draft>, new: Vec<Draft>) {
    let mut first = 0;
    for draft in new {
        match old.iter_mut().find(|was| was.class.name == draft.class.name) {
            Some(was) => *was = draft,
            None => {
                old.insert(first.min(old.len()), draft);
                first += 1;
            }
        }
    }
}
