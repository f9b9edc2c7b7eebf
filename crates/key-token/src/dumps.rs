//! Keeps keys and PINs out of core dumps, and other processes out of this one.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

use crate::error::{Fault, TokenError};

/// Let this process leave no core dump from now on, and let nobody of the same user trace it. Descriptors are to be
/// read before: `/proc/self/fd` is closed to ordinary users afterwards.
///
/// # Errors
/// The kernel refuses.
pub fn keep_out_of_dumps() -> Result<(), TokenError> {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none)
        .and_then(|()| set_dumpable_behavior(DumpableBehavior::NotDumpable))
        .map_err(|error| {
            let text = format!("core dumps of this process cannot be switched off: {error}");
            TokenError::new(Fault::System, text, "look for a filter of system calls around this command")
        })
}
