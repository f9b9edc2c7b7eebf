//! Who captures what: starts captures, ends them, remembers the last ones.

use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::{CaptureInfo, CaptureRequest};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::names::Names;
use super::writer::{Job, State};
use crate::capture::tap::{Filter, Tap};
use crate::events::Lines;
use crate::plane::{Plane, Shared};
use control::asker::Asker;
use documents::api_error::{ApiError, Blame};

/// Captures at one time.
const MOST: usize = 4;
/// Captures that are remembered, those that run among them.
const REMEMBERED: usize = 16;
/// Records that wait for one capture.
const DEPTH: usize = 8192;
/// Chunks that wait for one reader.
const CHUNKS: usize = 16;
/// The most octets that a capture keeps of a packet, and what it keeps unless told otherwise.
const WHOLE: u32 = 65_535;

/// The captures of a daemon.
#[derive(Debug, Default)]
pub struct Captures {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    captures: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    asker: Asker,
    request: CaptureRequest,
    state: Arc<State>,
}

impl Entry {
    fn running(&self) -> bool {
        !self.state.ended.load(Ordering::Relaxed)
    }
}

impl Captures {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, asker: Asker, request: &CaptureRequest) -> Result<(u64, Arc<State>), ApiError> {
        let mut inner = self.lock();
        if inner.captures.iter().filter(|entry| entry.running()).count() >= MOST {
            let text = format!("{MOST} captures run already, and each costs time for every packet");
            return Err(ApiError::new(Blame::Conflict, text)
                .remedy("end one of them: `ravelin capture --list`, `ravelin capture --stop ID`"));
        }
        inner.last += 1;
        let (id, state) = (inner.last, Arc::new(State::default()));
        inner.captures.push(Entry { id, asker, request: request.clone(), state: Arc::clone(&state) });
        while inner.captures.len() > REMEMBERED {
            match inner.captures.iter().position(|entry| !entry.running()) {
                Some(oldest) => drop(inner.captures.remove(oldest)),
                None => break,
            }
        }
        Ok((id, state))
    }

    /// Those that run, and the last that ended.
    pub fn list(&self) -> Vec<CaptureInfo> {
        let info = |entry: &Entry| CaptureInfo {
            id: entry.id,
            uid: entry.asker.uid,
            pid: entry.asker.pid,
            running: entry.running(),
            packets: entry.state.packets.load(Ordering::Relaxed),
            lost: entry.state.gauge.lost.iter().map(|lost| lost.load(Ordering::Relaxed)).sum(),
            request: entry.request.clone(),
        };
        self.lock().captures.iter().map(info).collect()
    }

    /// Let a capture end; what it has is written first.
    ///
    /// # Errors
    /// If there is none of this number.
    pub fn stop(&self, id: u64) -> Result<(), ApiError> {
        let inner = self.lock();
        let entry = inner.captures.iter().find(|entry| entry.id == id).ok_or_else(|| {
            ApiError::new(Blame::NotFound, format!("there is no capture {id}"))
                .remedy("`ravelin capture --list` shows those that run")
        })?;
        entry.state.stop.send_replace(true);
        Ok(())
    }

    /// Let all of them end.
    pub fn stop_all(&self) {
        for entry in &self.lock().captures {
            entry.state.stop.send_replace(true);
        }
    }
}

/// A capture's number and its octets, until it ends.
#[derive(Debug)]
pub struct Stream {
    /// The number of the capture.
    pub id: u64,
    /// The body of the answer.
    pub octets: Lines,
}

