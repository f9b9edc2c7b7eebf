//! What can go wrong between user space and the BPF programs, and what to do about it.

use std::io;
use std::path::PathBuf;
use wire::AppId;

/// An error of this room. [`SockmonError::remedy`] says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SockmonError {
    /// The kernel refused a step.
    #[error("{what}: {source}")]
    System {
        /// The step.
        what: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The object could not be loaded.
    #[error("cannot load the BPF programs: {source:#}")]
    Load {
        /// libbpf's answer.
        #[source]
        source: libbpf_rs::Error,
    },
    /// The pinned maps are those of another version.
    #[error("the maps pinned for instance `{instance}` have ABI {found}, this program needs {expected}")]
    Abi {
        /// The instance.
        instance: String,
        /// What is pinned.
        found: String,
        /// What is needed.
        expected: u32,
    },
    /// An earlier daemon of the instance has other bits of marks.
    #[error("sockets of instance `{instance}` have marks in the bits {found:#010x}, not {wanted:#010x}")]
    OtherMarks {
        /// The instance.
        instance: String,
        /// The bits they have.
        found: u32,
        /// The bits that are asked for.
        wanted: u32,
    },
    /// The mark has no room for an application's number.
    #[error("application number {} does not fit the mark, whose bits hold numbers up to {last}", app.0)]
    NoRoomInMark {
        /// The application.
        app: AppId,
        /// The last number that fits.
        last: u16,
    },
    /// The name of an instance becomes a file name.
    #[error("`{0}` is no name for an instance: use 1 to 32 of A-Z a-z 0-9 - _")]
    InstanceName(String),
    /// No cgroup v2 hierarchy is mounted.
    #[error("no cgroup v2 hierarchy is mounted")]
    NoCgroup,
    /// A protection has too many items.
    #[error("application {}: a protection has {count} items, at most {max} fit", app.0)]
    TooManyItems {
        /// The application.
        app: AppId,
        /// Items it has.
        count: usize,
        /// Items that fit.
        max: usize,
    },
    /// There are too many networks.
    #[error(
        "the policy has {new} networks that the one before had not, beside {before} that stay until it is in force: at most {max} fit"
    )]
    TooManyNetworks {
        /// Networks to write.
        new: usize,
        /// Networks of the policy before.
        before: usize,
        /// Networks that fit.
        max: usize,
    },
    /// There are too many protections.
    #[error(
        "the policy has {new} protections that the one before had not, beside {before} that stay until it is in force: at most {max} fit"
    )]
    TooManyProtections {
        /// Protections to write.
        new: usize,
        /// Protections of the policy before.
        before: usize,
        /// Protections that fit.
        max: usize,
    },
    /// Every number that a table or protection can have was given.
    #[error("every number for tables of policy was given out once")]
    NumbersUsedUp,
    /// Too many applications were renamed.
    #[error("the comparisons of renamed applications take {count} entries, at most {max} fit")]
    TooManyOrders {
        /// Entries, two for each pair that compares.
        count: usize,
        /// Entries that fit.
        max: usize,
    },
    /// An application's name is too long.
    #[error("application `{name}`: a name may have at most {max} octets and no zero octet")]
    Name {
        /// The name.
        name: String,
        /// Octets that fit.
        max: usize,
    },
    /// Too many subjects can fit one executable.
    #[error("{}: {count} subjects with qualifiers speak of it, at most {max} fit", path.display())]
    TooManyChoices {
        /// The executable.
        path: PathBuf,
        /// Subjects there are.
        count: usize,
        /// Subjects that fit.
        max: usize,
    },
    /// The subjects with qualifiers of all executables do not fit.
    #[error("the subjects with qualifiers of all executables take more than the {max} entries that fit")]
    TooManyQualifiers {
        /// Entries that fit.
        max: usize,
    },
    /// Too many executables are named.
    #[error("the policy names executables at {count} places, at most {max} fit")]
    TooManyPlaces {
        /// Places there are.
        count: usize,
        /// Places that fit.
        max: usize,
    },
    /// Too many applications limit what they accept.
    #[error(
        "{count} applications have `limit accept`, at most {max} can: each has a table of its sources in the kernel"
    )]
    TooManyAccepts {
        /// Applications there are.
        count: usize,
        /// Applications that fit.
        max: usize,
    },
    /// A file whose digest is asked for, by a name that the kernel half's table does not hold.
    #[error("{path}: the file name is too long for a file that must have a digest")]
    LongPin {
        /// The path.
        path: PathBuf,
    },
    /// Too many images behind `from`.
    #[error(
        "the policy names {count} programs behind `from`, at most {max} fit, those of the policy before included"
    )]
    TooManyAncestors {
        /// Programs there are.
        count: usize,
        /// Programs that fit.
        max: usize,
    },
    /// Too many control groups.
    #[error(
        "the policy names {count} control groups, at most {max} fit, those of the policy before included"
    )]
    TooManyGroups {
        /// Groups there are.
        count: usize,
        /// Groups that fit.
        max: usize,
    },
    /// The path of a control group is too long.
    #[error("control group {path}: a path may have at most {max} octets")]
    GroupPath {
        /// The path.
        path: String,
        /// Octets that fit.
        max: usize,
    },
    /// The root of the hierarchy cannot be seen.
    #[error(
        "control group {path}: this process is in a control group namespace, where paths mean something else"
    )]
    GroupNamespace {
        /// The path.
        path: String,
    },
    /// What the kernel reported cannot be read.
    #[error("{0}: the kernel's answer has an unexpected form")]
    Answer(&'static str),
}

