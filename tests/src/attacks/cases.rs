//! The list of cases.

use super::reading::Reading;
use super::stage::{Setting, Stage};
use super::{FIRST_PORT, PORTS, data, fragments, headers, insertion, state};

/// One case of the catalogue.
pub struct Case {
    /// The number of the case in the catalogue, such as `I01`.
    pub name: &'static str,
    /// What the attacker does.
    pub text: &'static str,
    /// What the host must read behind a scrubber, and nothing else.
    pub want: Want,
    /// What is special about the surroundings.
    pub setting: fn(&mut Setting),
    /// The packets that are sent, and what happens between them.
    pub script: fn(&mut Stage<'_>),
}

/// What a host must read.
#[derive(Clone, Debug)]
pub enum Want {
    /// These octets on the first port of the case, and nothing on others.
    Stream(Vec<u8>),
    /// These octets on ports counted from the first one.
    Streams(Vec<(u16, Vec<u8>)>),
    /// These datagrams, in their order.
    Datagrams(Vec<Vec<u8>>),
    /// So many octets, in all connections: which ones depends on windows and memory. Readers must only be of one mind.
    Octets(usize),
}

impl Case {
    pub(super) fn new(
        name: &'static str,
        text: &'static str,
        want: Want,
        script: fn(&mut Stage<'_>),
    ) -> Case {
        Case { name, text, want, setting: |_| {}, script }
    }

    pub(super) fn within(mut self, setting: fn(&mut Setting)) -> Case {
        self.setting = setting;
        self
    }

    /// There is no connection in it.
    pub fn datagrams(&self) -> bool {
        matches!(self.want, Want::Datagrams(_))
    }
}

impl Want {
    pub(super) fn stream(octets: &[u8]) -> Want {
        Want::Stream(octets.to_vec())
    }

    pub(super) fn datagrams(all: &[&[u8]]) -> Want {
        Want::Datagrams(all.iter().map(|octets| octets.to_vec()).collect())
    }

    /// Whether the reading of the case of this number is what is wanted.
    pub fn fits(&self, case: usize, reading: &Reading) -> bool {
        let first = FIRST_PORT + case as u16 * PORTS;
        let streams = |all: &[(u16, Vec<u8>)]| {
            let mut wanted = Reading::default();
            for (port, octets) in all.iter().filter(|(_, octets)| !octets.is_empty()) {
                wanted.again(first + port, octets);
            }
            let read = reading.streams.iter().filter(|(_, octets)| !octets.is_empty());
            reading.datagrams.is_empty() && read.eq(&wanted.streams)
        };
        match self {
            Want::Stream(octets) => streams(&[(0, octets.clone())]),
            Want::Streams(all) => streams(all),
            Want::Datagrams(all) => reading.datagrams == *all && reading.streams.is_empty(),
            Want::Octets(count) => reading.streams.values().map(Vec::len).sum::<usize>() == *count,
        }
    }
}

/// All, in the order of the catalogue.
pub fn all() -> Vec<Case> {
    [fragments::cases(), headers::four(), headers::six(), insertion::cases(), state::cases(), data::cases()]
        .into_iter()
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::all;

    #[test]
    fn the_catalogue_is_whole() {
        let groups = [('F', 22), ('H', 13), ('S', 15), ('I', 17), ('D', 25), ('O', 23)];
        let wanted =
            groups.iter().flat_map(|(group, count)| (1..=*count).map(move |n| format!("{group}{n:02}")));
        let names: Vec<_> = all().iter().map(|case| case.name.to_owned()).collect();
        assert_eq!(names, wanted.collect::<Vec<_>>());
        assert_eq!(names.len(), 115);
    }
}
