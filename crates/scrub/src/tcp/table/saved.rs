//! The records of connections that go to a successor or a standby, and come from one.

use super::super::connection::{
    Bounds, Connection, EndFlags, Ends, Half, State, is_half_open, millis, protects, seconds,
};
use super::super::segment::MOST_SCALE;
use super::super::seq;
use super::super::store::{Arena, PieceRecord, Store};
use super::{Connections, HALF_OPEN, NONE};
use crate::config::Config;
use crate::verdict::Side;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use wire::Time;

/// The record of a connection: its ends, its state, and what each end has sent. Milliseconds and seconds are ages,
/// numbers are distances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnectionRecord {
    outside: SocketAddr,
    inside: SocketAddr,
    realm: u32,
    state: State,
    opener: Side,
    picked_up: bool,
    /// Rule Q.4: the shift of the inside host's numbers.
    shift: u32,
    /// The time since its last segment, in milliseconds.
    silent: u32,
    halves: [HalfRecord; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HalfRecord {
    isn: u32,
    /// The distance of this number behind `isn`.
    una: u32,
    /// The distance of this and the next three numbers behind `una`.
    next: u32,
    nxt: u32,
    edge: u32,
    fin: u32,
    ts_recent: u32,
    /// The distance of this timestamp behind `ts_recent`.
    ts_latest: u32,
    /// The number of seconds since `ts_recent` was taken.
    ts_age: u32,
    max_window: u32,
    mss: u16,
    ttl: u8,
    scale: u8,
    end_flags: EndFlags,
    /// The data in store, from `una` on.
    pieces: Vec<PieceRecord>,
}

impl HalfRecord {
    fn of(connection: &Connection, side: Side, now: Time, octets: bool) -> HalfRecord {
        let (half, bounds) = (connection.half(side), connection.bounds(side));
        let store = connection.stores[side.index()].as_deref();
        HalfRecord {
            isn: bounds.isn,
            una: half.una.wrapping_sub(bounds.isn),
            next: half.next.wrapping_sub(half.una),
            nxt: half.nxt.wrapping_sub(half.una),
            edge: half.edge.wrapping_sub(half.una),
            fin: bounds.fin.wrapping_sub(half.una),
            ts_recent: half.ts_recent,
            ts_latest: half.ts_latest.wrapping_sub(half.ts_recent),
            ts_age: seconds(now).wrapping_sub(half.ts_second),
            max_window: half.max_window,
            mss: connection.mss[side.index()],
            ttl: half.ttl,
            scale: half.scale,
            end_flags: half.end_flags,
            pieces: store.map_or_else(Vec::new, |store| store.records(half.una, octets)),
        }
    }

    fn half(&self, now: Time) -> (Half, Bounds) {
        let una = self.isn.wrapping_add(self.una);
        let bounds = Bounds { isn: self.isn, fin: una.wrapping_add(self.fin) };
        let half = Half {
            una,
            next: una.wrapping_add(self.next),
            nxt: una.wrapping_add(self.nxt),
            edge: una.wrapping_add(self.edge),
            ts_recent: self.ts_recent,
            ts_latest: self.ts_recent.wrapping_add(self.ts_latest),
            ts_second: seconds(now).wrapping_sub(self.ts_age),
            max_window: self.max_window,
            ttl: self.ttl,
            scale: self.scale,
            end_flags: self.end_flags,
        };
        (half, bounds)
    }

    fn check(&self) -> Result<(), &'static str> {
        const FAR: u32 = i32::MAX as u32;
        if self.next > self.nxt || self.nxt > FAR {
            return Err("sequence numbers");
        }
        if self.scale > MOST_SCALE || self.max_window > u32::from(u16::MAX) << MOST_SCALE {
            return Err("a window");
        }
        let mut at = 0;
        for piece in &self.pieces {
            let (start, len) = (piece.start, piece.len());
            at = match start.checked_add(len) {
                Some(end) if start >= at && len > 0 && end <= self.nxt => end,
                _ => return Err("stored octets"),
            };
        }
        Ok(())
    }
}

