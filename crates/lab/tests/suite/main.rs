//! The tests of `lab`, one program: each module is about one kind of truth.

mod judgement;
mod lab;
