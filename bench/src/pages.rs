//! Many short connections at once, and round trips on one: `bench load pages|clients|echo|rounds`. They know nothing of Ravelin.

use anyhow::{Context, bail, ensure};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Octets that a client asks with, and that a page has (paper 003 section III.C).
const REQUEST: usize = 64;
const PAGE: usize = 1024;
/// Threads of the server: more than clients at once, so that one that waits for a lost request keeps nobody waiting.
const SERVERS: usize = 520;
const STACK: usize = 128 << 10;
/// How long clients work before they count, and how long one waits.
const WARM_UP: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(10);

/// Do what the arguments say:
///
/// - `pages ADDRESS`: a page for each connection, without end;
/// - `clients ADDRESS COUNT SECONDS SOURCE...`: so many clients, each of which gets one page behind the other, a connection each, from
///   the addresses in turn; prints how many pages a second came;
/// - `echo ADDRESS`: send back what comes on each connection, without end;
/// - `rounds ADDRESS OCTETS COUNT`: so many round trips on one connection; prints mean and standard deviation in microseconds.
///
/// # Errors
/// On other arguments, and as the network says.
pub fn run(args: &[&str]) -> anyhow::Result<()> {
    match args {
        ["pages", address] => serve(address.parse()?, page),
        ["echo", address] => serve(address.parse()?, echo),
        ["clients", address, count, seconds, sources @ ..] => {
            let sources = sources.iter().map(|source| source.parse()).collect::<Result<_, _>>()?;
            clients(address.parse()?, count.parse()?, Duration::from_secs_f64(seconds.parse()?), sources)
        }
        ["rounds", address, octets, count] => rounds(address.parse()?, octets.parse()?, count.parse()?),
        _ => bail!(
            "usage: bench load (pages ADDRESS | echo ADDRESS | clients ADDRESS COUNT SECONDS SOURCE... | \
             rounds ADDRESS OCTETS COUNT)"
        ),
    }
}

fn page(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.read_exact(&mut [0; REQUEST])?;
    stream.write_all(&[b'p'; PAGE])
}

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            len => stream.write_all(&buffer[..len])?,
        }
    }
}

fn serve(address: SocketAddr, answer: fn(TcpStream) -> std::io::Result<()>) -> anyhow::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    let listener = Arc::new(TcpListener::from(socket));
    let serve = move |listener: Arc<TcpListener>| {
        loop {
            // A client that goes away is its own affair.
            let _ = listener.accept().and_then(|(stream, _)| answer(stream));
        }
    };
    for _ in 1..SERVERS {
        let listener = Arc::clone(&listener);
        std::thread::Builder::new().stack_size(STACK).spawn(move || serve(listener))?;
    }
    serve(listener)
}

/// One page, over a connection of its own.
fn get(address: &SockAddr, source: Ipv4Addr) -> std::io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&SocketAddr::new(source.into(), 0).into())?;
    socket.connect_timeout(address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut stream = TcpStream::from(socket);
    stream.write_all(&[b'?'; REQUEST])?;
    let mut got = Vec::with_capacity(PAGE);
    stream.read_to_end(&mut got)?;
    if got.len() == PAGE { Ok(()) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}

fn clients(address: SocketAddr, count: usize, time: Duration, sources: Vec<Ipv4Addr>) -> anyhow::Result<()> {
    ensure!(!sources.is_empty(), "clients need an address to come from");
    let counts = Arc::new((AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false)));
    for at in 0..count {
        let (counts, sources) = (Arc::clone(&counts), sources.clone());
        let work = move || {
            let address = address.into();
            for source in sources.iter().cycle().skip(at) {
                match get(&address, *source) {
                    Ok(()) if counts.2.load(Relaxed) => drop(counts.0.fetch_add(1, Relaxed)),
                    Ok(()) => {}
                    Err(_) => drop(counts.1.fetch_add(1, Relaxed)),
                }
            }
        };
        std::thread::Builder::new().stack_size(STACK).spawn(work)?;
    }
    std::thread::sleep(WARM_UP);
    counts.2.store(true, Relaxed);
    let start = Instant::now();
    std::thread::sleep(time);
    let pages = counts.0.load(Relaxed) as f64 / start.elapsed().as_secs_f64();
    println!("{pages:.1} {}", counts.1.load(Relaxed));
    Ok(())
}

fn rounds(address: SocketAddr, octets: usize, count: usize) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).context("connecting")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = vec![7; octets];
    let mut times = Vec::with_capacity(count);
    for at in 0..count + count / 10 {
        let start = Instant::now();
        stream.write_all(&buffer)?;
        stream.read_exact(&mut buffer)?;
        // The first ones warm up.
        if at >= count / 10 {
            times.push(start.elapsed().as_nanos() as f64 / 1000.0);
        }
    }
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64;
    println!("{mean:.2} {:.2}", variance.sqrt());
    Ok(())
}
