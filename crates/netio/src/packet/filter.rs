//! Classic BPF programs (linux/filter.h): one that selects the frames of a packet socket, and one that refuses
//! everything.

use crate::error::{IoContext, Result};
use crate::sockopt;
use std::io;
use std::os::fd::AsFd;
use wire::{eth, ipv6, protocol};

const LOAD_OCTET: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const LOAD_HALF_BEHIND: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u16;
const LOAD_IP_LENGTH: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_SET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Offset at which classic BPF finds the packet type (PACKET_HOST and others): SKF_AD_OFF + SKF_AD_PKTTYPE.
const PACKET_TYPE: u32 = (-0x1000_i32 + 4).cast_unsigned();
/// Offset at which classic BPF finds the VLAN tag, zero where there is none: SKF_AD_OFF + SKF_AD_VLAN_TAG.
const VLAN_TAG: u32 = (-0x1000_i32 + 44).cast_unsigned();
/// The part of the VLAN tag that names a VLAN. A tag without such a part is for the device itself.
const VLAN_ID: u32 = 0x0fff;
const EVERYTHING: u32 = 0x4_0000;

/// The step at which the program continues after a jump.
#[derive(Clone, Copy, PartialEq)]
enum JumpTarget {
    Next,
    Mine,
    V6,
    Take,
    Refuse,
}

/// A step of the program, with the name by which other steps jump to it.
struct Step(Option<JumpTarget>, u16, u32, [JumpTarget; 2]);

fn step(code: u16, k: u32) -> Step {
    Step(None, code, k, [JumpTarget::Next, JumpTarget::Next])
}

fn jump(code: u16, k: u32, yes: JumpTarget, no: JumpTarget) -> Step {
    Step(None, code, k, [yes, no])
}

/// The program that takes frames for this station or a group, outside of VLANs, which may hold an outer packet: UDP to
/// `port`, ESP, AH, and fragments.
fn outer(port: u16) -> Vec<libc::sock_filter> {
    const IP: u32 = eth::HEADER_LEN as u32;
    const V6_UPPER: u32 = IP + ipv6::HEADER_LEN as u32;
    let [udp, esp, ah, fragment] =
        [protocol::UDP, protocol::ESP, protocol::AH, protocol::FRAGMENT].map(u32::from);
    let named = |name: JumpTarget, step: Step| Step(Some(name), step.1, step.2, step.3);
    resolve(&[
        step(LOAD_WORD, PACKET_TYPE),
        jump(IF_EQUAL, u32::from(libc::PACKET_HOST), JumpTarget::Mine, JumpTarget::Next),
        jump(IF_EQUAL, u32::from(libc::PACKET_MULTICAST), JumpTarget::Mine, JumpTarget::Refuse),
        named(JumpTarget::Mine, step(LOAD_WORD, VLAN_TAG)),
        jump(IF_SET, VLAN_ID, JumpTarget::Refuse, JumpTarget::Next),
        step(LOAD_HALF, 12),
        jump(IF_EQUAL, eth::IPV4.into(), JumpTarget::Next, JumpTarget::V6),
        step(LOAD_OCTET, IP + 9),
        jump(IF_EQUAL, esp, JumpTarget::Take, JumpTarget::Next),
        jump(IF_EQUAL, ah, JumpTarget::Take, JumpTarget::Next),
        jump(IF_EQUAL, udp, JumpTarget::Next, JumpTarget::Refuse),
        step(LOAD_HALF, IP + 6),
        jump(IF_SET, 0x3fff, JumpTarget::Take, JumpTarget::Next),
        step(LOAD_IP_LENGTH, IP),
        step(LOAD_HALF_BEHIND, IP + 2),
        jump(IF_EQUAL, port.into(), JumpTarget::Take, JumpTarget::Refuse),
        named(JumpTarget::V6, jump(IF_EQUAL, eth::IPV6.into(), JumpTarget::Next, JumpTarget::Refuse)),
        step(LOAD_OCTET, IP + 6),
        jump(IF_EQUAL, esp, JumpTarget::Take, JumpTarget::Next),
        jump(IF_EQUAL, ah, JumpTarget::Take, JumpTarget::Next),
        jump(IF_EQUAL, fragment, JumpTarget::Take, JumpTarget::Next),
        jump(IF_EQUAL, udp, JumpTarget::Next, JumpTarget::Refuse),
        step(LOAD_HALF, V6_UPPER + 2),
        jump(IF_EQUAL, port.into(), JumpTarget::Take, JumpTarget::Refuse),
        named(JumpTarget::Take, step(RETURN, EVERYTHING)),
        named(JumpTarget::Refuse, step(RETURN, 0)),
    ])
}

fn resolve(steps: &[Step]) -> Vec<libc::sock_filter> {
    let skip = |at: usize, to: JumpTarget| {
        let found = steps.iter().position(|step| step.0 == Some(to)).unwrap_or(at + 1);
        u8::try_from(found.saturating_sub(at + 1)).unwrap_or(0)
    };
    let one = |(at, Step(_, code, k, [yes, no])): (usize, &Step)| libc::sock_filter {
        code: *code,
        jt: skip(at, *yes),
        jf: skip(at, *no),
        k: *k,
    };
    steps.iter().enumerate().map(one).collect()
}

fn attach(socket: impl AsFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    sockopt::set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

pub(super) fn take_outer(socket: impl AsFd, port: u16) -> io::Result<()> {
    attach(socket, &mut outer(port))
}

/// Let a socket receive nothing while it stays open. The kernel still finds it, so the kernel answers no sender with an
/// error.
pub fn deafen(socket: impl AsFd) -> Result<()> {
    attach(socket, &mut resolve(&[step(RETURN, 0)])).doing(|| "deafening a socket".into())
}

/// Undo [`deafen`] for this socket. It is no error if the socket was not deaf.
pub fn undeafen(socket: impl AsFd) -> Result<()> {
    sockopt::set_filter(socket, None).doing(|| "letting a socket hear again".into())
}
