//! The tests of `crypto-std`, one program: each module is about one kind of truth.

mod custom;
mod faults;
mod packet;
mod provider;
mod published;
mod stack;
#[path = "packet/stack.rs"]
mod stack_words;
mod steps;
mod wycheproof;
