//! A file system in user space with one executable, whose inode number is of one's choice, or with one symbolic link, whose owner is.
//! Anybody may mount the first in a user and mount namespace of his own. The second is mounted as fusermount does it for a user.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;

/// Mount it for this process, with `file` as `x`; a child that ends with us serves it.
pub fn mount(at: &str, file: &str, inode: u64) -> io::Result<()> {
    let data = fs::read(file)?;
    // SAFETY: numbers.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    // What was root once is not dumpable, and its files in /proc are root's.
    // SAFETY: numbers.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
    // SAFETY: numbers; this process has one thread.
    done(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) })?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    serve_at(
        at,
        &format!("user_id={user},group_id={group}"),
        &Node { mode: 0o100_755, data, inode, owner: (user, group) },
    )
}

/// Mounts the file system for everybody, as fusermount does for this user where `user_allow_other` is set. `x` is a symbolic link that says
/// it is root's. A child process serves it and ends with its parent. Needs root.
pub fn mount_link(at: &str, target: &str, user: u32) -> io::Result<()> {
    let node = Node { mode: 0o120_777, data: target.into(), inode: 2, owner: (0, 0) };
    serve_at(at, &format!("user_id={user},group_id={user},allow_other"), &node)
}

fn serve_at(at: &str, options: &str, node: &Node) -> io::Result<()> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let options = format!("fd={},rootmode=40000,{options}", device.as_raw_fd());
    let (at, options) = (CString::new(at)?, CString::new(options)?);
    // SAFETY: C strings that live for the call.
    done(unsafe { libc::mount(c"x".as_ptr(), at.as_ptr(), c"fuse".as_ptr(), 0, options.as_ptr().cast()) })?;
    // SAFETY: this process has one thread.
    if done(unsafe { libc::fork() })? == 0 {
        // SAFETY: numbers.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let served = serve(device, node);
        // SAFETY: a number.
        unsafe { libc::_exit(i32::from(served.is_err())) };
    }
    Ok(())
}

fn done(value: i32) -> io::Result<i32> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// What is served as `x`.
struct Node {
    /// The type and permissions of the file, as in `st_mode`.
    mode: u32,
    /// What is in the file, or where the link leads.
    data: Vec<u8>,
    inode: u64,
    owner: (u32, u32),
}

impl Node {
    /// struct fuse_attr of the root directory (node 1), or of this (node 2).
    fn attributes(&self, node: u64) -> Vec<u8> {
        let ((user, group), size) = (self.owner, self.data.len() as u64);
        let (inode, size, mode) = if node == 1 { (1, 0, 0o40755) } else { (self.inode, size, self.mode) };
        let longs = [inode, size, 1, 1, 1, 1];
        let words = [0, 0, 0, mode, 1, user, group, 0, 4096, 0];
        let longs = longs.iter().flat_map(|long| long.to_ne_bytes());
        longs.chain(words.iter().flat_map(|word: &u32| word.to_ne_bytes())).collect()
    }
}

fn serve(mut device: File, served: &Node) -> io::Result<()> {
    let data = &served.data;
    const ENOENT: i32 = 2;
    const ENOSYS: i32 = 38;
    let mut request = vec![0u8; 1 << 20];
    loop {
        let length = match device.read(&mut request) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::ENOENT)) => continue,
            length => length?,
        };
        let long = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().expect("eight"));
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().expect("four"));
        let (operation, unique, node, body) = (word(4), long(8), long(16), &request[40..length]);
        let attributes = |node| served.attributes(node);
        let (valid, nothing) = (60u64.to_ne_bytes(), 0u64.to_ne_bytes());
        let answer: Result<Vec<u8>, i32> = match operation {
            // LOOKUP: node, generation, how long both are valid.
            1 if node == 1 && body == b"x\0" => {
                let found = [2u64.to_ne_bytes(), nothing, valid, valid].concat();
                Ok([found, nothing.to_vec(), attributes(2)].concat())
            }
            1 => Err(ENOENT),
            // GETATTR
            3 => Ok([valid.to_vec(), nothing.to_vec(), attributes(node)].concat()),
            // READLINK
            5 => Ok(data.clone()),
            // STATFS: counts, size of a block, longest name.
            17 => Ok([vec![0; 40], [4096u32, 255].map(u32::to_ne_bytes).concat(), vec![0; 32]].concat()),
            // OPEN, OPENDIR
            14 | 27 => Ok([nothing, nothing].concat()),
            // READ: handle, offset, size.
            15 => {
                let from = (long(48) as usize).min(data.len());
                let to = (from + word(56) as usize).min(data.len());
                Ok(data[from..to].to_vec())
            }
            // FORGET, INTERRUPT, BATCH_FORGET have no answer.
            2 | 36 | 42 => continue,
            // RELEASE, FLUSH, RELEASEDIR, and the end of a directory.
            18 | 25 | 28 | 29 => Ok(Vec::new()),
            // INIT: protocol 7.31, read ahead, flags, limits.
            26 => {
                let mut answer: Vec<u8> =
                    [7u32, 31, 131_072, 0].iter().flat_map(|w| w.to_ne_bytes()).collect();
                answer.extend([16u16, 12].iter().flat_map(|half| half.to_ne_bytes()));
                answer.extend([131_072u32, 1, 32].iter().flat_map(|w| w.to_ne_bytes()));
                answer.resize(64, 0);
                Ok(answer)
            }
            _ => Err(ENOSYS),
        };
        let (error, payload) = match answer {
            Ok(payload) => (0, payload),
            Err(error) => (-error, Vec::new()),
        };
        let mut reply = (16 + payload.len() as u32).to_ne_bytes().to_vec();
        reply.extend(error.to_ne_bytes());
        reply.extend(unique.to_ne_bytes());
        reply.extend(payload);
        device.write_all(&reply)?;
    }
}
