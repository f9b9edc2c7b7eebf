//! The eavesdropper: a packet socket (packet(7)) on both ports of the wire, read by a thread of its own.
//!
//! Only arriving frames are taken, so each frame that a host sends is seen once, at the port of that host. Every frame is judged
//! and searched as it comes; memory is bounded: beyond the bound ESP frames are judged, not kept.

use crate::evidence::{Class, Evidence, Judge, Observation};
use crate::side::Side;
use memchr::memmem;
use netio::eventfd::Wake;
use netio::link::Links;
use netio::{Error, IoContext, Result};
use netio::{clock, poll, sockopt};
use nix::sys::socket::{ControlMessageOwned, LinkAddr, MsgFlags, recvmsg};
use socket2::{Domain, Socket, Type};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A super-packet with its Ethernet header and a VLAN tag.
const LONGEST: usize = 66_000;

/// Octets that the kernel may hold for the thread.
const KERNEL_BUFFER: libc::c_int = 128 << 20;

/// What to keep and look for.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Octets of frames to keep; clear ones may take as much again.
    pub keep: usize,
    /// Octet strings to look for in every frame, kept or not.
    pub watch: Vec<Vec<u8>>,
}

impl Default for CaptureOptions {
    fn default() -> CaptureOptions {
        CaptureOptions { keep: 64 << 20, watch: Vec::new() }
    }
}

