//! The tests of `crypto`, one program: each module is about one kind of truth.

mod oracle;
mod registry;
