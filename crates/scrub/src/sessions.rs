//! Questions that were asked (rules I.1, I.2, U.2): who may be answered, over UDP and ICMP echo.

use crate::config::Config;
use wire::Time;

/// Flows of UDP and ICMP echo.
#[derive(Debug)]
pub(crate) struct Sessions {}

impl Sessions {
    pub fn new(_config: &Config, _seed: [u8; 16]) -> Sessions {
        Sessions {}
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    pub fn expire(&mut self, _now: Time) {}
}
