//! sockmon
