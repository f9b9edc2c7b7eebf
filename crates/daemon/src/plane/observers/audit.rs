//! What an administrator had the daemon do leaves a trace: a line of the log, of the audit log, and an event.

use api::{Audit, CipherChange, CipherChanged, Event};

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

    /// Leave the trace of a change of a cipher of one's own: a line of the log, one of the audit log, and an event.
    pub(crate) fn cipher_changed(&self, changed: CipherChanged) {
        let CipherChanged { cipher, change, text, left_out } = &changed;
        match change {
            CipherChange::Restarted => tracing::warn!(left_out, "cipher {cipher}: {text}"),
            CipherChange::Failed | CipherChange::Withdrawn => {
                tracing::error!(left_out, "cipher {cipher}: {text}");
            }
        }
        self.auditor.cipher(&changed);
        self.hub.tell(Event::Cipher(changed));
    }
}
