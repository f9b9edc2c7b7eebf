//! The flows that the kernel half counts: reading them, and taking out what has ended.

use super::Sockmon;
use crate::abi::{FlowKey, FlowValue, Wire};
use crate::error::SockmonError;
use crate::flows::{CountedFlow, FlowId, from_kernel};
use libbpf_rs::{MapCore, MapFlags};

impl Sockmon {
    /// Every flow in the table, in no order.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn flows(&self) -> Result<Vec<CountedFlow>, SockmonError> {
        let map = self.loaded.maps.get("flows")?;
        // One batch: a smaller one that is not full would be taken for the last.
        let all = map
            .lookup_batch(map.max_entries(), MapFlags::ANY, MapFlags::ANY)
            .map_err(SockmonError::bpf("read map flows"))?;
        all.map(|(key, value)| {
            let entry = FlowKey::read(&key).zip(FlowValue::read(&value));
            entry.map(|(key, value)| from_kernel(key, &value)).ok_or(SockmonError::Answer("flows"))
        })
        .collect()
    }

    /// Take a flow out of the table, with what it came to. `None`: it is not there. Packets that come later begin a new entry.
    ///
    /// # Errors
    /// If the map cannot be written.
    pub fn take_flow(&self, id: &FlowId) -> Result<Option<CountedFlow>, SockmonError> {
        let map = self.loaded.maps.get("flows")?;
        match map.lookup_and_delete(id.0.bytes()) {
            Ok(None) => Ok(None),
            Ok(Some(value)) => {
                let value = FlowValue::read(&value).ok_or(SockmonError::Answer("flows"))?;
                Ok(Some(from_kernel(id.0, &value)))
            }
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SockmonError::bpf("take from map flows")(error)),
        }
    }

    /// Flows that the table holds at most.
    ///
    /// # Errors
    /// If there is no such map.
    pub fn flow_capacity(&self) -> Result<usize, SockmonError> {
        self.loaded.maps.capacity("flows")
    }
}
