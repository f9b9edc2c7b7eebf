//! Events on their way from a data thread to the control plane: a bounded channel that is never waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::Event;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The most events that wait for the control plane.
const DEPTH: usize = 1024;

/// The data threads' end of the channel of events.
#[derive(Clone, Debug, Default)]
pub struct EventSender {
    /// The channel to the control plane; `None`: nobody listens.
    events: Option<Sender<Event>>,
    lost: Arc<AtomicU64>,
    routes: Arc<Notify>,
}

/// The control plane's end of the channel of events.
#[derive(Debug)]
pub struct EventReceiver {
    events: Receiver<Event>,
    lost: Arc<AtomicU64>,
    /// A data thread wants the routes to peers looked at.
    pub routes: Arc<Notify>,
}

/// Make the data threads' end, a clone for each, and the control plane's end.
pub fn event_channel() -> (EventSender, EventReceiver) {
    let (sender, receiver) = channel(DEPTH);
    let lost = Arc::new(AtomicU64::new(0));
    let routes = Arc::new(Notify::new());
    let teller = EventSender { events: Some(sender), lost: Arc::clone(&lost), routes: Arc::clone(&routes) };
    (teller, EventReceiver { events: receiver, lost, routes })
}

impl EventSender {
    /// Pass on what a half of the engine has to say.
    pub fn tell_all(&self, events: impl Iterator<Item = Event>) {
        events.for_each(|event| self.tell(event));
    }

    /// Pass an event on, or count it as lost.
    pub fn tell(&self, event: Event) {
        if let Some(events) = &self.events
            && events.try_send(event).is_err()
        {
            self.lost(1);
        }
    }

    /// Let the control plane look at the routes to the peers; asked many times before it does, it looks once.
    pub fn look_at_routes(&self) {
        self.routes.notify_one();
    }

    /// Count events that were lost before.
    pub fn lost(&self, count: u64) {
        if count > 0 {
            self.lost.fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl EventReceiver {
    /// The next event; `None` once no thread is left to tell any.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Events lost since the last call.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Expire;
    use sadb::sa::LifeState;
    use sadb::{Direction, Spi};

    #[tokio::test]
    async fn what_finds_no_room_is_counted() {
        let (teller, mut told) = event_channel();
        let event = |n| {
            Event::Expire(Expire {
                spi: Spi(n),
                direction: Direction::Inbound,
                remote: [192, 0, 2, 1].into(),
                state: LifeState::Dying,
                packets: 0,
                bytes: 0,
            })
        };
        for n in 0..DEPTH as u32 + 3 {
            teller.tell(event(n));
        }
        assert_eq!((told.take_lost(), told.take_lost()), (3, 0));
        for n in 0..DEPTH as u32 {
            assert_eq!(told.next().await, Some(event(n)));
        }
        drop(teller);
        assert_eq!(told.next().await, None);
        EventSender::default().tell(event(0));
    }
}
