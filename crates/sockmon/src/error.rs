//! The errors between user space and the BPF programs, each with what to do about it.

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
        /// The step that the kernel refused, as words to print.
        what: String,
        /// The kernel's answer to it.
        #[source]
        source: io::Error,
    },
    /// The object could not be loaded.
    #[error("cannot load the BPF programs: {source:#}")]
    Load {
        /// The error that libbpf returned.
        #[source]
        source: libbpf_rs::Error,
    },
    /// The pinned maps are those of another version.
    #[error("the maps pinned for instance `{instance}` have ABI {found}, this program needs {expected}")]
    Abi {
        /// The name of the instance.
        instance: String,
        /// The ABI of the maps that are pinned.
        found: String,
        /// The ABI that this program needs.
        expected: u32,
    },
    /// An earlier daemon of the instance has other bits of marks.
    #[error("sockets of instance `{instance}` have marks in the bits {found:#010x}, not {wanted:#010x}")]
    OtherMarks {
        /// The name of the instance.
        instance: String,
        /// The bits that the sockets' marks have now.
        found: u32,
        /// The bits that are asked for.
        wanted: u32,
    },
    /// The mark has no room for an application's number.
    #[error("application number {} does not fit the mark, whose bits hold numbers up to {last}", app.0)]
    NoRoomInMark {
        /// The application whose number does not fit.
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
        /// The application with this protection.
        app: AppId,
        /// The number of items that the protection has.
        count: usize,
        /// The largest number of items that fits.
        max: usize,
    },
    /// There are too many networks.
    #[error(
        "the policy has {new} networks that the one before had not, beside {before} that stay until it is in force: at most {max} fit"
    )]
    TooManyNetworks {
        /// The number of networks that would have to be written.
        new: usize,
        /// The number of networks that the policy before has.
        before: usize,
        /// The largest number of networks that fits.
        max: usize,
    },
    /// There are too many protections.
    #[error(
        "the policy has {new} protections that the one before had not, beside {before} that stay until it is in force: at most {max} fit"
    )]
    TooManyProtections {
        /// The number of protections that would have to be written.
        new: usize,
        /// The number of protections that the policy before has.
        before: usize,
        /// The largest number of protections that fits.
        max: usize,
    },
    /// Every number that a table or protection can have was given.
    #[error("every number for tables of policy was given out once")]
    NumbersUsedUp,
    /// Too many applications were renamed.
    #[error("the comparisons of renamed applications take {count} entries, at most {max} fit")]
    TooManyOrders {
        /// The number of entries needed, two for each pair that compares.
        count: usize,
        /// The largest number of entries that fits.
        max: usize,
    },
    /// An application's name is too long.
    #[error("application `{name}`: a name may have at most {max} octets and no zero octet")]
    Name {
        /// The name that was refused.
        name: String,
        /// The largest number of octets that a name may have.
        max: usize,
    },
    /// Too many subjects can fit one executable.
    #[error("{}: {count} subjects with qualifiers speak of it, at most {max} fit", path.display())]
    TooManyChoices {
        /// The path of the executable.
        path: PathBuf,
        /// The number of subjects with qualifiers that speak of it.
        count: usize,
        /// The largest number of such subjects that fits.
        max: usize,
    },
    /// The subjects with qualifiers of all executables do not fit.
    #[error("the subjects with qualifiers of all executables take more than the {max} entries that fit")]
    TooManyQualifiers {
        /// The largest number of entries that fits.
        max: usize,
    },
    /// Too many executables are named.
    #[error("the policy names executables at {count} places, at most {max} fit")]
    TooManyPlaces {
        /// The number of places that the policy needs.
        count: usize,
        /// The largest number of places that fits.
        max: usize,
    },
    /// Too many applications limit what they accept.
    #[error(
        "{count} applications have `limit accept`, at most {max} can: each has a table of its sources in the kernel"
    )]
    TooManyAccepts {
        /// The number of applications that have such a limit.
        count: usize,
        /// The largest number of applications that may have one.
        max: usize,
    },
    /// A file whose digest is asked for, by a name that the kernel half's table does not hold.
    #[error("{path}: the file name is too long for a file that must have a digest")]
    LongPin {
        /// The path whose file name is too long.
        path: PathBuf,
    },
    /// Too many images behind `from`.
    #[error(
        "the policy names {count} programs behind `from`, at most {max} fit, those of the policy before included"
    )]
    TooManyAncestors {
        /// The number of programs that the policy names behind `from`.
        count: usize,
        /// The largest number of programs that fits.
        max: usize,
    },
    /// Too many control groups.
    #[error(
        "the policy names {count} control groups, at most {max} fit, those of the policy before included"
    )]
    TooManyGroups {
        /// The number of control groups that the policy names.
        count: usize,
        /// The largest number of control groups that fits.
        max: usize,
    },
    /// The path of a control group is too long.
    #[error("control group {path}: a path may have at most {max} octets")]
    GroupPath {
        /// The path of the control group.
        path: String,
        /// The largest number of octets that a path may have.
        max: usize,
    },
    /// The root of the hierarchy cannot be seen.
    #[error(
        "control group {path}: this process is in a control group namespace, where paths mean something else"
    )]
    GroupNamespace {
        /// The path of the control group.
        path: String,
    },
    /// A report of the kernel cannot be read.
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

    /// The next step for the operator.
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
