//! What a DNS message says of a name (RFC 1035 section 4, RFC 2181 section 5): the addresses at the end of the chain of aliases that
//! starts at the name, within that message.

use std::net::IpAddr;

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

/// Aliases that are followed.
const ALIASES: usize = 16;
/// Addresses of one message that are looked at.
const ADDRESSES: usize = 4096;

/// An address and how many seconds its answer is good for.
pub type Lasting = (IpAddr, u32);

/// A name as the policy writes it.
fn plain(name: &Name) -> String {
    let mut text = name.to_lowercase().to_ascii();
    if text.ends_with('.') && text.len() > 1 {
        text.pop();
    }
    text
}

/// The addresses that these records give a name. The shortest time of the chain counts for all of them.
pub fn addresses(name: &Name, records: &[Record]) -> Vec<Lasting> {
    let mut at = name.clone();
    let mut ttl = u32::MAX;
    let about =
        |at: &Name, record: &&Record| record.dns_class == DNSClass::IN && record.name.eq_ignore_root(at);
    for _ in 0..ALIASES {
        let alias =
            records.iter().filter(|record| about(&at, record)).find_map(|record| match &record.data {
                RData::CNAME(to) => Some((to.0.clone(), record.ttl)),
                _ => None,
            });
        let Some((to, lasts)) = alias else { break };
        (at, ttl) = (to, ttl.min(lasts));
    }
    let mut out = Vec::new();
    for record in records.iter().filter(|record| about(&at, record)).take(ADDRESSES) {
        match &record.data {
            RData::A(a) => out.push((IpAddr::V4(a.0), ttl.min(record.ttl))),
            RData::AAAA(a) => out.push((IpAddr::V6(a.0), ttl.min(record.ttl))),
            _ => {}
        }
    }
    out
}

/// Whether a host can have this address: no liar gets at this host's own sockets, at groups, or at links.
pub fn usable(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(v4) => {
            !(v4.is_unspecified()
                || v4.is_loopback()
                || v4.is_multicast()
                || v4.is_broadcast()
                || v4.is_link_local()
                || v4.octets()[0] == 0)
        }
        IpAddr::V6(v6) => {
            !(v6.is_unspecified()
                || v6.is_loopback()
                || v6.is_multicast()
                || v6.is_unicast_link_local()
                || v6.to_ipv4().is_some())
        }
    }
}

/// What an answer that an application received says: the name asked for and its addresses. `None`: not a whole, good answer to one
/// question for addresses, or one about a name for which `wanted` does not hold.
pub fn observed(octets: &[u8], wanted: impl FnOnce(&str) -> bool) -> Option<(String, Vec<Lasting>)> {
    let message = Message::from_vec(octets).ok()?;
    let head = &message.metadata;
    if head.message_type != MessageType::Response
        || head.op_code != OpCode::Query
        || head.response_code != ResponseCode::NoError
        || head.truncation
    {
        return None;
    }
    let [question] = &message.queries[..] else { return None };
    if question.query_class() != DNSClass::IN
        || !matches!(question.query_type(), RecordType::A | RecordType::AAAA)
    {
        return None;
    }
    let name = plain(question.name());
    if !wanted(&name) {
        return None;
    }
    let mut found = addresses(question.name(), &message.answers);
    found.retain(|(addr, _)| addr.is_ipv4() == (question.query_type() == RecordType::A));
    Some((name, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::op::Query;
    use hickory_proto::rr::rdata::{A, CNAME};

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    fn a(owner: &str, last: u8, ttl: u32) -> Record {
        Record::from_rdata(name(owner), ttl, RData::A(A::new(192, 0, 2, last)))
    }

    fn alias(owner: &str, to: &str, ttl: u32) -> Record {
        Record::from_rdata(name(owner), ttl, RData::CNAME(CNAME(name(to))))
    }

    fn response(question: &str, answers: Vec<Record>) -> Vec<u8> {
        let mut message = Message::response(7, OpCode::Query);
        message.add_query(Query::query(name(question), RecordType::A));
        message.add_answers(answers);
        message.to_vec().unwrap()
    }

    fn v4(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn aliases_are_followed_to_their_end_and_the_shortest_time_counts() {
        let records = vec![
            alias("www.example.", "a.example.", 300),
            a("b.example.", 2, 900),
            alias("A.example.", "b.Example.", 20),
            a("other.example.", 9, 5),
            a("www.example.", 8, 5),
        ];
        assert_eq!(addresses(&name("WWW.example."), &records[..4]), [(v4(2), 20)]);
        // An alias has no other data (RFC 1034 section 3.6.2).
        assert_eq!(addresses(&name("www.example."), &records), [(v4(2), 20)]);
        let loops = vec![alias("x.", "y.", 1), alias("y.", "x.", 1), a("z.", 1, 1)];
        assert!(addresses(&name("x."), &loops).is_empty());
        let long: Vec<Record> = (0..40)
            .map(|n| alias(&format!("n{n}."), &format!("n{}.", n + 1), 1))
            .chain([a("n40.", 1, 1)])
            .collect();
        assert!(addresses(&name("n0."), &long).is_empty());
    }

    #[test]
    fn an_observed_answer_must_be_one_to_the_name() {
        let any = |_: &str| true;
        let good = response("Host.Example.", vec![a("host.example.", 1, 60)]);
        assert_eq!(observed(&good, any), Some(("host.example".to_owned(), vec![(v4(1), 60)])));
        assert_eq!(observed(&good, |name| name != "host.example"), None);
        let beside = response("host.example.", vec![a("bank.example.", 1, 60)]);
        assert_eq!(observed(&beside, any), Some(("host.example".to_owned(), vec![])));
        // A query, a refusal, half an answer, rubbish.
        let mut query = good.clone();
        query[2] &= 0x7f;
        let mut refused = good.clone();
        refused[3] |= 5;
        let mut truncated = good.clone();
        truncated[2] |= 2;
        for bad in [&query[..], &refused, &truncated, &good[..good.len() - 1], &[], &[0xff; 40]] {
            assert_eq!(observed(bad, any), None);
        }
    }

    #[test]
    fn some_addresses_are_no_hosts() {
        for bad in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "169.254.1.1",
            "::",
            "::1",
            "ff02::1",
            "fe80::1",
            "::ffff:192.0.2.1",
            "::192.0.2.1",
        ] {
            assert!(!usable(bad.parse().unwrap()), "{bad}");
        }
        for good in ["192.0.2.1", "10.0.0.1", "2001:db8::1", "fd00::1"] {
            assert!(usable(good.parse().unwrap()), "{good}");
        }
    }
}
