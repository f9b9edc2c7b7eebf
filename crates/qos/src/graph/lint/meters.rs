//! Meters, policers, shapers, limits: rates and bursts that can work.

use super::super::description::{Description, Span, Spanned, Uplink};
use super::super::fault::{Code, meant};
use super::super::house::House;
use super::super::kinds::{Component, Kind, Value};
use super::super::quantity::{show_octets, show_rate};
use super::faults::{DIRECTIONS, Faults};

pub(super) fn check(description: &Description, house: &House, faults: &mut Faults) {
    for hook in &description.hooks {
        for component in &hook.chain {
            one(component, house, faults);
            shaper(description, component, faults);
        }
    }
    let schedulers = description.schedulers.iter().filter_map(|scheduler| scheduler.shape.as_ref());
    for shape in schedulers.chain(description.queues.iter().filter_map(|queue| queue.shape.as_ref())) {
        one(shape, house, faults);
        shaper(description, shape, faults);
    }
    excess(description, faults);
    description.uplinks.iter().for_each(|uplink| interface(uplink, house, faults));
}

/// A component by itself.
fn one(component: &Component, house: &House, faults: &mut Faults) {
    let kind = component.kind.value;
    for rate in ["rate", "cir", "pir"] {
        if component.number(rate) == Some(0) {
            let message = format!("`{rate}` of `{}` is zero", kind.name());
            faults.add(
                &component.place(rate),
                Code::LimitTooSmall,
                message,
                "write a rate, or remove the component",
            );
        }
    }
    for (rate, burst) in [("rate", "burst"), ("cir", "cbs"), ("pir", "pbs"), ("eir", "ebs")] {
        let Some(value) = component.get(burst) else { continue };
        let rate = (rate, component.get(rate).map(|rate| &rate.value));
        bucket(&format!("`{}`", kind.name()), rate, (burst, value), house.path.mtu, faults);
    }
    if let (Some(Value::Rate(cir)), Some(Value::Rate(pir))) =
        (component.get("cir").map(|rate| &rate.value), component.get("pir").map(|rate| &rate.value))
        && pir < cir
    {
        let message =
            format!("the peak rate {} is below the committed rate {}", show_rate(*pir), show_rate(*cir));
        let remedy = format!("write pir = \"{}\" or more (RFC 2698)", show_rate(*cir));
        faults.add(&component.place("pir"), Code::ThresholdOrder, message, remedy);
    }
    if let Some(Value::Dscp(values)) = component.get("dscp").map(|dscp| &dscp.value)
        && !matches!(values.len(), 1 | 3)
    {
        let message = format!("`mark` has {} DSCPs", values.len());
        let remedy = "write one for all packets, or three: green, yellow, red";
        faults.add(&component.place("dscp"), Code::OutOfRange, message, remedy);
    }
    if kind == Kind::Limit && component.number("most") == Some(0) {
        let place = component.place("most");
        faults.add(
            &place,
            Code::LimitTooSmall,
            "`most` admits no packet",
            "write a length of one packet or more",
        );
    }
}

/// A burst in the measure of its rate, which a packet fits in.
pub(super) fn bucket(
    owner: &str,
    (rate, its_rate): (&str, Option<&Value>),
    (burst, its_burst): (&str, &Spanned<Value>),
    mtu: u64,
    faults: &mut Faults,
) {
    let span = &its_burst.span;
    match (its_rate, &its_burst.value) {
        (Some(Value::Share(_)), Value::Octets(_)) => {
            let message = format!("`{rate}` is a share of a processor, and `{burst}` is in octets");
            faults.add(span, Code::WrongType, message, format!("write: {burst} = \"1ms\""));
        }
        (Some(Value::Rate(_)), Value::Time(_)) => {
            let message = format!("`{rate}` is in bits a second, and `{burst}` is a time");
            faults.add(span, Code::WrongType, message, format!("write: {burst} = \"20kB\""));
        }
        (_, Value::Octets(octets)) if *octets < mtu && (burst != "ebs" || *octets > 0) => {
            let message = format!(
                "`{burst}` is {}, and a packet may have {}: it never conforms",
                show_octets(*octets),
                show_octets(mtu)
            );
            faults.add(span, Code::LimitTooSmall, message, format!("write {} or more", show_octets(mtu)));
        }
        (_, Value::Time(0)) => {
            let message = format!("`{burst}` of {owner} is zero");
            let remedy = "write the time that the costliest packet takes";
            faults.add(span, Code::LimitTooSmall, message, remedy);
        }
        _ => {}
    }
}

