//! A cipher as one file, for the hosts that are to have it (paper 004 section 7: a distribution with the cipher in it).
//!
//! What enters: the path of a manifest. What leaves: a bundle, which is a tar archive ([`bundle`]), or a Debian package
//! ([`debian`]). Equal files give equal octets: names, owners, modes and times in the archives are fixed. [`install`]
//! takes a bundle apart again, tries the cipher, and puts it where the daemon loads from.

mod ar;
mod place;
mod tar;

use std::path::{Path, PathBuf};

use cipher_loader::{LoadError, Trial, Trust, examine, trial};
use cipher_manifest::{Digest, Manifest};

pub use place::Installed;

/// The folder below which ciphers are installed, one folder for each.
pub const FOLDER: &str = "/etc/ravelin/ciphers";
/// The folder below which Debian packages have their ciphers.
const PACKAGED: &str = "usr/lib/ravelin/ciphers";

/// Why a cipher cannot be packed or installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The files of the cipher are not as they must be.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason that the system gave.
        source: std::io::Error,
    },
    /// The file is no bundle.
    #[error("this is no bundle of a cipher: {0}; `ravelin cipher pack` makes one")]
    Bundle(String),
    /// A cipher of this name is there, and its files are others.
    #[error("{} has another cipher of this name; `--replace` takes its place", .0.display())]
    There(PathBuf),
}

/// The three files of a cipher, with the names that they have in its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Files {
    manifest: Manifest,
    /// Name and content: the manifest first.
    files: Vec<(String, Vec<u8>)>,
}

impl Files {
    /// The files beside a manifest, which agree with the digests in it.
    fn read(manifest: &Path) -> Result<Files, PackError> {
        let examined = examine(manifest, None, Trust::Caller)?;
        let folder = manifest.parent().unwrap_or(Path::new(""));
        let name = manifest.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut files = Vec::new();
        for file in [name, examined.manifest.library.file.clone(), examined.manifest.vectors.file.clone()] {
            let path = folder.join(&file);
            let content = std::fs::read(&path).map_err(|source| PackError::File { path, source })?;
            files.push((file, content));
        }
        // They may have changed between the two readings.
        let digests = [examined.digests.manifest, examined.digests.library, examined.digests.vectors];
        if files.iter().zip(digests).any(|((_, content), digest)| Digest::of(content) != digest) {
            return Err(PackError::Bundle("its files change while they are read".to_owned()));
        }
        Ok(Files { manifest: examined.manifest, files })
    }

    fn digest(&self) -> Digest {
        Digest::of(self.files.first().map_or(&[], |(_, content)| content))
    }
}

/// A packed cipher, and how its file is to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The name of the file, without a folder.
    pub file: String,
    /// The content of the file.
    pub content: Vec<u8>,
}

/// The bundle of a cipher: a tar archive of its folder.
///
/// # Errors
/// [`PackError`]: a file of the cipher is not as its manifest says.
pub fn bundle(manifest: &Path) -> Result<Packed, PackError> {
    let files = Files::read(manifest)?;
    let name = &files.manifest.description.name;
    let mut archive = tar::Writer::default();
    archive.folder(&format!("{name}/"));
    for (file, content) in &files.files {
        archive.file(&format!("{name}/{file}"), content);
    }
    let version = &files.manifest.description.version;
    Ok(Packed { file: format!("{name}-{version}.cipher.tar"), content: archive.finish() })
}

/// The Debian package of a cipher, for the architecture of this program.
///
/// # Errors
/// As [`bundle`].
pub fn debian(manifest: &Path) -> Result<Packed, PackError> {
    let files = Files::read(manifest)?;
    let description = &files.manifest.description;
    let (name, version) = (&description.name, debian_version(&description.version));
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let folder = format!("{PACKAGED}/{name}");
    let mut data = tar::Writer::default();
    let mut above = String::from("./");
    data.folder(&above);
    for part in folder.split('/') {
        above = format!("{above}{part}/");
        data.folder(&above);
    }
    let mut octets = 0;
    for (file, content) in &files.files {
        data.file(&format!("./{folder}/{file}"), content);
        octets += content.len();
    }
    let lines = configuration(&Path::new("/").join(&folder).join(first_name(&files)), files.digest());
    let control = format!(
        "Package: ravelin-cipher-{name}\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {vendor}\n\
         Installed-Size: {size}\nDepends: libc6\nEnhances: ravelin\nSection: net\nPriority: optional\n\
         Description: cipher {name} of {vendor} for Ravelin\n The package configures nothing. To use the cipher, put these lines into \
         ravelin.toml:\n .\n{shown}\n",
        vendor = description.vendor,
        size = octets.div_ceil(1024),
        shown = lines.lines().map(|line| format!(" {line}")).collect::<Vec<_>>().join("\n"),
    );
    let mut meta = tar::Writer::default();
    meta.folder("./");
    meta.file("./control", control.as_bytes());
    let content = ar::archive(&[
        ("debian-binary", b"2.0\n"),
        ("control.tar", &meta.finish()),
        ("data.tar", &data.finish()),
    ]);
    Ok(Packed { file: format!("ravelin-cipher-{name}_{version}_{architecture}.deb"), content })
}

