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
mod compile;
mod cost;
mod discipline;
mod dispatcher;
mod dualpi2;
mod exchange;
mod give;
mod graph;
mod lint;
mod manual;
mod mark;
mod meters;
mod node;
mod oracle_2697;
mod oracle_2698;
mod oracle_4115;
mod police;
mod preset;
mod queueing;
mod red;
mod reservation;
mod running;
mod service;
mod shape;
mod simulate;
mod store;
mod users;
