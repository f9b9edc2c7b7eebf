//! The captures that run and the last ones that ended: who asked for each, and what became of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::{CaptureInfo, CaptureRequest};
use tokio::sync::watch;

use crate::capture::tap::Gauge;
use control::asker::Asker;
use documents::api_error::{ApiError, Blame};

/// Captures at one time.
const MOST: usize = 4;
/// Captures that are remembered, those that run among them.
const REMEMBERED: usize = 16;

/// The state of a capture, which its thread and the control plane share.
#[derive(Debug, Default)]
pub(in crate::plane) struct CaptureState {
    /// It is to end.
    pub stop: watch::Sender<bool>,
    /// Whether the capture has ended.
    pub ended: AtomicBool,
    /// The number of packets that were written.
    pub packets: AtomicU64,
    /// What the taps found no room for.
    pub gauge: Arc<Gauge>,
}

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
    state: Arc<CaptureState>,
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

    /// Enter a capture that begins.
    ///
    /// # Errors
    /// If there are as many as may be.
    pub(in crate::plane) fn enter(
        &self,
        asker: Asker,
        request: &CaptureRequest,
    ) -> Result<(u64, Arc<CaptureState>), ApiError> {
        let mut inner = self.lock();
        if inner.captures.iter().filter(|entry| entry.running()).count() >= MOST {
            let text = format!("{MOST} captures run already, and each costs time for every packet");
            return Err(ApiError::new(Blame::Conflict, text)
                .remedy("end one of them: `ravelin capture --list`, `ravelin capture --stop ID`"));
        }
        inner.last += 1;
        let (id, state) = (inner.last, Arc::new(CaptureState::default()));
        inner.captures.push(Entry { id, asker, request: request.clone(), state: Arc::clone(&state) });
        while inner.captures.len() > REMEMBERED {
            match inner.captures.iter().position(|entry| !entry.running()) {
                Some(oldest) => drop(inner.captures.remove(oldest)),
                None => break,
            }
        }
        Ok((id, state))
    }

    /// The captures that run, and the last ones that ended.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_four_at_most_and_the_last_are_remembered() {
        let captures = Captures::default();
        let request = CaptureRequest::default();
        let states: Vec<_> = (0..MOST).map(|_| captures.enter(Asker::default(), &request).unwrap()).collect();
        let refused = captures.enter(Asker::default(), &request).unwrap_err();
        assert_eq!(refused.fault, Blame::Conflict);
        states[1].1.ended.store(true, Ordering::Relaxed);
        for _ in 0..2 * REMEMBERED {
            let (_, state) = captures.enter(Asker::default(), &request).unwrap();
            state.ended.store(true, Ordering::Relaxed);
        }
        let list = captures.list();
        assert_eq!(list.len(), REMEMBERED);
        assert_eq!(list.iter().filter(|info| info.running).count(), MOST - 1);
        assert_eq!(captures.stop(999).unwrap_err().fault, Blame::NotFound);
        captures.stop(states[0].0).unwrap();
        assert!(*states[0].1.stop.borrow() && !*states[2].1.stop.borrow());
        captures.stop_all();
        assert!(*states[2].1.stop.borrow());
    }
}
