//! Libraries that are refused before they are attached to anything, each by the rule that it breaks.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use cipher_loader::Trust;
use qos_loader::{Request, load};

use crate::lab::{Folder, trial};

/// The error of loading a library for a daemon.
fn by_root(folder: &Folder) -> String {
    let request = Request { trust: Trust::Root, ..folder.request() };
    load(&request).expect_err("a file with a fault").to_string()
}

#[test]
fn a_library_of_another_abi_is_refused() {
    let refused = |arguments: &[&str]| Folder::with(arguments).refused();
    let why = refused(&["-DMAJOR=2"]);
    assert!(why.ends_with("it was made for ABI 2.0, and this host has 1.0"), "{why}");
    let why = refused(&["-DSIZE=48"]);
    assert!(why.ends_with("its struct_size is 48, and ABI version 1.0 has 56 octets"), "{why}");
    // A later minor version appends fields.
    Folder::with(&["-DMINOR=1", "-DSIZE=64"]).load().unwrap();
    let why = refused(&["-DKIND=2"]);
    assert!(
        why.ends_with("it is a component of kind 2, and this host attaches behaviours (kind 1) alone"),
        "{why}"
    );
    let why = refused(&["-DSYMBOL=ravelin_qos_v2"]);
    assert!(why.ends_with("it does not export the function ravelin_qos_v1"), "{why}");
    let why = refused(&["-DCREATE=0"]);
    assert!(why.ends_with("its function create is NULL"), "{why}");
    let why = refused(&["-DCREATE=((void *)getpid)", "-Wl,-z,now"]);
    assert!(why.ends_with("its create points out of the library"), "{why}");
    for (address, what) in [("0", "description"), ("4096", "description"), ("~0ull", "description")] {
        let why = refused(&[&format!("-DADDRESS={address}")]);
        assert!(why.ends_with(&format!("its {what} points out of the library")), "{why}");
    }
    for name in ["\"\"", "\"a\\nb\"", "\"0123456789012345678901234567890123456789012345678901234567890123\""]
    {
        let why = refused(&[&format!("-DNAME={name}")]);
        assert!(why.contains("its name is empty, has no end within 64 octets"), "{why}");
    }
    let why = refused(&["-DNAME=((char *)4096)"]);
    assert!(why.ends_with("its name points out of the library"), "{why}");
}

#[test]
fn a_library_of_another_hash_is_refused() {
    let folder = Folder::with(&[]);
    let request = folder.request();
    let mut octets = fs::read(folder.library()).unwrap();
    // Behind the end nothing of it is mapped.
    octets.push(0);
    fs::write(folder.library(), octets).unwrap();
    let error = load(&request).unwrap_err();
    let (path, got, want) = (folder.library(), folder.digest(), request.sha256.unwrap());
    let text = format!("{}: its SHA-256 is {got}, and the configuration says {want}", path.display());
    assert_eq!(error.to_string(), text);
    // The daemon takes none without a digest.
    let error = load(&Request { sha256: None, trust: Trust::Root, ..folder.request() }).unwrap_err();
    assert!(error.to_string().ends_with("no SHA-256 of it is configured"), "{error}");
}

#[test]
fn a_library_that_others_can_change_is_refused() {
    let folder = Folder::of_root(&[]);
    let mode = |mode| fs::set_permissions(folder.library(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o755);
    load(&Request { trust: Trust::Root, ..folder.request() }).unwrap();
    for wide in [0o666, 0o775] {
        mode(wide);
        let why = by_root(&folder);
        assert!(
            why.ends_with(&format!("component.so: its mode {wide:04o} lets the group or others write it")),
            "{why}"
        );
    }
    mode(0o755);
    std::os::unix::fs::chown(folder.library(), Some(65_534), None).unwrap();
    let why = by_root(&folder);
    assert!(why.ends_with("user 65534 owns it, and not root"), "{why}");
    std::os::unix::fs::chown(folder.library(), Some(0), None).unwrap();
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    let why = by_root(&folder);
    assert!(why.contains("its mode 0777 lets the group or others write it"), "{why}");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(folder.library(), folder.0.join("link.so")).unwrap();
    let request = Request { path: folder.0.join("link.so"), ..folder.request() };
    let error = load(&request).unwrap_err();
    assert!(error.to_string().ends_with("link.so: it is a symbolic link"), "{error}");
    let error =
        load(&Request { path: "component.so".into(), trust: Trust::Root, ..folder.request() }).unwrap_err();
    assert!(error.to_string().contains("the path is not absolute"), "{error}");
}

#[test]
fn a_library_that_brings_others_with_it_is_refused() {
    let why = Folder::with(&["-Wl,--no-as-needed", "-lrt", "-lpthread", "-l:libz.so.1"]).refused();
    assert!(why.contains("it is linked with"), "{why}");
    let why = Folder::with(&["-Wl,-rpath,/tmp"]).refused();
    assert!(why.ends_with("it has a search path for libraries (RPATH or RUNPATH)"), "{why}");
    let why = Folder::with(&["-Wl,-z,execstack"]).refused();
    assert!(why.ends_with("it asks for an executable stack (PT_GNU_STACK)"), "{why}");
}

#[test]
fn a_trial_finds_what_a_component_does_that_it_must_not() {
    let refused = |arguments: &[&str]| Folder::with(arguments).refused();
    let why = refused(&["-DCONSTRUCTOR=abort()"]);
    assert!(why.contains("SIGABRT ended it, during constructors"), "{why}");
    let why = refused(&["-DBODY=write(2,0,0)"]);
    assert!(
        why.contains("it called write") && why.ends_with("which no component may, during packets"),
        "{why}"
    );
    let why = refused(&["-DBODY=*(volatile int*)8=1"]);
    assert!(why.contains("SIGSEGV ended it, during packets"), "{why}");
    let why = refused(&["-DBODY=for(;;)"]);
    assert!(why.contains("during packets"), "{why}");
    let why = refused(&["-DANSWER=7"]);
    assert!(why.contains("check `calls`: it answered 7 to a call, which says that it failed"), "{why}");
    let why = refused(&["-DVERDICT=.action=3"]);
    assert!(
        why.ends_with("check `verdicts`: one is out of range: there is no port 0; the graph gives it 0"),
        "{why}"
    );
    let why = refused(&["-DUNWRITTEN"]);
    assert!(why.ends_with("check `verdicts`: one is out of range: it left one unwritten"), "{why}");
    let why = refused(&["-DBODY=verdicts[count].action=0"]);
    assert!(why.ends_with("check `memory`: it wrote behind the last verdict"), "{why}");
    let why = refused(&["-DBODY=*(char*)&metas->ecn^=1"]);
    assert!(why.ends_with("check `memory`: it changed what it was shown"), "{why}");
    let why = refused(&["-DDESTROY=abort()"]);
    assert!(why.contains("SIGABRT ended it, during destroy"), "{why}");
}

#[test]
fn parameters_that_are_refused_are_no_fault_at_loading_but_in_a_check() {
    let folder = Folder::with(&[]);
    folder.load().unwrap();
    let why = folder.tried("no", 0).unwrap_err();
    assert_eq!(why, "check `create`: it refuses the parameters: it is no good");
    let _ = trial();
}
