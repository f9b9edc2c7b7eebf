//! The tests of `crypto-mb`, one program: each module is about one kind of truth.

#[path = "../../../ipsec/tests/suite/support/appendix_a.rs"]
mod appendix_a;
#[path = "../../../ipsec/tests/suite/support/auth.rs"]
mod auth;
#[path = "../../../crypto-std/tests/suite/packet.rs"]
mod packet;
mod provider;
#[path = "../../../ipsec/tests/suite/support/scapy.rs"]
mod scapy;
mod stack;
#[path = "../../../crypto-std/tests/suite/packet/stack.rs"]
mod stack_words;
#[path = "../../../ipsec/tests/suite/support/mod.rs"]
mod support;
mod whole_packets;
mod widths;
