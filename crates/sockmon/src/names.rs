//! The answers of the DNS that programs receive, for networks that are names (docs/design/0014).

use std::net::IpAddr;

use wire::{AppId, addr};

use crate::abi;

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

/// An answer as the kernel half tells it.
pub(crate) fn from_kernel(answer: &abi::Answer) -> Option<DnsAnswer> {
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
