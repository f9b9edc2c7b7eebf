//! The paper's own translation (docs/design/0011): events of sockets, from the kernel half to both data threads.
//!
//! A thread of its own waits for them, so that no request to the control plane delays an entry. Each data thread has entries of
//! its own, made of the same events in the same order; nothing is shared.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use api::{CountersSection, Line, TranslationState};
use netio::clock;
use sadb::{EntryLimits, SocketEvent};
use sockmon::SocketEvents;
use wire::Time;

use crate::datapath::{InboundHalf, OutboundHalf};
use config::Translation;
use control::channel::Handle;

/// How long the thread waits before it looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(200);

/// What the thread has measured.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    pub(crate) nanoseconds: AtomicU64,
    pub(crate) latency: AtomicU64,
    pub(crate) latency_max: AtomicU64,
    /// The thread has ended by itself.
    pub(crate) broken: AtomicBool,
}

impl Meters {
    /// These events became entries between two times.
    fn translated(&self, events: &[SocketEvent], begun: Time, done: Time) {
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds(done.since(begun)), Ordering::Relaxed);
        for event in events {
            let latency = nanoseconds(done.since(event.now));
            self.latency.fetch_add(latency, Ordering::Relaxed);
            self.latency_max.fetch_max(latency, Ordering::Relaxed);
        }
    }
}

/// The thread, as the control plane holds it; it ends with this.
pub struct Translator {
    stop: Arc<AtomicBool>,
    pub(crate) meters: Arc<Meters>,
    /// When sockets were last compared, what the kernel half had lost then, and which policy it had.
    pub(crate) looked: Time,
    pub(crate) lost: u64,
    pub(crate) generation: u32,
}

impl Drop for Translator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Translator {
    /// Hand events on from now.
    ///
    /// # Errors
    /// If the system has no thread, or no descriptor.
    pub(crate) fn start(
        events: SocketEvents,
        outbound: Handle<OutboundHalf>,
        inbound: Handle<InboundHalf>,
    ) -> netio::Result<Translator> {
        let (stop, meters) = (Arc::new(AtomicBool::new(false)), Arc::new(Meters::default()));
        let (stopped, measured) = (Arc::clone(&stop), Arc::clone(&meters));
        let run = move || {
            control::privileges::give_up_all();
            let served = events.serve(PATIENCE, |batch| {
                !stopped.load(Ordering::Relaxed)
                    && (batch.is_empty() || pass(batch, &outbound, &inbound, &measured))
            });
            if let Err(error) = served {
                tracing::error!("sockets make no entries any more, so their packets are refused: {error}");
            }
            measured.broken.store(!stopped.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        let doing = || "starting the thread rvl-sockets".to_owned();
        std::thread::Builder::new()
            .name("rvl-sockets".to_owned())
            .spawn(run)
            .map_err(|source| netio::Error::System { doing: doing(), source })?;
        Ok(Translator { stop, meters, looked: clock::monotonic(), lost: 0, generation: 0 })
    }
}

/// `false`: a data thread has ended.
fn pass(
    batch: &[SocketEvent],
    outbound: &Handle<OutboundHalf>,
    inbound: &Handle<InboundHalf>,
    meters: &Arc<Meters>,
) -> bool {
    let events: Arc<[SocketEvent]> = batch.into();
    let (also, meters) = (Arc::clone(&events), Arc::clone(meters));
    // Outbound first: its packets wait.
    let sent = outbound.tell(move |half| {
        let begun = clock::monotonic();
        half.engine.socket_events(&events);
        meters.translated(&events, begun, clock::monotonic());
    });
    sent.and_then(|()| inbound.tell(move |half| half.engine.socket_events(&also))).is_ok()
}

/// The limits of the configuration; `None`: policy is compiled.
pub(crate) fn limits(translation: Translation) -> Option<EntryLimits> {
    match translation {
        Translation::Compiled => None,
        Translation::PerSocket { ttl, time_wait } => {
            let usual = EntryLimits::default();
            Some(EntryLimits { ttl, time_wait, drain: usual.drain.min(time_wait), ..usual })
        }
    }
}

/// How long the kernel half keeps quiet about a flow that it told of: an entry in use is told of again before it goes.
pub(crate) fn again(translation: Translation) -> Option<u32> {
    limits(translation).map(|limits| u32::try_from(limits.ttl.as_millis() / 2).unwrap_or(u32::MAX))
}

/// The counters of translation as lines of `ravelin stats`.
pub(crate) fn section(state: &TranslationState) -> CountersSection {
    let line =
        |(word, count, text): (&str, u64, &str)| Line { word: word.to_owned(), count, text: text.to_owned() };
    let lines = [
        ("entries", state.entries as u64, "entries of sockets"),
        ("sockets", state.sockets as u64, "sockets that these serve"),
        ("events", state.events, "events of sockets translated"),
        ("lost", state.lost, "events that the kernel half had no room for"),
        ("added", state.added, "entries made"),
        ("deleted", state.deleted, "entries deleted"),
        ("expired", state.expired, "of these, the ones whose time was over"),
        ("refused", state.refused, "entries and sockets for which there was no room"),
        ("waiting", state.waiting as u64, "packets that wait for their entry"),
        ("caught_up", state.caught_up, "packets that waited for their entry and had it then"),
        ("nanoseconds", state.nanoseconds, "nanoseconds of translating"),
        ("latency_nanoseconds", state.latency_nanoseconds, "nanoseconds from calls to their entries"),
        ("latency_max_nanoseconds", state.latency_max_nanoseconds, "nanoseconds of the longest of these"),
    ];
    CountersSection { name: "translation".to_owned(), lines: lines.into_iter().map(line).collect() }
}
