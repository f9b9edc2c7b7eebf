//! The direction of associations that have only a source and a destination, and the error of a line.

use std::net::IpAddr;

use api::Direction;
use config::without_keys;
use sadb::setkey::AddStatement;

/// Which way the associations of a setkey file go: there they have a source and a destination only.
#[derive(Clone, Copy, Debug)]
pub enum Ends<'a> {
    /// Each in both directions: the file speaks for both hosts.
    Both,
    /// Each in one direction: outbound if its source is one of these addresses of this host, inbound if its destination
    /// is.
    Local(&'a [IpAddr]),
}

/// Why a file is refused: nothing of it is done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {text}")]
pub struct ImportError {
    /// The number of the line, from 1.
    pub line: usize,
    /// What is wrong there, and what is allowed.
    pub text: String,
}

/// Long digits that the text quotes could be a key in a wrong place.
pub fn at(line: impl TryInto<usize>, text: impl Into<String>) -> ImportError {
    ImportError { line: line.try_into().unwrap_or(usize::MAX), text: without_keys(&text.into()) }
}

/// The directions in which a statement makes associations.
pub fn directions(add: &AddStatement, ends: Ends<'_>) -> Result<Vec<Direction>, ImportError> {
    match ends {
        Ends::Both => Ok(vec![Direction::Out, Direction::In]),
        Ends::Local(own) => match (own.contains(&add.src), own.contains(&add.dst)) {
            (true, false) => Ok(vec![Direction::Out]),
            (false, true) => Ok(vec![Direction::In]),
            (true, true) => Err(at(
                add.line,
                format!(
                    "{} and {} are both addresses of this host; say which is its end with --local",
                    add.src, add.dst
                ),
            )),
            (false, false) => Err(at(
                add.line,
                format!(
                    "neither {} nor {} is an address of this host; give its own with --local",
                    add.src, add.dst
                ),
            )),
        },
    }
}
