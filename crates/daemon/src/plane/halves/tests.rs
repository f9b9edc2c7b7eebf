//! Threads that have no time: a change of both is made in both, or in neither.

use std::sync::mpsc::{Sender, channel};

use super::*;
use crate::handlers::tests::{Folder, plane};

/// The thread has more to do than its channel holds, until the sender goes.
fn occupied<T: 'static>(handle: &Handle<T>) -> Sender<()> {
    let (go, wait) = channel::<()>();
    let (began, begun) = channel();
    let block = move |_: &mut T| {
        began.send(()).unwrap();
        let _ = wait.recv();
    };
    handle.tell(block).unwrap();
    begun.recv().unwrap();
    for _ in 0..64 {
        handle.tell(|_| ()).unwrap();
    }
    go
}

impl Halves {
    /// Keep the outbound thread from whatever it is asked, until the sender is dropped.
    pub(in crate::plane) fn occupy_outbound(&self) -> Sender<()> {
        occupied(&self.outbound)
    }

    /// Keep the inbound thread from whatever it is asked, until the sender is dropped.
    pub(in crate::plane) fn occupy_inbound(&self) -> Sender<()> {
        occupied(&self.inbound)
    }

    /// The policy by which each half decides.
    pub(in crate::plane) async fn policies(&self) -> [Arc<Spd>; 2] {
        let outbound = self.outbound.insist(|half| Arc::clone(half.engine.policy())).await.unwrap();
        let inbound = self.inbound.insist(|half| half.engine.scrub_policy().cloned()).await.unwrap();
        [outbound, inbound.unwrap()]
    }
}

#[tokio::test]
async fn what_must_not_be_left_half_done_waits_for_its_turn() {
    let folder = Folder::new("insist");
    let plane = plane(folder.config(), None);
    let halves = &plane.halves;
    let busy = halves.occupy_outbound();
    assert_eq!(halves.ask_outbound(|_| ()).await, Err(AskError::Busy));
    let (done, _) = tokio::join!(halves.outbound.insist(|_| 7), async move {
        tokio::task::yield_now().await;
        drop(busy);
    });
    assert_eq!(done, Ok(7));
}

/// The generations of the policies by which the halves decide.
async fn generations(halves: &Halves) -> [u64; 2] {
    halves.policies().await.map(|spd| spd.generation)
}

#[tokio::test]
async fn a_change_is_made_in_both_threads_or_in_neither() {
    let folder = Folder::new("both");
    let plane = plane(folder.config(), None);
    let halves = &plane.halves;
    let of = |generation| by_policy(&Arc::new(Spd::new(generation)));
    halves.change(of(7), of(1)).await.unwrap();
    assert_eq!(generations(halves).await, [7, 7]);
    for occupy in [Halves::occupy_outbound, Halves::occupy_inbound] {
        let busy = occupy(halves);
        assert_eq!(halves.change(of(8), of(7)).await, Err(AskError::Busy));
        drop(busy);
        assert_eq!(generations(halves).await, [7, 7]);
    }
}
