//! The libraries of a gateway from which components are attached.

use std::fmt;
use std::sync::Arc;

use super::answer::Answer;
use super::instance::{Detached, Instance, Times};
use super::packet_view::{Call, PacketView};

/// What attaches components of one library.
pub trait Maker: Send + Sync {
    /// Attach a component with these parameters, which the library reads. It may name the numbers of ports up to `ports`,
    /// and a call may take `budget_ns` nanoseconds of a processor. `secret` is random, for keys of hashes.
    ///
    /// # Errors
    /// The library refuses the parameters: why, in one line.
    fn make(
        &self,
        parameters: &str,
        ports: u32,
        secret: u64,
        budget_ns: u64,
    ) -> Result<Box<dyn Instance>, String>;
}

/// A maker that descriptions of a gateway share.
#[derive(Clone)]
pub struct SharedMaker(pub Arc<dyn Maker>);

impl fmt::Debug for SharedMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedMaker")
    }
}

impl PartialEq for SharedMaker {
    fn eq(&self, other: &SharedMaker) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedMaker {}

/// A library that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The name of the library, which graphs use.
    pub name: String,
    /// Whether components of it can be attached.
    pub state: LibraryState,
}

/// Whether components of a library can be attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryState {
    /// They can, by this maker.
    Loaded(SharedMaker),
    /// The configuration names it, and this process has not loaded it.
    Named,
    /// It was not loaded: why, as a sentence without a full stop.
    Refused(String),
}

/// The libraries of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Libraries {
    /// Nothing is known of them: a graph may name any, and runs with none.
    #[default]
    Unknown,
    /// The configuration names these and no others.
    Named(Vec<Library>),
}

impl Libraries {
    /// The library of this name, if it is known to be there.
    pub fn find(&self, name: &str) -> Option<&Library> {
        match self {
            Libraries::Unknown => None,
            Libraries::Named(list) => list.iter().find(|library| library.name == name),
        }
    }

    /// The names, if they are known.
    pub fn names(&self) -> Option<Vec<&str>> {
        match self {
            Libraries::Unknown => None,
            Libraries::Named(list) => Some(list.iter().map(|library| library.name.as_str()).collect()),
        }
    }
}

/// An instance that stands for the code of a library in a graph that is only checked, and that no packet passes.
#[derive(Debug)]
pub(crate) struct Absent;

impl Instance for Absent {
    fn judge(&mut self, _: &Call, _: &[PacketView], _: &mut [Answer]) -> Result<(), Detached> {
        Err(Detached::Failed(-1))
    }

    fn times(&self) -> Times {
        Times::default()
    }

    fn abandon(&mut self) {}
}
