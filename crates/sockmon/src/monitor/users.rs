//! The users whose packets go to the engine.

use super::Sockmon;
use crate::abi::UserKey;
use crate::error::SockmonError;
use crate::users::prefixes;
use std::ops::RangeInclusive;

impl Sockmon {
    /// From now on the packets of these users, and of no others, go to the engine where no application's policy decides about
    /// them. Those that are new come first, those that are gone last.
    ///
    /// # Errors
    /// If the kernel has no room for them; then those of before are among those that are ruled.
    pub fn set_users(&self, users: &[RangeInclusive<u32>]) -> Result<(), SockmonError> {
        let keys: Vec<UserKey> = users.iter().flat_map(prefixes).collect();
        for key in &keys {
            self.loaded.maps.write("users", key, &1u32)?;
        }
        self.loaded.maps.retain("users", |key: &UserKey| !keys.contains(key)).map(drop)
    }
}
