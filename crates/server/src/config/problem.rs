//! Where values come from, and what can be wrong with them.

use super::listen::UrlError;
use crate::ErrorCode;
use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// A file.
    File(Location),
    /// An environment variable of this name.
    Env(String),
    /// A flag, as it was written.
    Flag(String),
}

/// `default`, `meridian.toml:3`, `MERIDIAN_LOG_LEVEL`, `--set log.level=debug`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(location) => write!(f, "{}:{}", location.path.display(), location.line),
            Self::Env(text) | Self::Flag(text) => f.write_str(text),
        }
    }
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// As it was given.
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// Characters concerned, at least 1.
    pub len: usize,
    /// The line itself, tabs replaced by single spaces.
    pub text: String,
}

impl Location {
    /// The place of a span of bytes in a file's text; a span of several lines counts to the end of its first.
    pub(super) fn new(path: PathBuf, source: &str, span: std::ops::Range<usize>) -> Self {
        let start = span.start.min(source.len());
        let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
        let text = source[line_start..].lines().next().unwrap_or_default();
        let line_end = line_start + text.len();
        let end = span.end.clamp(start, line_end.max(start));
        Self {
            path,
            line: source[..line_start].matches('\n').count() + 1,
            column: source[line_start..start].chars().count() + 1,
            len: source[start..end].chars().count().max(1),
            text: text.replace('\t', " "),
        }
    }
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file cannot be read.
    #[error("the configuration file cannot be read")]
    Unreadable(#[source] std::io::Error),
    /// The file is not TOML.
    #[error("{message}")]
    Syntax {
        /// What the parser says.
        message: String,
    },
    /// No table of this name.
    #[error("unknown section [{name}]")]
    UnknownSection {
        /// As written.
        name: String,
    },
    /// No key of this name in its table.
    #[error("unknown key `{name}` in [{section}]")]
    UnknownKey {
        /// The table.
        section: String,
        /// As written.
        name: String,
    },
    /// A variable whose name is nearly that of a key.
    #[error("unknown variable {name}")]
    UnknownVariable {
        /// As written.
        name: String,
    },
    /// A key outside of any table.
    #[error("the key `{name}` is in no section")]
    NoSection {
        /// As written.
        name: String,
    },
    /// A table where an array of tables is needed, or the reverse, or a value.
    #[error("expected {expected}, found {found}")]
    NotATable {
        /// Such as `[[listener]]`.
        expected: String,
        /// What was written.
        found: String,
    },
    /// A value of the wrong type or form.
    #[error("`{key}`: expected {expected}, found {found}")]
    WrongValue {
        /// Its path.
        key: String,
        /// What it should look like.
        expected: String,
        /// What was written.
        found: String,
    },
    /// A `--set` that is not `section.key=value`.
    #[error("expected section.key=value")]
    BadSet,
    /// No listener or class of this number.
    #[error("there is no {section}[{index}], only {count} of them, counted from 0")]
    NoSuchIndex {
        /// `listener` or `class`.
        section: String,
        /// As written.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// An address that cannot be listened on.
    #[error("`{key}` is no address to listen on")]
    BadUrl {
        /// Its path.
        key: String,
        /// Why.
        source: UrlError,
    },
    /// A log level that is none.
    #[error("`{key}` is no level")]
    BadLevel {
        /// Its path.
        key: String,
        /// Why.
        source: crate::log::LevelError,
    },
    /// A value that is well formed, but makes no sense.
    #[error("`{key}`: {rule}, found {found}")]
    Invalid {
        /// Its path.
        key: String,
        /// What holds for it.
        rule: String,
        /// The value.
        found: String,
    },
}

impl Fault {
    /// Its stable code.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Unreadable(_) => ErrorCode::FileUnreadable,
            Self::Syntax { .. } => ErrorCode::Syntax,
            Self::UnknownSection { .. } => ErrorCode::UnknownSection,
            Self::UnknownKey { .. } => ErrorCode::UnknownKey,
            Self::UnknownVariable { .. } => ErrorCode::UnknownVariable,
            Self::NoSection { .. } => ErrorCode::NoSection,
            Self::NotATable { .. } => ErrorCode::NotATable,
            Self::WrongValue { .. } => ErrorCode::WrongValue,
            Self::BadSet => ErrorCode::BadSet,
            Self::NoSuchIndex { .. } => ErrorCode::NoSuchIndex,
            Self::BadUrl { .. } => ErrorCode::BadUrl,
            Self::BadLevel { .. } => ErrorCode::BadLevel,
            Self::Invalid { .. } => ErrorCode::Invalid,
        }
    }
}

/// One thing that is wrong, where, and what to do. Its `Display` is several lines long and made for a terminal:
///
/// ```text
/// meridian.toml:3:1: unknown key `recieve_maximum` in [mqtt]
///   3 | recieve_maximum = 10
///     | ^^^^^^^^^^^^^^^
///   help: did you mean `receive_maximum`?
/// ```
#[derive(Debug)]
pub struct Problem {
    /// Where the value was written.
    pub origin: Origin,
    /// What is wrong with it.
    pub fault: Fault,
    /// What to do.
    pub help: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.origin)?;
        write!(f, "{}", self.fault)?;
        let mut source = std::error::Error::source(&self.fault);
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        write_snippet(f, &self.origin)?;
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

/// Something odd that does not stand in the way of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where it was written.
    pub origin: Origin,
    /// What is odd, and what follows from it.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.origin)?;
        f.write_str(&self.text)
    }
}

fn write_place(f: &mut fmt::Formatter<'_>, origin: &Origin) -> fmt::Result {
    match origin {
        Origin::Default => Ok(()),
        Origin::File(place) => write!(f, "{}:{}:{}: ", place.path.display(), place.line, place.column),
        Origin::Env(text) | Origin::Flag(text) => write!(f, "{text}: "),
    }
}

fn write_snippet(f: &mut fmt::Formatter<'_>, origin: &Origin) -> fmt::Result {
    let Origin::File(place) = origin else { return Ok(()) };
    if place.text.trim().is_empty() {
        return Ok(());
    }
    let number = place.line.to_string();
    let (margin, indent) = (" ".repeat(number.len()), " ".repeat(place.column - 1));
    write!(f, "\n  {number} | {}\n  {margin} | {indent}{}", place.text, "^".repeat(place.len))
}
