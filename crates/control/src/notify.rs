//! What systemd hears of a daemon that is a unit with `Type=notify` (sd_notify(3)); without `NOTIFY_SOCKET` nobody hears anything.

use sd_notify::NotifyState;

/// The daemon is up: packets are protected, the control socket answers. `status` is what `systemctl status` shows.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The daemon is about to end.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Another process is the unit's main one from now on: the daemon that takes over from this one.
pub fn successor(pid: u32) {
    tell(&[NotifyState::MainPid(pid), NotifyState::Status("handed over to the next daemon")]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("systemd does not hear of the daemon's state: {error}");
    }
}
