//! Running a test process: its output line by line, an end at the limit, and nothing left behind.

use anyhow::{Context, Result, anyhow};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long a test program's output may stay open after its end.
const GRACE: Duration = Duration::from_secs(5);

/// Run the command, hand each line of its standard output to `each`, kill it at the limit. A process that outlives
/// it and keeps its output open is an error too: a test must leave nothing behind.
pub fn watch(command: &mut Command, limit: Duration, mut each: impl FnMut(&str)) -> Result<ExitStatus> {
    let deadline = Instant::now() + limit;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let child = child
        .as_mut()
        .map_err(|error| anyhow!("cannot start {}: {error}", command.get_program().display()))?;
    let lines = lines(child)?;
    loop {
        match lines.recv_timeout(Duration::from_millis(200)) {
            Ok(line) => each(&line),
            Err(RecvTimeoutError::Disconnected) => {
                return child.wait().context("cannot wait for a test program");
            }
            Err(RecvTimeoutError::Timeout) if child.try_wait()?.is_some() => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if Instant::now() > deadline {
            child.kill().context("cannot kill a test program")?;
            child.wait()?;
            return Err(anyhow!(
                "killed after {} s; it may have left namespaces or processes",
                limit.as_secs()
            ));
        }
    }
    let grace = Instant::now() + GRACE;
    loop {
        match lines.recv_timeout(grace.saturating_duration_since(Instant::now())) {
            Ok(line) => each(&line),
            Err(RecvTimeoutError::Disconnected) => {
                return child.wait().context("cannot wait for a test program");
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err(anyhow!("left a process behind that holds its output"));
            }
        }
    }
}

/// The child's standard output line by line, read by a thread so that waiting can end.
fn lines(child: &mut Child) -> Result<Receiver<String>> {
    let stdout = child.stdout.take().context("a piped child has a standard output")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> (Result<ExitStatus>, Vec<String>) {
        let mut seen = Vec::new();
        let ended = watch(Command::new("sh").args(["-c", script]), limit, |line| seen.push(line.to_string()));
        (ended, seen)
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let (ended, seen) = sh("echo begun; exec sleep 600", Duration::from_secs(1));
        assert!(ended.is_err_and(|error| error.to_string().starts_with("killed after 1 s")));
        assert_eq!(seen, ["begun"]);
    }

    #[test]
    fn a_process_left_behind_is_an_error() {
        let (ended, seen) = sh("sleep 8 & echo done", Duration::from_secs(60));
        assert!(ended.is_err_and(|error| error.to_string().contains("left a process behind")));
        assert_eq!(seen, ["done"]);
    }

    #[test]
    fn all_output_is_read_before_the_end() {
        let (ended, seen) = sh("seq 1 20000; exit 3", Duration::from_secs(60));
        assert_eq!(ended.expect("it ends").code(), Some(3));
        assert_eq!(seen.len(), 20000);
    }
}
