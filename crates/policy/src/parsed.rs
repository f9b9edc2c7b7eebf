//! A policy text as it was read: what is sound, what is not, and what the file's own tests found.

mod render;
pub(crate) mod summary;

use std::sync::Arc;

use crate::ast::{Name, Protection, Syntax, Test};
use crate::diagnostic::Diagnostic;
use crate::tree::Tree;
use crate::unit::PlacedBlock;

/// An application block that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenBlock {
    /// The names of its subjects, as far as they could be read.
    pub names: Vec<Name>,
    /// Whether they are programs and nothing else.
    pub(crate) is_plain: bool,
}

/// The content of one policy text.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The file's name as the caller gave it.
    pub file: String,
    /// The text of the policy.
    pub text: Arc<str>,
    /// The language that the text is in.
    pub syntax: Syntax,
    /// Protections at the top of the file that are sound.
    pub protections: Vec<Protection>,
    /// Blocks without errors, in the order of the file.
    pub blocks: Vec<PlacedBlock>,
    /// Blocks with errors: they are not part of the policy.
    pub broken: Vec<BrokenBlock>,
    /// Tests in the order of the file.
    pub tests: Vec<Test>,
    /// The results of the file's tests.
    pub tested: TestCounts,
    /// Everything that was found, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// The lossless tree of all of the text, sound or not. After [`crate::parse_over`] it is empty.
    pub tree: Tree,
    /// The texts of the protections at the top of the file, if all of them are sound.
    pub(crate) top: Option<Vec<String>>,
}

/// The results of the tests of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestCounts {
    /// Number of expectations that came true.
    pub passed: usize,
    /// Number of expectations that did not come true, and of lines of tests that cannot be read. A file with any is not
    /// to be loaded.
    pub failed: usize,
    /// Number of expectations about programs whose block has errors.
    pub skipped: usize,
}

impl Parsed {
    pub(crate) fn nothing(file: &str, text: Arc<str>, diagnostics: Vec<Diagnostic>) -> Parsed {
        Parsed {
            file: file.into(),
            text,
            syntax: Syntax::default(),
            protections: Vec::new(),
            blocks: Vec::new(),
            broken: Vec::new(),
            tests: Vec::new(),
            tested: TestCounts::default(),
            diagnostics,
            tree: Tree::default(),
            top: None,
        }
    }

    /// Whether the file's own tests fail. Nothing of the file is to be loaded then.
    pub fn tests_failed(&self) -> bool {
        self.tested.failed > 0
    }

    /// Whether there are errors. Warnings and notes are none.
    pub fn has_errors(&self) -> bool {
        !self.broken.is_empty() || self.diagnostics.iter().any(Diagnostic::is_error)
    }
}
