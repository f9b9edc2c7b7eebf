//! The feed of a standby: which connections it is told of, and in what order.

use super::super::connection::is_half_open;
use super::Connections;
use super::pending::PendingUpdates;
use super::saved::ConnectionRecord;
use crate::config::{Config, Feed};
use crate::saved::RecordKind;
use crate::verdict::Side;
use wire::Time;

/// The number of changes below which duplicates are never removed.
const LEAST: usize = 1 << 12;

impl Connections {
    #[inline]
    pub(in crate::tcp) fn has_feed(&self) -> bool {
        self.news.is_some()
    }

    /// Note that a connection has changed.
    pub(in crate::tcp) fn tell(&mut self, at: Option<u32>) {
        if let Some(news) = &mut self.news
            && let Some(at) = at
            && let Some(connection) = self.all.get_mut(at as usize)
            && !connection.news
            && !is_half_open(connection.state)
        {
            connection.news = true;
            news.changed.push(at);
            // A place that was left and taken again is in it twice. More than all of them there are not.
            if news.changed.len() > 2 * self.all.len() + LEAST {
                news.changed.sort_unstable();
                news.changed.dedup();
            }
        }
    }

    /// Begin, or end, to note changes.
    pub(crate) fn begin_feed(&mut self, config: &Config) {
        self.news = PendingUpdates::of(config);
        // Whoever was fed before was told of them, not who comes now.
        self.all.iter_mut().for_each(|connection| connection.news = false);
    }

    /// Note that all connections have changed.
    pub(crate) fn tell_all(&mut self) {
        // Who is in no list is no connection any more.
        for at in 0..self.all.len() {
            if self.all.get(at).is_some_and(|connection| connection.slot != u16::MAX) {
                self.tell(u32::try_from(at).ok());
            }
        }
    }

    /// The next record to tell of. Connections that are gone come first: the same two ends may have begun anew.
    pub(crate) fn take_news(&mut self, config: &Config, now: Time) -> Option<RecordKind> {
        let news = self.news.as_mut()?;
        if let Some(ends) = news.gone.pop_front() {
            let (outside, inside) = (ends.end(Side::Outside), ends.end(Side::Inside));
            return Some(RecordKind::Gone { outside, inside, realm: ends.realm() });
        }
        loop {
            let connection = self.all.get_mut(news.changed.pop()? as usize)?;
            if std::mem::take(&mut connection.news) {
                let record = ConnectionRecord::of(connection, now, config.feed == Feed::Octets);
                return Some(RecordKind::Connection(Box::new(record)));
            }
        }
    }
}
