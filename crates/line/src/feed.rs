//! What a standby has to know, as a stream of octets over a Unix socket (docs/design/0024, "A standby").
//!
//! Who connects says with one octet what it wants: `p`, to hear where connections are; `o`, also the octets in store; `a`, to say what
//! another line's stream said. The stream: a head, then batches of records (scrub's `Record`) with their length in front (four octets,
//! big-endian); one of no octets every second, so that both ends know that the other is there. How it gets to another machine is for
//! whoever connects the two: `ssh`, or what Ravelin protects.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use netio::clock;
use scrub::{Feed, Record};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};

use crate::line::Shared;
use crate::worker::Worker;

/// In front of everything: a name and a version.
const HEAD: &[u8; 8] = b"RVLFEED\x03";
/// How often changes are told.
const PAUSE: Duration = Duration::from_millis(50);
/// How often something is said at least.
const BEAT: Duration = Duration::from_secs(1);
/// How long nothing may come of a stream before it counts as broken.
const SILENCE: Duration = Duration::from_secs(5);
/// Octets that a worker writes at a time: it has packets to look at.
const BATCH: usize = 1 << 16;
/// Octets of a batch that are read at most: one record more than that.
const MOST: usize = 1 << 26;

/// Serve whoever has connected, until it goes.
pub async fn serve(mut stream: UnixStream, line: Shared) {
    let mut wish = [0];
    let done = match timeout(SILENCE, stream.read_exact(&mut wish)).await {
        Ok(Ok(_)) => match wish {
            [b'p'] => feed(&mut stream, &line, Feed::Positions).await,
            [b'o'] => feed(&mut stream, &line, Feed::Octets).await,
            [b'a'] => apply(&mut stream, &line).await,
            _ => Err(io::Error::other("it wants nothing that this version knows")),
        },
        _ => return,
    };
    match done {
        Ok(()) => tracing::info!("a stream of connections has ended"),
        Err(error) => tracing::warn!("a stream of connections has ended: {error}"),
    }
}

/// Ask every worker the same question, and collect the answers in the workers' order.
async fn each<T: Send + 'static>(
    line: &Shared,
    ask: impl Fn(&mut Worker) -> T + Clone + Send + 'static,
) -> io::Result<Vec<T>> {
    let line = line.lock().await;
    let mut answers = Vec::new();
    for thread in &line.threads {
        answers
            .push(thread.handle.ask(ask.clone()).await.map_err(|_| io::Error::other("a worker has ended"))?);
    }
    Ok(answers)
}

async fn set(line: &Shared, feed: Feed) -> io::Result<()> {
    let set = move |worker: &mut Worker| {
        if let Some(scrubber) = &mut worker.scrubber {
            scrubber.set_feed(feed);
        }
    };
    each(line, set).await.map(drop)
}

/// Tell of all connections, and then of those that change.
async fn feed(stream: &mut UnixStream, line: &Shared, feed: Feed) -> io::Result<()> {
    let busy = std::mem::replace(&mut line.lock().await.feeding, true);
    if busy {
        return Err(io::Error::other("another standby is fed already; a line has one"));
    }
    tracing::info!("a standby is told of connections");
    let told = async {
        set(line, feed).await?;
        tell(stream, line).await
    };
    let told = told.await;
    let off = set(line, Feed::Off).await;
    line.lock().await.feeding = false;
    told.and(off)
}

async fn tell(stream: &mut UnixStream, line: &Shared) -> io::Result<()> {
    write(stream, HEAD).await?;
    let mut last = Instant::now();
    loop {
        let batches = each(line, |worker| {
            let mut octets = Vec::new();
            if let Some(scrubber) = &mut worker.scrubber {
                let now = clock::monotonic();
                while octets.len() < BATCH
                    && let Some(record) = scrubber.poll_news(now)
                {
                    record.write(&mut octets);
                }
            }
            octets
        });
        let batches = batches.await?;
        let more = batches.iter().any(|batch| batch.len() >= BATCH);
        let beat = last.elapsed() >= BEAT && batches.iter().all(Vec::is_empty);
        for batch in batches.iter().filter(|batch| !batch.is_empty() || beat) {
            let len = u32::try_from(batch.len()).map_err(io::Error::other)?;
            write(stream, &len.to_be_bytes()).await?;
            write(stream, batch).await?;
            last = Instant::now();
        }
        if !more {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Take over what another line's stream says.
async fn apply(stream: &mut UnixStream, line: &Shared) -> io::Result<()> {
    let mut head = [0; HEAD.len()];
    read(stream, &mut head).await?;
    if head != *HEAD {
        return Err(io::Error::other("this is no stream of `ravelin inline feed` of this version"));
    }
    tracing::info!("connections of another line are followed");
    let mut batch = Vec::new();
    loop {
        let mut len = [0; 4];
        match read(stream, &mut len).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            answer => answer?,
        }
        let len = u32::from_be_bytes(len) as usize;
        if len > MOST {
            return Err(io::Error::other(format!("a batch of {len} octets; {MOST} are read at most")));
        }
        batch.clear();
        batch.resize(len, 0);
        read(stream, &mut batch).await?;
        take(line, &batch).await?;
    }
}

/// A standby that does not read keeps others from being fed, and news from being forgotten.
async fn write(stream: &mut UnixStream, octets: &[u8]) -> io::Result<()> {
    match timeout(SILENCE, stream.write_all(octets)).await {
        Ok(answer) => answer,
        Err(_) => {
            let text = format!("the standby has read nothing for {} s", SILENCE.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        }
    }
}

async fn read(stream: &mut UnixStream, into: &mut [u8]) -> io::Result<()> {
    match timeout(SILENCE, stream.read_exact(into)).await {
        Ok(answer) => answer.map(drop),
        Err(_) => {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing came for {} s", SILENCE.as_secs())))
        }
    }
}

/// Give each worker what is its own of a batch.
async fn take(line: &Shared, mut batch: &[u8]) -> io::Result<()> {
    let line = line.lock().await;
    let mut shares: Vec<Vec<Record>> = line.threads.iter().map(|_| Vec::new()).collect();
    while !batch.is_empty() {
        let (record, rest) = Record::read(batch).map_err(io::Error::other)?;
        batch = rest;
        let of = |(one, other): (IpAddr, IpAddr)| line.worker_of(one, other);
        if let Some(share) = record.hosts().map(of).and_then(|at| shares.get_mut(at)) {
            share.push(record);
        }
    }
    for (thread, share) in line.threads.iter().zip(shares) {
        if share.is_empty() {
            continue;
        }
        // Waiting for the answer holds the stream back where a worker is busy.
        let taken = thread.handle.ask(move |worker| {
            if let Some(scrubber) = &mut worker.scrubber {
                let now = clock::monotonic();
                share.iter().for_each(|record| {
                    scrubber.apply(now, record);
                });
            }
        });
        taken.await.map_err(|_| io::Error::other("a worker has ended"))?;
    }
    Ok(())
}
