//! From the short form to the full one: classes become classifiers, policers, queues and schedulers at the hooks.

use super::description::{
    Child, Class, Description, Directions, Dispatch, Hook, HookPoint, KernelQueue, Limits, Mark, Name, Queue,
    Scheduler, Span, Spanned, Tunnel, Unit, UnitKind, Uplink,
};
use super::kinds::{Component, Kind, Part, Value};

/// The short form of a graph.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    /// Whether units pull work, or work is pushed at them.
    pub dispatch: Spanned<Dispatch>,
    /// The discipline among classes without priority; absent: weighted fair queueing.
    pub discipline: Option<Component>,
    /// The most that classes with priority may take, in parts per million.
    pub guard: Option<Spanned<u64>>,
    /// The queues of paper 002 at which classes wait apart; empty: the dispatcher's alone.
    pub stages: Vec<u8>,
    /// The uplinks, of which the first one shapes what leaves.
    pub uplinks: Vec<Uplink>,
    /// The tunnels, each with queues of its own.
    pub tunnels: Vec<TunnelDraft>,
    /// The classes in their order.
    pub classes: Vec<Draft>,
    /// The units; empty: one that works inline.
    pub units: Vec<Unit>,
    /// The queues in the kernel.
    pub kernel: Vec<KernelQueue>,
}

/// A tunnel of the short form.
#[derive(Clone, Debug)]
pub struct TunnelDraft {
    /// The tunnel in full form.
    pub tunnel: Tunnel,
    /// The rate that it is shaped to, in bits a second.
    pub rate: Option<Spanned<u64>>,
    /// The weight among tunnels.
    pub weight: Option<Spanned<u64>>,
}

/// A class of the short form.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The class in full form.
    pub class: Class,
    /// Whether it goes before every class without priority.
    pub priority: bool,
    /// The weight among classes without priority.
    pub weight: Option<Spanned<u64>>,
    /// The most that may wait.
    pub limit: Limits,
    /// The rate that it is shaped to, in bits a second.
    pub rate: Option<Spanned<u64>>,
    /// A policer of the class.
    pub police: Option<Component>,
    /// A meter that colours packets.
    pub meter: Option<Component>,
    /// The DSCP that packets are marked with, or one for each colour.
    pub mark: Option<Spanned<Value>>,
    /// The active queue management of the queue.
    pub aqm: Option<Component>,
    /// The ones that share the class fairly: flows, or users of this kind.
    pub fair: Option<Spanned<&'static str>>,
    /// The profiles of its users.
    pub profiles: Option<Spanned<Value>>,
}

impl Draft {
    /// The keys of the short form that the class has, but for `priority`.
    pub fn settings(&self) -> Vec<&'static str> {
        let keys = [
            ("weight", self.weight.is_some()),
            ("limit", !self.limit.is_none()),
            ("rate", self.rate.is_some()),
            ("police", self.police.is_some()),
            ("meter", self.meter.is_some()),
            ("mark", self.mark.is_some()),
            ("aqm", self.aqm.is_some()),
            ("fair", self.fair.is_some()),
            ("profiles", self.profiles.is_some()),
        ];
        keys.into_iter().filter(|(_, is_there)| *is_there).map(|(key, _)| key).collect()
    }
}

/// The limit of a queue that has none in the short form: 20 ms of work, and 1,000 packets.
const USUAL: (u64, u64) = (20_000_000, 1_000);

/// The full form of a sketch.
pub fn expand(sketch: Sketch) -> Description {
    let stages = if sketch.stages.is_empty() { vec![5] } else { sketch.stages.clone() };
    let mut description = Description { dispatch: sketch.dispatch.clone(), ..Description::default() };
    let mut chain = vec![Component::bare(Kind::Classify).with("by", Value::Word("rules".to_owned()))];
    let mut behind_look_up = Vec::new();
    for draft in &sketch.classes {
        chain.extend(behaviours(draft));
        match users(draft) {
            Some(users) if needs_look_up(&users) => behind_look_up.push(users),
            users => chain.extend(users),
        }
    }
    description.hooks.push(hook(HookPoint::In1a, chain, None));
    if !behind_look_up.is_empty() && !stages.contains(&3) {
        description.hooks.push(hook(HookPoint::In3a, std::mem::take(&mut behind_look_up), None));
    }
    for stage in stages {
        let (before, behind) = points(stage);
        if stage != 1 {
            let classify = Component::bare(Kind::Classify).with("by", Value::Word("class".to_owned()));
            let mut chain = vec![classify];
            if before == HookPoint::In3a {
                chain.append(&mut behind_look_up);
            }
            description.hooks.push(hook(before, chain, None));
        }
        let root = Stage { sketch: &sketch, stage }.tree(&mut description);
        description.hooks.push(hook(behind, Vec::new(), Some(root)));
    }
    description.units = if sketch.units.is_empty() { vec![inline()] } else { sketch.units };
    description.tunnels = sketch.tunnels.into_iter().map(|draft| draft.tunnel).collect();
    description.classes = sketch.classes.into_iter().map(|draft| draft.class).collect();
    description.uplinks = sketch.uplinks;
    description.kernel = sketch.kernel;
    description
}