/// A shaper has a rate, of its own or of its uplink, and not more than the uplink carries.
fn shaper(description: &Description, component: &Component, faults: &mut Faults) {
    if component.kind.value != Kind::Shape {
        return;
    }
    let uplink = component.word("uplink");
    let uplink = uplink.and_then(|name| description.uplinks.iter().find(|uplink| uplink.name.value == name));
    if component.get("rate").is_none() && component.get("uplink").is_none() {
        let message = "the shaper has no rate";
        let remedy = "add rate = \"20Mbit\", or uplink = \"NAME\", whose rate it takes";
        faults.add(&component.span.span, Code::MissingKey, message, remedy);
    }
    if let Some(Value::Share(_)) = component.get("rate").map(|rate| &rate.value) {
        let message = "a shaper counts octets on the wire, and its rate is a share of a processor";
        faults.add(&component.place("rate"), Code::WrongType, message, "write: rate = \"20Mbit\"");
    }
    // Without a named uplink, what is faster than every uplink shapes nothing.
    let most = uplink.into_iter().chain(description.uplinks.iter().filter(|_| uplink.is_none()));
    let most = most.max_by_key(|uplink| uplink.rate.value);
    if let (Some(Value::Rate(rate)), Some(uplink)) = (component.get("rate").map(|rate| &rate.value), most)
        && *rate > uplink.rate.value
    {
        let name = &uplink.name.value;
        let (rate, carries) = (show_rate(*rate), show_rate(uplink.rate.value));
        let message = format!("the rate {rate} is beyond the uplink `{name}`, which carries {carries}");
        faults.add(
            &component.place("rate"),
            Code::RateBeyondUplink,
            message,
            format!("write {carries} or less"),
        );
    }
}

/// What policers send from class to class ends somewhere.
fn excess(description: &Description, faults: &mut Faults) {
    for direction in DIRECTIONS {
        for class in &description.classes {
            let mut names = vec![class.name.value.as_str()];
            while let Some(policer) = names.last().and_then(|name| description.policer(name, direction)) {
                let Some(next) = policer.excess_class() else { break };
                if let Some(place) = names.iter().position(|name| *name == next) {
                    if place == 0 {
                        names.push(next);
                        let message =
                            format!("the excess of `{next}` comes back to it: {}", names.join(" -> "));
                        let span: Span = policer.place("excess");
                        faults.add(&span, Code::Cycle, message, "write excess = \"drop\" in one of them");
                    }
                    break;
                }
                names.push(next);
            }
        }
    }
}

/// An uplink is an interface of the gateway, and not slower than it says.
fn interface(uplink: &Uplink, house: &House, faults: &mut Faults) {
    let name = &uplink.name.value;
    if uplink.rate.value == 0 {
        let message = format!("the rate of the uplink `{name}` is zero");
        faults.add(&uplink.rate.span, Code::LimitTooSmall, message, "write what the uplink carries");
    }
    match house.uplinks.iter().find(|(known, _)| known == name) {
        Some((_, Some(rate))) if uplink.rate.value > *rate => {
            let message =
                format!("`{name}` carries {}, not {}", show_rate(*rate), show_rate(uplink.rate.value));
            let remedy = format!("write {} or less", show_rate(*rate));
            faults.add(&uplink.rate.span, Code::RateBeyondUplink, message, remedy);
        }
        None if !house.uplinks.is_empty() => {
            let names = house.uplinks.iter().map(|(name, _)| name.as_str());
            let message = format!("the gateway has no uplink `{name}`");
            faults.add(&uplink.name.span, Code::UnknownName, message, meant(name, names));
        }
        _ => {}
    }
}
