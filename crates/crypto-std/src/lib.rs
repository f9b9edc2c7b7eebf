//! crypto-std
