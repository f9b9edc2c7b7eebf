//! Debian's kernels: found and fetched by apt with settings of its own, unpacked, not installed.

use crate::process::passes;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is fetched from.
const REGISTRY: &str = "http://deb.debian.org/debian";
/// What its signatures are checked with.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A kernel that can be booted.
#[derive(Debug)]
pub struct Kernel {
    /// The release of the kernel, as `uname -r` says it.
    pub name: String,
    /// The file that QEMU boots.
    pub image: PathBuf,
    /// The folder of its modules; the packages have it at two places.
    pub modules: PathBuf,
}

/// The registry as apt sees it.
pub struct Registry {
    folder: PathBuf,
    settings: PathBuf,
}

impl Registry {
    /// Ask for what there is now.
    pub fn open(folder: &Path) -> Result<Registry> {
        let folder = folder.join("apt");
        for part in ["lists/partial", "cache/archives/partial", "packages"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let releases = super::RELEASES.iter();
        let sources: String = releases
            .map(|(release, _)| format!("deb [arch=amd64 signed-by={KEYS}] {REGISTRY} {release} main\n"))
            .collect();
        fs::write(folder.join("sources.list"), sources)?;
        fs::write(folder.join("status"), "")?;
        let at = folder.display();
        let settings = folder.join("apt.conf");
        fs::write(
            &settings,
            format!(
                "Dir::Etc::sourcelist \"{at}/sources.list\";\nDir::Etc::sourceparts \"/dev/null\";\n\
                 Dir::State::lists \"{at}/lists\";\nDir::State::status \"{at}/status\";\nDir::Cache \"{at}/cache\";\n\
                 APT::Architecture \"amd64\";\nAPT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\n\
                 Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n"
            ),
        )?;
        let registry = Registry { folder, settings };
        let updated = passes(registry.apt("apt-get").args(["update", "-q", "-q"]))?;
        ensure!(updated, "apt-get cannot read {REGISTRY}");
        Ok(registry)
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &self.settings).current_dir(self.folder.join("packages"));
        command
    }

    /// The kernel of a release, unpacked.
    pub fn fetch(&self, release: &str) -> Result<Kernel> {
        let shown = self.apt("apt-cache").args(["show", &format!("linux-image-amd64/{release}")]).output()?;
        let text = String::from_utf8_lossy(&shown.stdout);
        let (package, version) =
            image_of(&text).with_context(|| format!("{release} has no package linux-image-amd64"))?;
        let name = package.trim_start_matches("linux-image-").to_owned();
        let place = self.folder.join("unpacked").join(&name);
        let image = place.join("boot").join(format!("vmlinuz-{name}"));
        if !image.exists() {
            let packages = self.folder.join("packages");
            let fetched =
                passes(self.apt("apt-get").args(["download", "-q", &format!("{package}={version}")]))?;
            ensure!(fetched, "apt-get cannot fetch {package}");
            let mut found = None;
            for entry in fs::read_dir(&packages)? {
                let path = entry?.path();
                let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if file.starts_with(&format!("{package}_")) {
                    found = Some(path);
                }
            }
            let package = found.context("apt-get fetched no file")?;
            // Whole or not at all.
            let half = place.with_extension("half");
            let _ = fs::remove_dir_all(&half);
            fs::create_dir_all(&half)?;
            ensure!(passes(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&half))?, "cannot unpack it");
            let _ = fs::remove_dir_all(&place);
            fs::rename(&half, &place)?;
            fs::remove_file(&package)?;
        }
        let places = ["lib/modules", "usr/lib/modules"].map(|part| place.join(part).join(&name));
        let modules = places.into_iter().find(|path| path.exists()).context("the package has no modules")?;
        Ok(Kernel { name, image, modules })
    }
}

/// What the newest image that `linux-image-amd64` depends on is called, and its version.
fn image_of(shown: &str) -> Option<(String, String)> {
    let depends = shown.lines().find_map(|line| line.strip_prefix("Depends: "))?;
    let (package, rest) = depends.split(',').find_map(|one| one.trim().split_once(" (= "))?;
    package.starts_with("linux-image-").then(|| (package.to_owned(), rest.trim_end_matches(')').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_what_the_meta_package_depends_on() {
        let shown =
            "Package: linux-image-amd64\nDepends: linux-image-6.1.0-1-amd64 (= 6.1.4-1)\nSection: kernel\n";
        assert_eq!(image_of(shown), Some(("linux-image-6.1.0-1-amd64".to_owned(), "6.1.4-1".to_owned())));
        assert_eq!(image_of("Package: x\n"), None);
        assert_eq!(image_of("Depends: firmware (= 3)\n"), None);
    }
}
