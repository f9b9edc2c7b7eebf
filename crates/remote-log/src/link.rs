//! The connection to the collector, as a state machine that never blocks: [`Link::advance`] does what can be done now.
//!
//! What enters: the time, and messages of the spool. What leaves: octets to the collector, and what is known of it.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use socket2::{Domain, Protocol, Socket, Type};

use crate::settings::Settings;
use crate::spool::Spool;
use crate::tls;

/// Rounds of reading or sending in one call at most, so that the spool gets its turn.
const ROUNDS: usize = 64;
/// The part of the spool's size that is sent at most before a confirmation is asked for. A confirmation writes the rest
/// of the spool anew, so a full one is written so many times at most.
const PARTS: u64 = 16;
/// So many times its patience a sender waits for the end of a connection: a slow collector first reads what the kernels
/// of both sides hold.
const CLOSING: u32 = 6;

/// The connection to the collector.
#[derive(Debug)]
pub(crate) struct Link {
    phase: Phase,
    back_off: Duration,
}

/// How far a connection is.
#[derive(Debug)]
enum Phase {
    /// There is none before this moment.
    Down(Instant),
    /// TCP's handshake goes on.
    Connecting(TcpStream, Instant),
    /// There is a TCP connection.
    Open(Box<Session>),
}

#[derive(Debug)]
struct Session {
    tcp: TcpStream,
    tls: ClientConnection,
    /// Since when the collector has taken nothing, or has not gone on with its handshake.
    waiting: Instant,
    /// When the first message was sent by this connection.
    first: Option<Instant>,
    /// The sender has ended its direction: TLS, then TCP.
    closing: bool,
    shut: bool,
    /// The collector has ended its direction.
    ended: bool,
}

/// What a call of [`Link::advance`] came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing that is to be told.
    None,
    /// The collector has read everything that was sent, and the connection is over.
    Confirmed,
}

impl Link {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Link {
        Link { phase: Phase::Down(now), back_off: settings.back_off.0 }
    }

    /// Whether messages go out: both sides are authenticated.
    pub(crate) fn is_up(&self) -> bool {
        matches!(&self.phase, Phase::Open(session) if !session.tls.is_handshaking() && !session.closing)
    }

    /// Whether something may be done at any moment, without a message from here.
    pub(crate) fn is_busy(&self) -> bool {
        match &self.phase {
            Phase::Down(_) => false,
            Phase::Connecting(..) => true,
            Phase::Open(session) => !self.is_up() || session.tls.wants_write(),
        }
    }

    /// Do what can be done now. `hasty`: ask for a confirmation as soon as everything is sent.
    ///
    /// # Errors
    /// Why there is no connection, or why it broke; the next attempt is made after a while.
    pub(crate) fn advance(
        &mut self,
        settings: &Settings,
        spool: &mut Spool,
        now: Instant,
        hasty: bool,
    ) -> Result<Progress, String> {
        let done = self.step(settings, spool, now, hasty);
        match &done {
            Ok(Progress::None) => {}
            Ok(Progress::Confirmed) => {
                self.back_off = settings.back_off.0;
                self.phase = Phase::Down(now);
            }
            Err(_) => {
                spool.rewind();
                self.phase = Phase::Down(now + self.back_off);
                self.back_off = (2 * self.back_off).min(settings.back_off.1);
            }
        }
        done
    }

    fn step(
        &mut self,
        settings: &Settings,
        spool: &mut Spool,
        now: Instant,
        hasty: bool,
    ) -> Result<Progress, String> {
        let server = settings.server;
        match &mut self.phase {
            Phase::Down(until) if now < *until => Ok(Progress::None),
            Phase::Down(_) => {
                let tcp = connect(settings).map_err(|error| format!("no connection to {server}: {error}"))?;
                self.phase = Phase::Connecting(tcp, now);
                Ok(Progress::None)
            }
            Phase::Connecting(tcp, since) => {
                if let Some(error) = tcp.take_error().unwrap_or_else(Some) {
                    return Err(format!("no connection to {server}: {error}"));
                }
                if tcp.peer_addr().is_err() {
                    if now.duration_since(*since) > settings.patience {
                        return Err(format!("no connection to {server}: it does not answer"));
                    }
                    return Ok(Progress::None);
                }
                let tls = tls::connection(settings).map_err(|error| error.to_string())?;
                let tcp = tcp.try_clone().map_err(|error| format!("the connection to {server}: {error}"))?;
                let _ = tcp.set_nodelay(true);
                let (first, waiting) = (None, now);
                let session = Session { tcp, tls, waiting, first, closing: false, shut: false, ended: false };
                self.phase = Phase::Open(Box::new(session));
                Ok(Progress::None)
            }
            Phase::Open(session) => session.step(settings, spool, now, hasty),
        }
    }
}

/// A connection that is under way.
fn connect(settings: &Settings) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(settings.server), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&settings.server.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

