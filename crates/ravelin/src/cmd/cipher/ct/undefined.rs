//! The key that valgrind takes as unknown: what branches on it, and what reads at a place that it chooses.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use cipher_loader::trial::{self, Assignment};
use cipher_loader::{Trial, valgrind};
use cipher_stats::{Keyed, Random, SEED, Subject, TableAes, reference};
use crypto::custom::CustomCipher;
use crypto_maes::Maes512;

use super::super::program;
use super::super::target::{Target, examined, trial};

/// The hidden command that is started under valgrind for a cipher that is compiled in.
pub const UNDEFINED: &str = "cipher-undefined";
/// The task of a child that has a library.
const TASK: &str = "undefined-key";
/// A control with a table.
pub const TABLE: &str = "table";
/// A control without.
pub const CONSTANT: &str = "constant";
/// Seconds of processor time of a library under valgrind.
const SECONDS: u64 = 60;
/// The time of a cipher that is compiled in.
const TIME: Duration = Duration::from_secs(300);
/// Places that depend on the key at its setup and are forgiven: the answer that a key is weak is one for everybody to
/// see, and asking for it is up to three branches here and in the library.
const REFUSAL: usize = 3;
/// Octets of the key stream that is made: two packets, the second not whole.
const STREAM: usize = Keyed::PACKET + 200;
/// Features of the processor that a cipher may choose its code by.
const FEATURES: [&str; 9] = ["ssse3", "sse4.1", "aes", "pclmulqdq", "avx", "avx2", "sha", "vaes", "avx512f"];

/// What valgrind saw, or why it saw nothing.
pub type Watched = Result<KeyDependence, String>;

/// What valgrind saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyDependence {
    /// Errors while the key was set up.
    setup: usize,
    /// Errors in calls with the key.
    calls: usize,
    /// Features that the processor had there.
    features: Vec<String>,
    /// The first places, in valgrind's words.
    places: Vec<String>,
}

impl KeyDependence {
    /// Whether nothing depends on the key but the answer that it is weak.
    pub fn is_clean(&self) -> bool {
        self.calls == 0 && self.setup <= REFUSAL
    }

    /// The words of a child: `setup=N calls=N features=A,B`.
    fn parse(text: &str) -> Option<KeyDependence> {
        let field = |name: &str| {
            let found =
                text.split_whitespace().find_map(|word| word.split_once('=').filter(|(key, _)| *key == name));
            found.map(|(_, value)| value)
        };
        let features =
            field("features")?.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let (setup, calls) = (field("setup")?.parse().ok()?, field("calls")?.parse().ok()?);
        Some(KeyDependence { setup, calls, features, places: Vec::new() })
    }
}

impl fmt::Display for KeyDependence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} branches or addresses depend on the key in calls, {} at key setup",
            self.calls, self.setup
        )?;
        if self.setup > 0 && self.is_clean() {
            f.write_str(", as a refusal of weak keys needs")?;
        }
        if !self.places.is_empty() {
            write!(f, "; first: {}", self.places.join("; "))?;
        }
        Ok(())
    }
}

/// The code path that was looked at.
pub fn code_path(seen: &KeyDependence) -> String {
    let native = features();
    let missing: Vec<&str> =
        native.iter().filter(|feature| !seen.features.contains(feature)).map(String::as_str).collect();
    let shown = format!("what the cipher chooses on a processor with {}", seen.features.join(" "));
    match missing.is_empty() {
        true => format!("{shown}, as this processor has them too"),
        false => format!(
            "{shown}; this processor has {} as well, and code that is chosen by these was NOT checked",
            missing.join(" ")
        ),
    }
}

