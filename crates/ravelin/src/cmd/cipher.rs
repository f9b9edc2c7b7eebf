//! `ravelin cipher`: ciphers of one's own, for whoever writes one.

mod check;
mod ct;
mod measure;
mod new;
mod pack;
mod program;
mod report;
mod stats;
mod stream;
mod target;

use clap::Subcommand;

pub use ct::{UNDEFINED, child_task, undefined_main};

/// Ciphers of one's own: begin one, check it, test what it makes, measure it, pack it, install it.
///
/// No daemon is asked, and nothing of the host is changed, except by `install`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  ravelin cipher new mycipher --lang c           a library, a reference, vectors and a Makefile to begin with
  ravelin cipher check mycipher/mycipher.json    fifteen checks of a library, each in a process of its own
  ravelin cipher stats mycipher/mycipher.json    whether what it makes looks like chance
  ravelin cipher ct mycipher/mycipher.json       whether its time depends on its key
  ravelin cipher stream mycipher/mycipher.json   its key stream, for suites of others
  ravelin cipher report mycipher/mycipher.json --output mycipher.html    what is known of it, on one page
  ravelin cipher bench mycipher/mycipher.json    nanoseconds a packet, and what a gateway would carry
  ravelin cipher pack mycipher/mycipher.json     one file for the hosts that are to have it
  ravelin cipher install mycipher-1.cipher.tar   put it in place, and print the lines for the configuration")]
pub enum Cipher {
    Check(check::Check),
    New(new::New),
    Stats(stats::Stats),
    Ct(ct::Ct),
    Stream(stream::Stream),
    Report(report::Report),
    Bench(measure::Bench),
    Pack(pack::Pack),
    Install(pack::Install),
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
            Cipher::Bench(bench) => bench.execute(),
            Cipher::Pack(pack) => pack.execute(),
            Cipher::Install(install) => install.execute(),
        }
    }
}
