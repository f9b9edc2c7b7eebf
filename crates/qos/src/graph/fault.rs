//! Faults of a graph, with their places in its text.

use std::fmt;
use std::ops::Range;

/// A fault of a graph: where it stands, what is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The octets of the text that are at fault.
    pub span: Range<usize>,
    /// The kind of the fault.
    pub code: Code,
    /// The sentence that says what is wrong.
    pub message: String,
    /// The sentence that says what to do about it.
    pub remedy: String,
}

impl Fault {
    /// The fault as `file:line:column: code: message`, with the remedy on a line of its own.
    pub fn show(&self, file: &str, text: &str) -> String {
        let Place { line, column } = Place::of(text, self.span.start);
        let Fault { code, message, remedy, .. } = self;
        format!("{file}:{line}:{column}: {code}: {message}\n  help: {remedy}\n")
    }
}

/// A place in a text, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number of the line.
    pub line: usize,
    /// The number of the character in the line.
    pub column: usize,
}

impl Place {
    /// The place of the octet `at`, which may lie behind the text or inside a character.
    pub fn of(text: &str, at: usize) -> Place {
        let start = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let before = text.get(..start).unwrap_or("");
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before.get(line_start..).unwrap_or("").chars().count() + 1;
        Place { line: before.matches('\n').count() + 1, column }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// The kind of a fault. Its number is part of the printed text and never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $name = $number,)* }

        impl Code {
            /// Every kind there is.
            pub const EVERY: &[Code] = &[$(Code::$name,)*];
        }
    };
}

codes! {
    /// The text is no TOML.
    Syntax = 101,
    /// A key that nobody knows.
    UnknownKey = 102,
    /// A value of another type.
    WrongType = 103,
    /// A value outside of its range.
    OutOfRange = 104,
    /// A key that must be there and is not.
    MissingKey = 105,
    /// A kind of component that nobody knows.
    UnknownKind = 106,
    /// A setting that the kind of component does not have.
    UnknownSetting = 107,
    /// A word that is none of those which may stand there.
    UnknownWord = 108,
    /// The short form and the full form in one text.
    MixedForms = 109,
    /// A text that cannot be a name.
    BadName = 111,
    /// A name that nothing in the graph has.
    UnknownName = 201,
    /// A name or an entry that stands twice.
    Duplicate = 202,
    /// More of something than there can be.
    TooMany = 203,
    /// A part that nothing leads to.
    Unreached = 204,
    /// A library that the configuration does not name, or that is not loaded.
    NoLibrary = 205,
    /// A class whose packets an earlier class takes.
    SameMatch = 301,
    /// A class that no packet can match.
    MatchesNothing = 302,
    /// No class takes what the others leave.
    NoRest = 303,
    /// A class that something outside names and the graph lacks.
    ClassMissing = 305,
    /// A class that has no queue in a hook where others have one.
    ClassWithoutQueue = 306,
    /// A class that has two queues in one hook.
    ClassTwice = 307,
    /// A class in the place of a preset's that goes first, without a word about priority. It is a warning.
    LostPriority = 308,
    /// A component in a hook where it cannot work.
    WrongHook = 401,
    /// A component of another kind than its place needs.
    WrongPlace = 402,
    /// Schedulers that lead to themselves.
    Cycle = 403,
    /// Queues without a classifier in front.
    NoClassifier = 405,
    /// Two hooks at one place.
    TwoHooks = 406,
    /// A queue or scheduler with two parents.
    TwoParents = 407,
    /// Parameters that a library refuses.
    RefusedParameters = 408,
    /// Strict priority without a policer.
    UnpolicedPriority = 501,
    /// Shares that add up to more than the whole.
    SharesBeyond = 502,
    /// A quantum that serves nothing, or less than a packet.
    QuantumTooSmall = 503,
    /// A scheduler without children.
    NoChildren = 504,
    /// A property that nothing looks at: of a child, by its discipline, or the weight of a profile of users.
    IdleProperty = 505,
    /// A guard that takes from the policed classes what they were promised.
    GuardTooLow = 506,
    /// A limit below one packet.
    LimitTooSmall = 601,
    /// A queue without a limit.
    NoLimit = 602,
    /// Thresholds in the wrong order.
    ThresholdOrder = 603,
    /// A class of assured forwarding in several queues.
    SplitOrder = 605,
    /// A suite without a unit.
    NoUnit = 701,
    /// A low mark above the high one.
    MarksCrossed = 702,
    /// A class without a unit that may serve it.
    ClassWithoutUnit = 703,
    /// Committed work bounded below the marks.
    CommittedTooLow = 704,
    /// A promised delay that the bound exceeds.
    DelayExceeded = 801,
    /// A rate beyond the uplink.
    RateBeyondUplink = 802,
    /// A replay window too small for the reordering between classes.
    WindowTooSmall = 803,
    /// More kernel queues than there can be.
    TooManyKernelQueues = 901,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RVL-Q{}", *self as u16)
    }
}

/// The name among `known` that is nearest to `word`, if one is near.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let near = known.into_iter().map(|k| (strsim::damerau_levenshtein(word, k), k)).min()?;
    let letters = word.chars().count();
    // Half of a short word is no likeness.
    (near.0 <= 1 + letters / 4 && 2 * near.0 < letters).then_some(near.1)
}

/// A remedy for an unknown word: the nearest one, or the list of `known` ones.
pub fn meant<'k>(word: &str, known: impl IntoIterator<Item = &'k str> + Clone) -> String {
    if let Some(near) = nearest(word, known.clone()) {
        return format!("did you mean `{near}`?");
    }
    let list: Vec<&str> = known.into_iter().collect();
    if list.is_empty() {
        "there is none yet: define it first".to_owned()
    } else {
        format!("known: {}", list.join(", "))
    }
}
