//! Diagnostics: what is wrong with a policy, where, and what to do about it. Codes are stable: tools and the manual
//! page (`docs/man/ravelin-policy.5.md`) refer to them, and a retired code is not used again.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::MAX_DIAGNOSTICS;
use crate::ast::quoted;
use crate::lexer::Span;

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something is worth knowing, and nothing is wrong.
    Note,
    /// The policy loads, but it may not say what its author meant.
    Warning,
    /// The block is left out of the policy.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

macro_rules! codes {
    ($($variant:ident $code:literal $severity:ident $title:literal;)*) => {
        /// A stable name for one kind of problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        impl Code {
            /// Every code there is.
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            /// The name of the code, as in `RVL-P101`.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $code,)* }
            }

            /// The severity of problems of this kind.
            pub fn severity(self) -> Severity {
                match self { $(Code::$variant => Severity::$severity,)* }
            }

            /// The kind of problem in a few words.
            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)* }
            }
        }
    };
}

codes! {
    UnknownCharacter "RVL-P001" Error "character that means nothing here";
    OpenQuote "RVL-P002" Error "quoted name without its closing quote";
    OpenComment "RVL-P003" Error "comment without its end";
    TooLong "RVL-P004" Error "policy text too long";
    UnknownEscape "RVL-P005" Error "unknown escape in a quoted name";
    NotUtf8 "RVL-P006" Error "text is not UTF-8";
    TooManyProblems "RVL-P007" Warning "too many problems";
    TooManyStatements "RVL-P008" Error "too many statements";
    ExpectedApplication "RVL-P101" Error "expected an application block";
    ExpectedName "RVL-P102" Error "expected an application name";
    ExpectedOpen "RVL-P103" Error "expected an opening brace";
    ExpectedSetting "RVL-P104" Error "expected a network or protection setting";
    ExpectedAddress "RVL-P105" Error "expected an address range";
    ExpectedType "RVL-P106" Error "expected a network type";
    ExpectedProtection "RVL-P107" Error "expected a protection name";
    ExpectedSemicolon "RVL-P108" Error "expected a semicolon";
    ExpectedItem "RVL-P109" Error "expected a protection item";
    ExpectedPort "RVL-P110" Error "expected a port";
    ExpectedService "RVL-P111" Error "expected a protection type";
    ExpectedLevel "RVL-P112" Error "expected a protection level";
    MissingClose "RVL-P113" Error "missing closing brace";
    OtherSyntax "RVL-P114" Error "not in this syntax";
    ExpectedSyntax "RVL-P115" Error "expected a syntax version";
    ExpectedQualifier "RVL-P116" Error "expected the value of a qualifier";
    ExpectedOption "RVL-P117" Error "expected an option of an item";
    ExpectedTest "RVL-P118" Error "expected a line of a test";
    ExpectedLimit "RVL-P121" Error "expected a limit";
    BadAddress "RVL-P201" Error "not an address";
    PrefixTooLong "RVL-P202" Error "prefix length out of range";
    ReversedRange "RVL-P203" Error "address range reversed";
    MixedFamilies "RVL-P204" Error "address range mixes IPv4 and IPv6";
    PortOutOfRange "RVL-P205" Error "port out of range";
    ReversedPorts "RVL-P206" Error "port range reversed";
    BadName "RVL-P207" Error "not an application name";
    BadHost "RVL-P208" Error "not a host name";
    BadProtocol "RVL-P209" Error "not a protocol";
    UnknownService "RVL-P210" Error "not the name of a service";
    BadSuite "RVL-P211" Error "not a suite";
    BadUser "RVL-P212" Error "not a user";
    BadGroup "RVL-P213" Error "not a unit or control group";
    BadTarget "RVL-P214" Error "not a flow";
    BadDigest "RVL-P215" Error "not a digest";
    PinWithoutPath "RVL-P216" Error "digest without a path";
    BadScrub "RVL-P217" Error "not a scrub profile";
    BadAlone "RVL-P218" Error "`alone` missing or out of place";
    BadLimit "RVL-P221" Error "not a limit";
    DuplicateApplication "RVL-P301" Error "application has two blocks";
    DuplicateProtection "RVL-P302" Error "protection named twice";
    UndefinedProtection "RVL-P303" Error "protection is not defined";
    EqualNetworks "RVL-P304" Error "two settings for the same network";
    EmptyProtection "RVL-P305" Error "protection without items";
    TooManyItems "RVL-P306" Error "too many items in a protection";
    TooManyNetworks "RVL-P307" Error "too many networks";
    TooManyApplications "RVL-P308" Error "too many applications";
    RepeatedPart "RVL-P309" Error "part given twice";
    Contradiction "RVL-P310" Error "parts of an item contradict one another";
    NoClass "RVL-P311" Error "no such class in the graph";
    NoScrub "RVL-P312" Error "scrub profile that cannot be enforced here";
    UnknownUser "RVL-P313" Error "user is not known on this host";
    AmbiguousUsers "RVL-P314" Error "users overlap in part";
    ImpossibleSubject "RVL-P315" Error "impossible combination of qualifiers";
    BrokenProtection "RVL-P316" Error "protection for every block has errors";
    TooManyExpectations "RVL-P317" Error "too many lines of tests";
    TooManyHosts "RVL-P320" Error "too many host names";
    GuardProtects "RVL-P330" Error "`guard` has no protections";
    PinsDiffer "RVL-P340" Error "digests of one path differ";
    TooManyDigests "RVL-P341" Error "too many digests";
    LongPin "RVL-P342" Error "name of a pinned file too long";
    RepeatedLimit "RVL-P343" Error "limit given twice";
    GuardLimits "RVL-P344" Error "`guard` has no limits";
    HostBits "RVL-P402" Warning "host bits set in a prefix";
    UnusedProtection "RVL-P403" Warning "protection is not used";
    ShadowedItem "RVL-P404" Warning "item never decides";
    PortsNotCovered "RVL-P405" Warning "items do not cover every port";
    EmptyApplication "RVL-P406" Warning "application block without networks";
    ShadowedNetwork "RVL-P407" Warning "network never decides";
    PartialOverlap "RVL-P408" Warning "address ranges overlap in part";
    RepeatedName "RVL-P409" Warning "application named twice in one list";
    NameAndPath "RVL-P410" Warning "program named by path and by bare name";
    EmptyPolicy "RVL-P411" Warning "policy without applications";
    UnknownUnit "RVL-P412" Warning "unit without a unit file";
    LegacySuite "RVL-P413" Warning "legacy suite";
    UnknownProgram "RVL-P414" Warning "program that this host does not have";
    ScriptProgram "RVL-P415" Warning "program that is a script";
    ClearByName "RVL-P420" Warning "clear text by the word of the DNS";
    UnknownInClear "RVL-P421" Warning "unknown addresses of a name are in clear";
    Observed "RVL-P422" Warning "observed: nothing of it is protected";
    RepeatedDigest "RVL-P430" Warning "digest given twice";
    PeersNotCovered "RVL-P501" Note "some peers are in no network";
    HidesProtection "RVL-P502" Note "protection hides one for every block";
    WeakIdentity "RVL-P510" Note "network known by its name only";
    FailedTest "RVL-P601" Error "expectation that does not come true";
}

