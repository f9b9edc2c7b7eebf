//! The daemon: configuration, the two data threads, the control API.
//!
//! What enters: a configuration file, a policy file, requests on the control socket, signals. What leaves: programs' traffic under
//! the protection that the policy demands, answers, log lines. [`start`] holds the order in which things come up; when
//! the process ends, whatever the reason, the kernel half stays and refuses what should be protected, until
//! [`detach::detach`]. Design: docs/design/0001 (threads), 0003 (keys).
//!
//! [`plane`] is the control plane's state, with one file for each subject that it asks the data threads and the kernel half about.
//! `handlers`, `start`, `serve` and [`run`] stand on it; everything else stands below it and names none of them.
#![forbid(unsafe_code)]

mod audit_log;
mod capture;
mod class_queues;
pub mod classes;
mod components;
pub mod datapath;
pub mod denials;
pub mod detach;
pub mod device;
pub mod doctor;
mod enc;
mod events;
mod flows;
pub mod gateway;
mod graph_store;
mod graphs;
pub mod handlers;
pub mod handover;
pub mod health;
pub mod host;
pub mod json_log;
mod kernel_counters;
mod keys;
mod last_policy;
mod monitor;
pub mod names;
mod network_stack;
mod paths;
pub mod plane;
pub mod policy_store;
mod priorities;
mod probing;
mod reservations;
pub mod run;
pub mod scrubbed;
mod serve;
mod socket_queues;
pub mod start;
pub mod state;
mod statistics;
mod surveyed;
pub mod translation;
mod trial;
mod tun_queues;
pub mod uplinks;
mod whole_file;
mod workers;
