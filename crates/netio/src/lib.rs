//! Devices, sockets, namespaces and files of the host: everything between Ravelin and the kernel that is not BPF.
//!
//! What enters: packets from the TUN (`Packet<Inner>`) and from UDP (`Packet<Raw>`), captures, events. What leaves: packets
//! to the TUN (`Packet<Admitted>`) and to the wire (`Packet<Outer>`), and settings of the host. Time and randomness for
//! the pure rooms are read here. The data path answers with [`wire::DropReason`], the control plane with [`Error`].
//!
//! | module | is |
//! |---|---|
//! | [`tun`] | the TUN with vnet header and the 16-octet record (docs/design/0002) |
//! | [`udp`] | ESP in UDP (RFC 3948), whole IP packets on our side |
//! | [`raw`] | bare ESP and AH (IP protocols 50 and 51), and ICMP errors about them |
//! | [`packet`] | all of these as Ethernet frames, past the kernel's IP stack (packet(7)) |
//! | [`line`] | frames of two interfaces with a scrubber between them, super-packets whole |
//! | [`xdp`] | the same over memory shared with the kernel (AF_XDP, copy mode) |
//! | [`clear`] | whole IP packets that policy lets pass in clear |
//! | [`eventfd`], [`poll`] | waking a thread, waiting for descriptors |
//! | [`link`] | rtnetlink: devices, addresses, routes |
//! | [`netns`], [`cgroup`], [`sysctl`], [`bpffs`] | where programs and packets live |
//! | [`pcap`] | capture files, read and written |
//! | [`random`], [`clock`] | the two inputs the pure rooms must be given |
//! | [`secret`] | memory with keys: wiped as it is freed, or on its way to another process |

pub mod bpffs;
pub mod cgroup;
pub mod clear;
pub mod clock;
pub mod enc;
mod error;
pub mod eventfd;
pub mod line;
pub mod link;
mod mountinfo;
pub mod netns;
pub mod packet;
pub mod pcap;
pub mod poll;
pub mod random;
pub mod raw;
pub mod secret;
pub mod slice;
pub mod sockopt;
pub mod sysctl;
pub mod tun;
pub mod udp;
mod vnet;
pub mod xdp;

pub use error::{Error, IoContext, Result, check};