fn first_name(files: &Files) -> &str {
    files.files.first().map_or("", |(name, _)| name)
}

/// A version as Debian has them: it begins with a digit, and has no other characters than these.
fn debian_version(version: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '~');
    let text: String = version.chars().map(|c| if fits(c) { c } else { '.' }).collect();
    if text.starts_with(|c: char| c.is_ascii_digit()) { text } else { format!("0~{text}") }
}

/// The lines of the configuration that name a cipher.
pub fn configuration(manifest: &Path, digest: Digest) -> String {
    format!("[[cipher]]\nmanifest = \"{}\"\nsha256 = \"{digest}\"\n", manifest.display())
}

/// Install a bundle below `folder` ([`FOLDER`]): the cipher is tried, and its files are put in place as a whole, with
/// modes that the daemon takes. With `replace`, a cipher of the same name with other files goes.
///
/// # Errors
/// [`PackError`]: nothing was changed.
pub fn install(
    bundle: &[u8],
    folder: &Path,
    replace: bool,
    tried_by: &Trial,
) -> Result<Installed, PackError> {
    let files = unpacked(bundle)?;
    let place = place::Place::new(folder, &files.manifest.description.name)?;
    place.write(&files.files)?;
    let manifest = place.staged().join(first_name(&files));
    let examined = examine(&manifest, Some(files.digest()), Trust::Caller)?;
    let library = examined.manifest.library.file.clone();
    trial::run(tried_by, &examined).map_err(|why| LoadError::Trial { library, why })?;
    place.exchange(&files.files, replace)?;
    let manifest = place.target().join(first_name(&files));
    Ok(Installed { configuration: configuration(&manifest, files.digest()), manifest })
}

/// The files in a bundle: a folder with the name of the cipher, and in it the manifest, which comes first, and the two
/// files that it names.
fn unpacked(bundle: &[u8]) -> Result<Files, PackError> {
    let wrong = |why: String| PackError::Bundle(why);
    let entries = tar::read(bundle).map_err(wrong)?;
    let mut files = Vec::new();
    for (path, content) in entries {
        let (folder, file) =
            path.split_once('/').ok_or_else(|| wrong(format!("{path:?} is in no folder")))?;
        files.push((folder.to_owned(), file.to_owned(), content));
    }
    let (Some((folder, file, text)), 3) = (files.first(), files.len()) else {
        return Err(wrong(format!("it has {} files and needs manifest, library and vectors", files.len())));
    };
    let manifest =
        Manifest::parse(text).map_err(|error| wrong(format!("{file}: {error}; {}", error.remedy())))?;
    if *folder != manifest.description.name {
        return Err(wrong(format!(
            "its folder is {folder:?}, and the cipher is {}",
            manifest.description.name
        )));
    }
    let mut out = vec![(file.clone(), text.clone())];
    for wanted in [&manifest.library.file, &manifest.vectors.file] {
        let found = files.iter().find(|(in_folder, file, _)| in_folder == folder && file == wanted);
        let (_, file, content) = found.ok_or_else(|| wrong(format!("{wanted} is missing")))?;
        out.push((file.clone(), content.clone()));
    }
    Ok(Files { manifest, files: out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_what_debian_takes() {
        for (version, want) in
            [("1", "1"), ("1.2-rc 3", "1.2.rc.3"), ("beta", "0~beta"), ("2026_11", "2026.11")]
        {
            assert_eq!(debian_version(version), want);
        }
    }

    #[test]
    fn what_is_no_bundle_is_refused() {
        for octets in [&b""[..], b"no tar", &[0; 1024], &[0xff; 2048]] {
            assert!(matches!(unpacked(octets), Err(PackError::Bundle(_))));
        }
        let mut archive = tar::Writer::default();
        archive.file("one/two.json", b"{}");
        assert!(unpacked(&archive.finish()).unwrap_err().to_string().contains("1 files"));
    }
}
