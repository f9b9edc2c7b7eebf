//! The log, and its filter while the daemon runs: how much of what is shown, for how long.
//!
//! Only the house's own parts can be made to say more: what they log is known never to hold keys or payloads. What the
//! filter leaves out costs one comparison where it would be said, and no packet of the fast path says anything.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use api::{DebugRequest, DebugState};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::asker::TARGET;
use documents::api_error::{ApiError, Blame};

/// The parts of the house that log, by the names that are shown.
const PARTS: [&str; 8] = ["ravelin", "daemon", "netio", "sockmon", "policy", "engine", "ipsec", "sadb"];
/// The rooms that log for the daemon beside its own: the part `daemon` of a filter means them too.
const OF_DAEMON: [&str; 6] = ["config", "control", "documents", "host_files", "line", "offline"];
/// The levels, quiet first.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// The longest time that a filter holds by itself.
const LONGEST: u64 = 7 * 86_400;

static LOG: OnceLock<Log> = OnceLock::new();

struct Log {
    handle: reload::Handle<EnvFilter, Registry>,
    /// The filter that was asked for at the start, perhaps by `RAVELIN_LOG`: that may name what [`checked`] does not
    /// know.
    default: String,
    now: Mutex<Now>,
}

struct Now {
    filter: String,
    until: Option<Instant>,
    /// Grows with each change: an end that was set before means nothing any more.
    change: u64,
}

/// Log to standard error from now on, filtered as `RAVELIN_LOG` says, or by the level; with or without colours.
pub fn start(level: &str, color: bool) {
    let asked = std::env::var("RAVELIN_LOG").ok();
    let parsed = asked.and_then(|text| EnvFilter::try_new(audited(&text)).ok().map(|filter| (text, filter)));
    let (default, filter) = parsed.unwrap_or_else(|| (level.to_owned(), EnvFilter::new(audited(level))));
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_target(false).with_ansi(color).with_writer(std::io::stderr);
    tracing_subscriber::registry().with(filter).with(lines).init();
    let now = Mutex::new(Now { filter: default.clone(), until: None, change: 0 });
    let _ = LOG.set(Log { handle, default, now });
}

fn log() -> Result<&'static Log, ApiError> {
    LOG.get().ok_or_else(|| {
        ApiError::new(Blame::Failed, "this daemon's log was not set up by itself and cannot be switched")
            .remedy("start it with `ravelin run`")
    })
}

impl Log {
    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> DebugState {
        let now = self.now();
        let left = now.until.map(|until| until.saturating_duration_since(Instant::now()));
        DebugState {
            filter: now.filter.clone(),
            default: self.default.clone(),
            // Begun seconds count.
            seconds_left: left.map(|left| left.as_millis().div_ceil(1000) as u64),
        }
    }

    fn set(&self, filter: &str, until: Option<Instant>) -> Result<u64, ApiError> {
        let failed =
            |error: &dyn std::fmt::Display| ApiError::new(Blame::Failed, format!("the log: {error}"));
        let text = if filter == self.default { audited(filter) } else { directives(filter) };
        let directives = EnvFilter::try_new(text).map_err(|error| failed(&error))?;
        self.handle.reload(directives).map_err(|error| failed(&error))?;
        let mut now = self.now();
        (now.filter, now.until) = (filter.to_owned(), until);
        now.change += 1;
        Ok(now.change)
    }
}

/// The filter in force.
///
/// # Errors
/// If the log is not ours.
pub fn state() -> Result<DebugState, ApiError> {
    log().map(Log::state)
}

/// Another filter, perhaps for a time; `before` is called with it just before it counts. Needs the control plane's runtime.
///
/// # Errors
/// What is wrong with the filter; the one before stays.
pub fn switch(request: &DebugRequest, before: impl FnOnce(&str)) -> Result<DebugState, ApiError> {
    let log = log()?;
    let filter = if request.filter == "default" { log.default.clone() } else { checked(&request.filter)? };
    if request.seconds.is_some_and(|seconds| !(1..=LONGEST).contains(&seconds)) {
        return Err(ApiError::new(Blame::BadRequest, "a filter holds for 1 s to 7 days")
            .remedy("leave --for out, for as long as the daemon runs"));
    }
    let time = request.seconds.map(Duration::from_secs);
    before(&filter);
    let change = log.set(&filter, time.and_then(|time| Instant::now().checked_add(time)))?;
    if let Some(time) = time {
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            if log.now().change == change && log.set(&log.default, None).is_ok() {
                tracing::warn!(target: TARGET, "the log shows {} again", log.default);
            }
        });
    }
    Ok(log.state())
}