impl Code {
    /// Whether it is an error of the letters or the grammar, so that the meaning of the statement is not known.
    pub(crate) fn is_grammar(self) -> bool {
        self.severity() == Severity::Error && self < Code::DuplicateApplication
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A place as an editor counts it: line and column from 1, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
}

/// A second place that belongs to a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Related {
    /// A description of what is there.
    pub message: String,
    /// The position where it starts.
    pub at: Position,
    /// The octets of it in the text.
    #[serde(skip)]
    pub span: Span,
}

/// A problem found in a policy text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The kind of the problem.
    pub code: Code,
    /// The severity of the problem.
    pub severity: Severity,
    /// The file's name as the caller gave it.
    pub file: String,
    /// The line where it starts, counted from 1.
    pub line: usize,
    /// The column where it starts, in characters, counted from 1.
    pub column: usize,
    /// The position one past its last character.
    pub end: Position,
    /// A description of what is wrong.
    pub message: String,
    /// The words that would have been right here, if the grammar decides that.
    pub expected: Vec<String>,
    /// What to do about it.
    pub help: String,
    /// A few words for the marked place.
    #[serde(skip)]
    pub label: String,
    /// Other places that belong to the problem.
    pub related: Vec<Related>,
    /// The octets of it in the text.
    #[serde(skip)]
    pub span: Span,
}

