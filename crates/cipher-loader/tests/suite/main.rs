//! The loader before libraries in C that are good, and before libraries that each have one fault. Each fault must be
//! refused by its name.

mod allocations;
mod bad;
mod files;
mod flow;
mod flow_lab;
mod good;
mod lab;
mod rules;
