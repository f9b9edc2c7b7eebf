//! The verbs by which a scrubber's state leaves and comes back (`saved.rs` has its form).

use super::Scrubber;
use crate::config::Feed;
use crate::counters::Counters;
use crate::rule::Rule;
use crate::saved::{MAGIC, Record, RecordKind, RestoreCounts, Saved, VERSION};
use std::net::IpAddr;
use wire::Time;

impl Scrubber {
    /// Write the whole state behind the octets in `out`.
    pub fn save(&self, now: Time, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        let mut count = 0_u64;
        let mut put = |what| {
            count += 1;
            Record(what).write(out);
        };
        counted(self.counters(), &mut put);
        self.connections().records(now, true, &mut |record| put(RecordKind::Connection(Box::new(record))));
        self.sessions().records(now, &mut |record| put(RecordKind::Session(record)));
        Record(RecordKind::End(count)).write(out);
    }

    /// The next record that a standby has to hear: a connection that changed since it was told of it, or is forgotten.
    /// It is for scrubbers whose configuration has a feed.
    pub fn poll_news(&mut self, now: Time) -> Option<Record> {
        self.take_news(now).map(Record)
    }

    /// Begin to tell a standby of all connections, and then of those that change; or end it.
    pub fn set_feed(&mut self, feed: Feed) {
        self.begin_feed(feed);
        self.tell_all();
    }

    /// Tell a standby that knows nothing yet of all connections.
    pub fn tell_all(&mut self) {
        self.all_is_news();
    }

    /// Take over those records of a saved state that are `mine`, which is asked with the host outside and the host
    /// inside. It is also asked about records that concern no hosts (`None`).
    pub fn restore(
        &mut self,
        now: Time,
        saved: &Saved<'_>,
        mut mine: impl FnMut(Option<(IpAddr, IpAddr)>) -> bool,
    ) -> RestoreCounts {
        let mut done = RestoreCounts::default();
        for record in saved.records() {
            if !mine(record.hosts()) {
                continue;
            }
            let counts = match record.0 {
                RecordKind::Connection(_) => Some(&mut done.connections),
                RecordKind::Session(_) => Some(&mut done.sessions),
                _ => None,
            };
            match (self.apply(now, &record), counts) {
                (true, Some(count)) => *count += 1,
                (false, Some(_)) => done.lost += 1,
                _ => {}
            }
        }
        done
    }

    /// Take over one record. Returns whether there was room. A connection that is known already is replaced.
    pub fn apply(&mut self, now: Time, record: &Record) -> bool {
        match &record.0 {
            RecordKind::Connection(record) => self.restore_connection(now, record),
            RecordKind::Gone { outside, inside, realm } => {
                self.forget_connection(*outside, *inside, *realm);
                true
            }
            RecordKind::Session(record) => self.restore_session(now, record),
            RecordKind::Rule(id, [dropped, changed, observed]) => {
                if let Some(rule) = Rule::find(id) {
                    self.counters_mut().add(rule, *dropped, *changed, *observed);
                }
                true
            }
            RecordKind::Packets(sums) => {
                self.counters_mut().add_packets(sums);
                true
            }
            RecordKind::End(_) => true,
        }
    }
}

fn counted(counters: &Counters, put: &mut impl FnMut(RecordKind)) {
    put(RecordKind::Packets([counters.packets, counters.forwarded, counters.held]));
    for rule in Rule::ALL {
        let of = counters.of(*rule);
        let sums = [of.dropped, of.changed, of.observed];
        if sums != [0; 3] {
            put(RecordKind::Rule(rule.id().to_owned(), sums));
        }
    }
}
