//! The files of Ravelin itself, beside the digests that were recorded when they were installed.
//!
//! Two records are read: what dpkg wrote for the package, whose digests are MD5 and show an accident rather than an
//! attacker, and a list of SHA-256 digests in the form of `sha256sum`, for what no package has.

use std::path::{Path, PathBuf};

use md5::Md5;
use sha2::{Digest, Sha256};

use crate::finding::{Outcome, Tally};
use crate::tree::{ReadError, Tree};
use crate::units;

/// The list of SHA-256 digests that an administrator keeps.
pub(crate) const LIST: &str = "/etc/ravelin/digests.sha256";
/// The folder where dpkg keeps what it knows of each package.
const DPKG: &str = "/var/lib/dpkg/info";
/// The paths that the program is installed at.
const PROGRAMS: [&str; 2] = ["/usr/bin/ravelin", "/usr/local/bin/ravelin"];
/// The units of Ravelin.
const UNITS: [&str; 2] = ["ravelin.service", "ravelin-boot.service"];
/// The most files that a record may name.
const MOST_FILES: usize = 4096;

/// The digest of a file by one of two functions.
enum RecordedDigest {
    Md5(String),
    Sha256(String),
}

/// The lines of the records: the path of a file, and the digest that it should have.
fn records(tree: &Tree, tally: &mut Tally) -> Result<Vec<(PathBuf, RecordedDigest)>, ReadError> {
    let mut out = Vec::new();
    let is_ours = |name: &&String| {
        let package = name.strip_suffix(".md5sums").map(|rest| rest.split(':').next().unwrap_or(rest));
        package == Some("ravelin")
    };
    let lists = tree.names_if_there(DPKG)?;
    let mut files: Vec<PathBuf> =
        lists.iter().filter(is_ours).map(|name| Path::new(DPKG).join(name)).collect();
    if tree.has(LIST)? {
        files.push(PathBuf::from(LIST));
    }
    for file in &files {
        if let Err(why) = tree.is_guarded(file)? {
            tally.bad(why);
        }
        for line in tree.text(file)?.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        {
            let Some((digest, path)) = line.split_once(char::is_whitespace) else {
                tally.unknown(format!("{}: a line that is no digest and path", file.display()));
                continue;
            };
            let digest = digest.to_ascii_lowercase();
            // An asterisk marks a file that was read in binary mode (sha256sum(1)).
            let path = path.trim_start().trim_start_matches('*');
            let recorded = match digest.len() {
                32 => RecordedDigest::Md5(digest),
                64 => RecordedDigest::Sha256(digest),
                _ => {
                    tally.unknown(format!("{}: a digest of {} digits", file.display(), digest.len()));
                    continue;
                }
            };
            out.push((Path::new("/").join(path), recorded));
        }
    }
    if out.len() > MOST_FILES {
        let why = format!("the records name more than {MOST_FILES} files");
        return Err(ReadError::Other(PathBuf::from(DPKG), why));
    }
    Ok(out)
}

/// The digest of a file's content as hexadecimal digits.
fn digest_of<D: Digest>(tree: &Tree, path: &Path) -> Result<String, ReadError> {
    let mut digest = D::new();
    tree.pieces(path, |piece| digest.update(piece))?;
    Ok(digest.finalize().iter().map(|octet| format!("{octet:02x}")).collect())
}

/// The paths of the files that run: the program, what the units start, the units, and their drop-ins.
fn in_force(tree: &Tree) -> Result<Vec<String>, ReadError> {
    let mut paths: Vec<String> = Vec::new();
    for program in PROGRAMS {
        if tree.has(program)? {
            paths.push(program.to_owned());
        }
    }
    for unit in UNITS {
        paths.extend(units::file(tree, unit)?);
        paths.extend(units::drop_ins(tree, unit)?);
        let started = units::setting(tree, unit, "ExecStart")?.unwrap_or_default();
        let program = started.split_whitespace().next().unwrap_or_default();
        paths.extend(
            Some(program.trim_start_matches(['-', '+', '@', ':', '!']))
                .filter(|p| !p.is_empty())
                .map(str::to_owned),
        );
    }
    Ok(paths)
}

/// Whether each file that is recorded is as it was, and each file that runs is recorded.
pub(crate) fn judge(tree: &Tree) -> Result<Outcome, ReadError> {
    let mut tally = Tally::default();
    let records = records(tree, &mut tally)?;
    let mut known = Vec::new();
    for (path, recorded) in &records {
        let digest = match recorded {
            RecordedDigest::Md5(_) => digest_of::<Md5>(tree, path),
            RecordedDigest::Sha256(_) => digest_of::<Sha256>(tree, path),
        };
        let (RecordedDigest::Md5(wanted) | RecordedDigest::Sha256(wanted)) = recorded;
        match digest {
            Err(error) if error.is_absent() => tally.bad(error.to_string()),
            Err(error) => tally.unknown(error),
            Ok(digest) if digest != *wanted => tally.bad(format!("{} was changed", path.display())),
            Ok(_) => known.push(tree.facts(path)?.file),
        }
    }
    let named: Vec<&Path> = records.iter().map(|(path, _)| path.as_path()).collect();
    let mut paths = in_force(tree)?;
    paths.sort();
    paths.dedup();
    if paths.is_empty() {
        tally.bad("neither the program nor its units are installed");
    }
    for path in &paths {
        match tree.facts(path) {
            // One that is recorded and differs was told above.
            Ok(facts) if known.contains(&facts.file) || named.contains(&Path::new(path)) => {}
            Ok(_) => tally.bad(format!("{path} is in no record")),
            Err(error) if error.is_absent() => tally.bad(error.to_string()),
            Err(error) => tally.unknown(error),
        }
    }
    Ok(tally.outcome(format!("{} files are as they were recorded, with all that run", records.len())))
}
