//! Models of the concurrent parts of Ravelin. Each test tries every order of its threads.
#![cfg(model)]

#[allow(dead_code)]
#[path = "../../crates/daemon/src/datapath/unit_threads/wait_flag.rs"]
mod wait_flag;

mod unit_threads;
