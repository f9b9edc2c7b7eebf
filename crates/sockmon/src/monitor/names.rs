//! Networks that are names (docs/design/0014): changes of single addresses, and the answers of the DNS that programs
//! receive.

use super::Sockmon;
use crate::abi::{self, Wire};
use crate::error::SockmonError;
use crate::names::{DnsAnswer, from_kernel};
use libbpf_rs::RingBufferBuilder;
use sadb::spd::{Order, Spd};
use std::os::fd::{AsFd, OwnedFd};
use wire::AppId;

impl Sockmon {
    /// Change the policy in force to one that differs in networks of applications of [`Spd::changing`] alone. The
    /// change is made entry by entry, and each entry is right by itself. Pairs of applications that no longer compare
    /// come first, so that no socket changes hands by an order that is over.
    ///
    /// # Errors
    /// [`SockmonError::Answer`] if they differ in more than that; then, or if the kernel refuses an entry, the policy is to be loaded
    /// as a whole.
    pub fn change_networks(
        &mut self,
        spd: &Spd,
        orders: &[((AppId, AppId), Order)],
    ) -> Result<(), SockmonError> {
        let maps = &self.loaded.maps;
        let generation = maps.config()?.generation;
        let known = self.tables.take().filter(|tables| tables.generation == generation && generation != 0);
        let mut tables = known.ok_or(SockmonError::Answer("a change of networks alone"))?;
        match tables.follow(spd, orders) {
            Ok(single) => {
                // If it fails, what the maps hold is to be read again.
                single.write(maps)?;
                self.tables = Some(tables);
                Ok(())
            }
            Err(error) => {
                self.tables = Some(tables);
                Err(error)
            }
        }
    }

    /// Whether answers of the DNS are told of from now on.
    ///
    /// # Errors
    /// [`SockmonError::Bpf`].
    pub fn set_observe(&self, observe: bool) -> Result<(), SockmonError> {
        let config = self.loaded.maps.config()?;
        self.loaded.maps.set_config(&abi::Config { observe: u32::from(observe), ..config })
    }

    /// The answers since the last call, at most `most` of them; the others are lost. Does not wait.
    ///
    /// # Errors
    /// [`SockmonError::Bpf`] if the ring cannot be read.
    pub fn dns_answers(&self, most: usize) -> Result<Vec<DnsAnswer>, SockmonError> {
        let mut out = Vec::new();
        {
            let fail = || SockmonError::bpf("read map answers");
            let mut ring = RingBufferBuilder::new();
            ring.add(self.loaded.maps.get("answers")?, |bytes| {
                if out.len() < most {
                    out.extend(abi::Answer::read(bytes).and_then(|answer| from_kernel(&answer)));
                }
                0
            })
            .map_err(fail())?;
            ring.build().map_err(fail())?.consume().map_err(fail())?;
        }
        Ok(out)
    }

    /// Readable (poll, epoll) when there are answers; of one's own, so that it can be given to a runtime.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn dns_answers_fd(&self) -> Result<OwnedFd, SockmonError> {
        let map = self.loaded.maps.get("answers")?;
        map.as_fd().try_clone_to_owned().map_err(SockmonError::system("copy a descriptor"))
    }
}
