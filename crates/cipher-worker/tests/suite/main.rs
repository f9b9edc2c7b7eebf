//! Workers before libraries in C: the packets of a library in this process, ends of every kind, a hostile worker, and a
//! worker that was written a second time.

mod allocations;
mod bad;
mod ends;
mod equal;
#[path = "../../../cipher-loader/tests/suite/flow_lab.rs"]
mod flow_lab;
mod foreign;
mod hostile;
#[path = "../../../cipher-loader/tests/suite/lab.rs"]
mod lab;
mod lies;
mod start;