/// The features of the processor, as this process sees it.
fn features() -> Vec<String> {
    #[cfg(target_arch = "x86_64")]
    let has = [
        is_x86_feature_detected!("ssse3"),
        is_x86_feature_detected!("sse4.1"),
        is_x86_feature_detected!("aes"),
        is_x86_feature_detected!("pclmulqdq"),
        is_x86_feature_detected!("avx"),
        is_x86_feature_detected!("avx2"),
        is_x86_feature_detected!("sha"),
        is_x86_feature_detected!("vaes"),
        is_x86_feature_detected!("avx512f"),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let has = [false; FEATURES.len()];
    FEATURES.iter().zip(has).filter(|(_, has)| *has).map(|(name, _)| (*name).to_owned()).collect()
}

/// A cipher of the command line under valgrind.
///
/// # Errors
/// Its files cannot be used.
pub fn target(target: &Target) -> anyhow::Result<Watched> {
    let manifest = match target {
        Target::Maes512 => return Ok(built_in(Maes512::NAME)),
        Target::Library(manifest) => manifest,
    };
    let examined = examined(manifest)?;
    let Some(wrapper) = wrapper() else { return Ok(Err(missing())) };
    let assignment = Assignment { name: TASK.to_owned(), seconds: SECONDS, vectors: None, wrapper };
    // Behind a wrapper /proc/self/exe would be the wrapper.
    let own = trial();
    let program = std::fs::read_link(&own.program).unwrap_or(own.program);
    let report = match trial::assign(&Trial { program, arguments: own.arguments }, &examined, &assignment) {
        Ok(report) => report,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let said = report.result.map_err(|error| error.to_string());
    Ok(said.and_then(|said| read(&said, &report.errors)))
}

/// A cipher that is compiled in, under valgrind.
pub fn built_in(name: &str) -> Watched {
    let wrapper = wrapper().ok_or_else(missing)?;
    let (valgrind, arguments) = wrapper.split_first().ok_or_else(missing)?;
    let program =
        std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let mut command = Command::new(valgrind);
    command.args(arguments).arg(program).arg(UNDEFINED).arg(name);
    let said = program::run(&mut command, TIME, |_| Ok(())).map_err(|error| format!("valgrind: {error}"))?;
    let said = said.ok_or_else(|| format!("valgrind did not end within {} s", TIME.as_secs()))?;
    read(&said.output, &said.errors)
}

fn wrapper() -> Option<Vec<OsString>> {
    let mut words = vec![program::find("valgrind")?.into_os_string()];
    words.extend(["-q", "--leak-check=no", "--error-limit=no"].map(OsString::from));
    Some(words)
}

fn missing() -> String {
    "valgrind is not installed: install Debian's package valgrind, or leave it out with --without valgrind"
        .to_owned()
}

/// The words of a child, with the first places that valgrind told of.
fn read(said: &str, errors: &str) -> Watched {
    let mut seen = KeyDependence::parse(said).ok_or_else(|| {
        let line = errors.lines().next().unwrap_or("nothing was said");
        format!("the process under valgrind gave no result: {line:.200}")
    })?;
    let places = errors.lines().filter(|line| line.starts_with("==")).map(|line| {
        let text = line.trim_start_matches(|c: char| c == '=' || c.is_ascii_digit());
        text.trim().chars().filter(|c| !c.is_control()).take(160).collect::<String>()
    });
    if !seen.is_clean() {
        seen.places = places.filter(|line| !line.is_empty()).take(3).collect();
    }
    Ok(seen)
}

/// The task of a child that has a library: one of the kit's, or the key that is unknown.
///
/// # Errors
/// What was wrong, in words.
pub fn child_task(name: &str, subject: &cipher_loader::subject::Subject<'_>) -> Result<String, String> {
    match name {
        TASK => watch(Arc::new(subject.in_form(cipher_loader::Form::default()))),
        check => cipher_kit::run_task(check, subject),
    }
}

/// The hidden command for a cipher that is compiled in.
pub fn undefined_main(name: Option<&OsString>) -> ExitCode {
    let cipher: Arc<dyn CustomCipher> = match name.map(OsString::as_os_str).and_then(OsStr::to_str) {
        Some(TABLE) => Arc::new(TableAes::new(14)),
        Some(CONSTANT) => reference(),
        Some(Maes512::NAME) => Arc::new(Maes512::new()),
        _ => return ExitCode::from(2),
    };
    match watch(cipher) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Use a key that valgrind takes as unknown, and count what depends on it.
fn watch(cipher: Arc<dyn CustomCipher>) -> Result<String, String> {
    if !valgrind::is_running() {
        return Err("valgrind does not answer".to_owned());
    }
    let subject = Subject::new(cipher);
    let mut random = Random::for_use(SEED, TASK);
    let key = random.octets(subject.key_len());
    let mut inputs = random.octets(subject.input_len() * 33);
    let (mut outputs, mut stream) = (Vec::new(), vec![0; STREAM]);
    let failed = |error: &dyn fmt::Display| error.to_string();
    valgrind::mark_undefined(&key);
    let before = valgrind::errors();
    let keyed = subject.set_key(&key).map_err(|error| failed(&error))?.ok_or("the key is weak")?;
    let setup = valgrind::errors() - before;
    // From one block to more than any unit takes at once.
    for count in [1, 2, 7, 33] {
        let some = inputs.get(..subject.input_len() * count).unwrap_or_default();
        let made = keyed.outputs(some, &mut outputs);
        valgrind::mark_defined(&outputs);
        made.map_err(|error| failed(&error))?;
    }
    let made = keyed.key_stream([1, 2, 3, 4], 1, &mut stream);
    valgrind::mark_defined(&stream);
    made.map_err(|error| failed(&error))?;
    // The controls do not decrypt, which is no error of a cipher that does.
    let _ = keyed.decrypt(&mut inputs);
    valgrind::mark_defined(&inputs);
    let calls = valgrind::errors() - before - setup;
    Ok(format!("setup={setup} calls={calls} features={}", features().join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_child_are_read() {
        let errors = "==12== Use of uninitialised value of size 8\n==12==    at 0x1: encrypt (toy.c:5)\n";
        let seen = read("setup=2 calls=7 features=aes,avx2\n", errors).unwrap();
        assert_eq!((seen.setup, seen.calls, seen.is_clean()), (2, 7, false));
        assert_eq!(seen.features, ["aes", "avx2"]);
        assert!(
            seen.to_string()
                .ends_with("first: Use of uninitialised value of size 8; at 0x1: encrypt (toy.c:5)")
        );
        assert!(read("setup=3 calls=0 features=", errors).unwrap().is_clean(), "a refusal of weak keys");
        assert!(!read("setup=4 calls=0 features=", errors).unwrap().is_clean());
        for other in ["", "setup=1 calls=x features=", "calls=0 features=aes", "setup=-1 calls=0 features="] {
            assert!(read(other, errors).is_err(), "{other}");
        }
    }

    #[test]
    fn what_was_not_checked_is_named() {
        let seen = KeyDependence { features: features(), ..KeyDependence::default() };
        assert!(!code_path(&seen).contains("NOT"));
        let none = KeyDependence::default();
        assert_eq!(code_path(&none).contains("NOT checked"), !features().is_empty());
    }

    #[test]
    fn without_valgrind_nothing_is_clean() {
        assert!(watch(reference()).is_err());
    }
}