impl Session {
    fn step(
        &mut self,
        settings: &Settings,
        spool: &mut Spool,
        now: Instant,
        hasty: bool,
    ) -> Result<Progress, String> {
        self.receive(now)?;
        self.flush(now)?;
        if self.closing {
            return self.close(settings, now);
        }
        if self.ended {
            return Err(match self.tls.is_handshaking() {
                true => "the collector ended the connection before TLS was up".to_owned(),
                false => "the collector ended the connection".to_owned(),
            });
        }
        if self.tls.is_handshaking() {
            return match now.duration_since(self.waiting) > settings.patience {
                true => Err("the collector does not go on with the TLS handshake".to_owned()),
                false => Ok(Progress::None),
            };
        }
        let most = settings.size / PARTS;
        self.send(spool, most, now)?;
        if self.tls.wants_write() {
            return match now.duration_since(self.waiting) > settings.patience {
                true => Err("the collector takes nothing: it is full, or it stands still".to_owned()),
                false => Ok(Progress::None),
            };
        }
        let due = self.first.is_some_and(|first| now.duration_since(first) >= settings.heartbeat / 2);
        if spool.in_doubt() > 0 && (due || hasty || spool.in_doubt() >= most) {
            self.tls.send_close_notify();
            (self.closing, self.waiting) = (true, now);
            self.flush(now)?;
            return self.close(settings, now);
        }
        Ok(Progress::None)
    }

    /// Give the session what waits in the spool, as far as the socket takes it, until `most` octets are in doubt.
    fn send(&mut self, spool: &mut Spool, most: u64, now: Instant) -> Result<(), String> {
        for _ in 0..ROUNDS {
            if self.tls.wants_write() || spool.in_doubt() >= most {
                return Ok(());
            }
            let octets = spool.next().map_err(|error| format!("the spool: {error}"))?;
            if octets.is_empty() {
                return Ok(());
            }
            self.first.get_or_insert(now);
            self.waiting = now;
            self.tls.writer().write_all(&octets).map_err(|error| format!("TLS: {error}"))?;
            self.flush(now)?;
        }
        Ok(())
    }

    /// What the session has for the socket.
    fn flush(&mut self, now: Instant) -> Result<(), String> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.tcp) {
                Ok(0) => return Ok(()),
                Ok(_) => self.waiting = now,
                Err(error) if is_later(&error) => return Ok(()),
                Err(error) => return Err(format!("the connection broke: {error}")),
            }
        }
        Ok(())
    }

    /// What the socket has for the session. A collector has nothing to say but TLS's own messages.
    fn receive(&mut self, now: Instant) -> Result<(), String> {
        for _ in 0..ROUNDS {
            if self.ended {
                return Ok(());
            }
            match self.tls.read_tls(&mut self.tcp) {
                Ok(0) => self.ended = true,
                Ok(_) => {
                    let was_up = !self.tls.is_handshaking();
                    let state = self.tls.process_new_packets().map_err(|error| {
                        // The collector is told why.
                        let _ = self.tls.write_tls(&mut self.tcp);
                        explained(&error)
                    })?;
                    let _ = io::copy(&mut self.tls.reader(), &mut io::sink());
                    if !was_up {
                        self.waiting = now;
                    }
                    // An end that TLS vouches for. Its TCP's is waited for all the same: a reset would come before it.
                    if state.peer_has_closed() && !self.closing {
                        self.ended = true;
                    }
                }
                Err(error) if is_later(&error) => return Ok(()),
                Err(error) => return Err(format!("the connection broke: {error}")),
            }
        }
        Ok(())
    }

    /// The end in good order. It is a confirmation if the collector's kernel has acknowledged the end of the stream,
    /// the collector's program has ended its own direction, and there was no reset.
    fn close(&mut self, settings: &Settings, now: Instant) -> Result<Progress, String> {
        if !self.shut && !self.tls.wants_write() {
            self.shut = true;
            self.tcp
                .shutdown(Shutdown::Write)
                .map_err(|error| format!("the connection broke at its end: {error}"))?;
        }
        // A socket has a peer for as long as its end is not acknowledged.
        if self.shut && self.ended && self.tcp.peer_addr().is_err() {
            return match self.tcp.take_error() {
                Ok(None) => Ok(Progress::Confirmed),
                Ok(Some(error)) | Err(error) => Err(format!("the connection broke at its end: {error}")),
            };
        }
        match now.duration_since(self.waiting) > settings.patience * CLOSING {
            true => Err("the collector does not end a connection: what it was sent may be unread".to_owned()),
            false => Ok(Progress::None),
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// What to do about an error of TLS.
fn explained(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(why) => format!(
            "the collector's certificate is refused: {why}; `ca` and `name` of [audit.remote] say which one it must be"
        ),
        rustls::Error::AlertReceived(alert) => format!(
            "the collector refuses this sender: {alert:?}; look at its log, and at `certificate` of [audit.remote]"
        ),
        error => format!("TLS: {error}"),
    }
}
