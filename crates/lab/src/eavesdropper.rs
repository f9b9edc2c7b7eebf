//! The reader on the wire, as a test's judge.

use crate::{Capture, CaptureOptions, Evidence, Lab, Observation, PATIENCE};
use wire::Flow;

/// Frames quoted in a failure.
const QUOTED: usize = 10;

/// Listens on a lab's wire and fails the test when it sees what it should not, or misses what it should see. Evidence
/// with losses proves nothing, so every absence also demands that nothing was lost.
#[derive(Debug)]
pub struct Eavesdropper {
    capture: Capture,
}

impl Eavesdropper {
    /// Listen from now on, looking for `needles` in every frame.
    ///
    /// # Panics
    /// If the wire cannot be heard.
    pub fn listen(lab: &Lab, needles: &[&[u8]]) -> Eavesdropper {
        let watch = needles.iter().map(|needle| needle.to_vec()).collect();
        let capture = lab.capture(CaptureOptions { watch, ..CaptureOptions::default() });
        Eavesdropper { capture: capture.expect("the wire can be heard") }
    }

    /// Everything up to now.
    ///
    /// # Panics
    /// If the capture broke.
    pub fn evidence(&self) -> Evidence {
        self.capture.evidence().expect("the capture runs")
    }

    /// Forget everything that was seen up to now.
    ///
    /// # Panics
    /// If the capture broke.
    pub fn forget(&self) {
        self.capture.clear().expect("the capture runs");
    }

    /// The running capture, for other questions.
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    /// Fail if a clear packet whose flow (as its sender sees it) passes `filter` was on the wire.
    ///
    /// # Panics
    /// With the packets.
    #[track_caller]
    pub fn assert_no_clear(&self, when: &str, filter: impl Fn(&Flow) -> bool) {
        self.judge(when, |evidence| quote("clear packets", &evidence.clear_packets(&filter)));
    }

    /// Fail if any IP packet was on the wire that is neither ESP nor housekeeping.
    ///
    /// # Panics
    /// With the packets.
    #[track_caller]
    pub fn assert_only_esp(&self, when: &str) {
        self.judge(when, |evidence| match (evidence.clear, evidence.esp) {
            (0, 0) => Some("there was no ESP either".to_owned()),
            (0, _) => None,
            (count, _) => Some(format!("{count} in all; {}", quote("clear packets", &evidence.all_clear())?)),
        });
    }

    /// Fail if `needle` can be read on the wire.
    ///
    /// # Panics
    /// If it can.
    #[track_caller]
    pub fn assert_unreadable(&self, when: &str, needle: &[u8]) {
        self.judge(when, |evidence| {
            evidence.contains_bytes(needle).then(|| format!("`{}` is readable", needle.escape_ascii()))
        });
    }

    /// Wait until `needle` was read on the wire: the proof that this eavesdropper can read at all.
    ///
    /// # Panics
    /// If it does not come.
    #[track_caller]
    pub fn assert_readable(&self, when: &str, needle: &[u8]) {
        self.wait_for(&format!("{when}: `{}`", needle.escape_ascii()), |evidence| {
            evidence.contains_bytes(needle)
        });
    }

    /// Wait until `question` holds.
    ///
    /// # Panics
    /// If it does not within [`PATIENCE`].
    #[track_caller]
    pub fn wait_for(&self, what: &str, question: impl Fn(&Evidence) -> bool) {
        let seen = self.capture.wait_for(PATIENCE, |evidence| question(evidence).then_some(()));
        if seen.expect("the capture runs").is_none() {
            let evidence = self.evidence();
            let frames: Vec<_> = evidence.frames.iter().collect();
            panic!("not seen on the wire: {what}; {}", quote("frames", &frames).unwrap_or_default());
        }
    }

    #[track_caller]
    fn judge(&self, when: &str, wrong: impl FnOnce(&Evidence) -> Option<String>) {
        let answer =
            self.capture.look(|evidence| (wrong(evidence), evidence.lost)).expect("the capture runs");
        match answer {
            (Some(wrong), _) => panic!("{when}: {wrong}"),
            (None, lost) => {
                assert_eq!(lost, 0, "{when}: the eavesdropper missed {lost} frames and proves nothing")
            }
        }
    }
}

/// The first few of `seen`, if there are any.
fn quote(what: &str, seen: &[&Observation]) -> Option<String> {
    if seen.is_empty() {
        return None;
    }
    let lines: Vec<_> = seen.iter().take(QUOTED).map(|frame| format!("\n  {frame}")).collect();
    Some(format!("{} {what}, the first:{}", seen.len(), lines.concat()))
}
