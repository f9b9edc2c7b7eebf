//! The tests of `policy`, one program: each module is about one kind of truth.

mod broken;
mod class;
mod common;
mod compare;
#[path = "common/counting.rs"]
mod counting;
mod diagnostics;
mod exclusiveness;
mod explain;
mod figures;
mod format;
mod from_flows;
mod guard;
mod lexical;
mod limits;
mod names;
mod observe;
mod oracle;
mod over;
mod per_socket;
mod per_socket_figures;
mod pins;
mod reload;
mod robust;
mod scrub;
mod subjects;
mod suites;
mod tree;
