//! A TUN of several queues comes to be, and nobody but root ever holds one of its queues (docs/design/0041).
//!
//! TUNSETIFF makes a device without an owner, to which everybody may attach, and to one of several queues even while it is
//! held. So the device is made in a network namespace in which there is no other process, becomes root's there, and is
//! moved. A process that may make no namespace (a systemd unit with RestrictNamespaces=) makes it under a random name: it
//! becomes root's, is thrown away if anybody has attached before, and only then gets its name.
//!
//! What enters: a name. What leaves: the only queue that is attached. Packets come to a device only when it is set up and
//! has programs, which is later.

use super::device::{self, Flags};
use super::owner::owner_fault;
use crate::error::{Error, IoContext, Result};
use crate::link::{Link, Links, TunOwner};
use crate::netns::Netns;
use crate::random;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// Devices that are made under a random name before the start gives up.
const TRIES: u32 = 16;

/// Open the TUN `name` of several queues in the calling thread's network namespace, made if it is not there. One of one
/// queue is replaced, for a device stays what it was made as.
pub(super) fn open(name: &str) -> Result<File> {
    if name.contains('%') {
        return Err(Error::unfit(
            format!("`{name}` cannot name a TUN of several queues"),
            "give the whole name, without a `%`",
        ));
    }
    let mut links = Links::open()?;
    match links.list()?.into_iter().find(|link| link.name == name) {
        None => make(name, None, &mut links),
        Some(Link { tun_owner: Some(TunOwner { several_queues: true, .. }), .. }) => hold(name, &mut links),
        Some(Link { tun_owner: Some(_), .. }) => {
            let index = remove(name, &mut links)?;
            make(name, Some(index), &mut links)
        }
        Some(_) => Err(Error::unfit(
            format!("the device {name} is no TUN"),
            "give the TUN another name, or delete that device (`ip link delete`)",
        )),
    }
}

/// Take the queue of a device that is there, which nobody else may hold.
fn hold(name: &str, links: &mut Links) -> Result<File> {
    // Looked at before, too: a queue more takes packets away from whoever holds the others.
    held_by(name, links, 0)?;
    let (file, _) = device::attach(name, Flags::SEVERAL, None)?;
    device::own(&file).doing(|| format!("making the TUN {name} root's"))?;
    // Who attached before it was root's is counted here; nobody comes after.
    held_by(name, links, 1)?;
    Ok(file)
}

/// Delete a device of one queue; the index that it had. It is taken first: what another process holds is not taken away from
/// it.
fn remove(name: &str, links: &mut Links) -> Result<u32> {
    let (_held, _) = device::attach(name, Flags::WANTED, None)?;
    let index = links.index(name)?;
    links.delete(index)?;
    Ok(index)
}

/// Make a new device; `gone` is the index of one that went for it.
fn make(name: &str, gone: Option<u32>, links: &mut Links) -> Result<File> {
    let here = Netns::current()?;
    let taken: Vec<u32> = links.list()?.iter().map(|link| link.index).collect();
    match Netns::run_apart(|| make_apart(name, &here, &taken, gone)) {
        Ok(first) => {
            let first = first?;
            let (file, _) = device::attach(name, Flags::SEVERAL, None)?;
            // Its socket would keep the other namespace.
            drop(first);
            held_by(name, links, 1)?;
            match owner_fault(&links.find(name)?) {
                None => Ok(file),
                Some(fault) => Err(Error::unfit(fault, "find out who changes devices while they are made")),
            }
        }
        Err(refused) => make_under_another_name(name, links, &refused),
    }
}

/// Make the device in the calling thread's network namespace, give it to root, move it to the namespace `here`.
///
/// It gets an index that is taken `here`, so that it arrives with the next one that the kernel gives out: not with that
/// of a device which went, by which a filter of packets may still tell it. Where there is no device but the loopback, at
/// least that of the device which went for it is left out.
fn make_apart(name: &str, here: &Netns, taken: &[u32], gone: Option<u32>) -> Result<File> {
    let mut links = Links::open()?;
    let own: Vec<u32> = links.list()?.iter().map(|link| link.index).collect();
    let index = taken.iter().rfind(|index| !own.contains(index)).copied().or(gone.map(|gone| gone + 1));
    let (file, _) = device::attach(name, Flags::SEVERAL, index)?;
    device::own(&file).doing(|| format!("making the TUN {name} root's"))?;
    let index = links.index(name)?;
    links.move_to(index, here.as_fd())?;
    Ok(file)
}

/// Make the device where everybody sees it; `refused` says why not elsewhere.
fn make_under_another_name(name: &str, links: &mut Links, refused: &io::Error) -> Result<File> {
    for _ in 0..TRIES {
        let number = random::number().doing(|| "reading random octets".into())?;
        let passing = format!("rvl{number:08x}");
        let (file, _) = device::attach(&passing, Flags::SEVERAL.with(Flags::NEW), None)?;
        if take_name(&file, &passing, name, links)? {
            return Ok(file);
        }
    }
    Err(Error::unfit(
        format!(
            "another process attaches to each TUN before it is root's, and no network namespace can be made: {refused}"
        ),
        "find it (`fuser -v /dev/net/tun`) and end it, or let this process make namespaces (CAP_SYS_ADMIN, and \
         RestrictNamespaces=net in a unit)",
    ))
}

/// Give a device that has just been made to root, and its name, if nobody else attached before that; else delete it. Whether
/// it has its name.
fn take_name(file: &File, passing: &str, name: &str, links: &mut Links) -> Result<bool> {
    device::own(file).doing(|| format!("making the TUN {passing} root's"))?;
    let link = links.find(passing)?;
    if link.tun_owner.is_some_and(|owner| owner.held == 1) {
        links.rename(link.index, name)?;
        return Ok(true);
    }
    // Somebody was quicker. Nothing was ever sent to it, and nothing will be.
    links.delete(link.index)?;
    Ok(false)
}

/// An error unless so many queues of the device are held in all.
fn held_by(name: &str, links: &mut Links, ours: u32) -> Result<()> {
    match links.find(name)?.tun_owner {
        Some(owner) if owner.held == ours => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EBUSY)).doing(|| format!("opening the TUN {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_somebody_attached_to_before_it_was_roots_is_thrown_away() {
        Netns::remove("nt-quicker").expect("root is needed");
        let namespace = Netns::create("nt-quicker").expect("root is needed");
        namespace
            .run(|| {
                let mut links = Links::open().unwrap();
                let flags = Flags::SEVERAL.with(Flags::NEW);
                let (file, _) = device::attach("passing0", flags, None).unwrap();
                let stranger = device::attach("passing0", Flags::SEVERAL, None).unwrap();
                assert!(!take_name(&file, "passing0", "rvl0", &mut links).unwrap());
                let names = |links: &mut Links| links.list().unwrap().into_iter().map(|link| link.name);
                assert!(names(&mut links).eq(["lo"]));
                // Nobody else: it has its name.
                drop((file, stranger));
                let (file, _) = device::attach("passing0", flags, None).unwrap();
                assert!(
                    device::attach("passing0", flags, None).is_err(),
                    "a device that is there is no new one"
                );
                assert!(take_name(&file, "passing0", "rvl0", &mut links).unwrap());
                assert!(names(&mut links).eq(["lo", "rvl0"]));
                assert_eq!(owner_fault(&links.find("rvl0").unwrap()), None);
            })
            .unwrap();
    }
}
