//! Values: how they are read from TOML, flags and variables, and printed.

use std::fmt;
use toml::de::DeValue;

/// A value as it was written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Raw<'a> {
    /// In a file.
    Toml(&'a DeValue<'a>),
    /// In a flag or variable, without quotes.
    Bare(&'a str),
}

impl Raw<'_> {
    /// The text of a string.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Bare(text) => Some(text),
            Self::Toml(value) => value.as_str(),
        }
    }

    /// A whole number, or `None` if it is none or does not fit.
    fn integer(&self) -> Option<u64> {
        match self {
            Self::Bare(text) => text.replace('_', "").parse().ok(),
            Self::Toml(value) => {
                let integer = value.as_integer()?;
                u64::from_str_radix(integer.as_str(), integer.radix()).ok()
            }
        }
    }
}

/// What was written, for messages.
impl fmt::Display for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bare(text) => write!(f, "\"{text}\""),
            Self::Toml(DeValue::String(text)) => write!(f, "\"{text}\""),
            Self::Toml(DeValue::Integer(integer)) => write!(f, "{integer}"),
            Self::Toml(DeValue::Boolean(value)) => write!(f, "{value}"),
            Self::Toml(DeValue::Array(_)) => f.write_str("an array"),
            Self::Toml(value) => write!(f, "a {}", value.type_str()),
        }
    }
}

/// A type that a key can have.
pub(super) trait Value: Sized {
    /// The words it takes, if it takes nothing else.
    const WORDS: &'static [&'static str] = &[];
    /// What it looks like, as in "expected …".
    fn expects() -> String;
    /// Reads it; `None` if it is not what is expected.
    fn read(raw: &Raw<'_>) -> Option<Self>;
    /// It as a TOML literal; `None` if unset.
    fn write(&self) -> Option<String>;
}

macro_rules! integer {
    ($type:ty, $expects:literal) => {
        impl Value for $type {
            fn expects() -> String {
                $expects.to_owned()
            }

            fn read(raw: &Raw<'_>) -> Option<Self> {
                raw.integer()?.try_into().ok()
            }

            fn write(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    };
}

integer!(u16, "a whole number up to 65535");
integer!(u32, "a whole number up to 4294967295");
integer!(usize, "a whole number");

impl Value for bool {
    const WORDS: &'static [&'static str] = &["true", "false"];

    fn expects() -> String {
        "true or false".to_owned()
    }

    fn read(raw: &Raw<'_>) -> Option<Self> {
        match raw {
            Raw::Toml(value) => value.as_bool(),
            Raw::Bare(text) => text.parse().ok(),
        }
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for String {
    fn expects() -> String {
        "text in quotes".to_owned()
    }

    fn read(raw: &Raw<'_>) -> Option<Self> {
        raw.text().map(str::to_owned)
    }

    fn write(&self) -> Option<String> {
        Some(toml::Value::from(self.as_str()).to_string())
    }
}

impl<T: Value> Value for Option<T> {
    const WORDS: &'static [&'static str] = T::WORDS;

    fn expects() -> String {
        T::expects()
    }

    fn read(raw: &Raw<'_>) -> Option<Self> {
        T::read(raw).map(Some)
    }

    fn write(&self) -> Option<String> {
        self.as_ref().and_then(T::write)
    }
}

/// Defines an enum whose values are words.
macro_rules! word_enum {
    (
        $(#[doc = $doc:literal])+
        $name:ident { $($(#[doc = $variant_doc:literal])+ $variant:ident = $word:literal,)+ }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[doc = $variant_doc])+ $variant,)+
        }

        impl $name {
            /// Its word in the configuration.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl $crate::config::value::Value for $name {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn expects() -> String {
                $crate::config::value::one_of(Self::WORDS)
            }

            fn read(raw: &$crate::config::value::Raw<'_>) -> Option<Self> {
                match String::read(raw)?.as_str() {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }

            fn write(&self) -> Option<String> {
                Some(format!("\"{}\"", self.word()))
            }
        }
    };
}
pub(super) use word_enum;

/// `"a", "b" or "c"`.
pub(super) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// A span of time, written as "500ms", "30s", "5 min", "1h", "2d" or several of them ("1h 30min").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub std::time::Duration);

/// A size, written as 512, "64 KiB", "10 MiB" or "1 GiB" (or kB, MB, GB for powers of ten).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// A span in seconds.
pub(super) const fn secs(secs: u64) -> Duration {
    Duration(std::time::Duration::from_secs(secs))
}

/// A span in days.
pub(super) const fn days(days: u64) -> Duration {
    secs(days * 86_400)
}

const TIME_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)];
const SIZE_UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl std::str::FromStr for Duration {
    type Err = ();

    /// Fails if a number or unit is missing or unknown, or the sum exceeds 2^64 ms. "0" needs no unit.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut rest = text.trim();
        if rest == "0" {
            return Ok(secs(0));
        }
        let mut total_ms = 0_u64;
        while !rest.is_empty() {
            let (number, after) = take_number(rest).ok_or(())?;
            let unit_len = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
            let unit_ms = match &after[..unit_len] {
                "ms" => 1,
                "s" | "sec" | "secs" | "second" | "seconds" => 1000,
                "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
                "h" | "hour" | "hours" => 3_600_000,
                "d" | "day" | "days" => 86_400_000,
                "w" | "week" | "weeks" => 604_800_000,
                _ => return Err(()),
            };
            total_ms = number.checked_mul(unit_ms).and_then(|ms| total_ms.checked_add(ms)).ok_or(())?;
            rest = after[unit_len..].trim_start();
        }
        if text.trim().is_empty() { Err(()) } else { Ok(Self(std::time::Duration::from_millis(total_ms))) }
    }
}

/// In the largest unit that divides it; below a millisecond is left out.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis() as u64;
        match TIME_UNITS.iter().find(|(_, unit_ms)| ms > 0 && ms.is_multiple_of(*unit_ms)) {
            Some((unit @ "min", unit_ms)) => write!(f, "{} {unit}", ms / unit_ms),
            Some((unit, unit_ms)) => write!(f, "{}{unit}", ms / unit_ms),
            None => f.write_str("0s"),
        }
    }
}

