//! A folder with a library that the C or the Rust compiler makes.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use cipher_loader::shared::SharedLibrary;
use cipher_loader::{Trial, Trust};
use cipher_manifest::Digest;
use qos_loader::trial::{self, Order, Tried};
use qos_loader::{Component, LoadError, Request, load};

/// A folder that goes with the value.
pub struct Folder(pub PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn run(program: impl AsRef<OsStr>, arguments: &[&OsStr]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{arguments:?}");
}

impl Folder {
    /// An empty folder below the build folder.
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("component-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).canonicalize().unwrap().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A folder with the component of `component.c`, compiled with these arguments.
    pub fn with(arguments: &[&str]) -> Folder {
        Folder::new().compiled(arguments)
    }

    /// A folder with the component of `component.c`, compiled with these arguments. Only root can change the folder and
    /// each one above it.
    pub fn of_root(arguments: &[&str]) -> Folder {
        let path = PathBuf::from(format!("/run/ravelin-component-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path).compiled(arguments)
    }

    fn compiled(self, arguments: &[&str]) -> Folder {
        let folder = self;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/component.c");
        let mut all =
            ["-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w"].map(OsStr::new).to_vec();
        let (include, library) = (root().join("include"), folder.library());
        all.extend([
            OsStr::new("-I"),
            include.as_os_str(),
            OsStr::new("-o"),
            library.as_os_str(),
            source.as_os_str(),
        ]);
        all.extend(arguments.iter().map(OsStr::new));
        run("cc", &all);
        folder
    }

    /// A folder with the example in C, by its own Makefile.
    pub fn quota() -> Folder {
        let folder = Folder::new();
        let out = format!("OUT={}", folder.0.display());
        let example = root().join("examples/qos/component-c");
        run(
            "make",
            &["-s", "-C"]
                .map(OsStr::new)
                .into_iter()
                .chain([example.as_os_str(), OsStr::new(&out)])
                .collect::<Vec<_>>(),
        );
        fs::rename(folder.0.join("quota.so"), folder.library()).unwrap();
        folder
    }

    /// A folder with the example in Rust, which needs no other crate.
    pub fn gentle() -> Folder {
        let folder = Folder::new();
        let source = root().join("examples/qos/component-rust/src/lib.rs");
        let library = folder.library();
        let fixed =
            ["--edition=2024", "--crate-type=cdylib", "--crate-name=gentle", "-Cpanic=abort", "-O", "-o"];
        let mut all = fixed.map(OsStr::new).to_vec();
        all.extend([library.as_os_str(), source.as_os_str()]);
        run("rustc", &all);
        folder
    }

    pub fn library(&self) -> PathBuf {
        self.0.join("component.so")
    }

    pub fn digest(&self) -> Digest {
        Digest::of(&fs::read(self.library()).unwrap())
    }

    pub fn request(&self) -> Request {
        Request { path: self.library(), sha256: Some(self.digest()), trust: Trust::Caller, trial: trial() }
    }

    pub fn load(&self) -> Result<Component, LoadError> {
        load(&self.request())
    }

    /// The error of loading, as people read it.
    pub fn refused(&self) -> String {
        let error = self.load().expect_err("a library with a fault");
        assert!(!error.remedy().is_empty());
        error.to_string()
    }

    /// What the component does with random metadata in a process of its own.
    pub fn tried(&self, parameters: &str, ports: u32) -> Result<Tried, String> {
        let library =
            SharedLibrary::examine(&self.library(), None, Trust::Caller, qos_loader::abi::SYMBOL).unwrap();
        let order = Order {
            parameters: parameters.to_owned(),
            ports,
            budget_ns: 1_000_000,
            packets: 5_000,
            may_refuse: false,
        };
        trial::run(&trial(), &library, &order).map_err(|error| error.to_string())
    }
}

/// This test program, which runs the ignored test below.
pub fn trial() -> Trial {
    Trial {
        program: std::env::current_exe().unwrap(),
        arguments: ["--ignored", "--exact", "lab::the_child_of_a_trial"].map(Into::into).to_vec(),
    }
}

#[test]
#[ignore = "the tests of this program run it, in a process of its own"]
fn the_child_of_a_trial() {
    trial::child_main();
}
