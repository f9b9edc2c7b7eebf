//! A network device that the daemon looks after, by its name and index.

/// A device that the daemon looks after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The name of the device.
    pub name: String,
    /// The kernel's index of the device.
    pub index: u32,
}
