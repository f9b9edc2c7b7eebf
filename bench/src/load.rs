//! The programs whose system calls and connections are measured: `bench load KIND ...`. They know nothing of Ravelin.

use crate::interleave::{median, timed};
use anyhow::{Context, bail, ensure};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Calls between two looks at the clock.
const BATCH: usize = 1000;
/// Octets that a client asks with.
const REQUEST: usize = 64;
/// Octets that a server answers with: more than one segment.
const ANSWER: usize = 4096;
/// How long a sink waits for the first datagram, and for the next one.
const FIRST: Duration = Duration::from_secs(20);
const NEXT: Duration = Duration::from_millis(250);
/// A sink answers every so many datagrams, and a paced sender has at most twice as many under way: less than any queue holds.
const CREDIT: usize = 16;
/// How long a paced sender waits for an answer before it takes what is under way for lost: not as long as the sink waits.
const LOST: Duration = Duration::from_millis(150);
/// How long a paced sender sends at most.
const LONGEST: Duration = Duration::from_secs(1);
/// Octets that a sink's socket may hold, so that little is lost behind what is measured.
const QUEUE: usize = 8 << 20;

/// Do what the arguments say:
///
/// - `connects PEER FORBIDDEN COUNT`: so many connect() calls to the peer on one UDP socket; prints `refused` or `allowed`
///   (what connect() to the forbidden peer answered) and the nanoseconds of CPU time a call, median of batches;
/// - `serve ADDRESS`: answer TCP connections, one after the other, without end;
/// - `ask ADDRESS COUNT`: so many TCP connections, one after the other: a request, an answer, the end;
/// - `blast ADDRESS LEN COUNT`: so many datagrams of so many octets, as fast as the socket takes them; prints how many were sent
///   and the nanoseconds;
/// - `pace ADDRESS LEN COUNT`: the same, as fast as the sink answers, and for a second at most;
/// - `transfer ADDRESS OCTETS [random|text]`: so many random octets, or lines of a program, over one TCP connection;
///   prints the nanoseconds of real time from connecting until the other end has read all of them;
/// - `drain ADDRESS`: the other end of one transfer; prints how many octets came;
/// - `pages`, `clients`, `echo`, `rounds`: see [`crate::pages`];
/// - `sink ADDRESS`: count datagrams until there are no more; prints how many, their octets, and the nanoseconds from first to last.
///
/// # Errors
/// On other arguments, and as the network says.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["connects", peer, forbidden, count] => connects(peer.parse()?, forbidden.parse()?, count.parse()?),
        ["serve", address] => serve(address.parse()?),
        ["ask", address, count] => ask(address.parse()?, count.parse()?),
        ["blast", address, len, count] => blast(address.parse()?, len.parse()?, count.parse()?, false),
        ["pace", address, len, count] => blast(address.parse()?, len.parse()?, count.parse()?, true),
        ["sink", address] => sink(address.parse()?),
        ["transfer", address, octets] => transfer(address.parse()?, octets.parse()?, false),
        ["transfer", address, octets, kind @ ("random" | "text")] => {
            transfer(address.parse()?, octets.parse()?, *kind == "text")
        }
        ["drain", address] => drain(address.parse()?),
        ["pages" | "clients" | "echo" | "rounds", ..] => crate::pages::run(&args),
        _ => bail!(
            "usage: bench load (connects PEER FORBIDDEN COUNT | serve ADDRESS | ask ADDRESS COUNT | \
             (blast | pace) ADDRESS LEN COUNT | sink ADDRESS | transfer ADDRESS OCTETS | drain ADDRESS)"
        ),
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

fn blast(address: SocketAddr, len: usize, count: usize, paced: bool) -> anyhow::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(LOST))?;
    let datagram = vec![0x5a; len];
    let (mut sent, mut under_way, start) = (0, 0, Instant::now());
    for _ in 0..count {
        if paced && start.elapsed() >= LONGEST {
            break;
        }
        match socket.send(&datagram) {
            Ok(_) => {}
            // The sink has ended: nothing arrived for so long. What is blasted now is lost.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                if paced {
                    break;
                }
            }
            // A full queue below: the datagram is lost like one that the wire loses.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {}
            Err(error) => return Err(error).context("sending"),
        }
        (sent, under_way) = (sent + 1, under_way + 1);
        if paced && under_way >= 2 * CREDIT {
            under_way = match socket.recv(&mut [0]) {
                Ok(_) => under_way - CREDIT,
                Err(error) if waited(&error) => 0,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
                Err(error) => return Err(error).context("waiting for the sink"),
            };
        }
    }
    println!("{sent} {}", start.elapsed().as_nanos());
    Ok(())
}

fn transfer(address: SocketAddr, octets: usize, text: bool) -> anyhow::Result<()> {
    let mut data = vec![0; octets];
    if text {
        let lines = include_str!("load.rs").as_bytes().iter().cycle();
        data.iter_mut().zip(lines).for_each(|(to, from)| *to = *from);
    } else {
        // The system gives a few megabytes at a time.
        data.chunks_mut(1 << 20).try_for_each(netio::random::fill)?;
    }
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).context("connecting")?;
    stream.write_all(&data).context("sending")?;
    stream.shutdown(Shutdown::Write)?;
    // The other end closes when it has read the last octet.
    let told = stream.read(&mut [0])?;
    ensure!(told == 0, "an answer where the end was expected");
    println!("{}", start.elapsed().as_nanos());
    Ok(())
}

fn drain(address: SocketAddr) -> anyhow::Result<()> {
    let (mut stream, _) = TcpListener::bind(address)?.accept()?;
    let (mut buffer, mut octets) = (vec![0; 1 << 18], 0);
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            len => octets += len,
        }
    }
    drop(stream);
    println!("{octets}");
    Ok(())
}

/// Whether a socket had nothing within its time.
fn waited(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn sink(address: SocketAddr) -> anyhow::Result<()> {
    let socket = UdpSocket::bind(address)?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, QUEUE)?;
    socket.set_read_timeout(Some(FIRST))?;
    let mut buffer = vec![0; 65536];
    let (mut datagrams, mut octets) = (0u64, 0);
    let mut span: Option<(Instant, Instant)> = None;
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((len, sender)) => {
                let now = Instant::now();
                (datagrams, octets) = (datagrams + 1, octets + len);
                span = Some((span.map_or(now, |(first, _)| first), now));
                if datagrams == 1 {
                    socket.set_read_timeout(Some(NEXT))?;
                }
                if datagrams.is_multiple_of(CREDIT as u64) {
                    // The sender may be gone, or may not want answers.
                    let _ = socket.send_to(&[0], sender);
                }
            }
            Err(error) if waited(&error) => break,
            // An answer to a sender that has ended.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error).context("receiving"),
        }
    }
    println!("{datagrams} {octets} {}", span.map_or(0, |(first, last)| (last - first).as_nanos()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_octet_of_a_transfer_arrives() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let drained = std::thread::spawn(move || drain(address));
        // Nobody may listen yet.
        while let Err(error) = transfer(address, 3_000_000, true) {
            assert!(format!("{error:#}").contains("connecting"), "{error:#}");
        }
        drained.join().unwrap().unwrap();
    }

    #[test]
    fn arguments_that_are_none_are_refused() {
        for args in
            [&["connects"][..], &[], &["ask", "nowhere", "3"], &["serve", "127.0.0.1"], &["sink"], &["drain"]]
        {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            assert!(run(&args).is_err(), "{args:?}");
        }
    }
}
