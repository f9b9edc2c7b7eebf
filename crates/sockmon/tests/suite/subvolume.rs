//! A file system on which a file of a user can have the numbers of one of root's: btrfs, in a subvolume. Needs root and mkfs.btrfs.

use crate::common;

use common::*;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const USER: u32 = 65534;

/// A btrfs in a file, mounted.
struct Volume {
    at: PathBuf,
    image: PathBuf,
}

impl Volume {
    /// Make a btrfs file system and mount it; `None`: this machine cannot make one.
    fn mount(at: PathBuf) -> Option<Volume> {
        let volume = Volume { image: at.with_extension("img"), at };
        let _ = Command::new("umount").arg("-q").arg(&volume.at).status();
        fs::create_dir_all(&volume.at).unwrap();
        File::create(&volume.image).unwrap().set_len(256 << 20).unwrap();
        let run = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let made = run(Command::new("mkfs.btrfs").arg("-q").arg(&volume.image))
            && run(Command::new("mount").args(["-o", "loop"]).args([&volume.image, &volume.at]));
        if !made {
            println!("skipped: no btrfs can be made here");
            return None;
        }
        fs::set_permissions(&volume.at, fs::Permissions::from_mode(0o755)).unwrap();
        Some(volume)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.at).status();
        let _ = fs::remove_dir(&self.at);
        let _ = fs::remove_file(&self.image);
    }
}

/// Do something as an unprivileged user, in a thread of its own.
fn as_user<T: Send>(job: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let work = || {
            // SAFETY: numbers; the call of the kernel's is about this thread alone.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, -1, USER, -1) }, 0);
            job()
        };
        scope.spawn(work).join().expect("it does not fail")
    })
}

/// Make a subvolume of this name (BTRFS_IOC_SUBVOL_CREATE), which needs no right but that to write to the directory.
fn make_subvolume(directory: &Path, name: &str) {
    // struct btrfs_ioctl_vol_args: a descriptor that is not used, a name.
    let mut args = [0u8; 4096];
    args[8..8 + name.len()].copy_from_slice(name.as_bytes());
    let directory = File::open(directory).unwrap();
    // SAFETY: the buffer has the size that the request says.
    let made = unsafe { libc::ioctl(directory.as_raw_fd(), 0x5000_940e, args.as_mut_ptr()) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
}

/// Inode number and generation (FS_IOC_GETVERSION).
fn numbers(path: &Path) -> (u64, u32) {
    let file = File::open(path).unwrap();
    let mut generation = 0u64;
    // SAFETY: the buffer has the size that the request says.
    let read = unsafe { libc::ioctl(file.as_raw_fd(), 0x8008_7601, &raw mut generation) };
    assert_eq!(read, 0, "{}", std::io::Error::last_os_error());
    (file.metadata().unwrap().ino(), generation as u32)
}

/// A copy of `original` in the user's subvolume that has the numbers of `program`, if both were made in one transaction.
fn twin(subvolume: &Path, original: &Path, program: &Path) -> Option<PathBuf> {
    let wanted = numbers(program);
    let path = as_user(|| {
        for number in 0.. {
            let path = subvolume.join(format!("{}-{number}", wanted.0));
            let made = File::create(&path).unwrap().metadata().unwrap().ino();
            if made >= wanted.0 {
                fs::copy(original, &path).unwrap();
                return path;
            }
        }
        unreachable!("numbers only rise")
    });
    (numbers(&path) == wanted).then_some(path)
}

#[test]
fn a_file_in_another_subvolume_with_the_same_numbers_is_another_program() {
    let name = "subvolume";
    let Some(volume) = Volume::mount(std::env::temp_dir().join(format!("ravelin-test-{name}"))) else {
        return;
    };
    let mut world = World::new(name);
    let own = volume.at.join("u");
    fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(USER), None).unwrap();
    as_user(|| make_subvolume(&own, "b"));
    let original = world.executable("original");
    // The user waits for root to install something, and makes his own in the same transaction.
    let (program, twin) = (0..100)
        .find_map(|round| {
            let program = world.executable(&format!("program{round}"));
            twin(&own.join("b"), &original, &program).map(|twin| (program, twin))
        })
        .expect("both in one transaction");
    world.attach();
    let subjects = programs(&[(STRICT, program.clone())]);
    assert_eq!(world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap(), []);
    for (path, mark) in [(&program, stamp(STRICT)), (&twin, 0)] {
        let mut started = world.start(path.strip_prefix(&volume.at).unwrap().to_str().unwrap());
        started.run(&["open u udp4"]);
        assert_eq!(started.ask("mark u"), format!("{mark:#x}"), "{}", path.display());
    }
}