impl Value for Duration {
    fn expects() -> String {
        "a span of time with its unit, such as \"30s\" or \"5 min\"".to_owned()
    }

    fn read(raw: &Raw<'_>) -> Option<Self> {
        match raw.text() {
            Some(text) => text.parse().ok(),
            None => (raw.integer()? == 0).then_some(secs(0)),
        }
    }

    fn write(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

impl std::str::FromStr for ByteSize {
    type Err = ();

    /// Fails if the number is missing, the unit unknown, or the size exceeds 2^64 bytes. No unit means bytes.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (number, unit) = take_number(text.trim()).ok_or(())?;
        let unit_bytes = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            "tib" => 1 << 40,
            "kb" => 1000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(()),
        };
        number.checked_mul(unit_bytes).map(Self).ok_or(())
    }
}

/// In the largest binary unit that divides it.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SIZE_UNITS.iter().find(|(_, unit_bytes)| self.0 > 0 && self.0.is_multiple_of(*unit_bytes)) {
            Some((unit, unit_bytes)) => write!(f, "{} {unit}", self.0 / unit_bytes),
            None => self.0.fmt(f),
        }
    }
}

impl Value for ByteSize {
    fn expects() -> String {
        "a size such as \"64 KiB\" or \"10 MiB\"".to_owned()
    }

    fn read(raw: &Raw<'_>) -> Option<Self> {
        raw.text().map_or_else(|| raw.integer().map(Self), |text| text.parse().ok())
    }

    fn write(&self) -> Option<String> {
        Some(format!("\"{self}\""))
    }
}

/// The whole number at the start, and what follows it and any spaces.
fn take_number(text: &str) -> Option<(u64, &str)> {
    let digits_len = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let number = text[..digits_len].replace('_', "").parse().ok()?;
    Some((number, text[digits_len..].trim_start()))
}
