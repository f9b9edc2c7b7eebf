//! The key of one packet, as selectors see it.

mod packet;

use std::fmt;
use std::net::IpAddr;

use wire::{AppId, Flow, addr, protocol};

use super::field::{self, Field, WORDS, Words};

/// Everything of a packet that a selector may look at. A field that was not given is not available (OPAQUE), or zero
/// if every packet has it.
#[derive(Clone, Copy, Eq)]
#[repr(align(64))]
pub struct PacketKey {
    words: Words,
}

impl PacketKey {
    /// A packet of which nothing is known.
    pub const EMPTY: PacketKey = PacketKey { words: [0; WORDS] };

    /// A packet between these addresses of which nothing else is known.
    #[inline]
    pub fn new(local: IpAddr, remote: IpAddr) -> PacketKey {
        let mut words = [0; WORDS];
        field::LOCAL.put(&mut words, addr::to_bits(local));
        field::REMOTE.put(&mut words, addr::to_bits(remote));
        PacketKey { words }
    }

    /// The key of a packet of this flow, with ports for protocols that have them and type and code for ICMP ([`Flow`]
    /// says where they stand).
    #[inline]
    pub fn of_flow(flow: &Flow) -> PacketKey {
        let key = PacketKey::new(flow.local, flow.remote).protocol(flow.protocol);
        match flow.protocol {
            _ if flow.opaque => key,
            number if protocol::has_ports(number) => key.ports(flow.local_port, flow.remote_port),
            protocol::ICMP | protocol::ICMPV6 => key.with(&field::ICMP, u128::from(flow.local_port)),
            protocol::MOBILITY => key.with(&field::MOBILITY, u128::from(flow.local_port >> 8)),
            _ => key,
        }
    }

    /// The key with this value of this field; bits beyond the field's width are cut off.
    #[inline]
    #[must_use]
    pub const fn with(mut self, field: &Field, value: u128) -> PacketKey {
        field.clear(&mut self.words);
        field.put(&mut self.words, value);
        self
    }

    /// The key with this field not available.
    #[must_use]
    pub const fn without(mut self, field: &Field) -> PacketKey {
        field.clear(&mut self.words);
        self
    }

    /// The key with this next layer protocol.
    #[inline]
    #[must_use]
    pub fn protocol(self, protocol: u8) -> PacketKey {
        self.with(&field::PROTOCOL, u128::from(protocol))
    }

    /// The key with these ports.
    #[inline]
    #[must_use]
    pub fn ports(self, local: u16, remote: u16) -> PacketKey {
        self.with(&field::LOCAL_PORT, u128::from(local)).with(&field::REMOTE_PORT, u128::from(remote))
    }

    /// The key with this ICMP type and code.
    #[inline]
    #[must_use]
    pub fn icmp(self, kind: u8, code: u8) -> PacketKey {
        self.with(&field::ICMP, u128::from(kind) << 8 | u128::from(code))
    }

    /// The key with this type of Mobility Header.
    #[must_use]
    pub fn mobility(self, kind: u8) -> PacketKey {
        self.with(&field::MOBILITY, u128::from(kind))
    }

    /// The key with this address at the other end.
    #[must_use]
    pub fn towards(self, remote: IpAddr) -> PacketKey {
        self.with(&field::REMOTE, addr::to_bits(remote))
    }

    /// The key of a packet of this application; with [`AppId::NONE`] it has none.
    #[inline]
    #[must_use]
    pub fn app(self, app: AppId) -> PacketKey {
        if app == AppId::NONE { self.without(&field::APP) } else { self.with(&field::APP, u128::from(app.0)) }
    }

    /// The key of a packet of this user.
    #[inline]
    #[must_use]
    pub fn uid(self, uid: u32) -> PacketKey {
        self.with(&field::UID, u128::from(uid))
    }

    /// The key with this code point (the upper six bits of the traffic class).
    #[inline]
    #[must_use]
    pub fn dscp(self, dscp: u8) -> PacketKey {
        self.with(&field::DSCP, u128::from(dscp))
    }

    /// The key with this mark.
    #[inline]
    #[must_use]
    pub fn mark(self, mark: u32) -> PacketKey {
        self.with(&field::MARK, u128::from(mark))
    }

    /// The key with this interface. Zero is no interface (the kernel counts from 1, and below 2^31).
    #[inline]
    #[must_use]
    pub fn interface(self, index: u32) -> PacketKey {
        if index == 0 {
            self.without(&field::INTERFACE)
        } else {
            self.with(&field::INTERFACE, u128::from(index))
        }
    }

    /// The value of a field; `None` if it is not available.
    #[inline]
    pub const fn get(&self, field: &Field) -> Option<u128> {
        field.read(&self.words)
    }

    #[inline]
    pub(crate) const fn words(&self) -> &Words {
        &self.words
    }
}

impl PartialEq for PacketKey {
    #[inline]
    fn eq(&self, other: &PacketKey) -> bool {
        // Inline and without a branch: the comparison of two slices would be a call, four times in a flow cache.
        (0..WORDS).fold(0, |all, i| all | (self.words[i] ^ other.words[i])) == 0
    }
}

impl std::hash::Hash for PacketKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.words.hash(state);
    }
}

impl fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for field in field::STANDARD {
            if let Some(value) = self.get(field) {
                match field.form() {
                    field::Form::Address => map.entry(field, &addr::from_bits(value)),
                    _ => map.entry(field, &value),
                };
            }
        }
        map.finish()
    }
}
