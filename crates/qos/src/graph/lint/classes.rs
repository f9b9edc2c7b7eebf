//! Classes: each can have packets that no other one takes, and every packet has one.

use super::super::aggregates::assured;
use super::super::description::{Class, Description, Directions, Span};
use super::super::fault::{Code, meant};
use super::super::house::House;
use super::super::rules::{DSCP, Field, FieldValue, Matches, Rule, word};
use super::faults::{DIRECTIONS, Faults};
use crate::HeaderKind;

pub(super) fn check(description: &Description, house: &House, faults: &mut Faults) {
    for class in &description.classes {
        if let Matches::Rules(rules) = &class.matches.value {
            alone(&format!("the class `{}`", class.name.value), &class.matches.span, rules, faults);
        }
        precedence(class, faults);
        if let Some(priority) = &class.socket_priority
            && class.direction.value == Directions::Inbound
        {
            let message =
                format!("`socket_priority` of `{}` does nothing: no packet of it is sent", class.name.value);
            let remedy = "remove it, or have the class in both directions";
            faults.add(&priority.span, Code::IdleProperty, message, remedy);
        }
    }
    for tunnel in &description.tunnels {
        alone(&format!("the tunnel `{}`", tunnel.name.value), &tunnel.name.span, &tunnel.rules, faults);
    }
    for (index, later) in description.classes.iter().enumerate() {
        let before = description.classes.iter().take(index);
        for earlier in before.filter(|earlier| covers(earlier.direction.value, later.direction.value)) {
            shadowed(earlier, later, faults);
        }
    }
    rests(description, faults);
    for used in &house.aggregates {
        if description.find_class(&used.name).is_none() {
            let message = format!("{} names the class `{}`, which the graph lacks", used.by, used.name);
            let names = description.classes.iter().map(|class| class.name.value.as_str());
            let remedy =
                format!("add [class.{}], or change the name there; {}", used.name, meant(&used.name, names));
            faults.add(&(0..0), Code::ClassMissing, message, remedy);
        }
    }
}

/// Whether the directions of one class include those of another.
fn covers(earlier: Directions, later: Directions) -> bool {
    earlier == Directions::Both || earlier == later
}

/// Rules that cannot match, whatever the other classes are.
fn alone(owner: &str, span: &Span, rules: &[Rule], faults: &mut Faults) {
    if rules.is_empty() {
        let remedy = "write a rule, \"named\" for what policy, rules and associations name, or \"rest\"";
        faults.add(span, Code::MatchesNothing, format!("{owner} matches nothing: it has no rules"), remedy);
    }
    for (index, rule) in rules.iter().enumerate() {
        if rule.fields.is_empty() {
            let message = format!("a rule of {owner} has no fields, and matches every packet");
            faults.add(&rule.span.span, Code::SameMatch, message, "write match = \"rest\", or a field");
            continue;
        }
        for field in rule.fields.iter().filter(|field| field.values.is_empty()) {
            let name = word(Field::WORDS, &field.field.value).unwrap_or_default();
            let message = format!("{owner} matches nothing: `{name}` has no values");
            faults.add(
                &field.field.span,
                Code::MatchesNothing,
                message,
                "write a value, or remove the field",
            );
        }
        contradiction(owner, rule, faults);
        if rules.iter().take(index).any(|before| before.covers(rule) && !before.fields.is_empty()) {
            let message = format!("an earlier rule of {owner} matches everything that this one does");
            faults.add(&rule.span.span, Code::Duplicate, message, "remove this rule");
        }
    }
}

