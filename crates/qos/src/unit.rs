//! Crypto units: what they can do, the work committed to them, their water marks.
