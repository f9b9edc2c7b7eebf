//! Components of graphs from shared libraries (issue 24 item 1; docs/design/0043): ABI version 1, `include/ravelin-qos.h`.
//!
//! What enters: the path of a library and its digest from the configuration. What leaves: a [`Component`], from which
//! graphs attach instances ([`qos::behaviour::foreign::Maker`]), or an error that says which rule was broken. On the
//! way:
//!
//! | module | is |
//! |---|---|
//! | [`abi`] | the description that the library gives, read with suspicion |
//! | `load` | examined, tried, mapped; the file rules are those of `cipher-loader` |
//! | `attached` | an instance, and the calls into it |
//! | `timer` | the time that calls take, and when it was too much |
//! | [`trial`] | a child process under a filter of system calls runs the component over random metadata first |
//!
//! A library that was loaded is code of this process, and can do what the process can. The trial finds mistakes, and it
//! is no border against an author who means harm.

pub mod abi;
mod attached;
mod error;
mod load;
mod timer;
pub mod trial;

pub use error::{AbiError, LoadError};
pub use load::{Component, Request, load, load_named};
