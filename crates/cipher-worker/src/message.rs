//! The messages between the host and the process that starts workers: datagrams on a pair of sockets.

use std::os::fd::RawFd;

/// The variable that names the descriptors of the process that starts workers.
pub(crate) const VARIABLE: &str = "RAVELIN_CIPHER_WORKER";
/// Octets of the longest message.
pub(crate) const LONGEST: usize = 4096;

/// The descriptors of that process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) library: RawFd,
    pub(crate) manifest: RawFd,
    pub(crate) socket: RawFd,
    pub(crate) host: RawFd,
    pub(crate) worker: RawFd,
}

impl Numbers {
    pub(crate) fn all(self) -> [RawFd; 5] {
        [self.library, self.manifest, self.socket, self.host, self.worker]
    }

    pub(crate) fn text(self) -> String {
        self.all().map(|number| number.to_string()).join(",")
    }

    /// What [`Numbers::text`] wrote: none of the program's own three, and none twice.
    pub(crate) fn parse(text: &str) -> Option<Numbers> {
        let numbers: Option<Vec<RawFd>> = text.split(',').map(|word| word.parse().ok()).collect();
        let numbers = <[RawFd; 5]>::try_from(numbers?).ok()?;
        let apart =
            |(at, number): (usize, &RawFd)| *number > 2 && !numbers.iter().skip(at + 1).any(|n| n == number);
        let [library, manifest, socket, host, worker] = numbers;
        let numbers_apart = numbers.iter().enumerate().all(apart);
        numbers_apart.then_some(Numbers { library, manifest, socket, host, worker })
    }
}

/// What the host says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Start a worker now. There is none.
    Start,
    /// End the worker that runs.
    Kill,
}

impl Command {
    pub(crate) fn octets(self) -> &'static [u8] {
        match self {
            Command::Start => b"S",
            Command::Kill => b"K",
        }
    }

    pub(crate) fn parse(octets: &[u8]) -> Option<Command> {
        [Command::Start, Command::Kill].into_iter().find(|command| command.octets() == octets)
    }
}

/// What the process that starts workers says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A worker runs, with this process id.
    Started(u32),
    /// The worker ended: its status as `wait` gives it, and what it wrote to its pipe.
    Ended(i32, Vec<u8>),
    /// No worker could be started, with the number of the error.
    Failed(i32),
}

impl Notice {
    pub(crate) fn octets(&self) -> Vec<u8> {
        let (letter, number, text) = match self {
            Notice::Started(pid) => (b'R', pid.to_ne_bytes(), &[][..]),
            Notice::Ended(status, text) => (b'E', status.to_ne_bytes(), text.as_slice()),
            Notice::Failed(error) => (b'F', error.to_ne_bytes(), &[][..]),
        };
        let text = text.get(..LONGEST - 5).unwrap_or(text);
        [&[letter], number.as_slice(), text].concat()
    }

    pub(crate) fn parse(octets: &[u8]) -> Option<Notice> {
        let (letter, rest) = octets.split_first()?;
        let (number, text) = rest.split_first_chunk::<4>()?;
        match (letter, text) {
            (b'R', []) => Some(Notice::Started(u32::from_ne_bytes(*number))),
            (b'E', text) => Some(Notice::Ended(i32::from_ne_bytes(*number), text.to_vec())),
            (b'F', []) => Some(Notice::Failed(i32::from_ne_bytes(*number))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        for command in [Command::Start, Command::Kill] {
            assert_eq!(Command::parse(command.octets()), Some(command));
        }
        for told in [Notice::Started(7), Notice::Ended(-3, b"why".to_vec()), Notice::Failed(12)] {
            assert_eq!(Notice::parse(&told.octets()), Some(told));
        }
        assert_eq!(Notice::parse(b"R"), None);
        assert_eq!(Notice::parse(b"R12345"), None);
        assert_eq!(Command::parse(b""), None);
        assert_eq!(Notice::Ended(0, vec![1; 9000]).octets().len(), LONGEST);
    }

    #[test]
    fn descriptors_are_five_apart_and_not_the_programs_own() {
        let numbers = Numbers { library: 3, manifest: 4, socket: 5, host: 9, worker: 11 };
        assert_eq!(Numbers::parse(&numbers.text()), Some(numbers));
        for text in ["", "3,4,5,6", "3,4,5,6,7,8", "2,4,5,6,7", "3,4,5,6,6", "3,4,5,6,x"] {
            assert_eq!(Numbers::parse(text), None, "{text}");
        }
    }
}
