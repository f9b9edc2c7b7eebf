//! Captures that nobody here made (shared/captures): every parser and every stage must take each frame of them.

use netio::pcap::{Frame, Reader};
use std::path::{Path, PathBuf};

/// The folder `part` of the shared material: under `RAVELIN_SHARED`, or beside the repository. If it is not there, that is printed, and
/// the test counts as skipped.
pub fn shared(part: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("RAVELIN_SHARED").map_or_else(beside, PathBuf::from);
    let path = root.join(part);
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: {} is not there (set RAVELIN_SHARED)", path.display());
    None
}

/// The capture files of a folder, by name.
#[derive(Debug)]
pub struct Corpus {
    files: Vec<PathBuf>,
}

impl Corpus {
    /// tcpdump's test suite: ordinary traffic and several hundred malformed packets. `None` if it is not there.
    ///
    /// # Panics
    /// If the folder is there and cannot be read.
    pub fn tcpdump() -> Option<Corpus> {
        let folder = shared("captures/tcpdump-tests")?;
        let entries = std::fs::read_dir(folder).expect("the folder can be read");
        let is_capture = |path: &PathBuf| path.extension().is_some_and(|e| e == "pcap" || e == "pcapng");
        let mut files: Vec<_> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_capture).collect();
        files.sort();
        Some(Corpus { files })
    }

    /// The capture files of the corpus, sorted by path.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Every frame that can be read, with the path of its file.
    pub fn frames(&self) -> impl Iterator<Item = (&Path, Frame)> {
        self.files.iter().flat_map(|path| {
            let reader = Reader::open(path).ok().into_iter().flatten();
            reader.map_while(Result::ok).map(move |frame| (path.as_path(), frame))
        })
    }
}
