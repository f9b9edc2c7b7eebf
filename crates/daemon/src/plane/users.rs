//! The users that rules name, for the kernel half.

use super::Plane;
use crate::refused::Refused;
use crate::rules::RuleBook;
use crate::users::users;

impl Plane {
    /// The engine has these rules: the users that they name, and no others, are its matter.
    ///
    /// # Errors
    /// If the kernel half does not take it; then users of before are the engine's matter still.
    pub(crate) fn set_users(&self, book: &RuleBook) -> Result<(), Refused> {
        self.monitor.get().set_users(&users(&book.in_order())).map_err(Refused::from)
    }
}
