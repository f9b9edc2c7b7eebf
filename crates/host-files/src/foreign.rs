//! Looks into paths that belong to others. Whoever owns a directory that policy names may put a pipe there, or mount a file system
//! whose server never answers; the thread that looks would then wait for ever. So a thread of its own looks, with no privilege but
//! to read, and nobody waits for it longer than [`LIMIT`].
//!
//! What enters: paths, and what is wanted of each. What leaves: that, or nothing where no answer came. A path without an answer is
//! not asked about again until the thread that waits there has come back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// The time to wait for the answer of one path.
const LIMIT: Duration = Duration::from_secs(3);
/// The number of paths without an answer that are waited for [`LIMIT`] in a round; each further one is waited for
/// [`BRIEF`].
const PATIENCE: usize = 3;
/// The time to wait for each further path; a file system that answers needs far less. With [`STUCK`], a round takes at
/// most 40 seconds.
const BRIEF: Duration = Duration::from_millis(500);
/// The number of threads that may wait somewhere; with more, nobody looks anywhere.
const STUCK: usize = 64;

/// Paths that a thread of this process waits at. Threads are the process's, so this is too.
static WAITING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn waiting() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Call `look` for each path in a thread of its own, and return the answers in order. `None`: the path did not answer
/// in time.
pub fn each<T, L>(paths: &[PathBuf], look: L) -> Vec<Option<T>>
where
    T: Send + 'static,
    L: FnMut(&Path) -> T + Clone + Send + 'static,
{
    let mut out: Vec<Option<T>> = paths.iter().map(|_| None).collect();
    let mut left: Vec<(usize, PathBuf)> = {
        let waiting = waiting();
        let usable = waiting.len() < STUCK;
        let free = |(_, path): &(usize, &PathBuf)| usable && !waiting.contains(*path);
        paths.iter().enumerate().filter(free).map(|(at, path)| (at, path.clone())).collect()
    };
    for turn in 0..STUCK {
        if left.is_empty() || waiting().len() >= STUCK {
            break;
        }
        let limit = if turn < PATIENCE { LIMIT } else { BRIEF };
        let (tell, told) = channel();
        let (work, mut look) = (left.clone(), look.clone());
        let run = move || work_through(&work, &mut look, &tell);
        if let Err(error) = std::thread::Builder::new().name("rvl-look".to_owned()).spawn(run) {
            tracing::warn!("no thread to look at the files that policy names: {error}");
            break;
        }
        let done = gather(&told, &left, limit, &mut out);
        // The one that did not answer is left out.
        left.drain(..left.len().min(done + 1));
    }
    out
}

/// Call `look` for one path, as [`each`] does. `None`: the path did not answer in time.
pub fn one<T, L>(path: &Path, look: L) -> Option<T>
where
    T: Send + 'static,
    L: FnMut(&Path) -> T + Clone + Send + 'static,
{
    each(&[path.to_owned()], look).pop().flatten()
}

/// A look at a path, to be taken by the thread of an [`Asker`].
type PathQuery = Box<dyn FnOnce() + Send>;

/// A thread that examines one path after the other, where the next question depends on the last answer. The thread is
/// kept as long as it answers. After [`PATIENCE`] paths without an answer nothing is asked any more, so that the caller
/// waits for a bounded time.
#[derive(Debug, Default)]
pub struct Asker {
    thread: Option<Sender<PathQuery>>,
    unanswered: usize,
}

impl Asker {
    /// The result of `look` for a path, or for a place that this path names; `None` if there was no answer in time.
    pub fn ask<T: Send + 'static>(
        &mut self,
        path: &Path,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let may_ask = {
            let waiting = waiting();
            waiting.len() < STUCK && !waiting.contains(path)
        };
        if !may_ask || self.unanswered == PATIENCE {
            return None;
        }
        let (tell, told) = channel();
        let own = path.to_owned();
        let look: PathQuery = Box::new(move || {
            let _ = tell.send((0, look()));
            // In this order: whoever finds the path here afterwards has had no answer.
            waiting().remove(&own);
        });
        self.thread()?.send(look).ok()?;
        let mut out = [None];
        gather(&told, &[(0, path.to_owned())], LIMIT, &mut out);
        let [answer] = out;
        if answer.is_none() {
            // The thread ends when it is back.
            self.thread = None;
            self.unanswered += 1;
        }
        answer
    }

    fn thread(&mut self) -> Option<&Sender<PathQuery>> {
        if self.thread.is_none() {
            let (send, receive) = channel::<PathQuery>();
            let run = move || {
                drop_privileges();
                receive.into_iter().for_each(|look| look());
            };
            match std::thread::Builder::new().name("rvl-look".to_owned()).spawn(run) {
                Ok(_) => self.thread = Some(send),
                Err(error) => tracing::warn!("no thread to look at the files that policy names: {error}"),
            }
        }
        self.thread.as_ref()
    }
}

