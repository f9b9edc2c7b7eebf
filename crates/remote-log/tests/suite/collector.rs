//! A collector in the test's own process, on rustls's server side: octet counting as RFC 5425 has it, read by code of
//! its own.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
use socket2::{Domain, Socket, Type};

use crate::authority::Papers;

/// What a collector does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// The collector reads whatever it gets.
    Reads,
    /// It answers the handshake of TLS, and then reads nothing.
    Full,
    /// It reads nothing either, and ends its own direction while octets are on their way to it.
    HalfCloses,
}

/// A collector until it is dropped.
pub struct Collector {
    messages: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    pub fn start(at: SocketAddr, papers: &Papers, manner: Manner) -> Collector {
        Collector::with_versions(at, papers, manner, rustls::ALL_VERSIONS)
    }

    pub fn with_versions(
        at: SocketAddr,
        papers: &Papers,
        manner: Manner,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Collector {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&papers.ca).unwrap()).unwrap();
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_client_cert_verifier(clients.build().unwrap())
            .with_single_cert(
                vec![CertificateDer::from_pem_file(&papers.certificate).unwrap()],
                PrivateKeyDer::from_pem_file(&papers.key).unwrap(),
            )
            .unwrap();
        let config = Arc::new(config);
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        if manner != Manner::Reads {
            socket.set_recv_buffer_size(4096).unwrap();
        }
        socket.bind(&at.into()).unwrap();
        socket.listen(8).unwrap();
        socket.set_nonblocking(true).unwrap();
        let messages = Arc::<Mutex<Vec<String>>>::default();
        let stop = Arc::new(AtomicBool::new(false));
        let (kept, ends) = (Arc::clone(&messages), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut readers = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                let Ok((tcp, _)) = socket.accept() else {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                };
                tcp.set_nonblocking(false).unwrap();
                let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
                let (kept, ends) = (Arc::clone(&kept), Arc::clone(&ends));
                readers.push(std::thread::spawn(move || serve(tcp.into(), tls, manner, &kept, &ends)));
            }
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        Collector { messages, stop, thread: Some(thread) }
    }

    /// What was received, over all connections.
    pub fn messages(&self) -> Vec<String> {
        self.messages.lock().unwrap().clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// One connection, until it ends or the collector does.
fn serve(
    mut tcp: TcpStream,
    mut tls: ServerConnection,
    manner: Manner,
    kept: &Mutex<Vec<String>>,
    ends: &AtomicBool,
) {
    tcp.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    while tls.is_handshaking() && !ends.load(Ordering::Relaxed) {
        match tls.complete_io(&mut tcp) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return,
        }
    }
    let mut stream = rustls::Stream::new(&mut tls, &mut tcp);
    let (mut octets, mut waits) = (Vec::new(), 0);
    while !ends.load(Ordering::Relaxed) {
        if manner != Manner::Reads {
            std::thread::sleep(Duration::from_millis(5));
            waits += 1;
            if manner == Manner::HalfCloses && waits == 80 {
                let _ = stream.sock.shutdown(std::net::Shutdown::Write);
            }
            continue;
        }
        let mut some = [0; 4096];
        match stream.read(&mut some) {
            Ok(0) => break,
            Ok(len) => octets.extend_from_slice(&some[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            Err(_) => break,
        }
        while let Some(space) = octets.iter().position(|octet| *octet == b' ') {
            let len: usize = std::str::from_utf8(&octets[..space]).unwrap().parse().unwrap();
            if octets.len() < space + 1 + len {
                break;
            }
            let message = octets.drain(..space + 1 + len).skip(space + 1).collect();
            kept.lock().unwrap().push(String::from_utf8(message).unwrap());
        }
    }
}
