//! The tests of `ipsec`, one program: each module is about one kind of truth.

mod ah;
mod ah_oracle;
#[path = "support/appendix_a.rs"]
mod appendix_a;
#[path = "support/auth.rs"]
mod auth;
mod elsewhere;
mod esp_oracle;
#[path = "support/faulty.rs"]
mod faulty;
mod ipcomp;
mod modes;
mod mtu;
mod nat;
mod own_header;
mod plaintext;
mod rfc7634;
mod round_trip;
#[path = "support/scapy.rs"]
mod scapy;
mod support;
mod unit_failed;
