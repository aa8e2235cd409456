//! How a command ends: exit codes and what is printed.

use crate::client;
use meridian_server::ErrorCode;
use std::fmt;
use std::process::ExitCode;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was asked for something impossible: exit code 2.
    Usage(String),
    /// It failed: exit code 1.
    Failed {
        /// What happened.
        what: String,
        /// What to try.
        hint: Option<String>,
    },
    /// The server could not start: exit code 1.
    Start {
        /// The error's stable code.
        code: ErrorCode,
        /// What happened.
        what: String,
        /// What to try.
        hint: Option<String>,
    },
    /// Its connection failed: exit code 1.
    Client(client::Error),
    /// It failed, and all was said already: exit code 1.
    Said,
    /// Nobody reads its output any more: exit code 0, as there is nobody to complain to.
    BrokenPipe,
}

/// A [`Failure::Usage`].
pub(crate) fn usage(what: impl fmt::Display) -> Failure {
    Failure::Usage(what.to_string())
}

/// A [`Failure::Failed`] without a hint.
pub(crate) fn failed(what: impl fmt::Display) -> Failure {
    Failure::Failed { what: what.to_string(), hint: None }
}

impl Failure {
    /// Prints what happened and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Usage(what) => {
                eprintln!("error: {what}");
                ExitCode::from(2)
            }
            Self::Failed { what, hint } => fail("error", &what, hint),
            Self::Start { code, what, hint } => fail(&format!("error[{code}]"), &what, hint),
            Self::Client(error) => fail("error", &chain(&error), error.hint()),
            Self::Said => ExitCode::FAILURE,
            Self::BrokenPipe => ExitCode::SUCCESS,
        }
    }

    /// What writing to standard output can fail with.
    pub(crate) fn output(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => failed(format!("cannot write to standard output: {error}")),
        }
    }
}

fn fail(label: &str, what: &str, hint: Option<String>) -> ExitCode {
    eprintln!("{label}: {what}");
    if let Some(hint) = hint {
        eprintln!("  hint: {hint}");
    }
    ExitCode::FAILURE
}

/// The message of an error with all its causes.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Some messages hold their cause's already.
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        Self::Client(error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        failed(chain(error.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        let inner = std::io::Error::other("disk full");
        assert_eq!(
            chain(anyhow::Error::from(inner).context("cannot write x").as_ref()),
            "cannot write x: disk full"
        );
        let inner = std::io::Error::other("disk full");
        let told = anyhow::Error::from(inner).context("cannot write x: disk full");
        assert_eq!(chain(told.as_ref()), "cannot write x: disk full");
    }
}
