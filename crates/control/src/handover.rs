//! Messages with descriptors over a Unix socket, and sealed memory that carries keys (docs/design/0003 item 7).

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crypto::Secret;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, UCred, recvmsg, sendmsg, sockopt::socket_peercred,
};
use wire::Time;
use zeroize::Zeroizing;

/// The most descriptors in one message (the kernel takes 253). Earlier versions take 16.
pub const MAX_FDS: usize = 64;
/// The most octets of text in one message.
const MAX_TEXT: usize = 4096;

/// Refuse a peer that is not root.
///
/// # Errors
/// The peer is not root, or the kernel does not say.
pub fn peer_is_root(stream: &UnixStream) -> io::Result<()> {
    let peer = peer(stream)?;
    if peer.uid.is_root() {
        return Ok(());
    }
    let text = format!("the process at the other end belongs to user {}, not to root", peer.uid.as_raw());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// The process, user and group that made the connection.
///
/// # Errors
/// If the kernel does not tell.
pub fn peer(stream: &UnixStream) -> io::Result<UCred> {
    Ok(socket_peercred(stream)?)
}

/// Send text and descriptors as one message: a length (4 octets, big-endian), then the text.
///
/// # Errors
/// The peer went away, or the text or the list of descriptors is too long.
pub fn send(stream: &UnixStream, text: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if text.len() > MAX_TEXT {
        return Err(io::Error::other(format!(
            "a hand-over's message has {} octets, at most {MAX_TEXT} go",
            text.len()
        )));
    }
    if fds.len() > MAX_FDS {
        return Err(io::Error::other(format!(
            "a hand-over has {} descriptors, at most {MAX_FDS} go in one message; use fewer queues",
            fds.len()
        )));
    }
    let mut message = u32::try_from(text.len()).unwrap_or(0).to_be_bytes().to_vec();
    message.extend_from_slice(text);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("the descriptors do not fit"));
    }
    // The descriptors go with the first octets; a message of this size is not cut on a Unix stream with room.
    let sent = sendmsg(stream, &[IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL)?;
    let rest = message.get(sent..).unwrap_or_default();
    (&*stream).write_all(rest)
}

/// Whether the other end is open in both directions.
///
/// # Errors
/// If the kernel does not tell.
pub fn is_open(stream: &UnixStream) -> io::Result<bool> {
    let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
    let mut asked = [PollFd::new(stream, PollFlags::RDHUP)];
    poll(&mut asked, Some(&Timespec::default()))?;
    Ok(asked.iter().all(|answer| !answer.revents().intersects(gone)))
}

/// Receive what [`send`] sent. The stream's time for reading, if it has one, is for the message as a whole, however many
/// octets come at a time.
///
/// # Errors
/// The peer went away, sent something else, or took too long.
pub fn receive(stream: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let patience = stream.read_timeout()?;
    let received = receive_by(stream, patience.map(|patience| netio::clock::monotonic() + patience));
    stream.set_read_timeout(patience)?;
    received
}

