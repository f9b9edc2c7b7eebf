//! Paths that policy names, in a folder whose owner means ill, or on a file system that does not answer. Needs root.

use crate::common;

use common::*;
use sockmon::LoadWarning;
use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Whoever waits longer for a pipe waits for ever.
const FOR_EVER: Duration = Duration::from_secs(60);

/// A file system whose server reads no request: who asks it for something waits, until this goes.
struct Silent {
    /// Closing it ends the file system.
    _server: File,
    at: CString,
}

impl Silent {
    fn mount(at: &Path) -> Silent {
        let server =
            File::options().read(true).write(true).open("/dev/fuse").expect("these tests need /dev/fuse");
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", server.as_raw_fd());
        let (at, options) =
            (CString::new(at.as_os_str().as_bytes()).unwrap(), CString::new(options).unwrap());
        // SAFETY: strings that end with a zero octet, which the kernel copies.
        let done = unsafe {
            libc::mount(c"silent".as_ptr(), at.as_ptr(), c"fuse".as_ptr(), 0, options.as_ptr().cast())
        };
        assert_eq!(done, 0, "mount: {}", std::io::Error::last_os_error());
        Silent { _server: server, at }
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // SAFETY: a string that ends with a zero octet.
        unsafe { libc::umount2(self.at.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Do it as user 65534, without any capability.
fn as_nobody(script: &str) {
    let done = Command::new("setpriv")
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
        ])
        .args(["sh", "-ec", script])
        .status()
        .unwrap();
    assert!(done.success(), "{script}");
}

/// If nobody has let it go in time, somebody waits for the other end of the pipe: then it gets one, so that the test ends.
fn nobody_waits_at(pipe: PathBuf, job: impl FnOnce()) {
    let (done, is_done) = channel::<()>();
    let watch = std::thread::spawn(move || match is_done.recv_timeout(FOR_EVER) {
        Err(RecvTimeoutError::Timeout) => {
            drop(fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&pipe));
            true
        }
        _ => false,
    });
    job();
    drop(done);
    assert!(!watch.join().unwrap(), "somebody waited for the other end of the pipe");
}

/// The usual world, where `weak` is in a folder of user 65534.
fn world(name: &str) -> (World, PathBuf) {
    let mut world = World::new(name);
    let folder = world.files.join("u");
    fs::create_dir(&folder).unwrap();
    let app = folder.join("app");
    fs::copy(world.executable("weak"), &app).unwrap();
    for path in [&folder, &app] {
        chown(path, Some(65534), Some(65534)).unwrap();
    }
    world.attach();
    (world, app)
}

fn load(world: &mut World, app: &Path) -> Vec<LoadWarning> {
    let subjects = programs(&[(STRICT, world.executable("strict")), (WEAK, app.to_owned())]);
    world.monitor(move |sockmon| sockmon.load_policy(&usual(), &subjects, &usual_orders())).unwrap()
}

#[test]
fn a_pipe_in_the_place_of_a_named_program_stops_nobody() {
    let (mut world, app) = world("pipe");
    assert_eq!(load(&mut world, &app), []);
    let path = app.display();
    let elsewhere = app.with_file_name("pipe");
    for (how, pipe) in [
        (format!("rm {path}; mkfifo -m 755 {path}"), app.clone()),
        (format!("rm {path}; mkfifo -m 755 {0}; ln -s {0} {path}", elsewhere.display()), elsewhere.clone()),
    ] {
        as_nobody(&how);
        let mut warnings = Vec::new();
        nobody_waits_at(pipe, || warnings = load(&mut world, &app));
        let is_missing =
            |warning: &LoadWarning| matches!(warning, LoadWarning::Missing { path, .. } if *path == app);
        assert!(warnings.iter().any(is_missing), "{warnings:?}");
    }
    // The place counts: what is put there is known at once.
    as_nobody(&format!("rm {path}; cp {} {path}; chmod 755 {path}", world.executable("weak").display()));
    let procs = world.cgroup.join("app/cgroup.procs");
    let mut program = world.alice.run(move || program::Program::start(&app, &procs));
    program.run(&["open s udp4"]);
    assert_eq!(program.ask("mark s"), format!("{:#x}", stamp(WEAK)));
}

#[test]
fn a_file_system_that_does_not_answer_costs_nobody_its_policy() {
    let (mut world, app) = world("silent");
    assert_eq!(load(&mut world, &app), []);
    let procs = world.cgroup.join("app/cgroup.procs");
    let path = app.clone();
    let mut running = world.alice.run(move || program::Program::start(&path, &procs));
    let silent = Silent::mount(app.parent().unwrap());
    let warnings = load(&mut world, &app);
    assert_eq!(warnings, [LoadWarning::NoAnswer { path: app.clone() }]);
    // Another program of the same policy, and the one whose file nobody can look at now.
    let mut strict = world.start("strict");
    strict.run(&["open s udp4"]);
    assert_eq!(strict.ask("mark s"), format!("{:#x}", stamp(STRICT)));
    running.run(&["open s udp4"]);
    assert_eq!(running.ask("mark s"), format!("{:#x}", stamp(WEAK)));
    // Whoever waits there is not joined by others.
    for _ in 0..3 {
        assert_eq!(load(&mut world, &app), [LoadWarning::NoAnswer { path: app.clone() }]);
    }
    drop(silent);
    loop {
        // The thread that waited has its answer, in its own time.
        match load(&mut world, &app)[..] {
            [] => break,
            [LoadWarning::NoAnswer { .. }] => common::breathe(),
            ref other => panic!("{other:?}"),
        }
    }
    running.run(&["open t udp4"]);
    assert_eq!(running.ask("mark t"), format!("{:#x}", stamp(WEAK)));
}