impl Diagnostic {
    pub(crate) fn new(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: code.severity(),
            file: String::new(),
            line: 0,
            column: 0,
            end: Position::default(),
            message: message.into(),
            expected: Vec::new(),
            help: String::new(),
            label: String::new(),
            related: Vec::new(),
            span,
        }
    }

    pub(crate) fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = help.into();
        self
    }

    pub(crate) fn expected(mut self, words: &[&str]) -> Diagnostic {
        self.expected = words.iter().map(ToString::to_string).collect();
        self
    }

    pub(crate) fn related(mut self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.related.push(Related { message: message.into(), at: Position::default(), span });
        self
    }

    /// The text to write instead of which octets, where that is mechanical: a slip of the fingers, or a missing sign.
    pub fn fix(&self) -> Option<(Span, String)> {
        let text = match self.code {
            Code::ExpectedSemicolon => ";".into(),
            Code::MissingClose => "\n}".into(),
            _ => {
                let word = self.help.strip_prefix("did you mean `")?.strip_suffix("`?")?;
                // What is shown is cut when it is long, and escaped.
                if word.ends_with("...") || word.contains(char::is_control) || word.contains('\\') {
                    return None;
                }
                quoted(word)
            }
        };
        Some((self.span, text))
    }

    /// The diagnostic with its places moved on by `by` octets, with overflow, so that `by` may lead back.
    pub(crate) fn moved(&self, by: u32) -> Diagnostic {
        let mut out = self.clone();
        out.span = out.span.moved(by);
        out.related.iter_mut().for_each(|related| related.span = related.span.moved(by));
        out
    }

    /// Whether the problem takes its block out of the policy.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// An index of where lines start, and how many characters are before each block of octets. A place is found at once
/// with it, however long a line is.
#[derive(Debug)]
pub(crate) struct Lines {
    starts: Vec<usize>,
    characters: Vec<usize>,
}

const BLOCK: usize = 256;

impl Lines {
    pub(crate) fn new(text: &str) -> Lines {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let sums = text.as_bytes().chunks(BLOCK).scan(0, |sum, block| {
            *sum += characters(block);
            Some(*sum)
        });
        Lines { starts, characters: std::iter::once(0).chain(sums).collect() }
    }

    /// The index of the line that holds the octet at `offset`.
    fn index(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset).saturating_sub(1)
    }

    /// Number of characters that start before `offset`.
    fn before(&self, text: &str, offset: usize) -> usize {
        let block = (offset / BLOCK).min(self.characters.len() - 1);
        let rest = text.as_bytes().get(block * BLOCK..offset.min(text.len())).unwrap_or_default();
        self.characters[block] + characters(rest)
    }

    pub(crate) fn position(&self, text: &str, offset: usize) -> Position {
        let index = self.index(offset);
        let column = self.before(text, offset) - self.before(text, self.starts[index]) + 1;
        Position { line: index + 1, column }
    }

    /// The text of the lines from the one with `start` to the one with `end`, the offset of its first octet, and the
    /// number of the first line.
    pub(crate) fn around<'t>(&self, text: &'t str, start: usize, end: usize) -> (&'t str, usize, usize) {
        let first = self.index(start);
        let last = self.index(end.max(start));
        let from = self.starts[first];
        let to = self.starts.get(last + 1).map_or(text.len(), |next| next - 1);
        (text.get(from..to).unwrap_or(""), from, first + 1)
    }
}

/// The text up to the end of the line that holds the last place of all these diagnostics.
pub(crate) fn as_far_as<'t>(text: &'t str, found: &[Diagnostic]) -> &'t str {
    let ends = found.iter().flat_map(|one| one.related.iter().map(|r| r.span).chain([one.span]));
    let last = ends.map(|span| span.end as usize).max().unwrap_or(0);
    let rest = text.as_bytes().get(last..).unwrap_or_default();
    let line = rest.iter().position(|octet| *octet == b'\n');
    line.and_then(|line| text.get(..last + line + 1)).unwrap_or(text)
}