/// The unit of a graph that names none.
pub fn inline() -> Unit {
    Unit {
        name: Spanned::bare("inline".to_owned()),
        kind: Spanned::bare(UnitKind::Inline),
        suites: None,
        reserved: Vec::new(),
        low: Spanned::bare(Mark::Auto),
        high: Spanned::bare(Mark::Auto),
        most_committed: Spanned::bare(200_000),
    }
}

fn points(stage: u8) -> (HookPoint, HookPoint) {
    match stage {
        1 => (HookPoint::In1a, HookPoint::Out1b),
        3 => (HookPoint::In3a, HookPoint::Out3b),
        _ => (HookPoint::In5a, HookPoint::Out5b),
    }
}

fn hook(at: HookPoint, chain: Vec<Component>, from: Option<Name>) -> Hook {
    let direction = Spanned::bare(Directions::Both);
    Hook { at: Spanned::bare(at), unit: None, direction, chain, from, span: Spanned::bare(()) }
}

/// The behaviours that a class asks for at hook 1a.
fn behaviours(draft: &Draft) -> Vec<Component> {
    let mut chain: Vec<Component> = draft.meter.iter().chain(&draft.police).cloned().collect();
    if let Some(dscp) = &draft.mark {
        let mut mark = own(draft, Kind::Marker, &dscp.span);
        mark.put("dscp", dscp.clone());
        chain.push(mark);
    }
    chain
}

/// The component that tells the users of a class apart, if they share it.
fn users(draft: &Draft) -> Option<Component> {
    let by = draft.fair.as_ref().filter(|by| by.value != "flow")?;
    let mut users = own(draft, Kind::Users, &by.span);
    users.put("by", Spanned::at(Value::Word(by.value.to_owned()), by.span.clone()));
    if let Some(profiles) = &draft.profiles {
        users.put("profiles", profiles.clone());
    }
    Some(users)
}

/// Whether users have profiles and are known behind the look-up alone.
fn needs_look_up(users: &Component) -> bool {
    matches!(users.word("by"), Some("association" | "peer")) && !users.profiles().is_empty()
}

/// A component for the packets of a class.
fn own(draft: &Draft, kind: Kind, span: &Span) -> Component {
    let name = &draft.class.name;
    let mut component = Component {
        kind: Spanned::at(kind, span.clone()),
        settings: Vec::new(),
        span: Spanned::at((), span.clone()),
    };
    component.put("class", Spanned::at(Value::Word(name.value.clone()), name.span.clone()));
    component
}

/// The queues and schedulers of one stage.
struct Stage<'s> {
    sketch: &'s Sketch,
    stage: u8,
}

