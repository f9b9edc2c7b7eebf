//! The behaviours of hook chains: one row for each kind.

use super::super::chain::Link;
use super::super::description::Directions;
use super::super::fault::Fault;
use super::super::intervals::Intervals;
use super::super::kinds::{Component, Kind, Profile as UserProfile, Value, user_number, user_prefix};
use super::{Build, settings};
use crate::behaviour::auth_budget::Demotion;
use crate::behaviour::mark::{Codepoints, Headers};
use crate::behaviour::shape::ShapeSettings;
use crate::behaviour::srtcm::SrTcmSettings;
use crate::behaviour::trtcm::TrTcmSettings;
use crate::behaviour::trtcm4115::TrTcm4115Settings;
use crate::behaviour::{
    AggregateLimit, AggregateSet, AuthBudget, Classifier, DropColour, Excess, Marker, Mode, Only, Pacer,
    Police, Precedence, Precolour, Profile, SettingsError, SrTcm, TrTcm, TrTcm4115, UserLimit, Users,
};
use crate::component::Behaviour;
use crate::store::FlowBy;
use crate::{AggregateId, Colour, Direction, Limit, Measure, Weight};

/// The users or pairs that a table has room for.
const ROOM: usize = 65_536;

type Make = fn(&Build<'_>, &Component) -> Result<Vec<Link>, SettingsError>;

/// The behaviours by their kinds.
const MAKES: &[(Kind, Make)] = &[
    (Kind::Classify, |build, part| build.classify(part)),
    (Kind::Srtcm, |build, part| build.srtcm(part)),
    (Kind::Trtcm, |build, part| build.trtcm(part)),
    (Kind::Rfc4115, |build, part| build.rfc4115(part)),
    (Kind::Precolour, |build, part| build.precolour(part)),
    (Kind::Marker, |build, part| build.marker(part)),
    (Kind::Police, |build, part| build.police(part)),
    (Kind::DropColour, |build, part| build.drop_colour(part)),
    (Kind::Limit, |build, part| build.limiter(part)),
    (Kind::Users, |build, part| build.users(part)),
    (Kind::AuthBudget, |build, part| build.auth_budget(part)),
];

impl Build<'_> {
    /// The links of a chain that a component becomes.
    pub(super) fn behaviour(&self, component: &Component) -> Result<Vec<Link>, Fault> {
        if component.kind.value == Kind::Classify {
            self.rules_are_known()?;
        }
        if component.kind.value == Kind::Foreign {
            return self.foreign(component).map(|link| vec![link]);
        }
        let Some((_, make)) = MAKES.iter().find(|(kind, _)| *kind == component.kind.value) else {
            return Ok(Vec::new());
        };
        make(self, component).map_err(|error| settings(component, error))
    }

    /// A classifier, and the drop precedences of the classes that name them.
    fn classify(&self, component: &Component) -> Result<Vec<Link>, SettingsError> {
        if component.word("by") == Some("class") {
            return Ok(Vec::new());
        }
        let mut links = vec![link(Classifier::new(&self.class_rules())?)];
        for class in &self.description.classes {
            if let Some(codepoints) = &class.precedence {
                links.push(link(Precedence::new(self.class(&class.name.value), codepoints.value)));
            }
        }
        Ok(links)
    }

    fn srtcm(&self, component: &Component) -> Result<Vec<Link>, SettingsError> {
        let (cir, measure) = rate(component, "cir");
        let (cbs, ebs) = (number(component, "cbs"), number(component, "ebs"));
        let meter = SrTcm::new(SrTcmSettings { cir, cbs, ebs, measure, mode: mode(component) })?;
        Ok(vec![self.only(component, meter)])
    }

    fn trtcm(&self, component: &Component) -> Result<Vec<Link>, SettingsError> {
        let (cir, measure) = rate(component, "cir");
        let (pir, _) = rate(component, "pir");
        let (cbs, pbs) = (number(component, "cbs"), number(component, "pbs"));
        let meter = TrTcm::new(TrTcmSettings { pir, pbs, cir, cbs, measure, mode: mode(component) })?;
        Ok(vec![self.only(component, meter)])
    }

    fn rfc4115(&self, component: &Component) -> Result<Vec<Link>, SettingsError> {
        let (cir, measure) = rate(component, "cir");
        let (eir, _) = rate(component, "eir");
        let (cbs, ebs) = (number(component, "cbs"), number(component, "ebs"));
        let meter = TrTcm4115::new(TrTcm4115Settings { cir, cbs, eir, ebs, measure, mode: mode(component) })?;
        Ok(vec![self.only(component, meter)])
    }

    fn precolour(&self, component: &Component) -> Result<Vec<Link>, SettingsError> {
        let is_inner = component.word("header") == Some("inner");
        let other = component.word("other").map_or(Colour::Green, colour);
        Ok(vec![self.only(component, Precolour::new(is_inner, other))])
    }

    fn marker(&self, component: &Component) -> Result<Vec<Link>, SettingsError> {
        let codepoints = match component.get("dscp").map(|dscp| &dscp.value) {
            Some(Value::Dscp(list)) => match list.as_slice() {
                [green, yellow, red] => Codepoints::Coloured([*green, *yellow, *red]),
                [one, ..] => Codepoints::One(*one),
                [] => return Err(SettingsError::NoCodepoint),
            },
            _ => return Err(SettingsError::NoCodepoint),
        };
        let headers = match (component.word("header"), self.direction) {
            (Some("inner"), Direction::Outbound) => Headers::Inner,
            (Some("both"), Direction::Outbound) => Headers::Both,
            // An opened packet has one header, and that is marked.
            _ => Headers::Outer,
        };
        Ok(vec![link(Marker::new(&[(self.own_class(component), codepoints)], headers)?)])
    }

    fn police(&self, component: &Component) -> Result<Vec<Link>, SettingsError> {
        let (rate, measure) = rate(component, "rate");
        let excess = match component.get("excess").map(|excess| &excess.value) {
            Some(Value::Mark(dscp)) => Excess::Remark(*dscp),
            Some(Value::Word(word)) => match word.as_str() {
                "drop" => Excess::Drop,
                "ecn" => Excess::Mark,
                "yellow" | "red" => Excess::Recolour(colour(word)),
                class => Excess::Aggregate(self.class(class)),
            },
            _ => Excess::Drop,
        };
        let police = Police::new(rate, number(component, "burst"), measure, excess)?;
        Ok(vec![self.only(component, police)])
    }

    fn drop_colour(&self, component: &Component) -> Result<Vec<Link>, SettingsError> {
        let from = if component.word("colour") == Some("yellow") { Colour::Yellow } else { Colour::Red };
        Ok(vec![self.only(component, DropColour::new(from))])
    }

    fn limiter(&self, component: &Component) -> Result<Vec<Link>, SettingsError> {
        let mut limit = Limit::NONE;
        match component.get("most").map(|most| &most.value) {
            Some(Value::Count(packets)) => limit.packets = *packets,
            Some(Value::Octets(octets)) => limit.octets = *octets,
            Some(Value::Time(ns)) => limit.ns = *ns,
            _ => {}
        }
        Ok(vec![Link::Limit(AggregateLimit::new(&[(self.own_class(component), limit)]))])
    }

    /// Users with their profiles: the one without users is for everybody else.
    fn users(&self, component: &Component) -> Result<Vec<Link>, SettingsError> {
        let others = component.profiles().iter().find(|its| its.users.is_empty());
        let everybody = others.map(|its| self.profile(its)).unwrap_or_default();
        let named: Vec<&UserProfile> =
            component.profiles().iter().filter(|its| !its.users.is_empty()).collect();
        let users = self.assigned(component, &named);
        let profiles: Vec<_> = named.into_iter().map(|its| self.profile(its)).zip(users).collect();
        let users = Users::new(ROOM, self.seed, users_by(component), everybody, &profiles)?;
        Ok(vec![self.only(component, users)])
    }

    /// The users of each profile by their number. Addresses have that of the interval in which they lie.
    fn assigned(&self, component: &Component, named: &[&UserProfile]) -> Vec<Vec<u32>> {
        let by_longest = |intervals: &Intervals| {
            let prefixes =
                |its: &&UserProfile| its.users.iter().filter_map(|user| user_prefix(&user.value)).collect();
            intervals.by_longest(&named.iter().map(prefixes).collect::<Vec<_>>())
        };
        match users_by(component) {
            FlowBy::Peer => by_longest(&self.addresses.peers),
            FlowBy::Source => by_longest(&self.addresses.sources),
            FlowBy::Association | FlowBy::App | FlowBy::User | FlowBy::Flow => {
                let users = |its: &&UserProfile| {
                    its.users.iter().filter_map(|user| self.user(component, &user.value)).collect()
                };
                named.iter().map(users).collect()
            }
        }
    }

    fn profile(&self, its: &UserProfile) -> Profile {
        let limit = its.limit.as_ref().map(|limit| {
            let (rate, measure) = rate_of(Some(&limit.rate.value));
            let excess = limit.excess.as_ref().map(|class| Excess::Aggregate(self.class(&class.value)));
            let burst = limit.burst.value.number().unwrap_or(0);
            UserLimit { rate, burst, measure, excess: excess.unwrap_or(Excess::Drop) }
        });
        Profile {
            weight: u16::try_from(its.weight.value).ok().and_then(Weight::new),
            limit,
            aggregate: its.class.as_ref().map(|class| self.class(&class.value)),
        }
    }

    /// The number of a user: a number as such, or that of the association or application of the name.
    fn user(&self, component: &Component, name: &str) -> Option<u32> {
        user_number(name).or_else(|| match users_by(component) {
            FlowBy::Association => self.association(name),
            FlowBy::App => self.application(name),
            FlowBy::Peer | FlowBy::Source | FlowBy::User | FlowBy::Flow => None,
        })
    }

    /// The budget of failed authentication. Pairs beyond it go to the class, or else get the worst colour.
    fn auth_budget(&self, component: &Component) -> Result<Vec<Link>, SettingsError> {
        let demotion = match component.word("class") {
            Some(class) => Demotion::Aggregate(self.class(class)),
            None => Demotion::Recolour(Colour::Red),
        };
        // A share in parts per million of a processor is so many microseconds a second.
        let rate = number(component, "rate").saturating_mul(1_000);
        let budget = AuthBudget::new(rate, number(component, "burst"), demotion, ROOM, self.seed)?;
        Ok(vec![Link::Budget(budget)])
    }

    /// The arithmetic of a shaper; `None` for an uplink in the direction that does not leave by it.
    pub(super) fn pacer(&self, component: &Component) -> Result<Option<Pacer>, Fault> {
        let uplink = component.word("uplink");
        if uplink.is_some() && !Directions::Outbound.has(self.direction) {
            return Ok(None);
        }
        let uplink =
            uplink.and_then(|name| self.description.uplinks.iter().find(|uplink| uplink.name.value == name));
        let bits = component.number("rate").or_else(|| uplink.map(|uplink| uplink.rate.value)).unwrap_or(0);
        let overhead = component.number("overhead").or_else(|| uplink.map(|uplink| uplink.overhead.value));
        let overhead = overhead.unwrap_or(0);
        // The bursts of timers: two of the largest packets.
        let usual = 2 * (self.house.path.mtu + overhead);
        let shape = ShapeSettings {
            rate: (bits / 8).max(1),
            burst: component.number("burst").unwrap_or(usual),
            overhead: u32::try_from(overhead).unwrap_or(u32::MAX),
            limit_ns: u64::MAX,
        };
        Pacer::new(shape).map(Some).map_err(|error| settings(component, error))
    }

    pub(super) fn own_class(&self, component: &Component) -> AggregateId {
        component.word("class").map_or(AggregateId::DEFAULT, |class| self.class(class))
    }

    fn only(&self, component: &Component, behaviour: impl Behaviour + 'static) -> Link {
        link(Only::new(AggregateSet::of(&[self.own_class(component)]), behaviour))
    }
}

