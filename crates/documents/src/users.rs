//! Rules that name users, in host mode: the kernel half sends the packets of these users to the engine (docs/design/0009).

use std::ops::RangeInclusive;

use sadb::rules::{Direction, Rule};
use sadb::selector::{Condition, Ranges, TrafficSelector, field};

use crate::api_error::{ApiError, Blame};

/// The users that a selector names. `None`: it names none, and is for packets of any user or of nobody.
fn named(selector: &TrafficSelector) -> Option<&Ranges> {
    match selector.condition(&field::UID) {
        Condition::In(ranges) => Some(ranges),
        _ => None,
    }
}

/// Whether a rule can say what it says of users.
///
/// # Errors
/// If it is for packets that arrive, whose user nobody knows before their socket, or names users by a mask.
pub fn check(rule: &Rule) -> Result<(), ApiError> {
    for selector in &rule.selectors {
        let refused = |text: &str| ApiError::new(Blame::BadRequest, text);
        if matches!(selector.condition(&field::UID), Condition::Masked { .. }) {
            return Err(refused("users cannot be named by a mask")
                .remedy("write numbers, ranges and lists: uid 1000-1999,65534"));
        }
        if named(selector).is_some() && rule.direction != Direction::Out {
            return Err(refused("the user of a packet that arrives is not known")
                .remedy("make the rule one for outbound packets: --direction out"));
        }
    }
    Ok(())
}

/// The users that rules name, in order and without overlap.
pub fn users(rules: &[Rule]) -> Vec<RangeInclusive<u32>> {
    let all = rules.iter().flat_map(|rule| &rule.selectors).filter_map(named);
    let union = Ranges::new(all.flat_map(|ranges| ranges.list().iter().copied()));
    let number = |value: u128| u32::try_from(value).unwrap_or(u32::MAX);
    union.list().iter().map(|&(first, last)| number(first)..=number(last)).collect()
}

#[cfg(test)]
mod tests {
    use api::{SpdAdd, SpdDirection, Verdict};

    use super::*;
    use crate::rules::SpdRules;

    fn request(direction: SpdDirection, selectors: &[&str]) -> SpdAdd {
        SpdAdd {
            name: None,
            place: None,
            direction,
            selectors: selectors.iter().map(|&text| text.to_owned()).collect(),
            action: Verdict::Discard,
            service: None,
            level: None,
            bundle: Vec::new(),
            suite: None,
            scrub: None,
            class: None,
        }
    }

    #[test]
    fn users_are_those_that_rules_name() {
        let mut book = SpdRules::default();
        assert_eq!(users(&book.in_order()), []);
        for selectors in [
            &["uid 1000-1009", "uid 65534 remote 192.0.2.1"][..],
            &["remote 192.0.2.7"],
            &["uid opaque"],
            &["uid 0,1005-1020 proto tcp"],
        ] {
            book.add(&request(SpdDirection::Out, selectors)).unwrap();
        }
        assert_eq!(users(&book.in_order()), [0..=0, 1000..=1020, 65534..=65534]);
        book.set_bypass_the_rest(true);
        assert_eq!(users(&book.in_order()), [0..=0, 1000..=1020, 65534..=65534]);
    }

    #[test]
    fn a_rule_that_could_never_match_is_refused() {
        let mut book = SpdRules::default();
        for direction in [SpdDirection::In, SpdDirection::Both] {
            let refused = book.add(&request(direction, &["uid 1000"])).unwrap_err();
            assert!(refused.message.contains("is not known"), "{refused:?}");
            book.add(&request(direction, &["uid opaque"])).unwrap();
        }
        let refused = book.add(&request(SpdDirection::Out, &["uid 0x10/0x30"])).unwrap_err();
        assert!(refused.message.contains("mask"), "{refused:?}");
    }
}
