//! The pipe to the parent, and what is written to it.

use std::fs::File;
use std::io::{self, Write};

use super::record::{MOST, Record};
use crate::error::LoadError;

/// The number of octets that one line may have.
const LONGEST: usize = MOST / 16;

/// The pipe to the parent.
pub(crate) struct Answer(pub(crate) File);

impl Answer {
    pub(crate) fn write(&self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record).map_err(io::Error::other)?;
        line.push(b'\n');
        (&self.0).write_all(&line)
    }

    pub(crate) fn stage(&self, stage: &str) {
        // A parent that is gone has no use for it.
        let _ = self.write(&Record::Stage(stage.to_owned()));
    }
}

/// What the parent says behind the library's name.
pub(crate) fn described(error: &LoadError) -> Record {
    Record::Description(match error {
        LoadError::Link { why, .. } => format!("the dynamic loader refuses it: {}", short(why)),
        LoadError::Abi { why, .. } => short(why),
        other => short(other),
    })
}

pub(crate) fn short(text: &dyn std::fmt::Display) -> String {
    text.to_string().chars().filter(|c| !c.is_control()).take(LONGEST / 4).collect()
}
