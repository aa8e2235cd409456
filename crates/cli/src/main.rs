//! The `meridian` binary: the server, a publisher, a subscriber, a load generator, and what an operator needs.
//!
//! Exit codes: 0 done, 1 failed, 2 the command line or the configuration is wrong.

mod bench;
mod client;
mod config;
mod failure;
mod format;
mod port_owner;
mod publish;
mod server;
mod subscribe;

use clap::{CommandFactory as _, Parser};
use failure::Failure;
use std::process::ExitCode;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  Start a broker for this machine, and try it from two other terminals:
    meridian
    meridian sub -t 'greetings/#' -v
    meridian pub -t greetings/you -m hello
  Serve the network, with a setting changed:
    meridian --listen mqtt://0.0.0.0:1883 --set mqtt.packet_bytes_max=\"1 MiB\"
  With a configuration file, checked first:
    meridian config check meridian.toml && meridian --config meridian.toml

Exit codes: 0 done, 1 failed, 2 the command line or the configuration is wrong.";

/// A message broker for fleets that span regions: MQTT 3.1.1 and 5
#[derive(Parser, Debug)]
#[command(name = "meridian", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    server: server::ConfigArgs,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Run the broker; so does `meridian` alone
    Server(server::ConfigArgs),
    Pub(publish::PubArgs),
    Sub(subscribe::SubArgs),
    Config(config::ConfigCommand),
    Bench(bench::BenchArgs),
    /// Print a completion script for a shell: meridian completions bash > /etc/bash_completion.d/meridian
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
    /// Print the version and what it speaks
    Version,
}

fn main() -> ExitCode {
    let started = Instant::now();
    let cli = Cli::parse();
    match run(cli, started) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli, started: Instant) -> Result<(), Failure> {
    match cli.command {
        None => server::run(&cli.server, started),
        Some(Command::Server(args)) => server::run(&args, started),
        Some(Command::Pub(args)) => publish::run(&args),
        Some(Command::Sub(args)) => subscribe::run(&args),
        Some(Command::Config(command)) => config::run(&command),
        Some(Command::Bench(args)) => Ok(bench::run(args)?),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "meridian", &mut script);
            config::print(&String::from_utf8_lossy(&script))
        }
        Some(Command::Version) => config::print(&format!(
            "meridian {}\nMQTT 3.1.1 and 5, over TCP and WebSocket\n",
            env!("CARGO_PKG_VERSION")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_server_is_the_default_command() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap();
        assert!(parse("meridian --listen mqtt://[::1]:0 --set a.b=c").command.is_none());
        assert!(matches!(parse("meridian server --listen mqtt://[::1]:0").command, Some(Command::Server(_))));
        assert!(Cli::try_parse_from(["meridian", "--listen", "x", "pub"]).is_err());
    }

    #[test]
    fn host_and_help_do_not_collide() {
        assert!(Cli::try_parse_from("meridian sub -h localhost -t a".split(' ')).is_ok());
        let help = Cli::try_parse_from(["meridian", "pub", "--help"]).unwrap_err();
        assert_eq!(help.kind(), clap::error::ErrorKind::DisplayHelp);
        assert!(help.to_string().contains("Examples:"));
    }

    #[test]
    fn a_message_has_exactly_one_payload() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("meridian pub -t a -m b").is_ok() && parse("meridian pub -t a -n -r").is_ok());
        assert!(parse("meridian pub -t a").is_err() && parse("meridian pub -t a -m b -n").is_err());
    }
}
