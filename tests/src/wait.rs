//! Waiting for what must come: by looking until it is there, never by hoping that a time is long enough.
//!
//! What must *not* come has no event. Such a test waits for something that comes behind it: a packet that is allowed, or the
//! counter of what was dropped.

use std::time::Duration;

use anyhow::ensure;

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Look until it is so.
///
/// # Panics
/// With what it waited for, if it is not so within `limit`.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    wait_for(what, limit, || done().then_some(()).ok_or(""));
}

/// Look until there is an answer, and give it; until then `look` says what it sees instead.
///
/// # Panics
/// With what it waited for and what it saw last, if there is none within `limit`.
#[track_caller]
pub fn wait_for<T, W: std::fmt::Display>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<T, W>,
) -> T {
    let mut seen = None;
    let mut found = None;
    let waited = try_wait_until(what, limit, || {
        match look() {
            Ok(answer) => found = Some(answer),
            Err(instead) => seen = Some(instead),
        }
        Ok(found.is_some())
    });
    match (found, waited) {
        (Some(answer), _) => answer,
        (None, Err(error)) => panic!("{error} {}", seen.map(|seen| seen.to_string()).unwrap_or_default()),
        (None, Ok(())) => unreachable!("it ended with an answer"),
    }
}

/// Look until it is so, like [`wait_until`], for callers that have errors of their own.
///
/// # Errors
/// Those of `done`, or with what it waited for, if it is not so within `limit`.
pub fn try_wait_until(
    what: &str,
    limit: Duration,
    mut done: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let deadline = netio::clock::monotonic() + limit;
    while !done()? {
        ensure!(netio::clock::monotonic() < deadline, "{what}: not within {limit:?}");
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_until_it_is_so() {
        let mut looks = 0;
        let answer = wait_for("the third look", Duration::from_secs(60), || {
            looks += 1;
            if looks == 3 { Ok("there") } else { Err(looks) }
        });
        assert_eq!((answer, looks), ("there", 3));
    }

    #[test]
    #[should_panic(expected = "a miracle: not within 0ns nothing")]
    fn it_says_what_did_not_come() {
        wait_for::<(), _>("a miracle", Duration::ZERO, || Err("nothing"));
    }
}