fn drop_privileges() {
    if let Err(error) = keep_read_search_alone() {
        tracing::debug!(%error, "a thread that looks at files of others keeps its capabilities");
    }
}

/// The calling thread keeps the right to read files whoever's they are, if it has that, and no other capability.
fn keep_read_search_alone() -> rustix::io::Result<()> {
    // Where all memory of the process is locked, that of the thread is too.
    let locks = match getrlimit(Resource::Memlock).current {
        None => CapabilitySet::empty(),
        Some(_) => CapabilitySet::IPC_LOCK,
    };
    let kept = capabilities(None)?.permitted & (CapabilitySet::DAC_READ_SEARCH | locks);
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)
}

fn work_through<T>(work: &[(usize, PathBuf)], look: &mut impl FnMut(&Path) -> T, tell: &Sender<(usize, T)>) {
    drop_privileges();
    for (at, path) in work {
        let heard = tell.send((*at, look(path))).is_ok();
        // In this order: whoever finds the path here afterwards has had no answer.
        waiting().remove(path);
        if !heard {
            return;
        }
    }
}

/// Take answers until all are there or one stays away; how many came.
fn gather<T>(
    told: &Receiver<(usize, T)>,
    work: &[(usize, PathBuf)],
    limit: Duration,
    out: &mut [Option<T>],
) -> usize {
    let mut take = |(at, found): (usize, T)| {
        if let Some(place) = out.get_mut(at) {
            *place = Some(found);
        }
    };
    let mut done = 0;
    while let Some((_, path)) = work.get(done) {
        match told.recv_timeout(limit) {
            Ok(answer) => take(answer),
            // The look has panicked.
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let mut waiting = waiting();
                let Ok(answer) = told.try_recv() else {
                    waiting.insert(path.clone());
                    break;
                };
                take(answer);
            }
        }
        done += 1;
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_path_that_does_not_answer_holds_up_no_other_and_is_asked_again_when_its_thread_is_back() {
        let (go, wait) = mpsc::channel::<()>();
        let (back, is_back) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new((wait, back)));
        let look = move |path: &Path| {
            if path == Path::new("/stuck") {
                let (wait, back) = &*wait.lock().unwrap();
                if wait.recv().is_ok() {
                    back.send(()).unwrap();
                }
            }
            path.to_owned()
        };
        let paths = ["/a", "/stuck", "/b"].map(PathBuf::from);
        let found = each(&paths, look.clone());
        assert_eq!(found, [Some("/a".into()), None, Some("/b".into())]);
        assert!(waiting().contains(Path::new("/stuck")));
        // Not asked, so nobody waits.
        assert_eq!(one(Path::new("/stuck"), look.clone()), None);
        go.send(()).unwrap();
        is_back.recv().unwrap();
        drop(go);
        while waiting().contains(Path::new("/stuck")) {
            std::thread::yield_now();
        }
        assert_eq!(one(Path::new("/stuck"), look), Some("/stuck".into()));
    }

    #[test]
    fn what_stands_behind_many_paths_without_an_answer_is_looked_at_all_the_same() {
        let (hold, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let look = move |path: &Path| {
            if path.starts_with("/dead") {
                let _ = wait.lock().unwrap_or_else(PoisonError::into_inner).recv();
            }
            path.to_owned()
        };
        let dead = ["/dead/1", "/dead/2", "/dead/3", "/dead/4", "/dead/5"];
        let paths: Vec<PathBuf> = dead.iter().chain(&["/usr/there"]).map(PathBuf::from).collect();
        let found = each(&paths, look);
        assert_eq!(found, [None, None, None, None, None, Some("/usr/there".into())]);
        drop(hold);
        while dead.iter().any(|path| waiting().contains(Path::new(path))) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_asker_gives_up_a_thread_that_does_not_answer_and_at_last_asks_no_more() {
        let mut asker = Asker::default();
        let mut held = Vec::new();
        for name in ["/silent/1", "/silent/2", "/silent/3"] {
            assert_eq!(asker.ask(Path::new("/there"), || 1), Some(1));
            let (go, wait) = mpsc::channel::<()>();
            assert_eq!(asker.ask(Path::new(name), move || wait.recv()), None);
            assert!(waiting().contains(Path::new(name)));
            held.push((go, name));
        }
        assert_eq!(asker.ask(Path::new("/there"), || 1), None, "it has waited often enough");
        let mut next = Asker::default();
        assert_eq!(next.ask(Path::new("/silent/1"), || 1), None, "a thread is still there");
        assert_eq!(next.ask(Path::new("/there"), || 1), Some(1));
        for (go, name) in held {
            drop(go);
            while waiting().contains(Path::new(name)) {
                std::thread::yield_now();
            }
            assert_eq!(next.ask(Path::new(name), || 1), Some(1));
        }
    }
}
