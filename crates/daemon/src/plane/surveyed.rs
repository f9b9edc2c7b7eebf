//! Telling the kernel half of the host beside its uplinks.

use super::Plane;
use crate::surveyed::Surveyed;

/// Tell the kernel half what there is now; what is wrong.
pub(crate) fn follow(plane: &mut Plane) -> Option<String> {
    let known: Vec<u32> = plane.uplinks.iter().chain(&plane.insides).map(|device| device.index).collect();
    let now = match Surveyed::look(&plane.config, &known) {
        Ok(now) => now,
        Err(error) => return Some(error.to_string()),
    };
    if now == plane.surveyed {
        return None;
    }
    let mut monitor = plane.monitor.get();
    let told = monitor.set_others(&now.others).and_then(|()| monitor.set_locals(&now.locals));
    drop(monitor);
    match told {
        Ok(()) => plane.surveyed = now,
        Err(error) => return Some(format!("{error}; {}", error.remedy())),
    }
    None
}
