//! `ravelin cipher`: ciphers of one's own, for whoever writes one.

mod check;
mod measure;
mod new;
mod pack;

use clap::Subcommand;

/// Ciphers of one's own: begin one, check it, measure it, pack it, install it.
///
/// No daemon is asked, and nothing of the host is changed, except by `install`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  ravelin cipher new mycipher --lang c           a library, a reference, vectors and a Makefile to begin with
  ravelin cipher check mycipher/mycipher.json    fifteen checks of a library, each in a process of its own
  ravelin cipher bench mycipher/mycipher.json    nanoseconds a packet, and what a gateway would carry
  ravelin cipher pack mycipher/mycipher.json     one file for the hosts that are to have it
  ravelin cipher install mycipher-1.cipher.tar   put it in place, and print the lines for the configuration")]
pub enum Cipher {
    Check(check::Check),
    New(new::New),
    Bench(measure::Bench),
    Pack(pack::Pack),
    Install(pack::Install),
}

impl Cipher {
    pub fn execute(self) -> anyhow::Result<()> {
        match self {
            Cipher::Check(check) => check.execute(),
            Cipher::New(new) => new.execute(),
            Cipher::Bench(bench) => bench.execute(),
            Cipher::Pack(pack) => pack.execute(),
            Cipher::Install(install) => install.execute(),
        }
    }
}
