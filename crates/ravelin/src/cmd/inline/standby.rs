//! The commands that make one line follow another.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use clap::Args;

use crate::client::instance;
use crate::exit::{Failure, Kind};

/// The line that a command is about.
#[derive(Debug, Args)]
struct Line {
    /// The name of the line.
    #[arg(long, value_name = "NAME", default_value = config::INSTANCE, value_parser = instance)]
    instance: String,
}

impl Line {
    fn connect(&self, wish: u8) -> anyhow::Result<UnixStream> {
        let path: PathBuf = line::standby_socket(&self.instance);
        let connect = || {
            let mut stream = UnixStream::connect(&path)?;
            stream.write_all(&[wish])?;
            io::Result::Ok(stream)
        };
        connect().map_err(|error| {
            let text = format!(
                "no process serves the line {} ({}: {error}); `ravelin inline run` does",
                self.instance,
                path.display()
            );
            let denied = error.kind() == io::ErrorKind::PermissionDenied;
            Failure::of(if denied { Kind::NotAllowed } else { Kind::Unreachable }, text)
        })
    }
}

/// Copy what comes as it comes, until it ends.
fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<u64> {
    let (mut buffer, mut sum) = (vec![0; 1 << 16], 0);
    loop {
        let len = match from.read(&mut buffer) {
            Ok(0) => return Ok(sum),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(buffer.get(..len).unwrap_or_default())?;
        to.flush()?;
        sum += len as u64;
    }
}

/// Tell a standby of this line's connections: a stream of octets on standard output, until the line ends.
///
/// First all of them, then those that change. `ssh first ravelin inline feed | ravelin inline follow` on the standby.
#[derive(Debug, Args)]
pub struct FeedCommand {
    #[command(flatten)]
    line: Line,
    /// Also the octets that hosts have not acknowledged: more to send, and connections that were busy go on.
    #[arg(long)]
    octets: bool,
}

impl FeedCommand {
    pub fn execute(self) -> anyhow::Result<()> {
        let stream = self.line.connect(if self.octets { b'o' } else { b'p' })?;
        let told = match copy(&stream, io::stdout().lock()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            told => told?,
        };
        if told == 0 {
            return Err(Failure::of(
                Kind::Failed,
                "the line says nothing: another standby is fed already; its log has the reason",
            ));
        }
        Err(Failure::of(Kind::Failed, "the line has ended"))
    }
}

/// Follow another line's connections: the stream of its `feed` on standard input.
///
/// When packets come to this line instead of the other, connections go on.
#[derive(Debug, Args)]
pub struct Follow {
    #[command(flatten)]
    line: Line,
}

impl Follow {
    pub fn execute(self) -> anyhow::Result<()> {
        let stream = self.line.connect(b'a')?;
        match copy(io::stdin().lock(), &stream) {
            Ok(0) => Err(Failure::bad_input(
                "nothing came on standard input; it wants the stream of `ravelin inline feed`",
            )),
            Ok(_) => Ok(()),
            Err(error) => {
                let text = format!("the line does not take what came ({error}); its log has the reason");
                Err(Failure::of(Kind::Failed, text))
            }
        }
    }
}