fn link(behaviour: impl Behaviour + 'static) -> Link {
    Link::Any(Box::new(behaviour))
}

fn colour(word: &str) -> Colour {
    match word {
        "yellow" => Colour::Yellow,
        "red" => Colour::Red,
        _ => Colour::Green,
    }
}

fn mode(component: &Component) -> Mode {
    match component.get("aware").map(|aware| &aware.value) {
        Some(Value::Flag(true)) => Mode::ColourAware,
        _ => Mode::ColourBlind,
    }
}

fn number(component: &Component, name: &str) -> u64 {
    component.number(name).unwrap_or(0)
}

/// A rate a second with its measure: octets, or nanoseconds of a processor.
fn rate(component: &Component, name: &str) -> (u64, Measure) {
    rate_of(component.get(name).map(|rate| &rate.value))
}

fn rate_of(rate: Option<&Value>) -> (u64, Measure) {
    match rate {
        Some(Value::Share(parts)) => (parts.saturating_mul(1_000), Measure::Nanoseconds),
        Some(Value::Rate(bits)) => (bits / 8, Measure::Octets),
        _ => (0, Measure::Octets),
    }
}

/// The field of packets that tells the users of a component apart.
pub(super) fn users_by(component: &Component) -> FlowBy {
    match component.word("by") {
        Some("association") => FlowBy::Association,
        Some("application") => FlowBy::App,
        Some("peer") => FlowBy::Peer,
        Some("source") => FlowBy::Source,
        _ => FlowBy::User,
    }
}
