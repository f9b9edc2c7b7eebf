//! The checks before libraries that are good, and before libraries that each have one fault.
#![allow(clippy::indexing_slicing, reason = "tests")]

mod bad;
mod good;
#[allow(dead_code, reason = "the tests of the loader use more of it")]
#[path = "../../../cipher-loader/tests/suite/lab.rs"]
mod lab;
mod new;
mod pack;
mod run;
