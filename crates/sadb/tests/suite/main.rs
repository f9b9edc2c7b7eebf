//! The tests of `sadb`, one program: each module is about one kind of truth.

mod common;
mod flow_cache;
mod handover;
mod keybook;
mod packet_key;
mod populate;
mod replay;
mod rival_suite;
mod rules_lookup;
mod rules_table;
mod sa;
mod sad_classes;
mod sad_inbound;
mod sad_outbound;
mod selector;
mod selector_text;
mod setkey;
mod spd;
mod world;