impl SockmonError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> SockmonError {
        let what = what.into();
        move |source| SockmonError::System { what, source }
    }

    pub(crate) fn bpf(what: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> SockmonError {
        let what = what.into();
        move |error| SockmonError::System { what, source: io::Error::other(format!("{error:#}")) }
    }

    /// What to do next.
    pub fn remedy(&self) -> String {
        match self {
            SockmonError::System { source, .. } if source.raw_os_error() == Some(libc::EPERM) => {
                "run as root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, CAP_SYS_PTRACE); `ravelin doctor` shows what is missing".into()
            }
            SockmonError::System { source, .. } if source.raw_os_error() == Some(libc::ENOSPC) => {
                "a table in the kernel is full: make the policy smaller".into()
            }
            SockmonError::System { .. } | SockmonError::Load { .. } => {
                "`ravelin doctor` shows which kernel feature is missing".into()
            }
            SockmonError::Abi { instance, .. } => format!(
                "end the old daemon, run `ravelin detach --instance {instance}` (traffic is unprotected until the new daemon runs), start again"
            ),
            SockmonError::OtherMarks { instance, found, .. } => format!(
                "set mark_mask = {found:#010x}, or run `ravelin detach --instance {instance}` first (traffic is unprotected until the daemon runs)"
            ),
            SockmonError::NoRoomInMark { .. } => {
                "the policy in force stays; give mark_mask more bits, or start afresh with `ravelin detach`: names that left the policy keep their numbers".into()
            }
            SockmonError::InstanceName(_) => "choose another name".into(),
            SockmonError::NoCgroup => "mount it: `mount -t cgroup2 none /sys/fs/cgroup`".into(),
            SockmonError::TooManyItems { .. } => "merge items into port ranges".into(),
            SockmonError::TooManyNetworks { .. } => {
                "the policy in force stays; load it in two steps, or let applications have the same networks: equal blocks count once".into()
            }
            SockmonError::TooManyProtections { .. } => {
                "the policy in force stays; load it in two steps, or let protections be alike: equal ones count once".into()
            }
            SockmonError::TooManyOrders { .. } => {
                "the policy in force stays; take the names out under which applications were known before".into()
            }
            SockmonError::NumbersUsedUp => {
                "the policy in force stays; `ravelin detach` starts afresh (traffic is unprotected until the daemon runs again)".into()
            }
            SockmonError::Name { .. } => "give it a shorter name".into(),
            SockmonError::TooManyChoices { .. } | SockmonError::TooManyQualifiers { .. } => {
                "the policy in force stays; name fewer subjects with qualifiers for one program".into()
            }
            SockmonError::TooManyPlaces { .. } => {
                "the policy in force stays; write whole paths, since a bare name is a place in every standard directory".into()
            }
            SockmonError::TooManyAccepts { .. } => {
                "the policy in force stays; leave `limit accept` to the programs that serve, each subject of a list counts".into()
            }
            SockmonError::LongPin { .. } => {
                "the policy in force stays; use a shorter file name: a new file of this one would not be known at once".into()
            }
            SockmonError::TooManyAncestors { .. } | SockmonError::TooManyGroups { .. } => {
                "the policy in force stays; load one without those that go first, then this one".into()
            }
            SockmonError::GroupPath { .. } => "use a control group further up, and a program or user beside it".into(),
            SockmonError::GroupNamespace { .. } => "start the daemon outside of containers".into(),
            SockmonError::Answer(_) => "this is a defect; please report it with the kernel's version".into(),
        }
    }
}
