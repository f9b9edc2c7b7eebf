//! ipsec
