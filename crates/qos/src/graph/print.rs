//! From a [`Description`] to TOML in the full form, which reads back as the same description.

use std::fmt::Write;

use super::description::{
    Child, Class, Description, Directions, Dispatch, Hook, HookPoint, KernelQueue, Limits, Mark, Name, Queue,
    Scheduler, Spanned, Unit, UnitKind,
};
use super::kinds::{Component, Profile, Setting, UserLimit, Value};
use super::priorities::show_priority;
use super::quantity::{show_octets, show_rate, show_share, show_time};
use super::rules::{DSCP, Field, FieldValue, HEADERS, Matches, PROTOCOLS, Rule, word};

/// The description as TOML in the full form.
pub fn print(description: &Description) -> String {
    let mut out = Printer { text: String::new() };
    if description.dispatch.value != Dispatch::Pull {
        out.line("dispatch", &quote(word(Dispatch::WORDS, &description.dispatch.value).unwrap_or_default()));
    }
    for uplink in &description.uplinks {
        out.head("uplink", &uplink.name);
        out.line("rate", &quote(&show_rate(uplink.rate.value)));
        out.line("overhead", &uplink.overhead.value.to_string());
    }
    for tunnel in &description.tunnels {
        out.head("tunnel", &tunnel.name);
        out.line("match", &rules(&tunnel.rules));
    }
    description.classes.iter().for_each(|class| out.class(class));
    description.hooks.iter().for_each(|hook| out.hook(hook));
    description.schedulers.iter().for_each(|scheduler| out.scheduler(scheduler));
    description.queues.iter().for_each(|queue| out.queue(queue));
    description.units.iter().for_each(|unit| out.unit(unit));
    description.kernel.iter().for_each(|kernel| out.kernel(kernel));
    out.text
}

struct Printer {
    text: String,
}

impl Printer {
    fn blank(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    fn head(&mut self, kind: &str, name: &Name) {
        self.blank();
        let _ = writeln!(self.text, "[{kind}.{}]", name.value);
    }

    fn line(&mut self, key: &str, value: &str) {
        let _ = writeln!(self.text, "{key} = {value}");
    }

    fn direction(&mut self, direction: &Spanned<Directions>) {
        if direction.value != Directions::Both {
            self.line("direction", &quote(word(Directions::WORDS, &direction.value).unwrap_or_default()));
        }
    }

    fn limit(&mut self, limit: &Limits) {
        if !limit.is_none() {
            self.line("limit", &limits(limit));
        }
    }

    fn class(&mut self, class: &Class) {
        self.head("class", &class.name);
        let matches = match &class.matches.value {
            Matches::Rest => quote("rest"),
            Matches::Named => quote("named"),
            Matches::Rules(list) => rules(list),
        };
        self.line("match", &matches);
        self.direction(&class.direction);
        if let Some(delay) = &class.delay {
            self.line("delay", &quote(&show_time(delay.value)));
        }
        if let Some(precedence) = &class.precedence {
            self.line("precedence", &dscps(&precedence.value));
        }
        if class.unpoliced.value {
            self.line("unpoliced", "true");
        }
        if let Some(priority) = &class.socket_priority {
            self.line("socket_priority", &show_priority(priority.value));
        }
    }

    fn hook(&mut self, hook: &Hook) {
        self.blank();
        self.text.push_str("[[hook]]\n");
        self.line("at", &quote(word(HookPoint::WORDS, &hook.at.value).unwrap_or_default()));
        if let Some(unit) = &hook.unit {
            self.line("unit", &quote(&unit.value));
        }
        self.direction(&hook.direction);
        if let Some(from) = &hook.from {
            self.line("from", &quote(&from.value));
        }
        if !hook.chain.is_empty() {
            self.text.push_str("chain = [\n");
            for part in &hook.chain {
                let _ = writeln!(self.text, "    {},", component(part));
            }
            self.text.push_str("]\n");
        }
    }

    fn scheduler(&mut self, scheduler: &Scheduler) {
        self.head("scheduler", &scheduler.name);
        self.line("kind", &quote(scheduler.discipline.kind.value.name()));
        for Setting { name, value } in &scheduler.discipline.settings {
            self.line(name, &show(&value.value));
        }
        self.shape(scheduler.shape.as_ref());
        let children: Vec<String> = scheduler.children.iter().map(child).collect();
        self.line("children", &format!("[{}]", children.join(", ")));
    }

    fn shape(&mut self, shape: Option<&Component>) {
        if let Some(shape) = shape {
            let settings: Vec<String> =
                shape.settings.iter().map(|s| format!("{} = {}", s.name, show(&s.value.value))).collect();
            self.line("shape", &braces(&settings));
        }
    }

    fn queue(&mut self, queue: &Queue) {
        self.head("queue", &queue.name);
        self.line("classes", &names(&queue.classes));
        if let Some(tunnel) = &queue.tunnel {
            self.line("tunnel", &quote(&tunnel.value));
        }
        self.limit(&queue.limit);
        self.shape(queue.shape.as_ref());
        self.line("enqueue", &component(&queue.enqueue));
        self.line("store", &component(&queue.store));
        self.line("dequeue", &component(&queue.dequeue));
    }

    fn unit(&mut self, unit: &Unit) {
        self.head("unit", &unit.name);
        let (kind, setting) = match unit.kind.value {
            UnitKind::Inline => ("inline", None),
            UnitKind::Sliced(step) => ("sliced", Some(("step", quote(&show_time(step))))),
            UnitKind::Batch(lanes) => ("batch", Some(("lanes", lanes.to_string()))),
            UnitKind::Worker => ("worker", None),
            UnitKind::Async(depth) => ("async", Some(("depth", depth.to_string()))),
        };
        self.line("kind", &quote(kind));
        if let Some((key, value)) = setting {
            self.line(key, &value);
        }
        self.line("suites", &unit.suites.as_ref().map_or_else(|| quote("all"), |suites| names(suites)));
        if !unit.reserved.is_empty() {
            self.line("reserved", &names(&unit.reserved));
        }
        self.line("low", &quote(&mark(unit.low.value)));
        self.line("high", &quote(&mark(unit.high.value)));
        self.line("most_committed", &quote(&show_time(unit.most_committed.value)));
    }

    fn kernel(&mut self, kernel: &KernelQueue) {
        self.head("kernel", &kernel.name);
        self.line("classes", &names(&kernel.classes));
        self.line("queues", &kernel.queues.value.to_string());
        self.direction(&kernel.direction);
        self.limit(&kernel.limit);
    }
}

/// A text as a basic string of TOML.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn braces(parts: &[String]) -> String {
    if parts.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", parts.join(", ")) }
}

