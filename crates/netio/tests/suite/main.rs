//! The tests of `netio`, one program: each module is about one kind of truth.

mod burst;
mod common;
mod frames;
mod netns;
mod packet;
mod pcap;
mod pcapng;
mod priority;
mod queues;
mod raw;
mod tun;
mod udp;
mod udp_queues;
