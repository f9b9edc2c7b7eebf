//! Key files and tokens: the format, the book, and SoftHSM as a token.

mod book;
mod file;
mod lab;
mod opens;
mod oracle;
mod public_key;
mod refusals;
mod uri;
