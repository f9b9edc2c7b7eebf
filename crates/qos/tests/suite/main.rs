//! The tests of `qos`, one program: each module tests one component against its definition, in simulated time.

mod allocations;
mod auth_budget;
mod classify;
mod cobalt;
mod codel;
mod common;
mod dualpi2;
mod give;
mod mark;
mod meters;
mod oracle_2697;
mod oracle_2698;
mod oracle_4115;
mod police;
mod red;
mod shape;
mod users;
