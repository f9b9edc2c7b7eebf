//! The programs whose system calls and connections are measured: `bench load KIND ...`. They know nothing of Ravelin.

use crate::interleave::{median, timed};
use anyhow::{Context, bail, ensure};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

/// Calls between two looks at the clock.
const BATCH: usize = 1000;
/// Octets that a client asks with.
const REQUEST: usize = 64;
/// Octets that a server answers with: more than one segment.
const ANSWER: usize = 4096;

/// Do what the arguments say:
///
/// - `connects PEER FORBIDDEN COUNT`: so many connect() calls to the peer on one UDP socket; prints `refused` or `allowed`
///   (what connect() to the forbidden peer answered) and the nanoseconds of CPU time a call, median of batches;
/// - `serve ADDRESS`: answer TCP connections, one after the other, without end;
/// - `ask ADDRESS COUNT`: so many TCP connections, one after the other: a request, an answer, the end.
///
/// # Errors
/// On other arguments, and as the network says.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["connects", peer, forbidden, count] => connects(peer.parse()?, forbidden.parse()?, count.parse()?),
        ["serve", address] => serve(address.parse()?),
        ["ask", address, count] => ask(address.parse()?, count.parse()?),
        _ => bail!("usage: bench load (connects PEER FORBIDDEN COUNT | serve ADDRESS | ask ADDRESS COUNT)"),
    }
}

fn connects(peer: SocketAddr, forbidden: SocketAddr, count: usize) -> anyhow::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let word = match socket.connect(forbidden) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => "refused",
        Err(error) => return Err(error).context("connecting to the forbidden peer"),
        Ok(()) => "allowed",
    };
    let mut batches = Vec::with_capacity(count / BATCH);
    for _ in 0..count.div_ceil(BATCH) {
        let (result, cost) = timed(BATCH, || (0..BATCH).try_for_each(|_| socket.connect(peer)));
        result.context("connecting")?;
        batches.push(cost.per_item());
    }
    ensure!(!batches.is_empty(), "no call was asked for");
    println!("{word} {:.2}", median(&mut batches));
    Ok(())
}

fn serve(address: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address)?;
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.read_exact(&mut [0; REQUEST])?;
        stream.write_all(&[7; ANSWER])?;
    }
}

fn ask(address: SocketAddr, count: usize) -> anyhow::Result<()> {
    for _ in 0..count {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(&[7; REQUEST])?;
        let mut answer = Vec::with_capacity(ANSWER);
        stream.read_to_end(&mut answer)?;
        ensure!(answer.len() == ANSWER, "an answer of {} octets", answer.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_none_are_refused() {
        for args in [&["connects"][..], &[], &["ask", "nowhere", "3"], &["serve", "127.0.0.1"]] {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            assert!(run(&args).is_err(), "{args:?}");
        }
    }
}