/// Number of octets that start a character.
fn characters(text: &[u8]) -> usize {
    text.iter().filter(|octet| **octet & 0xc0 != 0x80).count()
}

/// A collector of problems: up to [`MAX_DIAGNOSTICS`] errors, and as many warnings and notes.
#[derive(Default)]
pub(crate) struct Sink {
    found: Vec<Diagnostic>,
    errors: usize,
    others: usize,
    /// The problems since the mark. `None` after an error, or if there are too many to remember.
    recent: Option<Vec<Diagnostic>>,
}

/// The most warnings and notes of one block that are remembered.
const REMEMBERED: usize = 32;

impl Sink {
    /// Whether one more error would be shown.
    pub(crate) fn shows_errors(&self) -> bool {
        self.errors < MAX_DIAGNOSTICS
    }

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        match &mut self.recent {
            Some(recent) if !diagnostic.is_error() && recent.len() < REMEMBERED => {
                recent.push(diagnostic.clone());
            }
            recent => *recent = None,
        }
        self.count(diagnostic.severity, || diagnostic);
    }

    /// Whether one more warning or note would be shown.
    pub(crate) fn shows_warnings(&self) -> bool {
        self.others < MAX_DIAGNOSTICS
    }

    /// Counts a problem as [`Sink::push`] does, for one like this that is made only if it is shown.
    pub(crate) fn push_from(&mut self, like: &Diagnostic, make: impl FnOnce() -> Diagnostic) {
        self.recent = None;
        self.count(like.severity, make);
    }

    fn count(&mut self, severity: Severity, make: impl FnOnce() -> Diagnostic) {
        let is_error = severity == Severity::Error;
        let count = if is_error { &mut self.errors } else { &mut self.others };
        *count += 1;
        if *count <= MAX_DIAGNOSTICS {
            self.found.push(make());
        } else if *count == MAX_DIAGNOSTICS + 1 {
            let what = if is_error { "errors" } else { "warnings and notes" };
            let message = format!("more than {MAX_DIAGNOSTICS} {what}; the rest are not shown");
            self.found.push(
                Diagnostic::new(Code::TooManyProblems, make().span, message)
                    .label("the next one is here")
                    .help("correct the first ones and check again"),
            );
        }
    }

    /// Marks the beginning of a part whose warnings and notes may be wanted.
    pub(crate) fn mark(&mut self) {
        self.recent = Some(Vec::new());
    }

    /// The problems since the mark. `None` after an error, or if there were too many.
    pub(crate) fn since_mark(&mut self) -> Option<Vec<Diagnostic>> {
        self.recent.take()
    }

    /// Whether an error was found.
    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Everything that was found, in the order of the text, with places filled in.
    pub(crate) fn finish(mut self, file: &str, text: &str) -> Vec<Diagnostic> {
        if self.found.is_empty() {
            return self.found;
        }
        let text = as_far_as(text, &self.found);
        let lines = Lines::new(text);
        for diagnostic in &mut self.found {
            let at = lines.position(text, diagnostic.span.start as usize);
            (diagnostic.line, diagnostic.column) = (at.line, at.column);
            diagnostic.end = lines.position(text, diagnostic.span.end as usize);
            diagnostic.file = file.into();
            for related in &mut diagnostic.related {
                related.at = lines.position(text, related.span.start as usize);
            }
        }
        self.found.sort_by_key(|d| (d.code == Code::TooManyProblems, d.span.start));
        self.found
    }
}

/// A piece of untrusted text made fit for a message: control characters are escaped, and a long text is cut.
pub(crate) fn show(text: &str) -> String {
    let mut out: String = text.chars().take(48).flat_map(visible).collect();
    if text.chars().nth(48).is_some() {
        out.push_str("...");
    }
    out
}

fn visible(c: char) -> Vec<char> {
    if c.is_control() { c.escape_default().collect() } else { vec![c] }
}
