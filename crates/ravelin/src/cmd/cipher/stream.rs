//! `ravelin cipher stream`: the key stream of a cipher, for any suite of others.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::PathBuf;

use cipher_stats::{KeyStream, SEED};
use clap::Args;

use super::stats::{failed, seed};
use super::target::Target;
use crate::exit::Failure;
use crate::output;

/// Octets that are made and written at once.
const PIECE: usize = 64 * 1024;

/// Write the key stream of a cipher to standard output.
///
/// A block cipher is in counter mode, a combined mode encrypts zeros without its tags. The stream is cut into packets of 4096
/// octets with a sequence number each, as ESP would number them. It ends after so many octets, or when nobody reads any
/// more.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ravelin cipher stream mycipher.json | dieharder -g 200 -a
  ravelin cipher stream maes512 --octets 16777216 | ent")]
pub struct Stream {
    /// The manifest of the cipher, library and vectors beside it; or maes512, which is compiled in.
    cipher: PathBuf,
    /// The number of octets [default: no end].
    #[arg(long, value_name = "NUMBER")]
    octets: Option<u64>,
    /// The seed of the key, as hexadecimal digits [default: the same in every run].
    #[arg(long, value_name = "HEX", value_parser = seed)]
    seed: Option<u64>,
}

impl Stream {
    pub fn execute(self) -> anyhow::Result<()> {
        if std::io::stdout().is_terminal() {
            let text = "a key stream is nothing to look at; send it to a program or into a file";
            return Err(Failure::bad_input(text));
        }
        let cipher = Target::of(&self.cipher).load()?;
        let mut stream = KeyStream::new(cipher, self.seed.unwrap_or(SEED)).map_err(|error| failed(&error))?;
        output::take();
        let mut out = std::io::stdout().lock();
        let (mut piece, mut left) = (vec![0; PIECE], self.octets.unwrap_or(u64::MAX));
        while left > 0 {
            let now = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let piece = piece.get_mut(..now).unwrap_or_default();
            stream.fill(piece).map_err(|error| failed(&error))?;
            match out.write_all(piece) {
                Ok(()) => left -= now as u64,
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        match out.flush() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }
}