impl Stage<'_> {
    fn word(&self) -> &'static str {
        match self.stage {
            1 => "main",
            3 => "crypto",
            _ => "dispatch",
        }
    }

    /// The name of a scheduler of this stage.
    fn named(&self, tail: &str, span: &Span) -> Name {
        let dash = if tail.is_empty() { "" } else { "-" };
        Spanned::at(format!("schedule-{}{dash}{tail}", self.word()), span.clone())
    }

    fn tree(&self, description: &mut Description) -> Name {
        let uplink = self.sketch.uplinks.first().filter(|_| self.stage == 5);
        let root = if self.sketch.tunnels.is_empty() || self.stage != 5 {
            self.classes(description, None)
        } else {
            let mut children: Vec<Child> = Vec::new();
            for draft in &self.sketch.tunnels {
                let to = self.classes(description, Some(draft));
                children.push(Child { to, weight: draft.weight.clone(), share: None, deadline: None });
            }
            let to = self.classes(description, None);
            children.push(Child { to, weight: None, share: None, deadline: None });
            let name = self.named("tunnels", &(0..0));
            self.scheduler(description, name, Component::bare(Kind::Wfq), children)
        };
        let Some(uplink) = uplink else { return root };
        let shape = Component::bare(Kind::Shape).with("uplink", Value::Word(uplink.name.value.clone()));
        if let Some(top) = description.schedulers.iter_mut().find(|scheduler| scheduler.name == root) {
            top.shape = Some(shape);
            return root;
        }
        let children = vec![Child { to: root, weight: None, share: None, deadline: None }];
        let name = self.named("", &uplink.name.span);
        let name = self.scheduler(description, name, Component::bare(Kind::RoundRobin), children);
        if let Some(top) = description.schedulers.last_mut() {
            top.shape = Some(shape);
        }
        name
    }

    fn scheduler(
        &self,
        description: &mut Description,
        name: Name,
        discipline: Component,
        children: Vec<Child>,
    ) -> Name {
        let scheduler = Scheduler { name: name.clone(), discipline, shape: None, children };
        description.schedulers.push(scheduler);
        name
    }

    /// The queues of all classes, of one tunnel or of no tunnel, and the scheduler over them.
    fn classes(&self, description: &mut Description, tunnel: Option<&TunnelDraft>) -> Name {
        let (urgent, others): (Vec<&Draft>, Vec<&Draft>) =
            self.sketch.classes.iter().partition(|draft| draft.priority);
        let span = tunnel.map_or(0..0, |draft| draft.tunnel.name.span.clone());
        let tail = tunnel.map_or("", |draft| draft.tunnel.name.value.as_str());
        let mut children: Vec<Child> =
            urgent.iter().map(|draft| self.child(description, draft, tunnel, false)).collect();
        let strict = !children.is_empty();
        let discipline = self.sketch.discipline.clone().unwrap_or_else(|| Component::bare(Kind::Wfq));
        let weighs = matches!(discipline.kind.value, Kind::Wfq | Kind::Drr | Kind::Weighted);
        let rest: Vec<Child> =
            others.iter().map(|draft| self.child(description, draft, tunnel, weighs)).collect();
        if rest.len() > 1 {
            let dash = if tail.is_empty() || !strict { "" } else { "-" };
            let tail = if strict { format!("{tail}{dash}rest") } else { tail.to_owned() };
            let to = self.scheduler(description, self.named(&tail, &span), discipline, rest);
            children.push(Child { to, weight: None, share: None, deadline: None });
        } else {
            children.extend(rest.into_iter().map(|child| Child { weight: None, ..child }));
        }
        let root = match children.as_slice() {
            [one] => one.to.clone(),
            _ => {
                let mut discipline = Component::bare(Kind::Strict);
                if let Some(guard) = &self.sketch.guard {
                    discipline.put("guard", Spanned::at(Value::Share(guard.value), guard.span.clone()));
                }
                self.scheduler(description, self.named(tail, &span), discipline, children)
            }
        };
        self.shaped(description, root, tunnel)
    }

    /// The root of a tunnel with its shaper.
    fn shaped(&self, description: &mut Description, root: Name, tunnel: Option<&TunnelDraft>) -> Name {
        let Some((tunnel, rate)) = tunnel.and_then(|t| Some((t, t.rate.as_ref()?))) else { return root };
        let mut shape = Component::bare(Kind::Shape);
        shape.put("rate", Spanned::at(Value::Rate(rate.value), rate.span.clone()));
        if let Some(top) = description.schedulers.iter_mut().find(|scheduler| scheduler.name == root) {
            top.shape = Some(shape);
        } else if let Some(queue) = description.queues.iter_mut().find(|queue| queue.name == root) {
            // A class alone in its tunnel: the tighter of the two rates holds.
            let own = queue.shape.as_ref().and_then(|shape| shape.number("rate"));
            if own.is_none_or(|own| own > tunnel.rate.as_ref().map_or(u64::MAX, |rate| rate.value)) {
                queue.shape = Some(shape);
            }
        }
        root
    }

    /// The queue of a class, as a child.
    fn child(
        &self,
        description: &mut Description,
        draft: &Draft,
        tunnel: Option<&TunnelDraft>,
        weighs: bool,
    ) -> Child {
        let class = &draft.class.name;
        let mut name = class.value.clone();
        if let Some(tunnel) = tunnel {
            name = format!("{name}-{}", tunnel.tunnel.name.value);
        }
        if self.stage != 5 {
            name = format!("{name}-{}", self.word());
        }
        let name = Spanned::at(name, class.span.clone());
        let mut queue = Queue {
            name: name.clone(),
            classes: vec![class.clone()],
            tunnel: tunnel.map(|draft| draft.tunnel.name.clone()),
            limit: draft.limit.clone(),
            shape: None,
            enqueue: Component::bare(Kind::Tail),
            store: Component::bare(Kind::Fifo),
            dequeue: Component::bare(Kind::Give),
        };
        if queue.limit.is_none() {
            let (time, packets) = USUAL;
            queue.limit.time = Some(Spanned::at(time, class.span.clone()));
            queue.limit.packets = Some(Spanned::at(packets, class.span.clone()));
        }
        if let Some(rate) = draft.rate.as_ref().filter(|_| self.stage == 5) {
            let mut shape = Component::bare(Kind::Shape);
            shape.put("rate", Spanned::at(Value::Rate(rate.value), rate.span.clone()));
            queue.shape = Some(shape);
        }
        if let Some(by) = &draft.fair {
            let word = |word: &str| Value::Word(word.to_owned());
            let flows = Component::bare(Kind::Flows);
            queue.store = match by.value {
                "flow" => flows.with("by", word("flow")),
                _ => flows.with("by", word("user")).with("within", word("flow")),
            };
            queue.enqueue = Component::bare(Kind::LongestFlow);
        }
        match &draft.aqm {
            Some(aqm) if aqm.kind.value.part() == Part::Enqueue => queue.enqueue = aqm.clone(),
            Some(aqm) => queue.dequeue = aqm.clone(),
            None => {}
        }
        description.queues.push(queue);
        let weight = draft.weight.clone().filter(|_| weighs);
        Child { to: name, weight, share: None, deadline: None }
    }
}
