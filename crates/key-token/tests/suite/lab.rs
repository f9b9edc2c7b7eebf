//! Tokens of SoftHSM, each in a folder of its own, and a child process that uses the module: a process has one
//! configuration of SoftHSM, and the product loads a module once.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::mechanism::Mechanism;
use cryptoki::object::{Attribute, ObjectClass};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;
use key_token::{
    Fault, KeyFile, OaepHash, Opening, Pin, PublicKey, TokenError, TokenUri, UsedBook, open_once,
    public_key_of, seal,
};

pub const PIN: &str = "5928-geheim";
const SO_PIN: &str = "000011112222";

/// Where Debian's packages `libsofthsm2` have the module.
pub const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";

/// A folder with tokens, keys, files and a book.
pub struct Lab {
    folder: PathBuf,
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A private key on a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Rsa,
    P256,
    P384,
}

/// What came of using a token in a process of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    pub fault: String,
    pub text: String,
    pub remedy: String,
}

pub fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

impl Lab {
    pub fn new() -> Lab {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("key-token-{}-{number}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(folder.join("tokens")).unwrap();
        let configuration = format!(
            "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
            folder.join("tokens").display()
        );
        fs::write(folder.join("softhsm2.conf"), configuration).unwrap();
        Lab { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn configuration(&self) -> PathBuf {
        self.path("softhsm2.conf")
    }

    /// A token with this label.
    pub fn token(&self, label: &str) {
        let mut command = Command::new("softhsm2-util");
        command.args(["--init-token", "--free", "--label", label, "--pin", PIN, "--so-pin", SO_PIN]);
        run(command.env("SOFTHSM2_CONF", self.configuration()));
    }

    /// A private key in a file, as OpenSSL makes it, and its public half beside it.
    pub fn key(&self, name: &str, kind: Kind) -> PathBuf {
        let path = self.path(name);
        let option = match kind {
            Kind::Rsa => ["RSA", "rsa_keygen_bits:2048"],
            Kind::P256 => ["EC", "ec_paramgen_curve:P-256"],
            Kind::P384 => ["EC", "ec_paramgen_curve:P-384"],
        };
        let mut command = Command::new("openssl");
        run(command.args(["genpkey", "-algorithm", option[0], "-pkeyopt", option[1], "-out"]).arg(&path));
        run(Command::new("openssl")
            .args(["pkey", "-pubout", "-in"])
            .arg(&path)
            .arg("-out")
            .arg(public(&path)));
        path
    }

    /// Put a private key from a file on a token, with its public half. SoftHSM's tool lets keys of elliptic curves
    /// sign only.
    pub fn import(&self, token: &str, key: &Path, label: &str, id: &str) {
        let mut command = Command::new("softhsm2-util");
        command
            .args(["--import"])
            .arg(key)
            .args(["--token", token, "--label", label, "--id", id, "--pin", PIN]);
        run(command.env("SOFTHSM2_CONF", self.configuration()));
    }

    /// Let a token make a key; the path of the file beside which its public half is. `how` is one of `shown`,
    /// `hidden` (the public half is not on the token), `always-authenticates`.
    pub fn generate(&self, token: &str, kind: Kind, label: &str, how: &str) -> PathBuf {
        let path = self.path(&format!("{token}-{label}.pem"));
        let job = format!("generate {kind:?} {label} {how}");
        self.job(&job, &uri(token), &public(&path), PIN).unwrap();
        path
    }

    /// A token with one key that it made; the path of the file beside which its public half is.
    pub fn token_with(&self, label: &str, kind: Kind) -> PathBuf {
        self.token(label);
        self.generate(label, kind, "ipsec", "shown")
    }

    /// Seal fresh keying material for aes256gcm to public keys from files.
    pub fn wrap(&self, name: &str, keys: &[&Path]) -> PathBuf {
        let keys: Vec<PublicKey> = keys.iter().map(|key| public_key(key)).collect();
        let file = seal("aes256gcm", 36, &keys, OaepHash::Sha1).unwrap();
        let path = self.path(name);
        fs::write(&path, file.octets()).unwrap();
        path
    }

    pub fn book(&self) -> PathBuf {
        self.path("state/used-key-files")
    }

    /// A job in a process of its own, which loads the module.
    pub fn command(&self, job: &str, uri: &str, file: &Path) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "lab::the_process_that_uses_a_token", "--nocapture"])
            .env("SOFTHSM2_CONF", self.configuration())
            .env("KEY_TOKEN_JOB", job)
            .env("KEY_TOKEN_URI", uri)
            .env("KEY_TOKEN_FILE", file)
            .env("KEY_TOKEN_BOOK", self.book())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Do a job with a PIN; what it answers.
    pub fn job(&self, job: &str, uri: &str, file: &Path, pin: &str) -> Result<String, Refused> {
        let mut child = self.command(job, uri, file).spawn().unwrap();
        child.stdin.take().unwrap().write_all(pin.as_bytes()).unwrap();
        answer(&child.wait_with_output().unwrap())
    }

    pub fn open(&self, uri: &str, file: &Path) -> Result<String, Refused> {
        self.job("open", uri, file, PIN)
    }
}

/// What a child answered: the last of its own lines.
pub fn answer(output: &Output) -> Result<String, Refused> {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.split_once("ANSWER\t")).map(|(_, line)| line.to_owned());
    let line = line.unwrap_or_else(|| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)));
    let mut parts = line.split('\t').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    match next().as_str() {
        "right" => Ok(next()),
        _ => Err(Refused { fault: next(), text: next(), remedy: next() }),
    }
}

/// The file with the public half of a key.
pub fn public(key: &Path) -> PathBuf {
    key.with_extension("pub")
}

