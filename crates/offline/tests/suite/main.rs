//! The tests of `offline`, one program: each module is about one kind of truth.

mod replay;
mod replay_clauses;
mod replay_clear;
mod replay_engine;
mod replay_fragments;
mod replay_gather;
mod replay_kit;
mod replay_manual;
mod replay_own;
mod scrub;
mod scrub_captures;
mod scrub_kit;
mod scrub_links;
mod scrub_manual;
mod simulation;
