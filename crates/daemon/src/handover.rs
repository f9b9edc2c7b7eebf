//! The graceful hand-over to a new daemon of the same instance (docs/design/0003 item 7).
//!
//! ```text
//! new                                          old
//! checks host, configuration, policy, sockets
//! connects to handover.sock  ----------------> checks: root? same instance, TUN, port?
//!                            <---------------- shows the rules
//! tries them with its files,
//! says that it takes them    ----------------> stops both threads, takes keys, numbers, windows into memory of their own,
//!                                              wipes its own copy
//!                            <---------------- sends memory, TUN, UDP sockets; ends
//! waits until it has ended, starts
//! ```
//!
//! The old daemon wipes before it sends: if the new one fails after that, the keys are lost, never doubled. It
//! measures before that: what scrubbers know is left out where the whole is too long, and a sum that is too long
//! without is refused. It looks whether the new one has the same ciphers of one's own, and shows its rules before that too, which is all of the hand-over that the new one's
//! configuration must fit. The kernel half stays as it is throughout, so traffic is refused in between, not let out.
//!
//! A daemon that does not ask to be shown the rules gets everything at once, and one that shows nothing gives
//! everything at once: both were built before rules were shown. A daemon that does not say how many queues of the TUN it
//! takes was built when the TUN had one. It goes on with a TUN of one queue only, so any other is refused to it; and what
//! such a daemon gives is one queue (docs/design/0041).

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crypto::{Registry, Secret, Suites};
use documents::ciphers::{Fingerprints, fingerprints};
use netio::tun::Queues;
use sadb::handover::{HandOver, HandOverError};
use serde::{Deserialize, Serialize};

/// The version of the hand-over protocol.
const VERSION: u32 = 2;
/// The most octets of sealed memory that are read: more than every association, rule and used key of a full daemon
/// takes.
const MAX_SEALED: u64 = 2 << 30;
/// The most octets that a daemon is taken to read if it does not say so itself.
const MAX_UNSAID: u64 = 256 << 20;
/// The most queues of the TUN that are handed over, so that the memory and the sockets have room beside them.
const MAX_QUEUES: u16 = 32;
/// The most UDP sockets of a family that receive, each with datagrams of other classes.
const MAX_SOCKETS: u16 = netio::udp::MOST_QUEUES as u16;
/// How long either side may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The hand-over socket of an instance.
pub fn socket(run_dir: &Path) -> PathBuf {
    run_dir.join("handover.sock")
}

/// What the new daemon asks for. The old one refuses, and goes on, unless it is what it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    version: u32,
    instance: String,
    tun: String,
    esp_port: u16,
    /// The cookie of its network namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    netns: Option<u64>,
    /// The most octets that the new daemon reads.
    #[serde(default = "unsaid")]
    most: u64,
    /// Whether the new daemon takes memory that is no file (memfd_secret(2)).
    #[serde(default)]
    secret: bool,
    /// Whether the new daemon wants to look at the rules before anything is given.
    #[serde(default)]
    look: bool,
    /// The most queues of the TUN that the new daemon takes. One that does not say so takes a TUN that was made with one queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queues: Option<u16>,
    /// The most UDP sockets of a family that receive which the new daemon takes. One that does not say so takes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sockets: Option<u16>,
    /// The ciphers of one's own that the new daemon has, each with the fingerprint of what it computes in hexadecimal
    /// digits.
    #[serde(default, skip_serializing_if = "Fingerprints::is_empty")]
    ciphers: Fingerprints,
    /// The number of keys that each of them can have, where it is bounded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    key_rooms: BTreeMap<String, usize>,
}

/// A cipher of one's own that associations use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedCipher {
    /// The fingerprint of what it computes in hexadecimal digits.
    pub fingerprint: String,
    /// The number of keys that associations have for it.
    pub keys: usize,
}

/// The ciphers of one's own that associations use, by name.
pub type UsedCiphers = BTreeMap<String, UsedCipher>;

fn unsaid() -> u64 {
    MAX_UNSAID
}