/// Fill a buffer until a moment at the latest.
fn fill(stream: &UnixStream, mut room: &mut [u8], until: Option<Time>) -> io::Result<()> {
    while !room.is_empty() {
        if let Some(until) = until {
            let left = until.since(netio::clock::monotonic());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))?;
        }
        match (&*stream).read(room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => room = room.get_mut(read..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn receive_by(stream: &UnixStream, until: Option<Time>) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut head = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let answer = recvmsg(stream, &mut [IoSliceMut::new(&mut head)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if answer.flags.contains(ReturnFlags::CTRUNC) {
        let text = format!("more descriptors came than a hand-over of this version has ({MAX_FDS})");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    if answer.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let rest = head.get_mut(answer.bytes..).unwrap_or_default();
    fill(stream, rest, until)?;
    let length = u32::from_be_bytes(head) as usize;
    if length > MAX_TEXT {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no hand-over"));
    }
    let mut text = vec![0; length];
    fill(stream, &mut text, until)?;
    Ok((text, fds))
}

/// Put octets into memory that has a descriptor. If `secret` is set and the kernel has it, that is memory which is
/// never swapped; otherwise it is that of [`seal`].
///
/// # Errors
/// The kernel gives no memory of either kind.
pub fn enclose(octets: &Secret, secret: bool) -> io::Result<OwnedFd> {
    match secret.then(|| netio::secret::share(octets.expose())) {
        Some(Ok(memory)) => Ok(memory),
        Some(Err(error)) => {
            tracing::debug!(%error, "the hand-over goes through memory that may be swapped");
            seal(octets)
        }
        None => seal(octets),
    }
}

/// Put octets into memory that has a descriptor and that nobody can change afterwards.
///
/// # Errors
/// The kernel gives no such memory.
pub fn seal(octets: &Secret) -> io::Result<OwnedFd> {
    // NOEXEC_SEAL is newer than the oldest kernel we run on.
    let fd = memfd_create("ravelin-hand-over", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(octets.expose())?;
    file.seek(SeekFrom::Start(0))?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Read what [`enclose`] wrote, at most `most` octets. Memory that somebody could still change is refused.
///
/// # Errors
/// The memory is not sealed, is too long, or cannot be read.
pub fn unseal(fd: OwnedFd, most: u64) -> io::Result<Secret> {
    let bad = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text);
    // memfd_secret(2) has neither seals nor read(2), and its size is set once.
    const SECRET_MEMORY: i64 = 0x5345_434d;
    if rustix::fs::fstatfs(&fd).is_ok_and(|about| about.f_type == SECRET_MEMORY) {
        let length = rustix::fs::fstat(&fd)?.st_size;
        let length = u64::try_from(length).ok().filter(|length| *length <= most);
        let length = length.and_then(|length| usize::try_from(length).ok());
        let mut octets = Zeroizing::new(vec![0; length.ok_or_else(|| bad("the hand-over is too long"))?]);
        netio::secret::take(fd.as_fd(), &mut octets)?;
        return Ok(Secret::new(std::mem::take(&mut *octets)));
    }
    let seals = fcntl_get_seals(fd.as_fd()).map_err(|_| bad("the hand-over's memory is not sealed"))?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE) {
        return Err(bad("the hand-over's memory is not sealed"));
    }
    let mut file = std::fs::File::from(fd);
    let length = file.metadata()?.len();
    if length > most {
        return Err(bad("the hand-over is too long"));
    }
    // Exactly as long as needed: a vector that grows leaves copies of keys behind.
    let mut octets =
        Zeroizing::new(vec![0; usize::try_from(length).map_err(|_| bad("the hand-over is too long"))?]);
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(&mut octets)?;
    Ok(Secret::new(std::mem::take(&mut *octets)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_descriptors_arrive_together() {
        let (a, b) = UnixStream::pair().unwrap();
        let secret = Secret::new(vec![7; 100_000]);
        let memory = seal(&secret).unwrap();
        let pipe = rustix::pipe::pipe().unwrap();
        send(&a, b"hello", &[memory.as_fd(), pipe.1.as_fd()]).unwrap();
        drop((memory, pipe.1));
        let (text, fds) = receive(&b).unwrap();
        assert_eq!(text, b"hello");
        let [memory, writer] = <[OwnedFd; 2]>::try_from(fds).unwrap();
        assert_eq!(unseal(memory, 100_000).unwrap(), secret);
        let long = seal(&secret).unwrap();
        assert_eq!(unseal(long, 99_999).unwrap_err().kind(), io::ErrorKind::InvalidData);
        rustix::io::write(&writer, b"x").unwrap();
        let mut octet = [0];
        assert_eq!(rustix::io::read(&pipe.0, &mut octet).unwrap(), 1);
    }

    #[test]
    fn keys_travel_in_memory_that_is_no_file_where_both_ends_can() {
        let secret = Secret::new(vec![7; 100_000]);
        for wanted in [true, false] {
            let memory = enclose(&secret, wanted).unwrap();
            let is_file = fcntl_get_seals(&memory).is_ok();
            if wanted && is_file {
                println!("skipped: no memfd_secret here");
            }
            assert!(wanted || is_file);
            assert_eq!(
                unseal(memory.try_clone().unwrap(), 99_999).unwrap_err().kind(),
                io::ErrorKind::InvalidData
            );
            assert_eq!(unseal(memory, 100_000).unwrap(), secret);
        }
    }

    #[test]
    fn as_many_descriptors_as_a_message_carries_arrive_and_one_more_is_refused_by_its_sender() {
        let (a, b) = UnixStream::pair().unwrap();
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        send(&a, b"all", &[reader.as_fd(); MAX_FDS]).unwrap();
        let (text, fds) = receive(&b).unwrap();
        assert_eq!((&text[..], fds.len()), (&b"all"[..], MAX_FDS));
        let refused = send(&a, b"more", &[reader.as_fd(); MAX_FDS + 1]).unwrap_err().to_string();
        assert_eq!(refused, "a hand-over has 65 descriptors, at most 64 go in one message; use fewer queues");
        // Nothing of it was sent.
        send(&a, b"next", &[]).unwrap();
        assert_eq!(receive(&b).unwrap().0, b"next");
    }

    #[test]
    fn a_message_without_descriptors_and_a_lost_peer() {
        let (a, b) = UnixStream::pair().unwrap();
        send(&a, b"", &[]).unwrap();
        assert_eq!(receive(&b).unwrap().0, b"");
        drop(a);
        assert_eq!(receive(&b).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    /// The time is for the whole message, not for each octet of it.
    #[test]
    fn a_message_that_drips_takes_no_longer_than_one_that_does_not_come() {
        let (a, b) = UnixStream::pair().unwrap();
        let patience = std::time::Duration::from_millis(400);
        b.set_read_timeout(Some(patience)).unwrap();
        let dripping = std::thread::spawn(move || {
            let message = [&100u32.to_be_bytes()[..], &[b' '; 100]].concat();
            for (sent, octet) in message.iter().enumerate() {
                if (&a).write_all(&[*octet]).is_err() {
                    return sent;
                }
                std::thread::sleep(patience / 8);
            }
            message.len()
        });
        let error = receive(&b).unwrap_err();
        assert!([io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock].contains(&error.kind()), "{error}");
        assert_eq!(b.read_timeout().unwrap(), Some(patience));
        drop(b);
        assert!(dripping.join().unwrap() < 100);
    }

    #[test]
    fn nonsense_is_refused() {
        let (a, b) = UnixStream::pair().unwrap();
        (&a).write_all(&[0xff; 64]).unwrap();
        assert_eq!(receive(&b).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let open = memfd_create("open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        assert_eq!(unseal(open, 1).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let file: OwnedFd = std::fs::File::open("/proc/self/status").unwrap().into();
        assert_eq!(unseal(file, 1).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn sealed_memory_cannot_be_changed() {
        let memory = seal(&Secret::new(vec![1; 10])).unwrap();
        assert!(rustix::io::write(&memory, b"x").is_err());
    }
}
