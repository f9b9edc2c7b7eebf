//! The tests of `ravelin`, one program: each module is about one kind of truth.

mod cipher;
mod cipher_statistics;
mod cli;
mod color;
mod completion;
mod editor;
mod failure;
mod help;
mod import;
mod install;
mod key;
mod kit;
mod lsp;
mod qos;
mod qos_faults;
mod replay;
mod scrub;
mod top;
