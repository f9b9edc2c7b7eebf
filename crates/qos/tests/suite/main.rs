//! The tests of graphs: what is read, printed, refused, bounded and reserved.

mod aggregates;
mod bound;
mod graph;
mod lint;
mod preset;
mod reservation;
mod service;