/// Begin a capture as requested.
///
/// # Errors
/// What is wrong with the request, or there are too many.
pub async fn start(shared: Shared, asker: Asker, request: CaptureRequest) -> Result<Stream, ApiError> {
    let plane = shared.get().await?;
    let app = match &request.app {
        None => None,
        Some(name) => Some(plane.policy().app(name).ok_or_else(|| {
            ApiError::new(Blame::NotFound, format!("the policy has no block for application {name:?}"))
                .remedy("name an application as the policy does (`ravelin policy check FILE` lists them)")
        })?),
    };
    if request.snaplen == Some(0) || request.count == Some(0) || request.seconds == Some(0) {
        return Err(ApiError::new(Blame::BadRequest, "a capture of nothing").remedy("give 1 or more"));
    }
    let snaplen = request.snaplen.unwrap_or(WHOLE).min(WHOLE) as usize;
    let filter = Filter { app, spi: request.sa.map(|spi| spi.0), dropped: request.dropped, snaplen };
    let desk = Arc::clone(&plane.observers.captures);
    let (id, state) = desk.enter(asker, &request)?;
    let (records, waiting) = sync_channel(DEPTH);
    let (out, chunks) = mpsc::channel(CHUNKS);
    let runtime = Handle::current();
    let job = Job {
        form: request.form,
        app,
        count: request.count,
        until: request.seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds))),
        snaplen,
        records: waiting,
        state: Arc::clone(&state),
        names: Names::new(shared.clone(), runtime.clone()),
        runtime: runtime.clone(),
        out,
    };
    let tap = Tap { id, filter, records, gauge: Arc::clone(&state.gauge) };
    let begun = begin(&plane, tap, job, shared.clone(), runtime).await;
    if let Err(refused) = begun {
        // A thread that was not made has dropped its guard, which waits for this lock.
        state.ended.store(true, Ordering::Relaxed);
        remove(&plane, id).await;
        return Err(refused);
    }
    plane.audit(asker, "capture_started", words(id, &request));
    Ok(Stream { id, octets: Lines::of(chunks) })
}

/// Ends a capture when its thread does, also when that breaks.
struct Guard {
    id: u64,
    state: Arc<State>,
    shared: Shared,
    runtime: Handle,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        let (id, shared) = (self.id, self.shared.clone());
        // Not waited for: a thread of the runtime must not.
        self.runtime.spawn(async move {
            // A daemon that ends takes the taps along.
            if let Ok(plane) = shared.get().await {
                remove(&plane, id).await;
            }
        });
    }
}

/// Whoever calls must not be dropped in between: a tap would stay behind.
async fn begin(plane: &Plane, tap: Tap, job: Job, shared: Shared, runtime: Handle) -> Result<(), ApiError> {
    let (id, state) = (tap.id, Arc::clone(&job.state));
    let other = tap.clone();
    plane.halves.ask_outbound(move |half| half.taps.add(tap)).await?;
    plane.halves.ask_inbound(move |half| half.taps.add(other)).await?;
    let guard = Guard { id, state, shared, runtime };
    let thread = std::thread::Builder::new().name("rvl-capture".to_owned()).spawn(move || {
        control::privileges::give_up_all();
        let _guard = guard;
        job.run();
    });
    let failed =
        |error: std::io::Error| ApiError::new(Blame::Failed, format!("no thread for the capture: {error}"));
    thread.map(drop).map_err(failed)
}

async fn remove(plane: &Plane, id: u64) {
    // A thread that has stopped copies nothing either.
    let _ = plane.halves.ask_outbound(move |half| half.taps.remove(id)).await;
    let _ = plane.halves.ask_inbound(move |half| half.taps.remove(id)).await;
}

/// What a request asks for.
fn words(id: u64, request: &CaptureRequest) -> String {
    let mut out = format!("capture {id} of");
    match &request.app {
        Some(app) => out.push_str(&format!(" packets of {app:?}")),
        None => out.push_str(" packets"),
    }
    if let Some(spi) = request.sa {
        out.push_str(&format!(" of SPI {spi}"));
    }
    if request.dropped {
        out.push_str(" that end");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_four_at_most_and_the_last_are_remembered() {
        let desk = Captures::default();
        let request = CaptureRequest::default();
        let states: Vec<_> = (0..MOST).map(|_| desk.enter(Asker::default(), &request).unwrap()).collect();
        let refused = desk.enter(Asker::default(), &request).unwrap_err();
        assert_eq!(refused.fault, Blame::Conflict);
        states[1].1.ended.store(true, Ordering::Relaxed);
        for _ in 0..2 * REMEMBERED {
            let (_, state) = desk.enter(Asker::default(), &request).unwrap();
            state.ended.store(true, Ordering::Relaxed);
        }
        let list = desk.list();
        assert_eq!(list.len(), REMEMBERED);
        assert_eq!(list.iter().filter(|info| info.running).count(), MOST - 1);
        assert_eq!(desk.stop(999).unwrap_err().fault, Blame::NotFound);
        desk.stop(states[0].0).unwrap();
        assert!(*states[0].1.stop.borrow() && !*states[2].1.stop.borrow());
        desk.stop_all();
        assert!(*states[2].1.stop.borrow());
    }
}
