//! Gateway mode while the monitor runs: its interfaces, and its spans.

use super::Sockmon;
use crate::error::SockmonError;
use crate::gateway::{Span, narrow, put, ways_of};

impl Sockmon {
    /// These interfaces lead to the networks behind this host, and no others do. What is forwarded
    /// from or to one that is not named passes the uplinks and these interfaces only if its peer's address alone says so. A host stays a gateway until it is attached anew without such interfaces.
    ///
    /// # Errors
    /// If a program cannot be attached.
    pub fn set_insides(&mut self, insides: &[u32]) -> Result<(), SockmonError> {
        let gone: Vec<u32> = self.places.insides.iter().copied().filter(|i| !insides.contains(i)).collect();
        for ifindex in gone {
            self.links.detach_device(&self.pins, ifindex)?;
            self.loaded.maps.retain("insides", |known: &u32| *known == ifindex)?;
            self.places.insides.remove(&ifindex);
        }
        for &ifindex in insides {
            self.places.insides.insert(ifindex);
            self.loaded.maps.write("insides", &ifindex, &1u32)?;
            if let Err(error) = self.links.attach_device(&self.loaded, &self.pins, &self.places, ifindex) {
                self.places.insides.remove(&ifindex);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The first half of a change of rules: from now on no forwarded packet passes in clear that would not pass under
    /// `spans` too. Packets that pass only under `spans` do not pass yet.
    ///
    /// # Errors
    /// The kernel has no room for them. Some packets then do not pass although they may.
    pub fn narrow_spans(&mut self, spans: &[Span]) -> Result<(), SockmonError> {
        narrow(&self.loaded.maps, &mut self.spans, &ways_of(spans))
    }

    /// Second half: exactly these.
    ///
    /// # Errors
    /// If the kernel has no room for them; then some pass less than they may.
    pub fn set_spans(&mut self, spans: &[Span]) -> Result<(), SockmonError> {
        put(&self.loaded.maps, &mut self.spans, &ways_of(spans))
    }
}