/// A capture that runs in a thread of its own. Dropping it ends it.
#[derive(Debug)]
pub struct Capture {
    shared: Arc<Shared>,
    wake: Wake,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    evidence: Evidence,
    /// Octets of the frames in it.
    kept: usize,
    failed: Option<String>,
    stop: bool,
    /// Times that someone asked for everything up to now, and times that was done.
    asked: u64,
    done: u64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Capture {
    /// Start in the calling thread's namespace, which must be the wire. Once this returns nothing is missed.
    pub(crate) fn start(options: CaptureOptions) -> Result<Capture> {
        let mut links = Links::open()?;
        let ports = [links.index(Side::Alice.name())?, links.index(Side::Bob.name())?];
        let socket = open().doing(|| "opening a packet socket on the wire".into())?;
        let wake = Wake::new()?;
        let shared = Arc::new(Shared::default());
        let listener = Listener {
            socket,
            ports,
            options,
            judge: Judge::default(),
            shared: Arc::clone(&shared),
            wake: wake.try_clone().doing(|| "duplicating an eventfd".into())?,
        };
        let thread = std::thread::Builder::new()
            .name("eavesdropper".into())
            .spawn(move || listener.run())
            .doing(|| "starting the capture's thread".into())?;
        Ok(Capture { shared, wake, thread: Some(thread) })
    }

    /// Everything that crossed the wire before this call.
    pub fn evidence(&self) -> Result<Evidence> {
        self.look(|evidence| evidence.clone())
    }

    /// Answer a question about everything that crossed the wire before this call, without copying it.
    pub fn look<T>(&self, question: impl FnOnce(&Evidence) -> T) -> Result<T> {
        let mut state = self.shared.lock();
        state.asked += 1;
        let ticket = state.asked;
        self.wake.wake();
        let state = self
            .shared
            .answered
            .wait_while(state, |s| s.done < ticket && s.failed.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        match &state.failed {
            Some(why) => Err(Error::unfit(format!("the capture ended: {why}"), "start it again")),
            None => Ok(question(&state.evidence)),
        }
    }

    /// Wait until `question` is answered with `Some`, looking again whenever something new came; `None` when `patience` is over.
    pub fn wait_for<T>(
        &self,
        patience: Duration,
        mut question: impl FnMut(&Evidence) -> Option<T>,
    ) -> Result<Option<T>> {
        let deadline = clock::monotonic() + patience;
        loop {
            if let Some(answer) = self.look(&mut question)? {
                return Ok(Some(answer));
            }
            let left = deadline.since(clock::monotonic());
            if left.is_zero() {
                return Ok(None);
            }
            // The thread signals each batch; a slice bounds the wait if the last one came before this.
            let state = self.shared.lock();
            let slice = left.min(Duration::from_millis(20));
            drop(self.shared.answered.wait_timeout(state, slice).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Forget what was seen; counters start again.
    pub fn clear(&self) -> Result<()> {
        self.look(|_| ())?;
        let mut state = self.shared.lock();
        state.evidence = Evidence::default();
        state.kept = 0;
        Ok(())
    }

    /// End it and answer everything it saw.
    pub fn finish(self) -> Result<Evidence> {
        self.look(|_| ())?;
        Ok(std::mem::take(&mut self.shared.lock().evidence))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.wake.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open() -> io::Result<Socket> {
    // Protocol 0 receives nothing until bind: no frame comes before the options are set.
    let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking().cloexec(), None)?;
    sockopt::set_int(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    sockopt::set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, KERNEL_BUFFER)?;
    sockopt::set_int(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    bind_to_all(&socket)?;
    Ok(socket)
}

/// Every protocol on every device.
fn bind_to_all(socket: &Socket) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain old data; all zeroes is a valid value of it.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::sa_family_t;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a live sockaddr_ll of `len` octets.
    netio::check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), len) })
        .map(drop)
}

/// The state of the thread that reads the wire.
struct Listener {
    socket: Socket,
    ports: [u32; 2],
    options: CaptureOptions,
    judge: Judge,
    shared: Arc<Shared>,
    wake: Wake,
}

impl Listener {
    fn run(mut self) {
        let mut buffer = vec![0; LONGEST];
        let mut control = nix::cmsg_space!(libc::timespec);
        loop {
            let answer = poll::readable([self.socket.as_fd(), self.wake.as_fd()], None);
            // Taken before the socket is emptied: whoever asked then gets all that was there.
            self.wake.take();
            let asked = self.shared.lock().asked;
            let answer = answer.and_then(|_| self.drain(&mut buffer, &mut control));
            let lost = self.lost();
            let mut state = self.shared.lock();
            state.evidence.lost += lost;
            state.done = asked;
            state.failed = answer.err().map(|e| e.to_string());
            self.shared.answered.notify_all();
            if state.stop || state.failed.is_some() {
                return;
            }
        }
    }

    /// Take every waiting frame.
    fn drain(&mut self, buffer: &mut [u8], control: &mut [u8]) -> io::Result<()> {
        loop {
            let mut parts = [IoSliceMut::new(buffer)];
            let flags = MsgFlags::MSG_DONTWAIT;
            let (len, from, time) =
                match recvmsg::<LinkAddr>(self.socket.as_raw_fd(), &mut parts, Some(control), flags) {
                    Ok(message) => {
                        let from = message.address.map(|address| address.ifindex());
                        (message.bytes, from, timestamp(message.cmsgs()))
                    }
                    Err(nix::Error::EAGAIN) => return Ok(()),
                    Err(nix::Error::EINTR) => continue,
                    Err(e) => return Err(e.into()),
                };
            let side = match from.and_then(|index| self.ports.iter().position(|port| *port as usize == index))
            {
                Some(0) => Side::Alice,
                Some(_) => Side::Bob,
                None => continue,
            };
            self.see(side, time, buffer.get(..len).unwrap_or_default());
        }
    }

    fn see(&mut self, from: Side, time: Duration, frame: &[u8]) {
        let (class, flow) = self.judge.judge(frame);
        let found: Vec<_> = self
            .options
            .watch
            .iter()
            .filter(|needle| memmem::find(frame, needle).is_some())
            .cloned()
            .collect();
        let bound = if class == Class::Clear { self.options.keep * 2 } else { self.options.keep };
        let mut state = self.shared.lock();
        let state = &mut *state;
        let evidence = &mut state.evidence;
        evidence.count(class, frame.len());
        for needle in found {
            if !evidence.found.contains(&needle) {
                evidence.found.push(needle);
            }
        }
        if state.kept + frame.len() <= bound {
            state.kept += frame.len();
            evidence.frames.push(Observation { time, from, class, flow, frame: frame.to_vec() });
        } else {
            evidence.not_kept += 1;
        }
    }

    /// Frames that the kernel dropped since the last call (PACKET_STATISTICS counts from zero after each reading).
    fn lost(&self) -> u64 {
        // struct tpacket_stats: packets, drops.
        // SAFETY: the option writes two u32, and every pattern is valid.
        unsafe { sockopt::get::<[u32; 2]>(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS) }
            .map_or(0, |[_, drops]| drops.into())
    }
}

fn timestamp(messages: nix::Result<nix::sys::socket::CmsgIterator<'_>>) -> Duration {
    let stamp = messages.ok().into_iter().flatten().find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
        _ => None,
    });
    stamp.unwrap_or_else(clock::wall)
}
