//! The tests of `qos`, one program: components against their definitions in simulated time; graphs that are read, printed,
//! refused and bounded; reservations.

mod aggregates;
mod allocations;
mod auth_budget;
mod bound;
mod classify;
mod cobalt;
mod codel;
mod common;
mod dualpi2;
mod give;
mod graph;
mod lint;
mod mark;
mod meters;
mod oracle_2697;
mod oracle_2698;
mod oracle_4115;
mod police;
mod preset;
mod red;
mod reservation;
mod service;
mod shape;
mod users;
