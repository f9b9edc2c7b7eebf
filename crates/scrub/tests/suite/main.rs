//! The tests of `scrub`, one program: each module is about one kind of truth.

mod again;
mod capacity;
#[path = "../../../wire/tests/suite/common/capture.rs"]
mod capture;
mod captures;
mod catalogue_ip;
mod catalogue_tcp;
mod catalogue_tcp_order;
mod icmp;
mod ip;
mod isn;
mod kit;
mod missed;
#[path = "kit/packet.rs"]
mod packet;
mod pressure;
mod properties;
mod realms;
mod saved;
mod second_readings;
mod security;
mod traces;
mod udp;
