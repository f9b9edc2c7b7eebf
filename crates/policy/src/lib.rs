//! The application policy language of paper 000 section 3.3, and its meaning.
//!
//! The text of a policy file and its name enter (this crate opens no file). What leaves is a syntax tree of the
//! application blocks that are sound, a [`Diagnostic`] for everything that is not, and the compiled form that the data
//! path asks ([`sadb::spd::Spd`]), with the file, line and text behind each of its rules.
//!
//! ```text
//! text -> lexer -> parser -> checks -> Parsed --compile--> Compiled --explain--> Explanation
//!           |                            |                     |
//!                       +--> tree --> format +------> summary      +------> compare
//! ```
//!
//! An error stays inside its application block (paper 000 section 3.1: "an error in one application policy can
//! only affect that application"): the block is left out and named in [`Parsed::broken`], the others compile to
//! the same bytes as before. Where the paper is silent, `docs/design/0004-policy-language.md` decides; the
//! language as its user sees it is `docs/man/ravelin-policy.5.md`.
#![forbid(unsafe_code)]

mod address;
mod app_table;
pub mod ast;
mod check;
mod choices;
mod compare;
mod compile;
mod compiled;
mod diagnostic;
mod difference;
mod digest;
mod expectations;
mod explain;
mod format;
mod from_flows;
mod host;
mod lexer;
mod meaning;
mod names;
mod observe;
mod outline;
mod parsed;
mod parser;
mod pins;
mod ports;
mod prefixes;
mod recognise;
mod scrubbed;
mod services;
mod sources;
mod subjects;
mod suggest;
mod target;
pub mod tree;
mod unit;

pub use app_table::AppTable;
pub use ast::GUARD;
pub use choices::choices;
pub use compare::{PartitionedPolicy, compare};
pub use compile::{compile, compile_over};
pub use compiled::{Application, Compiled, GUARD_NUMBER, LimitLine, OmittedApplication, Reason};
pub use diagnostic::{Code, Diagnostic, Position, Related, Severity};
pub use difference::{Difference, FlowDifference, Side, differ, differences};
pub use digest::Digest;
pub use explain::{Explanation, MatchedBlock, RuleRef, ScrubbedBy, Verdict, explain, explain_process};
pub use format::format;
pub use from_flows::{ObservedFlow, PrefixWidening, Treatment, from_flows};
pub use host::{Host, NoHost, ProgramFile, control_group};
pub use lexer::{Kind, Span, Token};
pub use meaning::{Meaning, meaning};
pub use names::{ContestedAddress, MAX_NAMED_ADDRESSES, Named, NamedNetwork, Names, Resolution, Source};
pub use observe::Observed;
pub use outline::Outline;
pub use parsed::summary::{ApplicationSummary, NetworkSummary, ProtectionSummary, Summary, counted};
pub use parsed::{BrokenBlock, Parsed, TestCounts};
pub use parser::{parse, parse_bytes, parse_bytes_for, parse_for, parse_over};
pub use pins::Pins;
pub use scrubbed::Scrubbed;
pub use sources::{RuleKind, RuleSource, Rules};
pub use subjects::{Executables, Facts, Image, Process, RunningProgram, Selector, Subjects};
pub use suggest::{distance, nearest};
pub use target::{Target, TargetError};
pub use unit::PlacedBlock;

/// The directories where a bare application name is looked for.
pub const STANDARD_DIRECTORIES: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// The longest policy text that is read, in octets. It has room for a million networks, each a line (docs/design/0021).
pub const MAX_TEXT: usize = 64 << 20;
/// The most blocks and subjects that are read of a text. A sound one has two for each application.
pub const MAX_SUBJECTS: usize = 1 << 18;
/// The most other statements that are read of a text. Each address of a network and each port is one, and so is what
/// cannot be read.
pub const MAX_STATEMENTS: usize = 1 << 21;
/// The most items of one protection, as many as the kernel's table holds (docs/design/0002).
pub const MAX_ITEMS: usize = 32;
/// The most prefixes of one application's networks together.
pub const MAX_NETWORKS: usize = 65_535;
/// The most applications of one policy. The last two numbers are the kernel half's: for processes that must not send at
/// all, and for traffic that belongs to no application ([`GUARD_NUMBER`]).
pub const MAX_APPLICATIONS: usize = 65_533;
/// The most digests that one path may have.
pub const MAX_DIGESTS: usize = 16;
/// The most host names that one policy may have.
pub const MAX_HOSTS: usize = 1024;
/// The most lines that the tests of one file may have.
pub const MAX_EXPECTATIONS: usize = 1024;
/// The most problems reported for one file.
pub const MAX_DIAGNOSTICS: usize = 200;
