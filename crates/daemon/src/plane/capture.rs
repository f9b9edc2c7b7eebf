//! Live captures ([`crate::capture`]), the control plane's side: a capture begins and ends. A thread for each capture makes a
//! capture file or lines of what its taps copied, with names, and the control API sends those. What runs stands in
//! `observers/captures.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use api::CaptureRequest;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use self::names::Names;
use self::writer::Job;
use super::observers::captures::CaptureState;
use super::{Plane, Shared};
use crate::capture::tap::{Filter, Tap};
use crate::events::Lines;
use control::asker::Asker;
use documents::api_error::{ApiError, Blame};

mod names;
mod text;
mod writer;

/// Records that wait for one capture.
const DEPTH: usize = 8192;
/// Chunks that wait for one reader.
const CHUNKS: usize = 16;
/// The most octets that a capture keeps of a packet, and what it keeps unless told otherwise.
const WHOLE: u32 = 65_535;

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
    let captures = plane.observers.captures_shared();
    let (id, state) = captures.enter(asker, &request)?;
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
    state: Arc<CaptureState>,
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

/// The request in words, for the audit log.
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
