//! A network device that the daemon looks after, by its name and index.

/// A device that the daemon looks after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
}
