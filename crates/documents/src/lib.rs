//! Between the documents of the control API and what the rooms below have: requests become associations and rules,
//! decisions, scrubbed packets and units become answers.
//!
//! What enters: documents of the `api` room, files of associations and rules, records of the engine's rooms. What leaves:
//! entries of the SAD and the SPD, documents, and [`ApiError`] where a request cannot be done. No socket, no kernel half:
//! `ravelin` checks requests with it before any daemon is asked, and a replay has its associations from it.
//!
//! | module | is |
//! |---|---|
//! | [`associations`] | a request for an association, checked, and an association as it is listed |
//! | [`rules`], [`users`] | the rules of the operator, and the users that they name |
//! | [`classes`] | the classes of the graph, by name |
//! | [`import`] | files of associations and rules: JSON lines, or the language of setkey(8) |
//! | [`decision`] | why policy decides what it decides |
//! | [`scrub_record`], [`scrub_report`], [`scrub_changes`] | packets that rules of a scrubber met, and what was changed in them |
//! | [`crypto_units`] | which unit serves which suite |
//! | [`qos_plan`] | a graph of classes: what is wrong with it, how long its classes wait, what it needs |
//! | [`request`] | bodies of requests, read |
//! | [`api_error`] | why a request is not done |
#![forbid(unsafe_code)]

pub mod api_error;
pub mod associations;
pub mod ciphers;
pub mod classes;
pub mod crypto_units;
pub mod decision;
pub mod import;
pub mod qos_plan;
pub mod request;
pub mod rules;
pub mod scrub_changes;
pub mod scrub_record;
pub mod scrub_report;
pub mod text;
pub mod users;

pub use api_error::{ApiError, Blame};
