//! What an administrator had the daemon do leaves a trace: a line of the log, of the audit log, and an event.

use api::{Audit, Event};

use super::Observers;
use control::asker::{Asker, TARGET};

impl Observers {
    /// Leave the trace of an action: a line of the log, one of the audit log, and an event.
    pub fn audit(&self, asker: Asker, action: &str, detail: String) {
        let Asker { uid, pid } = asker;
        tracing::warn!(target: TARGET, uid, pid = pid.unwrap_or(0), action, "audit: {detail}");
        self.auditor.action(action, uid, pid, &detail);
        self.hub.tell(Event::Audit(Audit { action: action.to_owned(), uid, pid, detail }));
    }
}
