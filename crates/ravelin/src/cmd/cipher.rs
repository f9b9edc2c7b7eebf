//! `ravelin cipher`: ciphers of one's own, for whoever writes one.

mod check;
mod new;

use clap::Subcommand;

/// Ciphers of one's own: begin one, check it.
///
/// No daemon is asked, and nothing of the host is changed.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  ravelin cipher new mycipher --lang c           a library, a reference, vectors and a Makefile to begin with
  ravelin cipher check mycipher/mycipher.json    fifteen checks of a library, each in a process of its own")]
pub enum Cipher {
    Check(check::Check),
    New(new::New),
}

impl Cipher {
    pub fn execute(self) -> anyhow::Result<()> {
        match self {
            Cipher::Check(check) => check.execute(),
            Cipher::New(new) => new.execute(),
        }
    }
}
