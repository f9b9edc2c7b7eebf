//! A sender beside collectors that are as they should be, forged, gone, full, and started again.

mod authority;
mod collector;
mod collectors;
mod files;
mod restart;
mod rsyslog;
mod support;
mod verifier;