/// Fields of one rule that no packet can have together.
fn contradiction(owner: &str, rule: &Rule, faults: &mut Faults) {
    let values =
        |field: Field| rule.fields.iter().find(|row| row.field.value == field).map(|row| &row.values);
    let protected = [HeaderKind::Esp, HeaderKind::EspInUdp, HeaderKind::Ah, HeaderKind::IpComp];
    if let Some(headers) = values(Field::Header).filter(|values| !values.is_empty())
        && !headers.iter().any(|value| protected.map(FieldValue::Header).contains(&value.value))
        && let Some(field) = rule.fields.iter().find(|row| row.field.value.is_of_associations())
    {
        let name = word(Field::WORDS, &field.field.value).unwrap_or_default();
        let message = format!("{owner} matches nothing: packets with these headers have no `{name}`");
        let remedy = "remove one of the two fields, or name esp, esp-in-udp, ah or ipcomp in `header`";
        faults.add(&field.field.span, Code::MatchesNothing, message, remedy);
    }
    if let Some(protocols) = values(Field::Protocol).filter(|values| !values.is_empty())
        && !protocols.iter().any(|value| [6, 17, 132].map(FieldValue::Number).contains(&value.value))
        && let Some(port) =
            rule.fields.iter().find(|row| matches!(row.field.value, Field::Port | Field::SourcePort))
    {
        let message = format!("{owner} matches nothing: these protocols have no ports");
        faults.add(&port.field.span, Code::MatchesNothing, message, "write protocol = [\"tcp\", \"udp\"]");
    }
    for value in rule.fields.iter().flat_map(|row| &row.values) {
        if let FieldValue::Mark(mark, mask) = value.value
            && mark & !mask != 0
        {
            let message = format!("{owner} matches nothing: the mark has bits outside of its mask");
            faults.add(
                &value.span,
                Code::MatchesNothing,
                message,
                format!("write {:#x}/{mask:#x}", mark & mask),
            );
        }
    }
}

/// A later class whose packets an earlier one takes.
fn shadowed(earlier: &Class, later: &Class, faults: &mut Faults) {
    let (Matches::Rules(first), Matches::Rules(second)) = (&earlier.matches.value, &later.matches.value)
    else {
        return;
    };
    let covered = |rule: &&Rule| {
        !rule.fields.is_empty() && first.iter().any(|e| !e.fields.is_empty() && e.covers(rule))
    };
    let taken: Vec<&Rule> = second.iter().filter(covered).collect();
    let (one, two) = (&earlier.name.value, &later.name.value);
    if !taken.is_empty() && taken.len() == second.len() {
        let message = format!("the class `{two}` gets no packet: `{one}` takes everything that it matches");
        let remedy = format!("put [class.{two}] in front of [class.{one}], or give it rules of its own");
        faults.add(&later.matches.span, Code::SameMatch, message, remedy);
        return;
    }
    for rule in taken {
        let message =
            format!("this rule of `{two}` gets no packet: `{one}` takes everything that it matches");
        let remedy = format!("remove it, or put [class.{two}] in front of [class.{one}]");
        faults.add(&rule.span.span, Code::SameMatch, message, remedy);
    }
}

/// In each direction one class takes what the others leave.
fn rests(description: &Description, faults: &mut Faults) {
    for direction in DIRECTIONS {
        let classes = description.classes.iter().filter(|class| class.direction.value.has(direction));
        let rests: Vec<&Class> = classes.filter(|class| class.matches.value == Matches::Rest).collect();
        match rests.as_slice() {
            [] => {
                let message = "no class takes what the others leave";
                let remedy = "add [class.rest] with match = \"rest\"";
                let place = description.classes.last().map_or(0..0, |class| class.name.span.clone());
                faults.add_in(direction, &place, Code::NoRest, message, remedy);
            }
            [first, others @ ..] => {
                for other in others {
                    let (one, two) = (&first.name.value, &other.name.value);
                    let message = format!("`{one}` and `{two}` both match what the others leave");
                    faults.add(&other.matches.span, Code::SameMatch, message, "write rules in one of them");
                }
            }
        }
    }
}

/// The three DSCPs of an assured forwarding class, lowest precedence first.
fn precedence(class: &Class, faults: &mut Faults) {
    let Some(three) = &class.precedence else { return };
    let [low, middle, high] = three.value;
    let name = &class.name.value;
    if low == middle || middle == high || low == high {
        let message = format!("two colours of `{name}` have the same DSCP");
        faults.add(&three.span, Code::Duplicate, message, "give each colour a DSCP of its own");
        return;
    }
    let known: Vec<_> = three.value.iter().filter_map(|dscp| assured(*dscp)).collect();
    if let [(first, a), (second, b), (third, c)] = known.as_slice() {
        let list: Vec<&str> = three.value.iter().filter_map(|dscp| word(DSCP, dscp)).collect();
        let list = list.join(", ");
        if first != second || second != third {
            let message = format!("{list} are of different assured forwarding classes");
            faults.add(
                &three.span,
                Code::SplitOrder,
                message,
                "name the three DSCPs of one class (RFC 2597)",
            );
        } else if !(a < b && b < c) {
            let message = format!("{list} are not in the order of their drop precedence");
            faults.add(
                &three.span,
                Code::ThresholdOrder,
                message,
                "write the lowest precedence first (RFC 2597)",
            );
        }
    }
}
