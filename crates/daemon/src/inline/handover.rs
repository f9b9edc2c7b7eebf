//! From a process to the next one: what workers know, and their sockets.
//!
//! The parts are here: workers end with their scrubber and their ports ([`super::line::Line::stop`]), a port's socket can be given away and
//! taken over with the frames that wait in it ([`netio::line::Port::into_socket`], [`netio::line::Port::adopt`]), the key of the shards is the
//! guard's, and `handover::channel` carries octets and descriptors. What a scrubber knows has no form as octets yet: [`take_over`] is the
//! one place that waits for it.

/// Take a line over from the process that has it.
///
/// # Errors
/// Always: nothing is pretended.
pub fn take_over(instance: &str) -> Result<(), super::LineError> {
    Err(super::LineError::TakeOver(instance.to_owned()))
}
