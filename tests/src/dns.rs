//! A name server that says what a test wants, also what no honest one does: over UDP and TCP, in a host's namespace.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::CNAME;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use lab::Host;

/// What is said of a name.
#[derive(Clone, Debug)]
pub enum Says {
    /// An answer with these addresses, for so many seconds.
    Addresses(Vec<IpAddr>, u32),
    /// An answer with another name, whose own answer is in the same message, as far as there is one.
    Alias(&'static str),
    /// An answer with the code SERVFAIL.
    Failure,
    /// No answer at all.
    Silence,
}

type Zone = Arc<Mutex<HashMap<String, Says>>>;

/// A running name server; it ends with this value.
pub struct NameServer {
    zone: Zone,
    over: Arc<AtomicBool>,
    /// The socket that answers: what a test sends by it comes from the server.
    pub udp: UdpSocket,
}

const LARGEST: usize = 1232;
const SLICE: Duration = Duration::from_millis(50);

impl NameServer {
    /// Start a server on this host, at this address and port.
    ///
    /// # Panics
    /// If the sockets cannot be made.
    pub fn start(host: &Host, at: SocketAddr) -> NameServer {
        let (udp, tcp) = host.run(|| (UdpSocket::bind(at).unwrap(), TcpListener::bind(at).unwrap())).unwrap();
        udp.set_read_timeout(Some(SLICE)).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let (zone, over) = (Zone::default(), Arc::new(AtomicBool::new(false)));
        let server = NameServer { zone: zone.clone(), over: over.clone(), udp: udp.try_clone().unwrap() };
        let (zone_too, over_too) = (zone.clone(), over.clone());
        std::thread::spawn(move || {
            let mut octets = [0; 65_535];
            while !over.load(Ordering::Relaxed) {
                let Ok((len, peer)) = udp.recv_from(&mut octets) else { continue };
                if let Some(answer) = answer(&zone, &octets[..len], LARGEST) {
                    let _ = udp.send_to(&answer, peer);
                }
            }
        });
        std::thread::spawn(move || {
            while !over_too.load(Ordering::Relaxed) {
                match tcp.accept() {
                    Ok((stream, _)) => {
                        let zone = zone_too.clone();
                        std::thread::spawn(move || serve(&zone, stream));
                    }
                    Err(_) => std::thread::sleep(SLICE),
                }
            }
        });
        server
    }

    fn zone(&self) -> MutexGuard<'_, HashMap<String, Says>> {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, this is said of the name.
    pub fn say(&self, name: &str, says: Says) {
        self.zone().insert(format!("{name}."), says);
    }

    /// From now on, the name has these addresses for a second.
    ///
    /// # Panics
    /// If one is not an address.
    pub fn addresses(&self, name: &str, list: &[&str]) {
        self.say(name, Says::Addresses(list.iter().map(|addr| addr.parse().unwrap()).collect(), 1));
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Questions of one connection, until it ends or says nothing for a while.
fn serve(zone: &Zone, mut stream: TcpStream) -> Option<()> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    loop {
        let mut len = [0; 2];
        stream.read_exact(&mut len).ok()?;
        let mut question = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut question).ok()?;
        let answer = answer(zone, &question, 65_535)?;
        let len = u16::try_from(answer.len()).ok()?.to_be_bytes();
        stream.write_all(&[&len[..], &answer].concat()).ok()?;
    }
}

fn answer(zone: &Zone, question: &[u8], room: usize) -> Option<Vec<u8>> {
    let asked = Message::from_vec(question).ok()?;
    let query = asked.queries.first()?.clone();
    let mut message = Message::response(asked.metadata.id, asked.metadata.op_code);
    message.metadata.recursion_desired = true;
    message.metadata.recursion_available = true;
    message.add_query(query.clone());
    let zone = zone.lock().unwrap_or_else(PoisonError::into_inner);
    let mut at = query.name().to_lowercase().to_ascii();
    for _ in 0..8 {
        match zone.get(&at) {
            Some(Says::Alias(to)) => {
                let to = format!("{to}.");
                let target = RData::CNAME(CNAME(Name::from_ascii(&to).ok()?));
                message.add_answer(Record::from_rdata(Name::from_ascii(&at).ok()?, 1, target));
                at = to;
            }
            Some(Says::Addresses(list, ttl)) => {
                for addr in list {
                    let data = match (addr, query.query_type()) {
                        (IpAddr::V4(v4), RecordType::A) => RData::A((*v4).into()),
                        (IpAddr::V6(v6), RecordType::AAAA) => RData::AAAA((*v6).into()),
                        _ => continue,
                    };
                    message.add_answer(Record::from_rdata(Name::from_ascii(&at).ok()?, *ttl, data));
                }
                break;
            }
            Some(Says::Silence) => return None,
            Some(Says::Failure) => {
                message.metadata.response_code = ResponseCode::ServFail;
                break;
            }
            None => {
                message.metadata.response_code = ResponseCode::NXDomain;
                break;
            }
        }
    }
    let octets = message.to_vec().ok()?;
    if octets.len() <= room {
        return Some(octets);
    }
    let mut short = Message::response(asked.metadata.id, asked.metadata.op_code);
    short.metadata.truncation = true;
    short.add_query(query);
    short.to_vec().ok()
}

/// A good answer to a question that nobody has asked: the name has this address.
///
/// # Panics
/// If one of them is not one.
pub fn response(name: &str, addr: &str) -> Vec<u8> {
    let zone = Zone::default();
    let says = Says::Addresses(vec![addr.parse().unwrap()], 60);
    zone.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("{name}."), says);
    let mut question = Message::query();
    question.add_query(hickory_proto::op::Query::query(
        Name::from_ascii(format!("{name}.")).unwrap(),
        RecordType::A,
    ));
    answer(&zone, &question.to_vec().unwrap(), LARGEST).unwrap()
}
