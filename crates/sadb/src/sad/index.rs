//! The place of an outbound association in its database.

/// The name of one outbound association. Once that is removed the name is dead: it never comes to mean another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SaIndex {
    pub(super) slot: u32,
    pub(super) serial: u32,
}
