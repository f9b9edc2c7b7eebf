//! The security databases: SPD (what a flow must get) and SAD (the keys that give it).
//!
//! Manual keys, policy and the data path meet only here. Pure: no clock, no randomness, no I/O. Standards:
//! RFC 4301 sections 4.4.1 (SPD) and 4.4.2 (SAD), RFC 4303 section 3.4.3 and RFC 6479 (replay). Paper 000
//! section 3.3 (what a rule says), paper 001 section 2.1 (the databases).
#![forbid(unsafe_code)]

pub mod spd;
