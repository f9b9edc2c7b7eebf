//! One file per command.

pub mod boot;
pub mod capture;
pub mod completions;
pub mod debug;
pub mod demo;
pub mod detach;
pub mod doctor;
mod entries;
pub mod explain;
pub mod flows;
pub mod help;
pub mod import;
pub mod init;
pub mod inline;
pub mod key;
pub mod man_pages;
pub mod policy;
pub mod replay;
pub mod run;
pub mod sa;
pub mod schema;
pub mod scrub;
pub mod scrubbed;
pub mod spd;
pub mod stats;
pub mod status;
pub mod version;