/// A level, or parts with levels: `debug`, `daemon=debug,sockmon=trace`.
fn checked(text: &str) -> Result<String, ApiError> {
    let wrong = |what: &str| {
        let what: String = what.chars().take(64).collect();
        ApiError::new(Blame::BadRequest, format!("{what:?} is no part of a filter")).remedy(format!(
            "write a level ({}), or PART=LEVEL, separated by commas, with the parts {}",
            LEVELS.join(", "),
            PARTS.join(", ")
        ))
    };
    for directive in text.split(',') {
        let (part, level) = directive.split_once('=').unwrap_or(("", directive));
        let inside = |name: &&'static str| {
            part.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let plain = part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':'));
        let known = !directive.contains('=') || PARTS.iter().chain(&OF_DAEMON).any(inside);
        if !LEVELS.contains(&level) || !known || !plain {
            return Err(wrong(directive));
        }
    }
    Ok(text.to_owned())
}

/// A filter for the log: a level alone is for the house; libraries say nothing below a warning, for what they say is not known.
fn directives(filter: &str) -> String {
    let mut out = Vec::new();
    for directive in filter.split(',') {
        match directive {
            "off" | "error" | "warn" => out.push(directive.to_owned()),
            level if LEVELS.contains(&level) => {
                out.push("warn".to_owned());
                out.extend(PARTS.iter().chain(&OF_DAEMON).map(|part| format!("{part}={level}")));
            }
            other if other.starts_with("daemon=") => {
                let level = other.trim_start_matches("daemon=");
                out.push(other.to_owned());
                out.extend(OF_DAEMON.iter().map(|room| format!("{room}={level}")));
            }
            other => out.push(other.to_owned()),
        }
    }
    audited(&out.join(","))
}

/// Directives that leave no audit line out, whatever else they do. Of two for one target the last counts.
fn audited(directives: &str) -> String {
    // No directives at all mean errors only.
    let directives = if directives.trim().is_empty() { "error" } else { directives };
    format!("{directives},{TARGET}=warn")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_houses_own_parts_can_be_made_to_say_more() {
        for fine in ["off", "debug", "daemon=trace", "info,sockmon=debug", "daemon::control=debug,netio=off"]
        {
            assert_eq!(checked(fine).as_deref(), Ok(fine));
            EnvFilter::try_new(directives(fine)).unwrap();
        }
        for wrong in [
            "",
            "loud",
            "hyper=trace",
            "daemon=",
            "daemonic=debug",
            "daemon=debug,",
            "[span]=debug",
            "=debug",
            "a b",
        ] {
            let refused = checked(wrong).unwrap_err();
            assert_eq!(refused.fault, Blame::BadRequest, "{wrong}");
            assert!(refused.remedy.unwrap().contains("sockmon"), "{wrong}");
        }
        assert_eq!(directives("off"), "off,audit=warn");
        assert!(directives("daemon=debug").contains(",control=debug,"), "{}", directives("daemon=debug"));
        let all = directives("trace,netio=info");
        assert!(all.starts_with("warn,ravelin=trace,") && all.ends_with(",netio=info,audit=warn"), "{all}");
        assert!(!all.split(',').any(|directive| directive == "trace"), "{all}");
    }

    #[test]
    fn no_filter_leaves_audit_lines_out() {
        let shown = |directives: String| {
            let filter = EnvFilter::try_new(directives).unwrap();
            let lines = fmt::layer().with_writer(std::io::sink);
            tracing::subscriber::with_default(tracing_subscriber::registry().with(filter).with(lines), || {
                (
                    tracing::enabled!(target: TARGET, tracing::Level::WARN),
                    tracing::enabled!(target: "daemon", tracing::Level::WARN),
                )
            })
        };
        assert_eq!(shown(directives("off")), (true, false));
        assert_eq!(shown(directives("error,daemon=off")), (true, false));
        assert_eq!(shown(directives("debug")), (true, true));
        // As RAVELIN_LOG may have it.
        for text in ["off", "audit=off", "", "off,audit=error", "sockmon=debug"] {
            assert_eq!(shown(audited(text)), (true, false), "{text}");
        }
        assert!(checked("audit=off").is_err());
    }
}
