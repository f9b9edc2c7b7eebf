//! The tests of `wire`, one program: each module is about one kind of truth.

mod burst;
#[path = "common/capture.rs"]
mod capture;
mod captures;
mod checksum;
mod coalesce;
mod common;
mod parse;
mod quote;
mod reassembly;
mod segment;
