//! Programs of others, bounded in time and in what they say.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Octets of an output that are kept.
const MOST: u64 = 256 * 1024;
/// How often it is asked whether a program has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// What a program said.
pub struct ProgramOutput {
    /// Whether its exit status was 0.
    pub ok: bool,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

/// The path of an installed program.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Run a program, with what `input` writes as its standard input, until it ends or its time is over; `None` if its time
/// was over. That it reads less than there is to read is its own affair.
///
/// # Errors
/// It could not be started.
pub fn run(
    command: &mut Command,
    time: Duration,
    input: impl FnOnce(&mut dyn Write) -> std::io::Result<()> + Send,
) -> std::io::Result<Option<ProgramOutput>> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        // The writer ends with the pipe, whose other end closes with the program.
        scope.spawn(move || stdin.map(|mut pipe| input(&mut pipe)));
        let output = scope.spawn(move || text(stdout));
        let errors = scope.spawn(move || text(stderr));
        let end = Instant::now() + time;
        let status = loop {
            match child.try_wait()? {
                Some(status) => break Some(status),
                None if Instant::now() >= end => {
                    child.kill()?;
                    child.wait()?;
                    break None;
                }
                None => thread::sleep(PAUSE),
            }
        };
        let (output, errors) = (output.join().unwrap_or_default(), errors.join().unwrap_or_default());
        Ok(status.map(|status| ProgramOutput { ok: status.success(), output, errors }))
    })
}

/// The beginning of what a pipe gives; the rest is read and forgotten, so that nobody waits for a full pipe.
fn text(pipe: Option<impl Read>) -> String {
    let Some(mut pipe) = pipe else { return String::new() };
    let mut octets = Vec::new();
    // What came before a failure counts.
    let _ = pipe.by_ref().take(MOST).read_to_end(&mut octets);
    let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    String::from_utf8_lossy(&octets).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_read_and_ended() {
        let mut echo = Command::new("cat");
        let said = run(&mut echo, Duration::from_secs(60), |to| to.write_all(b"abc")).unwrap().unwrap();
        assert!(said.ok && said.output == "abc");
        let endless = |to: &mut dyn Write| loop {
            to.write_all(&[0; 4096])?;
        };
        let mut sleeper = Command::new("sleep");
        assert!(run(sleeper.arg("600"), Duration::from_millis(50), endless).unwrap().is_none());
        // One that reads nothing and ends.
        assert!(!run(&mut Command::new("false"), Duration::from_secs(60), endless).unwrap().unwrap().ok);
        assert!(run(&mut Command::new("/nowhere/at/all"), Duration::from_secs(1), |_| Ok(())).is_err());
    }
}
