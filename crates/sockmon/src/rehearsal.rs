//! Whether a daemon could take an instance over with its marks and its policy, while another one has it still.
//!
//! What enters: the maps that the instance has pinned, which are read and stay as they are. What leaves: the error that
//! [`crate::Sockmon::attach`] or [`crate::Sockmon::load_policy`] would end with.

use crate::abi::{self, Executable, Identity};
use crate::error::SockmonError;
use crate::monitor::check_marks;
use crate::places::{self, PathAnswers, Places};
use crate::policy::{self, Policy};
use crate::programs::{self, Maps, Pins};
use ::policy::Subjects;
use sadb::spd::{Order, Spd};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use wire::AppId;
use wire::Marks;

/// The state that an instance has in the kernel, which a rehearsal only reads.
#[derive(Debug)]
pub struct Rehearsal {
    maps: Maps,
    marks: Marks,
    directories: Vec<PathBuf>,
    /// Files and directories that the maps know, by inode and device.
    known: HashMap<(u64, u32), Identity>,
}

impl Rehearsal {
    /// Look at what an instance has. `None`: it has nothing in the kernel.
    ///
    /// # Errors
    /// [`SockmonError::Abi`], [`SockmonError::OtherMarks`]; or if it cannot be looked at.
    pub fn of(instance: &str, marks: Marks) -> Result<Option<Rehearsal>, SockmonError> {
        let pins = Pins::of(instance)?;
        programs::check_abi(instance, &pins)?;
        let Some(maps) = Maps::pinned(&pins)? else { return Ok(None) };
        check_marks(instance, &maps.config()?, marks)?;
        let directories = ::policy::STANDARD_DIRECTORIES.iter().map(PathBuf::from).collect();
        let executables = maps.entries::<Identity, Executable>("executables")?;
        let folders = maps.keys::<abi::Place>("places")?.into_iter().map(|place| place.directory);
        let all = executables.into_iter().map(|(identity, _)| identity).chain(folders);
        let known = all.map(|identity| ((identity.inode, identity.device), identity)).collect();
        Ok(Some(Rehearsal { maps, marks, directories, known }))
    }

    /// The kernel's numbers of files. stat(2) tells all but the generation, which only programs can read: it is that of
    /// the maps, and of files that are new to them it does not matter.
    fn numbers(&self, files: &[&OwnedFd]) -> Result<Vec<Option<Identity>>, SockmonError> {
        let number = |file: &&OwnedFd| {
            let about = rustix::fs::fstat(file).ok()?;
            let device = rustix::fs::major(about.st_dev) << 20 | rustix::fs::minor(about.st_dev);
            let new = Identity { inode: about.st_ino, device, generation: 0 };
            Some(self.known.get(&(about.st_ino, device)).copied().unwrap_or(new))
        };
        Ok(files.iter().map(number).collect())
    }

    fn places(&self, subjects: &Subjects) -> Result<Places, SockmonError> {
        places::find_by(&|files| self.numbers(files), subjects, &self.directories, &PathAnswers::new())
    }

    /// The pairs of applications of the policy in force of which the first would lose processes to the second; see
    /// [`crate::Sockmon::moved`].
    ///
    /// # Errors
    /// The error that the load would give.
    pub fn moved(&self, subjects: &Subjects) -> Result<Vec<(AppId, AppId)>, SockmonError> {
        policy::would_move(&self.maps, subjects, &self.places(subjects)?.list)
    }

    /// Whether a policy has room, beside the one in force: see [`crate::Sockmon::load_policy`].
    ///
    /// # Errors
    /// What does not fit.
    pub fn fits(
        &self,
        spd: &Spd,
        subjects: &Subjects,
        orders: &[((AppId, AppId), Order)],
    ) -> Result<(), SockmonError> {
        let (places, found) = (self.places(subjects)?, PathAnswers::new());
        let policy = Policy { spd, subjects, directories: &self.directories, orders, found: &found };
        policy::fits(&self.maps, self.marks, &policy, &places.list)
    }
}
