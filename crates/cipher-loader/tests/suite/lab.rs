//! A folder with a library that the C compiler makes, its manifest and its vectors.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use cipher_loader::{LoadError, Loaded, Request, Trial, Trust, load};
use sha2::{Digest as _, Sha256};

/// The toy cipher of `toy.c`, written a second time.
pub struct Toy([u64; 16]);

impl Toy {
    pub fn new(key: &[u8; 32]) -> Toy {
        let word = |at: usize| u64::from_le_bytes(key[8 * at..8 * at + 8].try_into().unwrap());
        Toy(std::array::from_fn(|round| word(round % 4).wrapping_add(0x0101_0101_0101_0101 * round as u64)))
    }

    pub fn encrypt(&self, block: &mut [u8; 16]) {
        let mix = |x: u64, k: u64| {
            x.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(k).rotate_left(23) ^ x.rotate_left(7)
        };
        let mut l = u64::from_le_bytes(block[..8].try_into().unwrap());
        let mut r = u64::from_le_bytes(block[8..].try_into().unwrap());
        for k in self.0 {
            (l, r) = (r, l ^ mix(r, k));
        }
        block[..8].copy_from_slice(&r.to_le_bytes());
        block[8..].copy_from_slice(&l.to_le_bytes());
    }
}

pub fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |text, octet| text + &format!("{octet:02x}"))
}

pub fn sha256(octets: &[u8]) -> String {
    hex(&Sha256::digest(octets))
}

/// 120 tests of blocks and 20 of counter mode.
pub fn vectors() -> String {
    let mut text = "{\"cipher\":\"toycipher\",\"tests\":[".to_owned();
    for number in 1..=140u8 {
        let key = [number; 32].map(|octet: u8| octet.wrapping_mul(167));
        let toy = Toy::new(&key);
        let msg: Vec<u8> = (0..48).map(|at: u8| at.wrapping_mul(29) ^ number).collect();
        let mut ct = msg.clone();
        let mut extra = String::new();
        let mode = if number <= 120 {
            ct.as_chunks_mut::<16>().0.iter_mut().for_each(|block| toy.encrypt(block));
            "block"
        } else {
            let mut counter = [0xff; 16];
            write!(extra, "\"iv\":\"{}\",", hex(&counter)).unwrap();
            for data in ct.chunks_mut(16) {
                let mut stream = counter;
                toy.encrypt(&mut stream);
                data.iter_mut().zip(stream).for_each(|(to, from)| *to ^= from);
                let low = u32::from_be_bytes(counter[12..].try_into().unwrap()).wrapping_add(1);
                counter[12..].copy_from_slice(&low.to_be_bytes());
            }
            "ctr"
        };
        let comma = if number == 1 { "" } else { "," };
        write!(
            text,
            "{comma}{{\"tcId\":{number},\"mode\":\"{mode}\",{extra}\"key\":\"{}\",\"msg\":\"{}\",\"ct\":\"{}\",\
             \"result\":\"valid\"}}",
            hex(&key),
            hex(&msg),
            hex(&ct)
        )
        .unwrap();
    }
    text + "]}"
}

/// A folder that goes with the value.
pub struct Folder(pub PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    /// An empty folder below the build folder.
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("cipher-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).canonicalize().unwrap().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A folder with the toy cipher, compiled with these arguments.
    pub fn with(arguments: &[&str]) -> Folder {
        let folder = Folder::new();
        folder.compile(arguments);
        fs::write(folder.0.join("vectors.json"), vectors()).unwrap();
        folder.manifest(&[]);
        folder
    }

    /// A folder with the toy cipher under another name.
    pub fn named(name: &str) -> Folder {
        let folder = Folder::with(&[&format!("-DNAME=\"{name}\"")]);
        let text = vectors().replace("\"cipher\":\"toycipher\"", &format!("\"cipher\":\"{name}\""));
        fs::write(folder.path("vectors.json"), text).unwrap();
        folder.manifest(&[("\"name\":\"toycipher\"", &format!("\"name\":\"{name}\""))]);
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The library, with these arguments behind the usual ones.
    pub fn compile(&self, arguments: &[&str]) {
        self.compile_source("toy.c", arguments);
    }

    /// A library of this source.
    pub fn compile_source(&self, source: &str, arguments: &[&str]) {
        // The tests of workers have this file as well.
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cipher-loader/tests/suite");
        let source = folder.join(source);
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w", "-I"]);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include")).arg("-o");
        command.arg(self.path("toy.so")).arg(source).args(arguments);
        assert!(command.status().unwrap().success(), "{arguments:?}");
    }

    /// A manifest with the right digests, and these replacements in its text.
    pub fn manifest(&self, replacements: &[(&str, &str)]) {
        let of = |name: &str| sha256(&fs::read(self.path(name)).unwrap());
        let mut text = format!(
            r#"{{"name":"toycipher","version":"1","vendor":"tests","kind":"block","block":16,"key":32,
            "constant_time":true,"transform_id":61000,"library":{{"file":"toy.so","sha256":"{}"}},
            "vectors":{{"file":"vectors.json","sha256":"{}"}},"source":"tests","licence":"MIT"}}"#,
            of("toy.so"),
            of("vectors.json")
        );
        for (from, to) in replacements {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        fs::write(self.path("manifest.json"), text).unwrap();
    }

    pub fn request(&self) -> Request {
        Request {
            manifest: self.path("manifest.json"),
            sha256: Some(sha256(&fs::read(self.path("manifest.json")).unwrap()).parse().unwrap()),
            trust: Trust::Caller,
            trial: trial(),
        }
    }

    pub fn load(&self) -> Result<Loaded, LoadError> {
        load(&self.request())
    }

    /// The error of loading, as people read it.
    #[allow(dead_code, reason = "the tests of workers have this file as well")]
    pub fn refused(&self) -> String {
        let error = self.load().expect_err("a library with a fault");
        assert!(!error.remedy().is_empty());
        error.to_string()
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
    cipher_loader::trial::child_main();
}
