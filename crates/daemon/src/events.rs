//! Everybody who listens to events, and the body of an answer that has no end.

use std::pin::Pin;
use std::task::{Context, Poll};

use api::Event;
use axum::body::{Bytes, HttpBody};
use http_body::Frame;
use tokio::sync::{broadcast, mpsc};

/// Events that a slow reader may lag behind.
const DEPTH: usize = 1024;

/// The hub that tells events to everybody who listens.
#[derive(Debug)]
pub struct EventBus {
    pub(crate) sender: broadcast::Sender<Event>,
    /// The number of listeners that answer acquires.
    pub(crate) answering: usize,
}

impl Default for EventBus {
    fn default() -> EventBus {
        EventBus { sender: broadcast::channel(DEPTH).0, answering: 0 }
    }
}

impl EventBus {
    /// Tell everybody who listens.
    pub(crate) fn tell(&self, event: Event) {
        // An error means that nobody listens.
        let _ = self.sender.send(event);
    }
}

/// The body of an answer that has no end: lines, or a capture.
#[derive(Debug)]
pub struct Lines(mpsc::Receiver<Bytes>);

impl Lines {
    /// What comes out of a channel.
    pub(crate) fn of(chunks: mpsc::Receiver<Bytes>) -> Lines {
        Lines(chunks)
    }
}

impl HttpBody for Lines {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}
