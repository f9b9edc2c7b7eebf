//! The tests of `ravelin`, one program: each module is about one kind of truth.

mod cli;
mod editor;
mod import;
mod lsp;
mod replay;
mod scrub;
