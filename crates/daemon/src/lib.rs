//! The daemon: configuration, the two data threads, the control API.
//!
//! What enters: a configuration file, a policy file, requests on the control socket, signals. What leaves: programs' traffic under
//! the protection that the policy demands, answers, log lines. [`start`] holds the order in which things come up; when
//! the process ends, whatever the reason, the kernel half stays and refuses what should be protected, until
//! [`detach::detach`]. Design: docs/design/0001 (threads), 0003 (keys).
//!
//! [`plane`] is the control plane's state, with one file for each subject that it asks the data threads and the kernel half about.
//! `control`, `start`, `serve` and [`run`] stand on it; everything else stands below it and names none of them.
#![forbid(unsafe_code)]

mod answer;
pub mod associations;
mod audit;
mod audit_log;
mod capture;
pub mod control;
pub mod crypto_units;
pub mod datapath;
pub mod debug;
pub mod denials;
pub mod detach;
pub mod device;
pub mod doctor;
mod enc;
mod events;
mod flows;
pub mod gateway;
pub mod handover;
mod harden;
pub mod health;
pub mod host;
pub mod import;
pub mod inline;
pub mod json_log;
mod kernel_counters;
mod keys;
mod last_policy;
mod monitor;
pub mod names;
mod network_stack;
mod notify;
mod paths;
pub mod plane;
pub mod policy_store;
mod privileges;
mod probing;
pub mod refused;
pub mod replay;
pub mod rules;
pub mod run;
pub mod scrub;
pub mod scrubbed;
mod serve;
mod signals;
pub mod socket;
pub mod start;
pub mod state;
mod statistics;
mod surveyed;
mod text;
pub mod translation;
pub mod uplinks;
mod users;
mod whole_file;
