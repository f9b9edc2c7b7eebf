//! The tests of `readers`, one program: each module is about one kind of truth.

mod honest;
mod random;
mod small_world;
