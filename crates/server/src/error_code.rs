//! Stable codes for what keeps the server from starting: to search for, and to act on in scripts. A code keeps its
//! meaning; one that is no longer used is not given again. `docs/errors.md` has a cause and a remedy for each.

use std::fmt;

macro_rules! error_codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal;)+) => {
        /// The code of an error. Displayed as `E0102`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode { $($(#[doc = $doc])+ $name,)+ }

        impl ErrorCode {
            /// All of them, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The code itself: `E` and four digits, of which the first two say what it is about, 01 the configuration
            /// and 02 the start.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $code,)+ }
            }
        }
    };
}

error_codes! {
    /// The configuration file cannot be read.
    FileUnreadable = "E0101";
    /// No key of this name in its section.
    UnknownKey = "E0102";
    /// No section of this name.
    UnknownSection = "E0103";
    /// The file is not TOML.
    Syntax = "E0104";
    /// An environment variable whose name is nearly that of a key.
    UnknownVariable = "E0105";
    /// A key outside of any section.
    NoSection = "E0106";
    /// A table where an array of tables or a value is needed, or the reverse.
    NotATable = "E0107";
    /// A value of the wrong type or form.
    WrongValue = "E0108";
    /// A `--set` that is not `section.key=value`.
    BadSet = "E0109";
    /// No listener or class of this number.
    NoSuchIndex = "E0110";
    /// An address that cannot be listened on.
    BadUrl = "E0111";
    /// A log level that is none.
    BadLevel = "E0112";
    /// A value that is well formed, but not allowed.
    Invalid = "E0113";
    /// The host of a listener leads nowhere.
    HostUnknown = "E0201";
    /// The port of a listener is taken.
    PortInUse = "E0202";
    /// The operating system refuses a listener.
    CannotListen = "E0203";
    /// The operating system refuses a thread, an event queue or the handling of signals.
    System = "E0204";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/errors.md");

    #[test]
    fn every_code_is_in_the_document_with_cause_and_remedy_and_no_other_is() {
        let sections: Vec<&str> = PAGE.split("\n### ").skip(1).collect();
        let documented: Vec<&str> = sections
            .iter()
            .map(|section| section.split_once(' ').map_or(*section, |(code, _)| code))
            .collect();
        let codes: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.text()).collect();
        assert_eq!(documented, codes);
        for section in sections {
            assert!(section.contains("\nCause: ") && section.contains("\nRemedy: "), "{section}");
        }
    }

    #[test]
    fn codes_ascend_and_are_well_formed() {
        let codes: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.text()).collect();
        assert!(codes.is_sorted_by(|left, right| left < right));
        for code in codes {
            let digits = code.strip_prefix("E0").unwrap_or_default();
            assert!(digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()), "{code}");
        }
    }
}
