//! Networks that are names (docs/design/0014): changes of single addresses, and the answers of the DNS that programs receive.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use libbpf_rs::RingBufferBuilder;
use sadb::spd::{Order, Spd};
use std::os::fd::AsFd;
use wire::{AppId, addr};

use crate::abi::{self, Wire};
use crate::error::SockmonError;
use crate::monitor::Sockmon;

/// An answer of the DNS that a socket got, to a question that it had asked this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsAnswer {
    /// The socket's application; [`AppId::NONE`]: none that the policy names.
    pub app: AppId,
    /// The address of the server that answered.
    pub server: IpAddr,
    /// The octets of the DNS message.
    pub message: Vec<u8>,
}

impl Sockmon {
    /// From the policy in force to one that differs in networks of applications of [`Spd::changing`] alone: entry by entry, each of
    /// which is right by itself. Pairs of applications that do not compare any more come first, so that no socket changes hands by an
    /// order that is over.
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

fn from_kernel(answer: &abi::Answer) -> Option<DnsAnswer> {
    let message = answer.message.get(..usize::from(answer.length))?.to_vec();
    let server = addr::from_bits(u128::from_be_bytes(answer.server));
    Some(DnsAnswer { app: AppId(answer.app), server, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_the_kernel_is_read_with_its_length() {
        let mut answer = abi::Answer {
            cookie: 1,
            app: 7,
            length: 12,
            zero: 0,
            server: [0; 16],
            message: [5; abi::ANSWER],
        };
        answer.server[10..12].fill(0xff);
        answer.server[12..].copy_from_slice(&[192, 0, 2, 53]);
        let got = from_kernel(&answer).unwrap();
        assert_eq!(
            (got.app, got.server, got.message),
            (AppId(7), IpAddr::from([192, 0, 2, 53]), vec![5; 12])
        );
        assert!(from_kernel(&abi::Answer { length: 1233, ..answer }).is_none());
    }
}
