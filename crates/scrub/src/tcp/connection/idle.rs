//! The end of a connection that is silent (rule Q.16).

use super::{Connection, State};
use crate::config::Config;
use crate::rule::{Mode, Rule};
use crate::verdict::{Context, Side};
use wire::tcp::Flags;

/// The number of probes that are sent before a silent connection is closed.
const PROBES: u8 = 2;

/// Whether silent connections are probed and then closed.
pub(in crate::tcp) fn says_goodbye(config: &Config) -> bool {
    config.goodbye && config.mode(Rule::Idle) == Mode::On
}

impl Connection {
    /// Rule Q.16: ask both ends whether they are there, and at last close both. Returns whether the connection stays
    /// for now.
    pub(in crate::tcp) fn say_goodbye(&mut self, config: &Config, context: &mut Context<'_>) -> bool {
        if self.state != State::Estab || !says_goodbye(config) {
            return false;
        }
        let stays = self.probes < PROBES;
        for side in [Side::Outside, Side::Inside] {
            let flags = if stays { Flags::ACK } else { Flags::RST | Flags::ACK };
            if let Some(buf) = self.bare(side, flags, u32::from(stays)) {
                context.emit_in(self.ends.realm(), side, buf, Rule::Idle);
            }
        }
        self.probes += u8::from(stays);
        stays
    }
}