pub fn public_key(key: &Path) -> PublicKey {
    PublicKey::parse(&fs::read(public(key)).unwrap()).unwrap()
}

pub fn uri(token: &str) -> String {
    format!("pkcs11:token={token}?module-path={MODULE}")
}

pub fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[test]
#[ignore = "the tests of this program run it, in a process of its own"]
fn the_process_that_uses_a_token() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let file = PathBuf::from(variable("KEY_TOKEN_FILE"));
    let book = UsedBook::at(variable("KEY_TOKEN_BOOK"));
    let done = TokenUri::parse(&variable("KEY_TOKEN_URI")).and_then(|uri| {
        match variable("KEY_TOKEN_JOB").as_str() {
            "open" => {
                let pin = Pin::from_fd(0)?;
                let with = Opening { token: &uri, pin: Some(&pin), book: &book };
                open_once(&KeyFile::read(&file)?, &with).map(|keymat| hex(keymat.expose()))
            }
            "open beside others" => {
                let pin = Pin::from_fd(0)?;
                let with = Opening { token: &uri, pin: Some(&pin), book: &book };
                open_beside_others(&KeyFile::read(&file)?, &with)
            }
            "open without a PIN" => {
                let with = Opening { token: &uri, pin: None, book: &book };
                open_once(&KeyFile::read(&file)?, &with).map(|keymat| hex(keymat.expose()))
            }
            "public key" => public_key_of(&uri).map(|key| key.id().to_string()),
            "flip every octet" => flip_every_octet(&uri, &file, &book),
            other => {
                generate(other, uri.token.as_deref().unwrap(), &file);
                Ok(String::new())
            }
        }
    });
    match done {
        Ok(text) => println!("\nANSWER\tright\t{text}"),
        Err(error) => println!("\nANSWER\twrong\t{:?}\t{error}\t{}", error.fault(), error.remedy()),
    }
}

/// SoftHSM writes its token at each login, and shows another process no token, or no key, meanwhile.
fn open_beside_others(file: &KeyFile, with: &Opening<'_>) -> Result<String, TokenError> {
    for _ in 0..50 {
        match open_once(file, with) {
            Ok(keymat) => return Ok(hex(keymat.expose())),
            Err(error) if error.fault() == Fault::Used => return Err(error),
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    }
    panic!("SoftHSM shows no token");
}

/// `generate KIND LABEL HOW`: make a key on a token, as its owner would with the vendor's tools; its public half goes
/// into a file.
fn generate(job: &str, token: &str, file: &Path) {
    let words: Vec<&str> = job.split(' ').collect();
    let ["generate", kind, label, how] = words[..] else { panic!("{job}") };
    let named = [Attribute::Label(label.as_bytes().to_vec()), Attribute::Id(label.as_bytes().to_vec())];
    let mut public = [&named[..], &[Attribute::Token(true), Attribute::Private(false)]].concat();
    let mut private = [&named[..], &[Attribute::Token(true), Attribute::Sensitive(true)]].concat();
    private.push(Attribute::AlwaysAuthenticate(how == "always-authenticates"));
    // The names of the curves in DER.
    let p256 = vec![6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    let p384 = vec![6, 5, 0x2b, 0x81, 4, 0, 0x22];
    let mechanism = if kind == "Rsa" {
        public.extend([Attribute::ModulusBits(2048.into()), Attribute::PublicExponent(vec![1, 0, 1])]);
        private.push(Attribute::Decrypt(true));
        Mechanism::RsaPkcsKeyPairGen
    } else {
        public.push(Attribute::EcParams(if kind == "P256" { p256 } else { p384 }));
        private.push(Attribute::Derive(true));
        Mechanism::EccKeyPairGen
    };
    with_session(token, |session| {
        session.generate_key_pair(&mechanism, &public, &private).unwrap();
    });
    let uri = format!("pkcs11:token={token};object={label}?module-path={MODULE}");
    fs::write(file, public_key_of(&TokenUri::parse(&uri).unwrap()).unwrap().der()).unwrap();
    if how == "hidden" {
        with_session(token, |session| {
            let class = [&named[..], &[Attribute::Class(ObjectClass::PUBLIC_KEY)]].concat();
            for key in session.find_objects(&class).unwrap() {
                session.destroy_object(key).unwrap();
            }
        });
    }
}

fn with_session(token: &str, work: impl FnOnce(&Session)) {
    let context = Pkcs11::new(MODULE).unwrap();
    context.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).unwrap();
    let named = |slot: &Slot| context.get_token_info(*slot).unwrap().label() == token;
    let slot = context.get_slots_with_token().unwrap().into_iter().find(named).unwrap();
    let session = context.open_rw_session(slot).unwrap();
    session.login(UserType::User, Some(&AuthPin::from(PIN))).unwrap();
    work(&session);
    drop(session);
    context.finalize().unwrap();
}

/// How many octets were flipped, each alone and each in two ways; none of these files opened, and the whole one did.
fn flip_every_octet(uri: &TokenUri, path: &Path, book: &UsedBook) -> Result<String, TokenError> {
    let right = fs::read(path).unwrap();
    let pin = Pin::from_fd(0)?;
    let with = Opening { token: uri, pin: Some(&pin), book };
    for at in 0..right.len() {
        for flip in [0x01, 0x80] {
            let mut octets = right.clone();
            octets[at] ^= flip;
            let opened = KeyFile::parse(&octets).and_then(|file| open_once(&file, &with));
            let error = opened.expect_err("an altered file");
            assert!(
                [Fault::KeyFile, Fault::OtherToken, Fault::Token].contains(&error.fault()),
                "octet {at}: {error}"
            );
        }
    }
    open_once(&KeyFile::parse(&right)?, &with)?;
    Ok(right.len().to_string())
}
