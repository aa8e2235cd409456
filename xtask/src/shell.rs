//! Running other programs, from the root of the repository.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_owned()
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A command that runs in `folder`, relative to the root.
pub(crate) fn command(program: impl AsRef<OsStr>, folder: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root().join(folder));
    command
}

/// Runs `cargo` with the toolchain that runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    run(command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), ".").args(arguments))
}

/// Runs a command to its end.
///
/// # Errors
/// If it cannot be started, or ends with anything but success; the error shows the command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = describe(command);
    println!("    $ {line}");
    let status = command.status().with_context(|| format!("`{line}` cannot be started"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// What a command prints, as text.
///
/// # Errors
/// As [`run`].
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("`{line}` cannot be started"))?;
    if !output.status.success() {
        bail!("`{line}` ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed no UTF-8"))
}

/// Whether a program answers `--version` (or whatever `argument` is).
pub(crate) fn exists(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
    command.status().is_ok()
}

/// Whether this is a run of the continuous integration.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let relative = |word: &OsStr| word.to_string_lossy().replace(&format!("{}/", root().display()), "");
    words.map(relative).collect::<Vec<_>>().join(" ")
}
