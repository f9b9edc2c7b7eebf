//! The lists that the kernel half walks: for every place the subjects that can fit what runs there, in order, merged.
//!
//! What enters: subjects, places, bits of `from`, slots of control groups. What leaves: `lists` and `choices` of one generation. A
//! place keeps the number of its list over loads and daemons, by the hash of its path, since processes of replaced files and
//! `executables` have it.

use crate::abi::{self, Choice, List};
use crate::error::SockmonError;
use crate::model::LoadWarning;
use crate::places::Place;
use crate::programs::Maps;
use policy::{Executables, Image, Selector, Subjects};
use sadb::spd::Spd;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use wire::AppId;

/// Bit numbers by image.
pub type Bits = BTreeMap<Image, u8>;

/// The slot of each control group, by the group's path.
pub type Slots = BTreeMap<String, u16>;

/// The mask of all bits.
pub fn mask(bits: &Bits) -> u64 {
    bits.values().fold(0, |mask, bit| mask | 1 << bit)
}

/// The FNV-1a hash of some octets, but never 0.
pub fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.max(1)
}

/// The hash of a place.
pub fn of_path(path: &Path) -> u64 {
    use std::os::unix::ffi::OsStrExt;
    hash(path.as_os_str().as_bytes())
}

/// The list of a place, with its choices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergedList {
    /// The choices in front of the one that fits every process.
    pub choices: Vec<Choice>,
    /// The application of the choice that fits every process; 0: none.
    pub app: u16,
    /// The bits that a process of this list has as an ancestor.
    pub bits: u64,
    /// Hash of the place.
    pub place: u64,
    /// Whether the list is for files that are verified.
    pub pinned: bool,
}

impl MergedList {
    /// Every application that it can choose.
    pub fn apps(&self) -> BTreeSet<AppId> {
        let all = self.choices.iter().map(|choice| choice.app).chain([self.app]);
        all.filter(|app| *app != 0).map(AppId).collect()
    }
}

/// The executables that a list is for.
enum ListSubject<'p> {
    Place(&'p BTreeSet<Image>),
    Anonymous,
    Unknown,
}

/// The subjects by what they say of executables, in order of precedence.
struct SubjectIndex<'p> {
    all: Vec<(&'p Selector, AppId)>,
    /// Places in `all` of the subjects that mean any executable.
    any: Vec<usize>,
    anonymous: Vec<usize>,
    named: HashMap<&'p Image, Vec<usize>>,
}

impl<'p> SubjectIndex<'p> {
    fn new(subjects: &'p Subjects) -> SubjectIndex<'p> {
        let mut out = SubjectIndex {
            all: subjects.iter().collect(),
            any: Vec::new(),
            anonymous: Vec::new(),
            named: HashMap::new(),
        };
        for (at, (selector, _)) in out.all.iter().enumerate() {
            match &selector.executables {
                Executables::Any => out.any.push(at),
                Executables::Anonymous => out.anonymous.push(at),
                Executables::Named(image) => out.named.entry(image).or_default().push(at),
            }
        }
        out
    }

    fn of(&self, who: &ListSubject<'_>) -> impl Iterator<Item = (&'p Selector, AppId)> {
        let mut places = self.any.clone();
        match who {
            ListSubject::Place(images) => {
                places.extend(images.iter().filter_map(|image| self.named.get(image)).flatten());
            }
            ListSubject::Anonymous => places.extend(&self.anonymous),
            ListSubject::Unknown => {}
        }
        places.sort_unstable();
        places.into_iter().filter_map(|at| self.all.get(at).copied())
    }
}

/// The policy as lists are made of it.
pub struct Policy<'p> {
    /// The subjects, which say which processes are which application.
    pub subjects: &'p Subjects,
    /// The images of `from`.
    pub bits: &'p Bits,
    /// The slots of the control groups that the policy names.
    pub slots: &'p Slots,
}

