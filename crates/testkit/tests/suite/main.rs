//! The tests of `testkit`, one program: each module is about one kind of truth.

mod judgement;