impl Request {
    /// The request of a daemon that would use these, in the network namespace of this thread.
    pub fn new(instance: &str, tun: &str, esp_port: u16) -> Request {
        Request {
            version: VERSION,
            instance: instance.to_owned(),
            tun: tun.to_owned(),
            esp_port,
            netns: netio::netns::cookie().ok(),
            most: MAX_SEALED,
            secret: true,
            look: true,
            queues: Some(MAX_QUEUES),
            sockets: Some(MAX_SOCKETS),
            ciphers: Fingerprints::new(),
            key_rooms: BTreeMap::new(),
        }
    }

    /// The same request of a daemon that has the ciphers of one's own of this registry.
    #[must_use]
    pub fn with_ciphers(self, registry: &Registry) -> Request {
        let key_rooms = registry.key_rooms().map(|(name, keys)| (name.to_owned(), keys)).collect();
        Request { ciphers: fingerprints(registry), key_rooms, ..self }
    }

    /// Why a daemon that has `self` cannot hand over to one that asks for `other`.
    fn differs(&self, other: &Request) -> Option<String> {
        if self.version != other.version {
            return Some(format!("it hands over in version {}, not {}", self.version, other.version));
        }
        // Earlier versions do not say where they are; they look at what is written down of the instance.
        if self.netns.zip(other.netns).is_some_and(|(own, other)| own != other) {
            return Some("it is in another network namespace; run the new daemon there".to_owned());
        }
        let what = |request: &Request| (request.instance.clone(), request.tun.clone(), request.esp_port);
        (what(self) != what(other)).then(|| {
            format!(
                "it has instance {:?}, TUN {:?} and port {}; the new configuration says {:?}, {:?} and {}",
                self.instance, self.tun, self.esp_port, other.instance, other.tun, other.esp_port
            )
        })
    }
}

/// The old daemon's answer.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    /// The reason why the old daemon does not hand over, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// Whether this answer comes with the rules alone. Everything else follows when the new daemon takes them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shown: bool,
    /// The number of descriptors behind the memory that are queues of the TUN; one where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queues: Option<u16>,
    /// The number of UDP sockets of a family that receive, which come in the order of their queues; one where it is not
    /// said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sockets: Option<u16>,
}

impl Answer {
    /// An answer that says nothing.
    const EMPTY: Answer = Answer { refused: None, shown: false, queues: None, sockets: None };
}

/// What the new daemon says of the rules that it was shown. Whatever is not a clear yes is a no.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdict {
    /// Whether the new daemon takes over.
    takes: bool,
    /// The reason why the new daemon cannot take over, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

impl Verdict {
    /// Read a verdict, which must be an object of JSON, since a list would do for a structure too.
    fn read(text: &[u8]) -> serde_json::Result<Verdict> {
        let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(text)?;
        serde_json::from_value(fields.into())
    }

    /// The reason for a verdict that is not a yes.
    fn refusal(self) -> Option<String> {
        match self.refused {
            None if self.takes => None,
            Some(reason) if !reason.is_empty() => Some(reason),
            _ => Some("it does not say why".to_owned()),
        }
    }
}

