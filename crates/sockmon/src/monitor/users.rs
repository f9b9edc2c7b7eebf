//! The users whose packets go to the engine.

use super::Sockmon;
use crate::abi::UserKey;
use crate::error::SockmonError;
use crate::users::prefixes;
use std::ops::RangeInclusive;

impl Sockmon {
    /// Set the users whose packets go to the engine where no application's policy decides about them. New users are
    /// added first, and users that are gone are removed last.
    ///
    /// # Errors
    /// The kernel has no room for the users. The earlier users then stay in force.
    pub fn set_users(&self, users: &[RangeInclusive<u32>]) -> Result<(), SockmonError> {
        let keys: Vec<UserKey> = users.iter().flat_map(prefixes).collect();
        for key in &keys {
            self.loaded.maps.write("users", key, &1u32)?;
        }
        self.loaded.maps.retain("users", |key: &UserKey| !keys.contains(key)).map(drop)
    }
}
