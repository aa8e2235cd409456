//! The project's own commands; `cargo xtask help` lists them.
//!
//! One list of steps ([`steps::ALL`]) makes up the test command; every other command is a part of it. Nothing here
//! is needed to build or run Meridian.

mod deps;
mod install;
mod shell;
mod steps;
mod tidy;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::steps::{ALL, LINTS, Step};

const HELP: &str = "\
cargo xtask COMMAND

  test [--only STEP]… [--skip STEP]…   every check, in order; what the continuous integration runs
  lint                                 the checks that need no running broker: fmt, clippy, doc, deps, tidy
  fmt                                  formats the workspace
  blackbox [PYTEST ARGUMENT]…          builds the release binary and drives it from outside
  soak [--minutes N]                   a long run that checks delivery and memory (default 30)
  install-test-deps                    Debian, Python, Node, Go and Rust packages the black-box tests use
  help                                 this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let (command, rest) =
        arguments.split_first().map_or(("help", &[][..]), |(first, rest)| (first.as_str(), rest));
    match command {
        "test" => steps::run(&select(rest)?),
        "lint" => steps::run(&LINTS.iter().map(|name| find(name)).collect::<Result<Vec<_>>>()?),
        "fmt" => shell::cargo(&["fmt", "--all"]),
        "blackbox" => steps::blackbox_with(rest),
        "soak" => steps::soak_for(minutes(rest)?),
        "install-test-deps" => install::all(),
        "help" | "-h" | "--help" => {
            print!("{HELP}");
            steps::print_list();
            Ok(())
        }
        other => bail!("no command `{other}`; `cargo xtask help` lists them"),
    }
}

/// The steps left by `--only` and `--skip`, in the order of [`ALL`].
fn select(arguments: &[String]) -> Result<Vec<&'static Step>> {
    let (mut only, mut skip) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let list = match flag.as_str() {
            "--only" => &mut only,
            "--skip" => &mut skip,
            other => bail!("no option `{other}`; there are --only STEP and --skip STEP"),
        };
        let name = rest.next().with_context(|| format!("{flag} needs the name of a step"))?;
        list.push(find(name)?.name);
    }
    let wanted = |step: &&Step| (only.is_empty() || only.contains(&step.name)) && !skip.contains(&step.name);
    Ok(ALL.iter().filter(wanted).collect())
}

fn find(name: &str) -> Result<&'static Step> {
    let names = || ALL.iter().map(|step| step.name).collect::<Vec<_>>().join(", ");
    ALL.iter()
        .find(|step| step.name == name)
        .with_context(|| format!("no step `{name}`; there are {}", names()))
}

fn minutes(arguments: &[String]) -> Result<u32> {
    match arguments {
        [] => Ok(30),
        [flag, value] if flag == "--minutes" => value.parse().context("--minutes takes a whole number"),
        _ => bail!("soak takes --minutes N and nothing else"),
    }
}
