//! The tests of `qos`, one program: each module is about one room.

mod cost;
mod discipline;
mod dispatcher;
mod node;
mod queueing;
mod store;
