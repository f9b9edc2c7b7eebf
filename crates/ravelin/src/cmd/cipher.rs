//! `ravelin cipher`: ciphers of one's own, for whoever writes one.

mod check;
mod ct;
mod new;
mod program;
mod report;
mod stats;
mod stream;
mod target;

use clap::Subcommand;

pub use ct::{UNDEFINED, child_task, undefined_main};

/// Ciphers of one's own: begin one, check it, test what it makes and how long it takes.
///
/// No daemon is asked, and nothing of the host is changed.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  ravelin cipher new mycipher --lang c           a library, a reference, vectors and a Makefile to begin with
  ravelin cipher check mycipher/mycipher.json    fifteen checks of a library, each in a process of its own
  ravelin cipher stats mycipher/mycipher.json    whether what it makes looks like chance
  ravelin cipher ct mycipher/mycipher.json       whether its time depends on its key
  ravelin cipher stream mycipher/mycipher.json   its key stream, for suites of others
  ravelin cipher report mycipher/mycipher.json --output mycipher.html    what is known of it, on one page")]
pub enum Cipher {
    Check(check::Check),
    New(new::New),
    Stats(stats::Stats),
    Ct(ct::Ct),
    Stream(stream::Stream),
    Report(report::Report),
}

impl Cipher {
    pub fn execute(self) -> anyhow::Result<()> {
        match self {
            Cipher::Check(check) => check.execute(),
            Cipher::New(new) => new.execute(),
            Cipher::Stats(stats) => stats.execute(),
            Cipher::Ct(ct) => ct.execute(),
            Cipher::Stream(stream) => stream.execute(),
            Cipher::Report(report) => report.execute(),
        }
    }
}
