//! Installs what the black-box tests need besides the toolchains of Rust, Python, Go and Node.
//!
//! Everything but the Debian packages goes to `tests/.cache` or `node_modules`; running it again is cheap.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::{command, exists, is_ci, output, root, run};

/// Program and the Debian package that has it.
const DEBIAN: &[(&str, &str)] = &[
    ("mosquitto_pub", "mosquitto-clients"),
    ("mosquitto_rr", "mosquitto-clients"),
    ("chromium", "chromium"),
];

fn cache() -> PathBuf {
    root().join("tests/.cache")
}

/// The interpreter that has the test packages.
pub(crate) fn python() -> PathBuf {
    cache().join("venv/bin/python")
}

/// Installs everything that is not there yet.
///
/// # Errors
/// If a toolchain or package is missing and cannot be installed; the error says what to do. Nothing is skipped: a
/// client that is not there would be a test that did not run.
pub(crate) fn all() -> Result<()> {
    fs::create_dir_all(cache())?;
    for (program, argument, what) in
        [("python3", "--version", "Python 3.10"), ("go", "version", "Go"), ("npm", "--version", "Node")]
    {
        if !exists(program, argument) {
            bail!("`{program}` is not on the path; the black-box tests need {what}");
        }
    }
    debian()?;
    python_packages()?;
    node_packages()?;
    go_client()?;
    rust_client()
}

fn debian() -> Result<()> {
    let mut missing: Vec<&str> = DEBIAN
        .iter()
        .filter(|(program, _)| !exists(program, "--version"))
        .map(|(_, package)| *package)
        .collect();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install --no-install-recommends {}", missing.join(" "));
    if output(Command::new("id").arg("-u"))?.trim() != "0" || !exists("apt-get", "--version") {
        bail!(
            "these Debian packages are missing; as root: {line}{}",
            if is_ci() { " (a CI run skips nothing)" } else { "" }
        );
    }
    run(command("apt-get", ".").args(["update", "-qq"]))?;
    let mut install = command("apt-get", ".");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(&missing);
    run(install.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Runs `work` unless a stamp of this name holds the same text already, so that a change of versions is seen.
fn once(name: &str, text: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let stamp = cache().join(format!("{name}.stamp"));
    if fs::read_to_string(&stamp).is_ok_and(|old| old == text) {
        return Ok(());
    }
    work().with_context(|| format!("installing what {name} needs"))?;
    fs::write(stamp, text)?;
    Ok(())
}

fn python_packages() -> Result<()> {
    let requirements = fs::read_to_string(root().join("tests/requirements.txt"))?;
    once("python", &requirements, || {
        run(command("python3", ".").args(["-m", "venv", "--clear", "tests/.cache/venv"]))?;
        let mut pip = command(python(), "tests");
        run(pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
            "requirements.txt",
        ]))
    })
}

fn node_packages() -> Result<()> {
    let lock = fs::read_to_string(root().join("tests/browser/package-lock.json"))?;
    once("node", &lock, || {
        run(command("npm", "tests/browser").args([
            "ci",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--loglevel=error",
        ]))
    })
}

fn go_client() -> Result<()> {
    run(command("go", "tests/go-client").args(["build", "-o", "../.cache/go-client", "."]))
}

fn rust_client() -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = command(cargo, "tests/rust-client");
    build.args(["build", "--locked", "--quiet", "--target-dir", "../.cache/rust-client"]);
    run(build.env_remove("CARGO_TARGET_DIR")).context("installing what the Rust client needs")
}
