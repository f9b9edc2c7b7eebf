//! A TUN of several queues: how it comes to be, who holds its queues, which packets each of them gets. Needs root.

use netio::link::{End, Link, Links, TunOwner};
use netio::netns::Netns;
use netio::tun::{self, FromTun, MAX_PACKET, PREFIX_LEN, Queues, Tun, TunConfig, TunOptions};
use netio::{clock, poll, sockopt};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wire::{DropReason, Pool};

const NAME: &str = "rvl0";
const ME: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 1);
const PATIENCE: Duration = Duration::from_secs(5);

fn inside(name: &str, work: impl FnOnce() + Send) {
    Netns::remove(name).expect("root is needed");
    Netns::create(name).expect("root is needed").run(work).unwrap();
}

fn several() -> TunOptions {
    TunOptions::default()
}

fn one() -> TunOptions {
    TunOptions { queues: Queues::One, ..TunOptions::default() }
}

/// A device of several queues with a route to 192.0.2.0/24.
fn routed() -> Tun {
    let tun = Tun::open(NAME, &several()).unwrap();
    tun.configure(&TunConfig { address: ME, mtu: 1400 }).unwrap();
    Links::open().unwrap().add_route("192.0.2.0".parse().unwrap(), 24, None, tun.index()).unwrap();
    tun
}

fn device() -> Link {
    Links::open().unwrap().find(NAME).unwrap()
}

fn owner() -> TunOwner {
    device().tun_owner.expect("a TUN")
}

/// IPv4 and UDP from `src` to this host.
fn datagram(src: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 28 + payload.len()];
    packet[28..].copy_from_slice(payload);
    let udp = wire::udp::UdpRepr { src_port: 4242, dst_port: 7000, payload_len: payload.len() };
    wire::udp::emit(&mut packet[20..], &udp).unwrap();
    let payload_len = payload.len() + 8;
    let repr =
        wire::ipv4::Ipv4Repr { src, dst: ME, protocol: 17, ttl: 64, tos: 0, id: 1, df: true, payload_len };
    wire::ipv4::emit(&mut packet, &repr).unwrap();
    wire::udp::Udp::new_checked(&mut packet[20..]).unwrap().fill_checksum(src.into(), ME.into());
    packet
}

/// Which of the queues can be read, and nothing else; each packet there is read. Without the kernel half they have no record.
fn arrived<const N: usize>(queues: [&Tun; N]) -> [usize; N] {
    let ready = poll::readable(queues.map(AsFd::as_fd), Some(PATIENCE)).unwrap();
    assert!(ready.contains(&true), "nothing came");
    let mut pool = Pool::new(128 + PREFIX_LEN + MAX_PACKET + 64, 128, 4);
    queues.map(|queue| {
        let mut count = 0;
        loop {
            match queue.recv(clock::monotonic(), &mut pool).unwrap() {
                FromTun::Dropped(reason) => assert_eq!(reason, DropReason::BadRecord),
                FromTun::Empty => return count,
                FromTun::Packet(packet) => panic!("{packet:?}"),
            }
            count += 1;
        }
    })
}

#[test]
fn a_device_of_one_queue_is_made_anew_unless_somebody_holds_it() {
    inside("nt-queues-anew", || {
        assert!(!tun::has_one_queue(NAME).unwrap());
        let old = Tun::open(NAME, &one()).unwrap();
        assert_eq!((old.queues(), owner().several_queues), (Queues::One, false));
        assert!(tun::has_one_queue(NAME).unwrap());
        let refused = old.attach_queue().unwrap_err().to_string();
        assert!(
            refused.contains("made with one queue") && refused.contains("without --take-over"),
            "{refused}"
        );
        assert!(old.detach_queue().is_err(), "the only queue there can be");

        let busy = Tun::open(NAME, &several()).unwrap_err().to_string();
        assert!(busy.contains("another process holds it"), "{busy}");
        assert_eq!(device().index, old.index(), "and keeps it");

        let index = old.index();
        drop(old);
        let new = Tun::open(NAME, &several()).unwrap();
        assert_ne!(new.index(), index, "by the old index nobody finds the new device");
        assert_eq!((new.queues(), new.index()), (Queues::Several, device().index));
        let all = TunOwner { user: Some(0), group: Some(0), several_queues: true, held: 1 };
        assert_eq!((owner(), tun::has_one_queue(NAME).unwrap()), (all, false));

        // The other way round nothing is replaced: nobody asks for it.
        drop(new);
        assert!(Tun::open(NAME, &one()).is_err());
        tun::delete(NAME).unwrap();
    });
}

