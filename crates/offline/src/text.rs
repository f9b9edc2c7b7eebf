//! Arguments that several commands check alike.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Writing to the file that is read would destroy it. `argument` names the output to whoever gave it.
pub(crate) fn different(input: &Path, output: &Path, argument: &str) -> Result<(), String> {
    let place = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    // What does not exist yet is no other file.
    if place(output).is_some_and(|of| Some(of) == place(input)) {
        return Err(format!(
            "{} is the capture that is read; name another file with {argument}",
            output.display()
        ));
    }
    Ok(())
}
