//! What the policy language asks of this host: users, systemd units and programs, from files. No systemd is asked, so the answer is the
//! same whether it runs or not.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::foreign::Asker;
use crate::programs::{Listings, Programs};
use crypto::Suites;
use policy::ProgramFile;
use qos::graph::Aggregates;

/// Where unit files are looked for, the first that has one first (systemd.unit(5)).
const UNIT_DIRECTORIES: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// A host by the root of its files.
#[derive(Clone, Debug)]
pub struct HostFiles {
    root: PathBuf,
    /// Programs may be in directories of others, which need not answer.
    programs: Arc<Mutex<Asker>>,
    suites: Suites,
    aggregates: Aggregates,
    /// What the standard directories held when they were first looked at.
    listings: Arc<Listings>,
}

impl HostFiles {
    /// The files of this host, for a policy that may name `suites`, and classes of `aggregates`.
    pub fn here(suites: &Suites, aggregates: &Aggregates) -> HostFiles {
        HostFiles::under(Path::new("/"), suites, aggregates)
    }

    /// The host whose files are under `root`.
    pub fn under(root: &Path, suites: &Suites, aggregates: &Aggregates) -> HostFiles {
        HostFiles {
            root: root.to_owned(),
            programs: Arc::default(),
            suites: suites.clone(),
            aggregates: aggregates.clone(),
            listings: Arc::default(),
        }
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    /// What is asked of the programs of this host about the one of this name; `None`: no answer in time.
    fn ask<T, L>(&self, name: &str, look: L) -> Option<T>
    where
        T: Send + 'static,
        L: FnOnce(&Programs<'_>, &str) -> T + Send + 'static,
    {
        let (root, own) = (self.root.clone(), name.to_owned());
        let listings = Arc::clone(&self.listings);
        let look = move || look(&Programs { root: &root, listings: &listings }, &own);
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).ask(Path::new(name), look)
    }

    /// The unit file of this very name.
    fn file_of(&self, name: &str) -> Option<String> {
        UNIT_DIRECTORIES.iter().find_map(|dir| self.text(&format!("{dir}/{name}")))
    }

    /// What its drop-ins add, in the order of their names; of equal names the first directory's counts.
    fn drop_ins(&self, name: &str) -> String {
        let mut found: Vec<(String, PathBuf)> = Vec::new();
        for dir in UNIT_DIRECTORIES {
            let folder = self.root.join(format!("{dir}/{name}.d"));
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let file = entry.file_name().to_string_lossy().into_owned();
                if file.ends_with(".conf") && !found.iter().any(|(known, _)| *known == file) {
                    found.push((file, entry.path()));
                }
            }
        }
        found.sort();
        let texts = found.into_iter().filter_map(|(_, path)| fs::read_to_string(path).ok());
        texts.map(|text| format!("\n{text}")).collect()
    }
}

impl policy::Host for HostFiles {
    fn suites(&self) -> &Suites {
        &self.suites
    }

    fn aggregates(&self) -> &Aggregates {
        &self.aggregates
    }

    fn user(&self, name: &str) -> Option<u32> {
        let text = self.text("etc/passwd")?;
        let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
        line.split(':').nth(2)?.parse().ok()
    }

    fn unit_file(&self, unit: &str) -> Option<String> {
        // A name, not a path.
        if unit.contains('/') {
            return None;
        }
        // An instance has the file of its template, unless it has one of its own.
        let template = unit.split_once('@').and_then(|(stem, rest)| {
            let (_, suffix) = rest.rsplit_once('.')?;
            Some(format!("{stem}@.{suffix}"))
        });
        let own = self.file_of(unit).or_else(|| self.file_of(template.as_deref()?))?;
        let shared = template.map(|template| self.drop_ins(&template)).unwrap_or_default();
        Some(own + &shared + &self.drop_ins(unit))
    }

    fn program(&self, name: &str) -> ProgramFile {
        self.ask(name, |programs, name| programs.look_up(name)).unwrap_or(ProgramFile::NotKnown)
    }

    fn near_program(&self, name: &str) -> Option<String> {
        self.ask(name, |programs, name| programs.near(name)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Host;

    #[test]
    fn users_and_units_come_from_files() {
        let root = std::env::temp_dir().join(format!("ravelin-host-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("etc/passwd", "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/:/bin/sh\nbad:x:n:\n");
        write("usr/lib/systemd/system/web.service", "[Service]\nSlice=a.slice\n");
        write("usr/lib/systemd/system/web.service.d/10-x.conf", "[Service]\nSlice=b.slice\n");
        write("etc/systemd/system/web.service.d/20-x.conf", "[Service]\nSlice=c.slice\n");
        write("etc/systemd/system/web.service.d/10-x.conf", "[Service]\n");
        write("lib/systemd/system/worker@.service", "[Service]\nSlice=d.slice\n");
        let host = HostFiles::under(&root, &Suites::standard(), &Aggregates::without_graph());
        assert_eq!(
            ["root", "alice", "bad", "carol"].map(|u| host.user(u)),
            [Some(0), Some(1000), None, None]
        );
        let group = |unit: &str| {
            let file = host.unit_file(unit);
            file.map(|file| policy::control_group(unit, Some(&file)))
        };
        assert_eq!(group("web.service").as_deref(), Some("/c.slice/web.service"));
        assert_eq!(group("worker@7.service").as_deref(), Some("/d.slice/worker@7.service"));
        assert_eq!((group("other.service"), group("../../../etc/passwd")), (None, None));
        fs::remove_dir_all(&root).unwrap();
    }
}
