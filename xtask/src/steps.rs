//! The steps of the test command. Each is timed; the first that fails ends the run.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::shell::{self, cargo, command, root, target_dir};
use crate::{deps, install, tidy};

/// One step of the test command.
#[derive(Debug)]
pub(crate) struct Step {
    /// What `--only` and `--skip` call it.
    pub(crate) name: &'static str,
    /// What it checks, in one line.
    pub(crate) about: &'static str,
    run: fn() -> Result<()>,
}

/// All steps, in order: cheap ones first, so that a slip shows early.
pub(crate) const ALL: &[Step] = &[
    Step { name: "fmt", about: "the code is formatted", run: fmt },
    Step { name: "tidy", about: "the style's mechanical rules", run: tidy::check },
    Step { name: "deps", about: "licences, sources and duplicates of dependencies", run: deps::check },
    Step { name: "clippy", about: "no warnings", run: clippy },
    Step { name: "test", about: "unit, property and doc tests", run: test },
    Step { name: "doc", about: "the documentation builds without warnings", run: doc },
    Step { name: "build", about: "the release binary", run: build },
    Step { name: "install", about: "what the black-box tests need", run: install::all },
    Step { name: "blackbox", about: "real clients, transcripts, hostile clients", run: blackbox },
    Step { name: "soak", about: "a minute of connects, drops and takeovers", run: soak },
];

/// The steps of `cargo xtask lint`.
pub(crate) const LINTS: &[&str] = &["fmt", "tidy", "deps", "clippy", "doc"];

/// Runs steps in order and prints how long each took.
///
/// # Errors
/// That of the first step that fails; later ones are not run.
pub(crate) fn run(steps: &[&Step]) -> Result<()> {
    let start = Instant::now();
    let mut times = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        println!("==> [{}/{}] {}: {}", index + 1, steps.len(), step.name, step.about);
        let begun = Instant::now();
        (step.run)()
            .with_context(|| format!("step `{0}` failed; alone: cargo xtask test --only {0}", step.name))?;
        let seconds = begun.elapsed().as_secs_f64();
        println!("    {} ok in {seconds:.1} s", step.name);
        times.push((step.name, seconds));
    }
    println!("==> all {} steps passed in {:.1} s", steps.len(), start.elapsed().as_secs_f64());
    for (name, seconds) in times {
        println!("    {name:<10} {seconds:>7.1} s");
    }
    Ok(())
}

/// Prints the steps and what they check.
pub(crate) fn print_list() {
    println!("\nsteps of test:");
    for step in ALL {
        println!("  {:<10} {}", step.name, step.about);
    }
}

fn fmt() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])
}

fn clippy() -> Result<()> {
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"])
}

fn test() -> Result<()> {
    cargo(&["test", "--workspace", "--locked", "--no-fail-fast"])
}

fn doc() -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = command(cargo, ".");
    command.args(["doc", "--workspace", "--no-deps", "--document-private-items", "--locked", "--quiet"]);
    shell::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn build() -> Result<()> {
    cargo(&["build", "--release", "--package", "meridian", "--locked"])
}

fn blackbox() -> Result<()> {
    pytest(&[])
}

/// Builds the binary, installs what is missing, and passes `arguments` to pytest.
///
/// # Errors
/// If any of the three fails.
pub(crate) fn blackbox_with(arguments: &[String]) -> Result<()> {
    build()?;
    install::all()?;
    pytest(arguments)
}

fn pytest(arguments: &[String]) -> Result<()> {
    let mut command = command(install::python(), "tests");
    command.args(["-m", "pytest", "--durations=10"]).args(arguments).env("CARGO_TARGET_DIR", target_dir());
    shell::run(&mut command)
}

fn soak() -> Result<()> {
    soak_for(1)
}

/// Runs the soak program for some minutes against the release binary.
///
/// # Errors
/// If a message was lost, or memory grew past the bound.
pub(crate) fn soak_for(minutes: u32) -> Result<()> {
    let mut command = command("python3", ".");
    let program = root().join("tests/soak.py");
    command.arg(program).args(["--minutes", &minutes.to_string()]).env("CARGO_TARGET_DIR", target_dir());
    shell::run(&mut command)
}
