//! The news about connections for a standby.

use super::super::connection::{Connection, Ends, is_half_open};
use crate::config::{Config, Feed};
use std::collections::VecDeque;

/// The largest number of connections that are gone and were not told of. A standby that misses one keeps it until its
/// time is over.
const GONE: usize = 1 << 16;

/// The news that was not told yet. It leaves out connections whose handshake is not done, so that a flood of them
/// reaches no standby.
#[derive(Debug, Default)]
pub(super) struct PendingUpdates {
    pub changed: Vec<u32>,
    pub gone: VecDeque<Ends>,
}

impl PendingUpdates {
    pub fn of(config: &Config) -> Option<PendingUpdates> {
        (config.feed != Feed::Off).then(PendingUpdates::default)
    }

    pub fn gone(&mut self, connection: &mut Connection) {
        connection.news = false;
        if !is_half_open(connection.state) && self.gone.len() < GONE {
            self.gone.push_back(connection.ends);
        }
    }
}