impl Policy<'_> {
    fn merge(
        &self,
        speakers: &SubjectIndex<'_>,
        who: &ListSubject<'_>,
        place: &Path,
        warnings: &mut Vec<LoadWarning>,
    ) -> Result<MergedList, SockmonError> {
        let mut out = MergedList::default();
        for (selector, app) in speakers.of(who) {
            if out.app != 0 {
                if selector.executables != Executables::Any {
                    let by = AppId(out.app);
                    warnings.push(LoadWarning::Shadowed { path: place.to_owned(), app, by });
                }
            } else if selector.is_unqualified() {
                out.app = app.0;
            } else {
                out.choices.push(self.choice(selector, app)?);
            }
        }
        if out.choices.len() > abi::LIST_CHOICES {
            let (count, max) = (out.choices.len(), abi::LIST_CHOICES);
            return Err(SockmonError::TooManyChoices { path: place.to_owned(), count, max });
        }
        if let ListSubject::Place(images) = who {
            out.bits =
                images.iter().filter_map(|image| self.bits.get(image)).fold(0, |bits, bit| bits | 1 << bit);
            out.place = of_path(place);
            out.pinned = self.subjects.digests(*images).is_some();
        }
        Ok(out)
    }

    fn choice(&self, selector: &Selector, app: AppId) -> Result<Choice, SockmonError> {
        let (first_user, last_user) = selector.users.unwrap_or((0, u32::MAX));
        let unknown = || SockmonError::Answer("a qualifier without a number");
        let from = match &selector.from {
            Some(image) => self.bits.get(image).ok_or_else(unknown)? + 1,
            None => 0,
        };
        let group = match &selector.group {
            Some(path) => *self.slots.get(path).ok_or_else(unknown)?,
            None => 0,
        };
        Ok(Choice { first_user, last_user, app: app.0, group, from, zero: [0; 3] })
    }
}

/// The lists of one generation by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Each list, by its number.
    pub numbered: BTreeMap<u32, MergedList>,
    /// The number of each place.
    pub places: HashMap<PathBuf, u32>,
}

impl Lists {
    /// The lists of a policy. `before` gives places that had a list its number; numbers of `taken` are left alone.
    pub fn of(
        policy: &Policy<'_>,
        places: &[Place],
        before: &Lists,
        taken: &BTreeSet<u32>,
    ) -> Result<(Lists, Vec<LoadWarning>), SockmonError> {
        let mut warnings = Vec::new();
        let mut out = Lists::default();
        let speakers = SubjectIndex::new(policy.subjects);
        let any = Path::new("programs that no subject names");
        let anonymous = Path::new("executables without a name");
        out.numbered
            .insert(abi::LIST_ANY, policy.merge(&speakers, &ListSubject::Unknown, any, &mut warnings)?);
        out.numbered.insert(
            abi::LIST_ANONYMOUS,
            policy.merge(&speakers, &ListSubject::Anonymous, anonymous, &mut warnings)?,
        );
        out.numbered.insert(abi::LIST_REFUSED, MergedList { app: abi::APP_REFUSED, ..MergedList::default() });
        let known: HashMap<u64, u32> =
            before.numbered.iter().filter(|(_, l)| l.place != 0).map(|(n, l)| (l.place, *n)).collect();
        let in_use = |number: &u32| before.numbered.contains_key(number) || taken.contains(number);
        let mut free = (abi::LIST_FIRST..abi::LISTS).filter(|number| !in_use(number));
        for place in places {
            let merged =
                policy.merge(&speakers, &ListSubject::Place(&place.images), &place.path, &mut warnings)?;
            let full = || SockmonError::TooManyPlaces { count: places.len(), max: abi::LISTS as usize };
            let number = match known.get(&merged.place) {
                Some(number) => *number,
                None => free.next().ok_or_else(full)?,
            };
            out.places.insert(place.path.clone(), number);
            out.numbered.insert(number, merged);
        }
        warnings.dedup();
        Ok((out, warnings))
    }

    /// The lists in force, from the kernel.
    pub fn in_force(maps: &Maps) -> Result<Lists, SockmonError> {
        let config = maps.config()?;
        let half = config.generation % 2;
        let mut out = Lists::default();
        for number in 0..config.lists.min(abi::LISTS) {
            let Some(list) = maps.read::<List>("lists", &(half * abi::LISTS + number))? else { continue };
            if number >= abi::LIST_FIRST && list.place == 0 {
                continue;
            }
            let mut choices = Vec::with_capacity(usize::from(list.count));
            for at in 0..u32::from(list.count) {
                choices.extend(maps.read::<Choice>("choices", &list.first.saturating_add(at))?);
            }
            let List { app, bits, place, pinned, .. } = list;
            out.numbered.insert(number, MergedList { choices, app, bits, place, pinned: pinned != 0 });
        }
        Ok(out)
    }

