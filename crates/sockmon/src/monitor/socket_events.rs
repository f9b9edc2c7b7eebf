//! The reader of what sockets do, and what open sockets must have done.

use super::Sockmon;
use crate::error::SockmonError;
use crate::socket_events::{SocketEvents, calls_of};
use libbpf_rs::MapHandle;
use sadb::SocketEvent;
use wire::Time;

impl Sockmon {
    /// The reader of what sockets do; nothing comes unless [`crate::Options::per_socket`] asked for it.
    ///
    /// # Errors
    /// [`SockmonError`] if the map cannot be opened a second time.
    pub fn socket_events(&self) -> Result<SocketEvents, SockmonError> {
        let map = self.loaded.maps.get("socket_events")?;
        let map = MapHandle::try_from(map).map_err(SockmonError::bpf("open map socket_events"))?;
        Ok(SocketEvents { map })
    }

    /// The calls that the sockets of the guarded namespace must have made to be what they are now: for a reader that was not
    /// there, or lost some. `now` goes into the events.
    ///
    /// # Errors
    /// The kernel does not list its sockets: the errors are those of [`Sockmon::sockets`].
    pub fn socket_calls(&self, now: Time) -> Result<Vec<SocketEvent>, SockmonError> {
        Ok(calls_of(&self.sockets()?, self.netns(), now))
    }
}