impl ConnectionRecord {
    pub(super) fn of(connection: &Connection, now: Time, octets: bool) -> ConnectionRecord {
        let half = |side: Side| HalfRecord::of(connection, side, now, octets);
        ConnectionRecord {
            outside: connection.ends.end(Side::Outside),
            inside: connection.ends.end(Side::Inside),
            realm: connection.ends.realm(),
            state: connection.state,
            opener: connection.opener,
            picked_up: connection.picked_up,
            shift: connection.shift,
            silent: millis(now).wrapping_sub(connection.last),
            halves: [half(Side::Outside), half(Side::Inside)],
        }
    }

    pub fn hosts(&self) -> (IpAddr, IpAddr) {
        (self.outside.ip(), self.inside.ip())
    }

    /// Check that the record does not contradict itself.
    ///
    /// # Errors
    /// The part that contradicts itself.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.outside.is_ipv4() != self.inside.is_ipv4() {
            return Err("addresses of two families");
        }
        self.halves.iter().try_for_each(HalfRecord::check)
    }

    fn ends(&self) -> Ends {
        Ends::new((self.outside.ip(), self.outside.port()), (self.inside.ip(), self.inside.port()))
            .in_realm(self.realm)
    }

    /// The connection of the record. `None`: there is no room for its octets.
    fn connection(&self, config: &Config, now: Time, arena: &mut Arena) -> Option<Connection> {
        let mut connection = Connection::new(self.ends(), self.opener, now);
        connection.state = self.state;
        connection.picked_up = self.picked_up;
        connection.last = millis(now).wrapping_sub(self.silent);
        for (side, record) in [Side::Outside, Side::Inside].into_iter().zip(&self.halves) {
            let (half, bounds) = record.half(now);
            (*connection.half_mut(side), *connection.bounds_mut(side)) = (half, bounds);
            connection.mss[side.index()] = record.mss;
            if !protects(config, side.other()) {
                continue;
            }
            // A FIN has a number and no octet.
            let finished = half.end_flags.has(EndFlags::FIN) && half.next == bounds.fin.wrapping_add(1);
            let until = if finished { bounds.fin } else { half.next };
            let Some(store) = Store::restore(arena, half.una, seq::gap(half.una, until), &record.pieces)
            else {
                connection.release(arena);
                return None;
            };
            connection.stores[side.index()] = store;
        }
        connection.set_shift(self.shift);
        Some(connection)
    }
}

impl Connections {
    /// Pass the record of every connection to `each`, half-open ones first, oldest first. With `octets` it holds the
    /// data in store, and not only their place.
    pub(crate) fn records(&self, now: Time, octets: bool, each: &mut impl FnMut(ConnectionRecord)) {
        for [first, _] in self.lists[HALF_OPEN..].iter().chain(&self.lists[..HALF_OPEN]) {
            let mut at = *first;
            while let Some(connection) = self.all.get(at as usize)
                && at != NONE
            {
                each(ConnectionRecord::of(connection, now, octets));
                at = connection.links[1];
            }
        }
    }

    /// Take over a connection in the place of what is known of it. Returns whether there was room.
    pub(crate) fn restore(&mut self, config: &Config, now: Time, record: &ConnectionRecord) -> bool {
        self.now = self.now.max(now);
        let ends = record.ends();
        if record.check().is_err() {
            return false;
        }
        if let Some(at) = self.find(&ends) {
            self.remove(at);
        }
        let half_open = is_half_open(record.state);
        let room = match record.state {
            State::Init | State::Init2 => self.half_open < config.flows.half_open,
            State::Estab | State::Close => self.live() < config.flows.established,
            State::Closed => self.closed < config.flows.closed,
        };
        if !room {
            return false;
        }
        let Some(connection) = record.connection(config, now, &mut self.arena) else { return false };
        let at = self.insert(connection);
        if half_open {
            self.append(HALF_OPEN, at);
        } else {
            self.schedule(config, at);
        }
        true
    }

    pub(crate) fn forget(&mut self, outside: SocketAddr, inside: SocketAddr, realm: u32) {
        let ends = Ends::new((outside.ip(), outside.port()), (inside.ip(), inside.port())).in_realm(realm);
        if let Some(at) = self.find(&ends) {
            self.remove(at);
        }
    }
}
