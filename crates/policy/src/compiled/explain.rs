//! The explanation of what a compiled policy decides for one of its applications.

use wire::{AppId, Flow};

use super::Compiled;
use crate::explain::{Explanation, answer};

impl Compiled {
    /// Explains what a flow gets, as [`explain`] does, for an application known by its number (a socket's mark).
    pub fn explain_app(&self, id: AppId, flow: &Flow) -> Explanation {
        let application = self.application(id);
        let program = application.map_or_else(|| format!("application {}", id.0), |a| a.name.clone());
        answer(self, &program, application, flow)
    }
}