/// Why a hand-over did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeError {
    /// There is no daemon to take over from.
    #[error("no daemon of this instance to take over from ({0}); start without --take-over")]
    Nobody(io::Error),
    /// The old daemon refused and goes on.
    #[error("the running daemon does not hand over: {0}")]
    Refused(String),
    /// The new daemon cannot go on with what the old one has. The old one goes on.
    #[error("{0}; the running daemon goes on")]
    Unfit(String),
    /// The connection broke off, and the old daemon may have given its keys away.
    #[error(
        "the hand-over broke off: {0}; if the running daemon has ended, start without --take-over and add new keys"
    )]
    Broken(#[from] io::Error),
    /// What came is not a hand-over.
    #[error(transparent)]
    Content(#[from] HandOverError),
}

/// What the new daemon got.
pub struct TakenOver {
    /// Associations and used keys.
    pub state: HandOver,
    /// The descriptors of the TUN's queues, at least one, in their order.
    pub tun: Vec<OwnedFd>,
    /// The descriptors of the UDP sockets.
    pub udp: Vec<OwnedFd>,
    /// The number of those of a family that receive.
    pub sockets: usize,
}

/// Take over from the running daemon. Returns when that one has ended. `fits` looks at its rules while it still goes
/// on, and says why this daemon cannot have them, if it cannot. Associations may have what `suites` has.
///
/// # Errors
/// [`TakeError`].
pub fn take(
    run_dir: &Path,
    request: &Request,
    suites: &Suites,
    fits: impl FnOnce(&[u8]) -> Result<(), String>,
) -> Result<TakenOver, TakeError> {
    let stream = UnixStream::connect(socket(run_dir)).map_err(TakeError::Nobody)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    control::handover::peer_is_root(&stream)?;
    let text = serde_json::to_vec(request).map_err(io::Error::from)?;
    control::handover::send(&stream, &text, &[])?;
    let (mut answer, mut fds) = answered(&stream)?;
    if answer.shown {
        let missing = || io::Error::new(io::ErrorKind::InvalidData, "the rules are missing");
        let rules = control::handover::unseal(fds.pop().ok_or_else(missing)?, MAX_SEALED)?;
        let refused = fits(rules.expose()).err();
        let verdict = Verdict { takes: refused.is_none(), refused: refused.clone() };
        let verdict = serde_json::to_vec(&verdict).map_err(io::Error::from)?;
        let sent = control::handover::send(&stream, &verdict, &[]);
        if let Some(reason) = refused {
            return Err(TakeError::Unfit(reason));
        }
        sent?;
        (answer, fds) = answered(&stream)?;
    }
    if answer.shown {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the rules came twice").into());
    }
    let queues = usize::from(answer.queues.unwrap_or(1));
    let mut fds = fds.into_iter();
    let memory = fds.next();
    let tun: Vec<OwnedFd> = fds.by_ref().take(queues).collect();
    let Some(memory) = memory.filter(|_| !tun.is_empty() && tun.len() == queues) else {
        let text = format!("descriptors are missing: {} of {queues} queues of the TUN came", tun.len());
        return Err(io::Error::new(io::ErrorKind::InvalidData, text).into());
    };
    let state = HandOver::from_bytes(control::handover::unseal(memory, MAX_SEALED)?.expose(), suites)?;
    // The end of the old process closes the connection.
    (&stream).read_to_end(&mut Vec::new())?;
    let sockets = usize::from(answer.sockets.unwrap_or(1));
    Ok(TakenOver { state, tun, udp: fds.collect(), sockets })
}

/// What the old daemon answers, with descriptors.
fn answered(stream: &UnixStream) -> Result<(Answer, Vec<OwnedFd>), TakeError> {
    let (text, fds) = control::handover::receive(stream)?;
    let answer: Answer = serde_json::from_slice(&text).map_err(io::Error::from)?;
    match answer.refused {
        Some(reason) => Err(TakeError::Refused(reason)),
        None => Ok((answer, fds)),
    }
}

/// The old daemon's end: a request was read and found good.
pub struct Giving {
    stream: UnixStream,
    most: usize,
    secret: bool,
    look: bool,
    queues: Option<u16>,
    sockets: Option<u16>,
    ciphers: Fingerprints,
    key_rooms: BTreeMap<String, usize>,
}

impl Giving {
    /// Read what a new daemon asks; refuse it if it is not what we have. Blocks for a moment at most.
    ///
    /// # Errors
    /// If it is refused or went away; this daemon goes on.
    pub fn answer(stream: UnixStream, have: &Request) -> io::Result<Giving> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        control::handover::peer_is_root(&stream)?;
        let (text, _) = control::handover::receive(&stream)?;
        let request = serde_json::from_slice::<Request>(&text);
        let (refusal, request) = match request {
            Ok(request) => (have.differs(&request), Some(request)),
            Err(_) => (Some("the request is not one that this version understands".to_owned()), None),
        };
        let most = request.as_ref().map_or(0, |request| request.most.min(MAX_SEALED));
        let giving = Giving {
            stream,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            secret: request.as_ref().is_some_and(|request| request.secret),
            look: request.as_ref().is_some_and(|request| request.look),
            queues: request.as_ref().and_then(|request| request.queues),
            sockets: request.as_ref().and_then(|request| request.sockets),
            ciphers: request.as_ref().map(|request| request.ciphers.clone()).unwrap_or_default(),
            key_rooms: request.map(|request| request.key_rooms).unwrap_or_default(),
        };
        match refusal {
            None => Ok(giving),
            Some(reason) => {
                giving.refuse(&reason);
                Err(io::Error::other(reason))
            }
        }
    }

    /// The process at the other end.
    pub fn peer(&self) -> Option<u32> {
        control::handover::peer(&self.stream).ok().map(|peer| peer.pid.as_raw_pid().unsigned_abs())
    }

    /// Say why not; this daemon goes on.
    pub fn refuse(self, reason: &str) {
        let answer = Answer { refused: Some(reason.to_owned()), ..Answer::EMPTY };
        let text = serde_json::to_vec(&answer).unwrap_or_default();
        if let Err(error) = control::handover::send(&self.stream, &text, &[]) {
            tracing::debug!(%error, "the refusal of a hand-over did not arrive");
        }
    }

    /// Whether so many octets, which cannot be left out, are taken at the other end; else it is refused, and this daemon goes on.
    pub fn takes(self, octets: usize) -> Result<Giving, String> {
        if octets <= self.most {
            return Ok(self);
        }
        let text = format!(
            "its associations, rules and used keys may take {octets} octets, {} are taken",
            self.most
        );
        self.refuse(&text);
        Err(text)
    }

    /// Whether the other end goes on with a TUN of this kind and so many queues, beside so many sockets; else it is refused,
    /// and this daemon goes on.
    ///
    /// # Errors
    /// Why it does not.
    pub fn takes_queues(self, kind: Queues, queues: usize, sockets: usize) -> Result<Giving, String> {
        let most = usize::from(self.queues.unwrap_or(1).min(MAX_QUEUES));
        let text = if self.queues.is_none() && kind == Queues::Several {
            "its TUN can have several queues, which a daemon of an earlier version does not take; to go back to one, stop this \
             daemon, delete the TUN (`ip link delete`), start the other one, and add new keys"
                .to_owned()
        } else if queues > most {
            format!("its TUN has {queues} queues, {most} are taken; take queues away first")
        } else if 1 + queues + sockets > control::handover::MAX_FDS {
            format!(
                "it has {queues} queues and {sockets} sockets, at most {} descriptors go with a hand-over",
                control::handover::MAX_FDS
            )
        } else {
            return Ok(self);
        };
        self.refuse(&text);
        Err(text)
    }

    /// Whether the other end goes on with so many UDP sockets of a family that receive; else it is refused, and this daemon
    /// goes on.
    ///
    /// # Errors
    /// Why it does not.
    pub fn takes_sockets(self, sockets: usize) -> Result<Giving, String> {
        let most = usize::from(self.sockets.unwrap_or(1).min(MAX_SOCKETS));
        if sockets <= most {
            return Ok(self);
        }
        let text = format!(
            "it has {sockets} UDP sockets for outer packets by class, and {most} of a family are taken; a daemon without [qos] has \
             one"
        );
        self.refuse(&text);
        Err(text)
    }

    /// Whether the other end computes the same as this daemon under the names of these ciphers of one's own, and has room
    /// for their keys; else it is refused, and this daemon goes on with its keys.
    pub fn has_ciphers(self, used: &UsedCiphers) -> Result<Giving, String> {
        const CONFIGURE: &str =
            "configure it in the new daemon, or delete the associations first (`ravelin sa list`)";
        let fault = used.iter().find_map(|(name, used)| match (self.ciphers.get(name), self.key_rooms.get(name)) {
            (None, _) => {
                let text = format!("associations use the cipher {name}, which the new daemon does not have");
                Some((text, CONFIGURE))
            }
            (Some(other), _) if *other != used.fingerprint => {
                let text = format!(
                    "associations use the cipher {name}, and the cipher of that name in the new daemon computes something else"
                );
                Some((text, CONFIGURE))
            }
            (Some(_), Some(room)) if *room < used.keys => {
                let keys = used.keys;
                let text = format!(
                    "{keys} associations use the cipher {name}, and its worker in the new daemon has room for {room} keys"
                );
                Some((text, "delete associations (`ravelin sa list`), or say `isolation = \"none\"` in the cipher's table"))
            }
            (Some(_), _) => None,
        });
        match fault {
            None => Ok(self),
            Some((text, remedy)) => {
                self.refuse(&format!("{text}; {remedy}"));
                Err(text)
            }
        }
    }

    /// Show the rules to a daemon that asked for it, and wait until it says whether it can go on with them: for some
    /// seconds at most.
    ///
    /// # Errors
    /// Why it cannot, or that it went away; this daemon goes on.
    pub fn show(self, rules: &[u8]) -> Result<Giving, String> {
        if !self.look {
            return Ok(self);
        }
        let verdict = self.ask(rules).map_err(|error| {
            format!("the daemon that would take over did not say whether it can have the rules: {error}")
        })?;
        match verdict.refusal() {
            None => Ok(self),
            Some(reason) => Err(format!("the daemon that would take over cannot: {reason}")),
        }
    }

    fn ask(&self, rules: &[u8]) -> io::Result<Verdict> {
        // They hold no key.
        let memory = control::handover::seal(&Secret::new(rules.to_vec()))?;
        let text = serde_json::to_vec(&Answer { shown: true, ..Answer::EMPTY })?;
        control::handover::send(&self.stream, &text, &[memory.as_fd()])?;
        let (text, _) = control::handover::receive(&self.stream)?;
        Ok(Verdict::read(&text)?)
    }

    /// Whether somebody waits at the other end: a daemon that asked and has ended since takes nothing.
    ///
    /// # Errors
    /// That nobody does; this daemon goes on.
    pub fn is_awaited(self) -> Result<Giving, String> {
        match control::handover::is_open(&self.stream) {
            Ok(true) => Ok(self),
            Ok(false) => Err("the daemon that would take over has gone".to_owned()),
            Err(error) => {
                Err(format!("whether the daemon that would take over is there is not known: {error}"))
            }
        }
    }

    /// Give everything away; where all of it is too long for the other end, without what scrubbers know. `state` is
    /// wiped before anything is sent. `tun` are the queues of the TUN, in their order, and `udp` the UDP sockets, of which
    /// so many of a family receive. The connection must stay open until this process ends: keep the answer.
    ///
    /// # Errors
    /// If it did not arrive; the keys are gone all the same.
    #[must_use = "dropping it tells the new daemon that this one has ended"]
    pub fn give(
        self,
        mut state: HandOver,
        tun: &[BorrowedFd<'_>],
        (udp, sockets): (&[BorrowedFd<'_>], usize),
    ) -> io::Result<UnixStream> {
        for profile in state.fit(self.most) {
            tracing::warn!(
                profile = scrub::Profile::of_id(profile).map_or("unknown", scrub::Profile::name),
                "what is known of scrubbed flows is too long to be handed over: they are picked up from their next segment"
            );
        }
        let octets = state.to_bytes();
        drop(state);
        let memory = control::handover::enclose(&octets, self.secret)?;
        drop(octets);
        let mut fds = vec![memory.as_fd()];
        fds.extend_from_slice(tun);
        fds.extend_from_slice(udp);
        let queues = u16::try_from(tun.len()).ok();
        let sockets = u16::try_from(sockets).ok().filter(|sockets| *sockets > 1);
        let text = serde_json::to_vec(&Answer { queues, sockets, ..Answer::EMPTY })?;
        control::handover::send(&self.stream, &text, &fds)?;
        Ok(self.stream)
    }
}

#[cfg(test)]
mod tests;
