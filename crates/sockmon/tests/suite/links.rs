//! Who owns a link on the way to a named program says where it leads: it must not give what policy says of the name to a program of
//! somebody else's (docs/design/0028).

use crate::common::*;
use policy::{Executables, Selector, Subjects};
use sockmon::LoadWarning;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

/// The user who attacks others.
const NOBODY: u32 = 65534;

fn any() -> Selector {
    Selector { executables: Executables::Any, from: None, group: None, users: None }
}

/// A policy that speaks of this path first, and of every other program second.
fn path_and_default(path: &Path) -> Subjects {
    Subjects::new(vec![(Selector::program(path.to_str().unwrap()), OTHER), (any(), STRICT)])
}

/// Load a policy that speaks of this path first and of the program behind it second: whether the path was refused, and whose the program is.
fn whose(world: &mut World, path: &Path, program: &Path) -> (bool, Option<wire::AppId>) {
    let subjects = programs(&[(OTHER, path.to_owned()), (STRICT, program.to_owned())]);
    let warnings = world.sockmon().load_policy(&usual(), &subjects, &[]).unwrap();
    let is_refused =
        |warning: &LoadWarning| matches!(warning, LoadWarning::Foreign { path: of, .. } if of == path);
    let refused = warnings.iter().any(is_refused);
    assert_eq!(world.sockmon().foreign_names().iter().any(|(of, _)| of == path), refused, "{warnings:?}");
    let process = world.start(program.file_name().and_then(|name| name.to_str()).unwrap());
    (refused, world.sockmon().app_of_pid(process.pid()).unwrap())
}

#[test]
fn a_link_lends_its_policy_to_no_file_of_another_user() {
    let mut world = World::new("links");
    world.attach();
    let strict = world.executable("strict");
    let own = world.files.join("own");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(NOBODY), None).unwrap();
    let theirs = |target: &Path, name: &str| -> PathBuf {
        let path = own.join(name);
        symlink(target, &path).unwrap();
        lchown(&path, Some(NOBODY), None).unwrap();
        path
    };

    // The link itself, one behind another, and a directory on the way; the program is root's.
    let link = theirs(&strict, "x");
    assert_eq!(whose(&mut world, &link, &strict), (true, Some(STRICT)));
    let roots = world.files.join("roots");
    symlink(&link, &roots).unwrap();
    assert_eq!(whose(&mut world, &roots, &strict), (true, Some(STRICT)));
    let through = theirs(&world.files.clone(), "bin").join("strict");
    assert_eq!(whose(&mut world, &through, &strict), (true, Some(STRICT)));
    // ... also for a program that comes later.
    let later = own.join("bin/later");
    let subjects = programs(&[(OTHER, later.clone()), (STRICT, world.files.join("later"))]);
    world.sockmon().load_policy(&usual(), &subjects, &[]).unwrap();
    world.executable("later");
    let process = world.start("later");
    assert_eq!(world.sockmon().app_of_pid(process.pid()).unwrap(), Some(STRICT));
    // A second name of the file, where others may write.
    let second = own.join("second");
    fs::hard_link(&strict, &second).unwrap();
    assert_eq!(whose(&mut world, &second, &strict), (true, Some(STRICT)));
    fs::remove_file(&second).unwrap();

    // Whoever owns the program too may name it as he likes, and root may name everybody's.
    chown(&strict, Some(NOBODY), None).unwrap();
    assert_eq!(whose(&mut world, &link, &strict), (false, Some(OTHER)));
    chown(&strict, Some(0), None).unwrap();
    lchown(&link, Some(0), None).unwrap();
    assert_eq!(whose(&mut world, &link, &strict), (false, Some(OTHER)));
}

/// On FUSE an owner is what the serving process says.
#[test]
fn a_link_on_fuse_lends_its_policy_to_no_file_of_another_file_system() {
    let mut world = World::new("links-fuse");
    world.attach();
    let (strict, at) = (world.executable("strict"), world.files.join("mount"));
    fs::create_dir(&at).unwrap();
    let mounted = Mounted(at.clone());
    let mut server = world.start("server");
    server.run(&[&format!("fuselink {} {} {NOBODY}", at.display(), strict.display())]);
    assert_eq!(fs::symlink_metadata(at.join("x")).unwrap().uid(), 0, "it says so");
    assert_eq!(fs::canonicalize(at.join("x")).unwrap(), fs::canonicalize(&strict).unwrap());
    assert_eq!(whose(&mut world, &at.join("x"), &strict), (true, Some(STRICT)));
    drop(mounted);
}

struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// What a name means is told of the file that it led to when somebody looked, and of none that another user puts there later.
#[test]
fn what_comes_later_to_where_a_link_leads_is_not_its_owners_to_name() {
    let mut world = World::new("links-later");
    world.attach();
    let (own, sticky) = (world.files.join("own"), world.files.join("sticky"));
    for (folder, owner, mode) in [(&own, NOBODY, 0o755), (&sticky, 0, 0o1777)] {
        fs::create_dir(folder).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        chown(folder, Some(owner), None).unwrap();
    }
    let (installer, link) = (sticky.join("installer"), own.join("y"));
    let put = |path: &Path, owner| {
        let _ = fs::remove_file(path);
        fs::copy(env!("CARGO_BIN_EXE_sockmon-test-app"), path).unwrap();
        chown(path, Some(owner), None).unwrap();
    };
    put(&installer, NOBODY);
    symlink(&installer, &link).unwrap();
    lchown(&link, Some(NOBODY), None).unwrap();
    // `default` is stricter than what its owner's program has.
    world.sockmon().load_policy(&usual(), &path_and_default(&link), &usual_orders()).unwrap();
    let theirs = world.start("sticky/installer");
    assert_eq!(world.sockmon().app_of_pid(theirs.pid()).unwrap(), Some(OTHER), "the file is its owner's");

    // Root's program comes to have that name.
    put(&installer, 0);
    let roots = world.start("sticky/installer");
    assert_eq!(world.sockmon().app_of_pid(roots.pid()).unwrap(), Some(STRICT));
    let moved = world.files.join("tool");
    fs::rename(&installer, &moved).unwrap();
    let roots = world.start("tool");
    assert_eq!(world.sockmon().app_of_pid(roots.pid()).unwrap(), Some(STRICT));

    // In a directory of his own it is his, from the first instruction on.
    let inner = own.join("inner");
    put(&inner, NOBODY);
    fs::remove_file(&link).unwrap();
    symlink(&inner, &link).unwrap();
    lchown(&link, Some(NOBODY), None).unwrap();
    world.sockmon().load_policy(&usual(), &path_and_default(&link), &usual_orders()).unwrap();
    put(&inner, NOBODY);
    let theirs = world.start("own/inner");
    assert_eq!(world.sockmon().app_of_pid(theirs.pid()).unwrap(), Some(OTHER));
}

/// A second name that is made after the look (a kernel without `fs.protected_hardlinks`): the file is not what the place means, and what
/// executes it by that name is refused. By its own name it is what it was.
#[test]
fn a_second_name_made_later_lends_nothing_and_is_refused() {
    let mut world = World::new("links-second");
    world.attach();
    let own = world.files.join("own");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(NOBODY), None).unwrap();
    let (victim, named) = (world.executable("victim"), own.join("x"));
    fs::copy(env!("CARGO_BIN_EXE_sockmon-test-app"), &named).unwrap();
    chown(&named, Some(NOBODY), None).unwrap();
    world.sockmon().load_policy(&usual(), &path_and_default(&named), &usual_orders()).unwrap();
    fs::remove_file(&named).unwrap();
    fs::hard_link(&victim, &named).unwrap();
    let mut by_name = world.start("own/x");
    by_name.run(&["open u udp4"]);
    assert_eq!(by_name.ask(&format!("sendto u {BOB}:7 19")), "EPERM");
    let process = world.start("victim");
    assert_eq!(world.sockmon().app_of_pid(process.pid()).unwrap(), Some(STRICT));

    // Where the policy is loaded while the file has two names, it is closed, not open, and opens with the second name gone.
    let roots = world.files.join("shared");
    fs::create_dir(&roots).unwrap();
    fs::set_permissions(&roots, fs::Permissions::from_mode(0o775)).unwrap();
    let (service, second) = (roots.join("svc"), world.files.join("second"));
    fs::copy(env!("CARGO_BIN_EXE_sockmon-test-app"), &service).unwrap();
    chown(&service, Some(NOBODY), None).unwrap();
    fs::hard_link(&service, &second).unwrap();
    let subjects = programs(&[(STRICT, service.clone())]);
    let warnings = world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap();
    assert!(
        warnings
            .iter()
            .any(|warning| matches!(warning, LoadWarning::Foreign { path, .. } if *path == service))
    );
    let mut refused = world.start("shared/svc");
    refused.run(&["open u udp4"]);
    assert_eq!(refused.ask(&format!("sendto u {BOB}:7 19")), "EPERM");
    assert!(!world.sockmon().directories_changed());
    fs::remove_file(&second).unwrap();
    assert!(world.sockmon().directories_changed(), "somebody should look again");
    let process = world.start("shared/svc");
    assert_eq!(world.sockmon().app_of_pid(process.pid()).unwrap(), Some(STRICT));
}

/// Where root's link leads is a place also while no file is there, and while the file there has two names.
#[test]
fn the_end_of_a_link_is_closed_while_its_file_is_missing_or_has_two_names() {
    let mut world = World::new("links-end");
    world.attach();
    let shared = world.files.join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o2775)).unwrap();
    let (service, link, second) = (shared.join("svc"), world.files.join("link"), world.files.join("second"));
    symlink(&service, &link).unwrap();
    let subjects = programs(&[(STRICT, link)]);
    let put = || {
        fs::copy(env!("CARGO_BIN_EXE_sockmon-test-app"), &service).unwrap();
        chown(&service, Some(NOBODY), None).unwrap();
    };
    world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap();
    put();
    let process = world.start("shared/svc");
    assert_eq!(
        world.sockmon().app_of_pid(process.pid()).unwrap(),
        Some(STRICT),
        "from its first instruction"
    );

    fs::remove_file(&service).unwrap();
    put();
    fs::hard_link(&service, &second).unwrap();
    for _ in 0..2 {
        let mut refused = world.start("shared/svc");
        refused.run(&["open u udp4"]);
        assert_eq!(refused.ask(&format!("sendto u {BOB}:7 19")), "EPERM");
        let warnings = world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap();
        assert!(
            warnings.iter().any(|warning| matches!(warning, LoadWarning::Foreign { .. })),
            "{warnings:?}"
        );
    }
    fs::remove_file(&second).unwrap();
    let process = world.start("shared/svc");
    assert_eq!(world.sockmon().app_of_pid(process.pid()).unwrap(), Some(STRICT));
}
