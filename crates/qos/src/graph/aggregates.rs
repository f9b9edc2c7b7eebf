//! The catalogue of classes: names, and the numbers that stand for them in packets, maps and policies.
//!
//! A name keeps its number while the instance lives, whatever graph is in force, so that packets that wait, maps of
//! the kernel and a compiled policy stay right over an exchange of graphs and a restart. The record that is carried
//! over is [`Aggregates::record`].

use super::spanned::{SHORT_NAME, is_name};
use crate::AggregateId;

/// The most classes that an instance can ever number.
pub const MOST: usize = 64;

/// The names that every instance numbers alike.
pub const WELL_KNOWN: &[&str] = &["be", "control", "ef", "af1", "af2", "af3", "af4", "le"];

/// The names of classes with their numbers, and which of them the graph in force has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregates {
    /// The name of each number. A name never moves.
    names: Vec<String>,
    /// The numbers whose classes the graph in force lacks, one bit each. They keep their names.
    absent: u64,
}

impl Default for Aggregates {
    fn default() -> Aggregates {
        Aggregates { names: WELL_KNOWN.iter().map(|name| (*name).to_owned()).collect(), absent: 0 }
    }
}

/// The reason why a class gets no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogueFault {
    /// The instance has numbered as many classes as it can.
    Full,
    /// The text cannot name a class.
    BadName,
}

impl Aggregates {
    /// The catalogue of a record that was carried over; `None` if it is none of ours.
    pub fn from_record(record: &str) -> Option<Aggregates> {
        let names: Vec<String> = record.lines().map(str::to_owned).collect();
        let known = WELL_KNOWN.iter().zip(&names).all(|(known, name)| known == name);
        let sound = names.iter().all(|name| is_name(name, SHORT_NAME));
        let apart = names.iter().enumerate().all(|(i, name)| !names.iter().take(i).any(|n| n == name));
        let counts = (WELL_KNOWN.len()..=MOST).contains(&names.len());
        (known && sound && apart && counts).then_some(Aggregates { names, absent: 0 })
    }

    /// The catalogue of an instance without a graph: names have their numbers, and there is no class.
    pub fn without_graph() -> Aggregates {
        Aggregates::default().only(|_| false)
    }

    /// The same numbers and names, of which the graph in force has the classes that `has` takes and no others.
    #[must_use]
    pub fn only(mut self, has: impl Fn(&str) -> bool) -> Aggregates {
        let absent = self.names.iter().enumerate().filter(|(_, name)| !has(name));
        self.absent = absent.map(|(place, _)| 1_u64 << place).fold(0, |set, bit| set | bit);
        self
    }

    /// The record to carry over: one name a line, in the order of the numbers.
    pub fn record(&self) -> String {
        self.names.iter().map(|name| format!("{name}\n")).collect()
    }

    /// The number of a class that the graph in force has.
    pub fn find(&self, name: &str) -> Option<AggregateId> {
        let (id, _) = self.iter().find(|(_, known)| *known == name)?;
        Some(id)
    }

    /// The number of a name, which gets one if it has none. The class counts as one that the graph has.
    ///
    /// # Errors
    ///
    /// The text cannot be a name, or every number is taken.
    pub fn number(&mut self, name: &str) -> Result<AggregateId, CatalogueFault> {
        if let Some(place) = self.names.iter().position(|known| known == name) {
            self.absent &= !(1 << place);
            return u8::try_from(place).map(AggregateId).map_err(|_| CatalogueFault::Full);
        }
        if !is_name(name, SHORT_NAME) {
            return Err(CatalogueFault::BadName);
        }
        if self.names.len() >= MOST {
            return Err(CatalogueFault::Full);
        }
        let id = u8::try_from(self.names.len()).map_err(|_| CatalogueFault::Full)?;
        self.names.push(name.to_owned());
        Ok(AggregateId(id))
    }

    /// The name of a number, whether or not the graph in force has the class.
    pub fn name(&self, id: AggregateId) -> Option<&str> {
        self.names.get(usize::from(id.0)).map(String::as_str)
    }

    /// Every class that the graph in force has: its number, and its name.
    pub fn iter(&self) -> impl Iterator<Item = (AggregateId, &str)> {
        let all = (0..=u8::MAX).map(AggregateId).zip(self.names.iter().map(String::as_str));
        all.filter(|(id, _)| self.absent & 1 << id.0 == 0)
    }

    /// Whether there is no class, because no graph is in force.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The count of numbers that are taken.
    pub fn count(&self) -> usize {
        self.names.len()
    }
}

/// The class, drop precedence and DSCP of each assured forwarding word (RFC 2597 section 6).
pub fn assured(dscp: u8) -> Option<(&'static str, crate::Colour)> {
    let class = match dscp >> 3 {
        1 => "af1",
        2 => "af2",
        3 => "af3",
        4 => "af4",
        _ => return None,
    };
    let colour = match dscp & 7 {
        2 => crate::Colour::Green,
        4 => crate::Colour::Yellow,
        6 => crate::Colour::Red,
        _ => return None,
    };
    Some((class, colour))
}

/// The well-known class of a DSCP, for packets whose class no rule tells.
pub fn of_dscp(dscp: u8) -> &'static str {
    match dscp {
        44 | 46 => "ef",
        48 | 56 => "control",
        1 => "le",
        _ => assured(dscp).map_or("be", |(class, _)| class),
    }
}
