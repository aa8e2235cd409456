//! `meridian server`, and `meridian` alone.

use crate::failure::{Failure, chain};
use crate::port_owner::port_owner;
use meridian_server::config::{Config, Loaded, Problem, Sources};
use meridian_server::{ListenError, RunOptions, StartError};
use std::path::PathBuf;
use std::time::Instant;

/// Where the configuration comes from.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ConfigArgs {
    /// Configuration file, in TOML [env: MERIDIAN_CONFIG]
    #[arg(short = 'c', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen at this URL instead of those configured: mqtt://host:port, ws://host:port or http://host:port; port 0
    /// takes a free one; may be given several times
    #[arg(short = 'l', long, value_name = "URL")]
    listen: Vec<String>,
    /// Set a key of the configuration: --set mqtt.packet_bytes_max="1 MiB"; may be given several times
    #[arg(short = 's', long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigArgs {
    /// Reads and checks all of it.
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        self.load_file(None)
    }

    /// As [`ConfigArgs::load`]; `file`, if there is one, stands for `--config FILE`.
    pub(crate) fn load_file(&self, file: Option<&PathBuf>) -> Result<Loaded, Failure> {
        let mut sources = Sources::from_env();
        let named = file.or(self.config.as_ref()).cloned();
        sources.file = named.or_else(|| std::env::var_os("MERIDIAN_CONFIG").map(PathBuf::from));
        sources.listen.clone_from(&self.listen);
        sources.set.clone_from(&self.set);
        Config::load(&sources).map_err(|problems| refuse(&problems))
    }
}

/// Prints problems and says how many there are.
fn refuse(problems: &[Problem]) -> Failure {
    for problem in problems {
        eprintln!("error[{}]: {problem}", problem.fault.code());
    }
    let count = problems.len();
    let noun = if count == 1 { "problem" } else { "problems" };
    Failure::Usage(format!(
        "the configuration has {count} {noun}; `meridian config reference` lists all keys"
    ))
}

/// Serves until told to stop.
pub(crate) fn run(args: &ConfigArgs, started: Instant) -> Result<(), Failure> {
    let loaded = args.load()?;
    meridian_server::run(loaded, RunOptions { started }).map_err(|error| Failure::Start {
        code: error.code(),
        what: chain(&error),
        hint: match &error {
            StartError::Listen(error) => hint(error),
            _ => None,
        },
    })
}

/// What to do about a listener that cannot be opened.
fn hint(error: &ListenError) -> Option<String> {
    match error {
        ListenError::InUse { port, url } => {
            let owner = port_owner(*port).map_or_else(
                || "another process holds the port".to_owned(),
                |owner| format!("process {} ({}) holds the port", owner.pid, owner.name),
            );
            let next = url.replace(&format!(":{port}"), &format!(":{}", port.wrapping_add(1).max(1)));
            Some(format!("{owner}; stop it, or choose another: meridian --listen {next}"))
        }
        ListenError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Some("ports below 1024 need a privilege; choose a higher one".to_owned())
        }
        ListenError::Io { source, .. } if source.kind() == std::io::ErrorKind::AddrNotAvailable => {
            Some("this machine does not have that address; 0.0.0.0 or [::] stand for all it has".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_names_who_holds_it_and_another() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let hint = hint(&ListenError::InUse { url: format!("mqtt://127.0.0.1:{port}"), port }).unwrap();
        assert!(
            hint.contains(&format!("--listen mqtt://127.0.0.1:{}", port.wrapping_add(1).max(1))),
            "{hint}"
        );
        if cfg!(target_os = "linux") {
            assert!(hint.starts_with(&format!("process {} (", std::process::id())), "{hint}");
        }
    }
}