fn list(parts: impl Iterator<Item = String>) -> String {
    format!("[{}]", parts.collect::<Vec<_>>().join(", "))
}

fn names(names: &[Name]) -> String {
    list(names.iter().map(|name| quote(&name.value)))
}

fn dscp(value: u8) -> String {
    word(DSCP, &value).map_or_else(|| value.to_string(), quote)
}

fn dscps(values: &[u8]) -> String {
    list(values.iter().map(|value| dscp(*value)))
}

fn mark(mark: Mark) -> String {
    match mark {
        Mark::Auto => "auto".to_owned(),
        Mark::Fixed(ns) => show_time(ns),
    }
}

fn limits(limit: &Limits) -> String {
    let packets = limit.packets.as_ref().map(|n| format!("packets = {}", n.value));
    let octets = limit.octets.as_ref().map(|n| format!("octets = {}", quote(&show_octets(n.value))));
    let time = limit.time.as_ref().map(|n| format!("time = {}", quote(&show_time(n.value))));
    braces(&[packets, octets, time].into_iter().flatten().collect::<Vec<_>>())
}

fn child(child: &Child) -> String {
    let mut parts = vec![format!("to = {}", quote(&child.to.value))];
    parts.extend(child.weight.as_ref().map(|n| format!("weight = {}", n.value)));
    parts.extend(child.share.as_ref().map(|n| format!("share = {}", quote(&show_share(n.value)))));
    parts.extend(child.deadline.as_ref().map(|n| format!("deadline = {}", quote(&show_time(n.value)))));
    braces(&parts)
}

/// A component in one line.
pub fn component(component: &Component) -> String {
    let mut parts = vec![format!("kind = {}", quote(component.kind.value.name()))];
    parts.extend(component.settings.iter().map(|s| format!("{} = {}", s.name, show(&s.value.value))));
    braces(&parts)
}

fn profile(profile: &Profile) -> String {
    let mut parts = vec![format!("name = {}", quote(&profile.name.value))];
    if !profile.users.is_empty() {
        parts.push(format!("users = {}", names(&profile.users)));
    }
    parts.push(format!("weight = {}", profile.weight.value));
    if let Some(UserLimit { rate, burst, excess }) = &profile.limit {
        let mut limit =
            vec![format!("rate = {}", show(&rate.value)), format!("burst = {}", show(&burst.value))];
        limit.extend(excess.as_ref().map(|class| format!("excess = {}", quote(&class.value))));
        parts.push(format!("limit = {}", braces(&limit)));
    }
    parts.extend(profile.class.as_ref().map(|class| format!("class = {}", quote(&class.value))));
    braces(&parts)
}

fn show(value: &Value) -> String {
    match value {
        Value::Flag(flag) => flag.to_string(),
        Value::Count(n) => n.to_string(),
        Value::Time(n) => quote(&show_time(*n)),
        Value::Octets(n) => quote(&show_octets(*n)),
        Value::Rate(n) => quote(&show_rate(*n)),
        Value::Share(n) => quote(&show_share(*n)),
        Value::Word(word) => quote(word),
        Value::Dscp(values) => dscps(values),
        Value::Mark(value) => format!("{{ mark = {} }}", dscp(*value)),
        Value::Curve(curve) => {
            let most = quote(&show_share(curve.most));
            format!("{{ low = {}, high = {}, most = {most} }}", show(&curve.low), show(&curve.high))
        }
        Value::Profiles(profiles) => list(profiles.iter().map(profile)),
        Value::Names(list) => names(list),
    }
}

fn rules(rules: &[Rule]) -> String {
    list(rules.iter().map(|rule| {
        let fields = rule.fields.iter().map(|field| {
            let name = word(Field::WORDS, &field.field.value).unwrap_or_default();
            format!(
                "{name} = {}",
                list(field.values.iter().map(|v| field_value(field.field.value, &v.value)))
            )
        });
        braces(&fields.collect::<Vec<_>>())
    }))
}

/// A value of a field of rules, as the language has it.
pub fn field_value(field: Field, value: &FieldValue) -> String {
    match value {
        FieldValue::Dscp(value) => dscp(*value),
        FieldValue::Header(header) => quote(word(HEADERS, header).unwrap_or_default()),
        FieldValue::Number(n) if field == Field::Protocol => {
            word(PROTOCOLS, n).map_or_else(|| n.to_string(), quote)
        }
        FieldValue::Number(n) => n.to_string(),
        FieldValue::Text(text) => quote(text),
        FieldValue::Range(first, last) if first == last => first.to_string(),
        FieldValue::Range(first, last) => quote(&format!("{first}-{last}")),
        FieldValue::Prefix(addr, bits) => quote(&format!("{addr}/{bits}")),
        FieldValue::Mark(value, mask) => quote(&format!("{value:#x}/{mask:#x}")),
    }
}