#[test]
fn a_new_device_has_an_index_that_no_device_had() {
    inside("nt-queues-index", || {
        let mut links = Links::open().unwrap();
        let end = |name| End { name, namespace: None };
        links.add_veth(end("gone0"), end("gone1")).unwrap();
        links.add_veth(end("here0"), end("here1")).unwrap();
        let gone = links.index("gone0").unwrap();
        links.delete(gone).unwrap();
        let last = links.list().unwrap().last().unwrap().index;
        for _ in 0..3 {
            let tun = Tun::open(NAME, &TunOptions { persist: false, ..several() }).unwrap();
            let index = tun.index();
            assert!(index > last, "{index} is free, and not for the first time");
            drop(tun);
            assert!(links.find(NAME).is_err(), "it is not persistent");
        }
    });
}

#[test]
fn what_is_no_tun_is_refused_and_stays() {
    inside("nt-queues-veth", || {
        let mut links = Links::open().unwrap();
        links.add_veth(End { name: NAME, namespace: None }, End { name: "far", namespace: None }).unwrap();
        let refused = Tun::open(NAME, &several()).unwrap_err().to_string();
        assert!(refused.contains("rvl0 is no TUN"), "{refused}");
        assert_eq!(links.find(NAME).unwrap().kind.as_deref(), Some("veth"));
    });
}

/// The calling thread may make no namespace from here on, as a daemon in a unit of systemd.
fn without_namespaces() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::SYS_ADMIN);
    sets.permitted.remove(CapabilitySet::SYS_ADMIN);
    set_capabilities(None, sets).unwrap();
    assert!(Netns::run_apart(|| ()).is_err(), "the test takes the right away");
}

#[test]
fn without_a_right_to_namespaces_the_device_comes_under_a_passing_name() {
    inside("nt-queues-passing", || {
        without_namespaces();
        let tun = Tun::open(NAME, &several()).unwrap();
        let all = TunOwner { user: Some(0), group: Some(0), several_queues: true, held: 1 };
        assert_eq!((tun.name(), tun.index(), owner()), (NAME, device().index, all));
        let names: Vec<String> = Links::open().unwrap().list().unwrap().into_iter().map(|l| l.name).collect();
        assert_eq!(names, ["lo", NAME]);
        let other = tun.attach_queue().unwrap();
        assert_eq!((other.name(), other.index(), owner().held), (NAME, tun.index(), 2));
    });
}

#[test]
fn a_device_of_which_another_holds_a_queue_is_refused_and_he_notices_nothing() {
    inside("nt-queues-held", || {
        let tun = routed();
        let busy = Tun::open(NAME, &several()).unwrap_err().to_string();
        assert!(busy.contains("another process holds it"), "{busy}");
        assert_eq!(owner().held, 1);
        // A detached queue comes back when its holder wants it.
        let other = tun.attach_queue().unwrap();
        drop(tun);
        other.detach_queue().unwrap();
        assert_eq!(owner().held, 1);
        assert!(Tun::open(NAME, &several()).is_err());
        drop(other);
        assert_eq!(Tun::open(NAME, &several()).unwrap().index(), device().index);
    });
}

