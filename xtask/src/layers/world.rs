//! Small worlds for the tests: crates of a few files that exist in memory alone.

use super::source::Crate;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The crate whose files are these: paths below `src`, and texts. The first one is the root.
pub fn crate_of(files: &[(&str, &str)]) -> Crate {
    let texts: BTreeMap<PathBuf, String> =
        files.iter().map(|(path, text)| (Path::new("src").join(path), (*text).to_string())).collect();
    let read = |file: &Path| texts.get(file).cloned();
    Crate::read(&Path::new("src").join(files[0].0), &read).expect("a world that parses")
}