    /// Keep a list of before whose place is gone, for the processes that run what was there: as far as its applications have a
    /// policy and its qualifiers are those of this one. False: nothing is left of it.
    pub fn keep(&mut self, number: u32, old: &MergedList, policy: &Policy<'_>, spd: &Spd) -> bool {
        let stays = |app: u16| app != 0 && spd.get(AppId(app)).is_some();
        let bits: BTreeSet<u8> = policy.bits.values().map(|bit| bit + 1).collect();
        let slots: BTreeSet<u16> = policy.slots.values().copied().collect();
        let fits = |choice: &&Choice| {
            stays(choice.app)
                && (choice.from == 0 || bits.contains(&choice.from))
                && (choice.group == 0 || slots.contains(&choice.group))
        };
        let choices: Vec<Choice> = old.choices.iter().filter(fits).copied().collect();
        if choices.is_empty() && !stays(old.app) {
            return false;
        }
        let default = self.numbered.get(&abi::LIST_ANY).map_or(0, |any| any.app);
        let app = if stays(old.app) { old.app } else { default };
        let bits = old.bits & mask(policy.bits);
        self.numbered.insert(number, MergedList { choices, app, bits, place: old.place, pinned: old.pinned });
        true
    }

    /// The index in `choices`, within one half of it, at which the choices of each list begin. Equal lists share their
    /// choices.
    ///
    /// # Errors
    /// [`SockmonError::TooManyQualifiers`].
    pub fn arrange(&self, half: u32) -> Result<HashMap<&[Choice], u32>, SockmonError> {
        let (mut used, mut out) = (0, HashMap::<&[Choice], u32>::new());
        for choices in self.numbered.values().map(|merged| &merged.choices[..]) {
            if choices.is_empty() || out.contains_key(choices) {
                continue;
            }
            out.insert(choices, half * abi::CHOICES + used);
            used += choices.len() as u32;
            if used > abi::CHOICES {
                return Err(SockmonError::TooManyQualifiers { max: abi::CHOICES as usize });
            }
        }
        Ok(out)
    }

    /// Write the half of a generation. Numbers below `lists` that are not in use are those of programs that no subject names: executables
    /// that have one keep it until they are swept.
    pub fn write(&self, maps: &Maps, generation: u32, lists: u32) -> Result<(), SockmonError> {
        let half = generation % 2;
        let written = self.arrange(half)?;
        for (choices, first) in &written {
            for (at, choice) in (*first..).zip(*choices) {
                maps.write("choices", &at, choice)?;
            }
        }
        let in_kernel = |merged: &MergedList| List {
            bits: merged.bits,
            place: merged.place,
            first: written.get(&merged.choices[..]).copied().unwrap_or(0),
            count: merged.choices.len() as u16,
            app: merged.app,
            pinned: merged.pinned.into(),
            zero: 0,
        };
        let none = List { bits: 0, place: 0, first: 0, count: 0, app: 0, pinned: 0, zero: 0 };
        let unused =
            self.numbered.get(&abi::LIST_ANY).map_or(none, |any| List { place: 0, ..in_kernel(any) });
        for number in 0..lists.max(self.high()) {
            let list = self.numbered.get(&number).map_or(unused, in_kernel);
            maps.write("lists", &(half * abi::LISTS + number), &list)?;
        }
        Ok(())
    }

    /// The number behind the highest of the lists.
    pub fn high(&self) -> u32 {
        self.numbered.keys().next_back().map_or(abi::LIST_FIRST, |number| number + 1)
    }
}

/// The pairs of an application of `old` and one of `new` of which the first would lose processes to the second.
pub fn moved(old: &MergedList, new: &MergedList, is_program: bool) -> Vec<(AppId, AppId)> {
    let (before, now) = (old.apps(), new.apps());
    let qualifiers = |merged: &MergedList, app: AppId| {
        let choice = merged.choices.iter().find(|choice| choice.app == app.0);
        choice.map(|c| (c.first_user, c.last_user, c.group, c.from))
    };
    let mut out = Vec::new();
    for from in before.difference(&now) {
        // Of what is not about one program, only the same qualifiers mean the same processes.
        let follows =
            |to: &AppId| is_program || new.app == to.0 || qualifiers(old, *from) == qualifiers(new, *to);
        out.extend(now.iter().filter(|to| follows(to)).map(|to| (*from, *to)));
    }
    out
}
