//! The kit of whoever writes a cipher of one's own (issue 23 item 8): fifteen checks of a library, and the files to
//! begin one.
//!
//! What enters: the path of a manifest. What leaves: a report of fifteen checks ([`check`]). Each check runs in a child
//! of its own under a filter of system calls, with a bound of time and memory, so that a library that crashes, hangs or
//! asks the kernel for something fails the check in which it did so. `memory` alone runs without the filter, because
//! the program that watches memory needs system calls. The daemon uses nothing of this room.
//!
//! A check finds mistakes. It is no border against an author who means harm, and it says nothing of strength.
#![forbid(unsafe_code)]

pub mod bench;
mod calls;
mod check;
mod checks;
mod name;
mod options;
pub mod pack;
mod parent;
mod skeleton;

pub use check::{check, child_main, run_task};
pub use name::CheckName;
pub use options::{Options, SECONDS};
pub use skeleton::{Kind, Language, Skeleton, SkeletonError, SkeletonFile};
