//! The loader before the two examples, which are good, and before libraries that each have one fault. Each fault must be
//! refused, or detach the component, by its name.

mod abi;
mod bad;
mod examples;
mod graph;
mod lab;