#[test]
fn each_queue_writes_and_gets_the_answers_to_what_it_wrote() {
    inside("nt-queues-flows", || {
        let first = routed();
        let (second, third) = (first.attach_queue().unwrap(), first.attach_queue().unwrap());
        assert_eq!(owner().held, 3);
        let queues = [&first, &second, &third];
        let socket = UdpSocket::bind((ME, 7000)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        for (at, queue) in queues.into_iter().enumerate() {
            let peer = Ipv4Addr::new(192, 0, 2, 10 + at as u8);
            let mut raw = std::fs::File::from(queue.as_fd().try_clone_to_owned().unwrap());
            raw.write_all(&[&[0; 10][..], &datagram(peer, b"question")].concat()).unwrap();
            let (len, from) = socket.recv_from(&mut [0; 100]).unwrap();
            assert_eq!((len, from.ip()), (8, peer.into()));
            socket.send_to(b"answer", from).unwrap();
            let mut only = [0; 3];
            only[at] = 1;
            assert_eq!(arrived(queues), only, "queue {at}");
        }
        // What goes to a queue that is detached goes to the others.
        third.detach_queue().unwrap();
        assert!(third.detach_queue().is_err(), "twice");
        socket.send_to(b"answer", "192.0.2.12:4242").unwrap();
        assert_eq!(arrived([&first, &second]).iter().sum::<usize>(), 1);
        third.reattach_queue().unwrap();
        assert!(third.reattach_queue().is_err(), "twice");
        drop((second, third));
        assert_eq!(owner().held, 1);
        socket.send_to(b"answer", "192.0.2.12:4242").unwrap();
        assert_eq!(arrived([&first]), [1]);
    });
}

/// r0 = *(u32 *)(r1 + offsetof(struct __sk_buff, mark)), as an instruction of BPF.
const MARK: u64 = 0x0000_0000_0008_1061;
/// r0 = 0, and r0 = 65535.
const NOTHING: u64 = 0xb7;
const ALL: u64 = 0xffff << 32 | 0xb7;

/// A socket filter that answers what one instruction puts into r0.
fn program(answer: u64) -> OwnedFd {
    #[repr(C)]
    #[derive(Default)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        more: [u64; 16],
    }
    let instructions: [u64; 2] = [answer, 0x95];
    let load = Load {
        kind: 1,
        count: 2,
        instructions: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        ..Load::default()
    };
    // SAFETY: BPF_PROG_LOAD reads the attributes, two instructions and a terminated string, which live here.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, 5, &raw const load, size_of::<Load>()) };
    assert!(answer >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the kernel has just opened it for this process.
    unsafe { OwnedFd::from_raw_fd(answer as i32) }
}

#[test]
fn a_program_chooses_the_queue_and_the_filter_holds_for_each() {
    inside("nt-queues-steered", || {
        let first = routed();
        let (second, third) = (first.attach_queue().unwrap(), first.attach_queue().unwrap());
        first.set_steering(Some(program(MARK).as_fd())).unwrap();
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let send = |mark| {
            sockopt::set_int(&socket, libc::SOL_SOCKET, libc::SO_MARK, mark).unwrap();
            socket.send_to(b"one packet", "192.0.2.9:9").unwrap();
        };
        for (mark, only) in [(0, [1, 0, 0]), (1, [0, 1, 0]), (2, [0, 0, 1]), (4, [0, 1, 0])] {
            send(mark);
            assert_eq!(arrived([&first, &second, &third]), only, "mark {mark}");
        }
        second.set_filter(program(NOTHING).as_fd()).unwrap();
        (0..3).for_each(send);
        first.set_filter(program(ALL).as_fd()).unwrap();
        send(1);
        assert_eq!(arrived([&first, &second, &third]), [0, 1, 0], "nothing of what was filtered");
        // A queue that comes later is filtered too.
        let fourth = first.attach_queue().unwrap();
        third.set_filter(program(NOTHING).as_fd()).unwrap();
        send(3);
        assert_eq!(poll::readable([fourth.as_fd()], Some(Duration::ZERO)).unwrap(), [false]);
        first.set_filter(program(ALL).as_fd()).unwrap();
        send(3);
        assert_eq!(arrived([&first, &fourth]), [0, 1]);
        // Without a program the kernel chooses, and one of them gets it.
        first.set_steering(None).unwrap();
        send(0);
        assert_eq!(arrived([&first, &second, &third, &fourth]).iter().sum::<usize>(), 1);
    });
}

#[test]
fn descriptors_of_one_device_are_taken_over_in_their_order_and_of_two_not_at_all() {
    inside("nt-queues-given", || {
        let first = Tun::open(NAME, &several()).unwrap();
        let second = first.attach_queue().unwrap();
        let copy = |tun: &Tun| tun.as_fd().try_clone_to_owned().unwrap();
        let (one, others) = Tun::from_fds(vec![copy(&first), copy(&second)]).unwrap();
        assert_eq!((one.queues(), one.index(), others.len()), (Queues::Several, first.index(), 1));
        drop((first, second));
        assert_eq!(owner().held, 2, "the copies hold it");
        // The first is the first: the other is the one that goes.
        others[0].detach_queue().unwrap();
        assert!(others[0].detach_queue().is_err() && one.attach_queue().is_ok());
        let foreign = Tun::open("rvl1", &several()).unwrap();
        let refused = Tun::from_fds(vec![copy(&one), copy(&foreign)]).unwrap_err().to_string();
        assert!(refused.contains("rvl0 and rvl1"), "{refused}");
        assert!(Tun::from_fds(Vec::new()).is_err());
    });
}

/// User 65534, without a capability, tries to attach to every device that there is, as one of several queues and of one, until
/// its input ends; then says how often it tried a TUN, and how often it held one.
const STRANGER: &str = r#"
import errno, fcntl, os, select, socket, struct, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
assert "CapEff:\t0000000000000000" in open("/proc/self/status").read()
print("tries", flush=True)
tried = held = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    for _, name in socket.if_nameindex():
        for flags in (0x5101, 0x5001):
            device = os.open("/dev/net/tun", os.O_RDWR)
            try:
                fcntl.ioctl(device, 0x400454ca, struct.pack("16sH22x", name.encode(), flags))
                held += 1
            except OSError as error:
                tried += error.errno == errno.EPERM and name != "lo"
            os.close(device)
print(tried, held, flush=True)
"#;

/// User 65534 again, who hears from the kernel of each device as it is made, and attaches to it at once; it keeps what it gets
/// until the device goes.
const LISTENER: &str = r#"
import fcntl, os, re, select, socket, struct, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
hears = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
hears.bind((0, 1))
hears.setblocking(False)
print("tries", flush=True)
tried = held = 0
spare = os.open("/dev/net/tun", os.O_RDWR)
while not select.select([sys.stdin], [], [], 0)[0]:
    try:
        name = re.search(rb"rvl[0-9a-f]+", hears.recv(65536))
    except OSError:
        continue
    if name:
        tried += 1
        try:
            fcntl.ioctl(spare, 0x400454ca, struct.pack("16sH22x", name[0], 0x5101))
            held += 1
        except OSError:
            continue
        os.close(spare)
        spare = os.open("/dev/net/tun", os.O_RDWR)
print(tried, held, flush=True)
"#;

/// A stranger that runs.
fn stranger(script: &str) -> Child {
    let mut child = Command::new("python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // One octet at a time: the rest is for later.
    let out = child.stdout.as_mut().unwrap();
    let mut line = String::new();
    while !line.ends_with('\n') {
        let mut octet = [0];
        out.read_exact(&mut octet).unwrap();
        line.push(char::from(octet[0]));
    }
    assert_eq!(line, "tries\n");
    child
}

/// How often a stranger tried, and how often it held a queue.
fn end(mut child: Child) -> (u64, u64) {
    drop(child.stdin.take());
    let mut answer = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert!(child.wait().unwrap().success());
    let numbers: Vec<u64> = answer.split_whitespace().map(|word| word.parse().unwrap()).collect();
    (numbers[0], numbers[1])
}

/// It may be quicker than the owner is set, with a device that is thrown away then: never with the one that is used.
#[test]
fn under_a_passing_name_a_stranger_gets_no_queue_of_the_device_that_is_used() {
    inside("nt-queues-listener", || {
        without_namespaces();
        let child = stranger(LISTENER);
        let mut made = 0;
        for _ in 0..40 {
            match Tun::open(NAME, &several()) {
                Ok(tun) => {
                    made += 1;
                    let other = tun.attach_queue().unwrap();
                    assert_eq!(owner().held, 2, "both are ours");
                    drop((tun, other));
                    tun::delete(NAME).unwrap();
                }
                Err(error) => assert!(error.to_string().contains("before it is root's"), "{error}"),
            }
        }
        let names: Vec<String> = Links::open().unwrap().list().unwrap().into_iter().map(|l| l.name).collect();
        assert_eq!(names, ["lo"], "nothing is left of those that were thrown away");
        let (tried, held) = end(child);
        assert!(tried > 0, "it heard of no device");
        println!(
            "{made} of 40 devices were made; the stranger tried {tried} times and got {held} queues of others"
        );
    });
}

#[test]
fn a_stranger_who_tries_all_the_time_never_holds_a_queue() {
    inside("nt-queues-stranger", || {
        let child = stranger(STRANGER);
        for _ in 0..40 {
            let first = Tun::open(NAME, &several()).unwrap();
            assert_eq!(owner().held, 1);
            let second = first.attach_queue().unwrap();
            second.detach_queue().unwrap();
            second.reattach_queue().unwrap();
            assert_eq!(owner().held, 2);
            // The daemon dies; another one comes.
            drop((first, second));
            let again = Tun::open(NAME, &several()).unwrap();
            assert_eq!(owner().held, 1);
            drop(again);
            tun::delete(NAME).unwrap();
        }
        let _device = Tun::open(NAME, &several()).unwrap();
        let (tried, held) = end(child);
        assert!(tried > 0, "it never met the device");
        assert_eq!(held, 0, "it held a queue");
    });
}

/// Holds a queue of a device that is nobody's, as an administrator may have made it, until its input ends.
const HOLDER: &str = r#"
import fcntl, os, struct, sys
def attach():
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, 0x400454ca, struct.pack("16sH22x", b"rvl0", 0x5101))
    return device
first = attach()
fcntl.ioctl(first, 0x400454cb, 1)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
held = attach()
os.close(first)
print("holds", flush=True)
sys.stdin.read()
"#;

#[test]
fn a_device_that_was_nobodys_is_not_used_while_a_stranger_holds_a_queue_of_it() {
    inside("nt-queues-nobodys", || {
        let mut holder = Command::new("python3")
            .args(["-c", HOLDER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "holds\n");
        let fault = tun::owner_fault(&device()).unwrap();
        assert!(fault.contains("belongs to nobody: at any time"), "{fault}");
        let busy = Tun::open(NAME, &several()).unwrap_err().to_string();
        assert!(busy.contains("another process holds it"), "{busy}");
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
        let tun = Tun::open(NAME, &several()).unwrap();
        assert_eq!((owner().user, owner().held, tun.index()), (Some(0), 1, device().index));
    });
}
