//! Who owns a link on the way to a named program says where it leads: it must not give what policy says of the name to a program of
//! somebody else's (docs/design/0028).

use crate::common::*;
use sockmon::LoadWarning;
use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::{Path, PathBuf};

/// Who attacks.
const NOBODY: u32 = 65534;

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
