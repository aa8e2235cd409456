//! `meridian config`: checks, shows and explains the configuration.

use crate::failure::Failure;
use crate::server::ConfigArgs;
use meridian_server::config::{Comments, Config, Loaded};
use std::io::Write as _;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  A file to begin with:
    meridian config reference > meridian.toml
  Is it right?
    meridian config check meridian.toml
  What would the server use, and where does each value come from?
    meridian config show meridian.toml --origin

Exit codes: 0 the configuration is valid, 2 it is not.";

/// Check, show or explain the configuration
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Say whether the server would start with it, and if not, why
    Check(FileArgs),
    /// Print the whole of it, defaults included, as TOML
    Show(ShowArgs),
    /// Print a file with every key, what it means and its default
    Reference(ReferenceArgs),
}

/// Where the configuration comes from; here its file needs no flag.
#[derive(clap::Args, Debug)]
struct FileArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The same as --config FILE
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
}

impl FileArgs {
    fn load(&self) -> Result<Loaded, Failure> {
        self.config.load_file(self.file.as_ref())
    }
}

#[derive(clap::Args, Debug)]
struct ShowArgs {
    #[command(flatten)]
    config: FileArgs,
    /// Say where each value comes from
    #[arg(long, conflicts_with = "bare")]
    origin: bool,
    /// Without comments
    #[arg(long)]
    bare: bool,
}

#[derive(clap::Args, Debug)]
struct ReferenceArgs {
    /// As a page of Markdown
    #[arg(long)]
    markdown: bool,
}

/// Runs the command.
pub(crate) fn run(command: &ConfigCommand) -> Result<(), Failure> {
    match &command.action {
        Action::Check(args) => {
            let loaded = args.load()?;
            for warning in &loaded.warnings {
                eprintln!("warning: {warning}");
            }
            let urls: Vec<_> = loaded.config.listener.iter().map(|listener| listener.url.as_str()).collect();
            let listeners = if urls.is_empty() { "nowhere".to_owned() } else { urls.join(", ") };
            print(&format!("the configuration is valid; listening at {listeners}\n"))
        }
        Action::Show(args) => {
            let comments = match (args.origin, args.bare) {
                (true, _) => Comments::Origin,
                (_, true) => Comments::None,
                _ => Comments::Meaning,
            };
            print(&args.config.load()?.to_toml(comments))
        }
        Action::Reference(args) if args.markdown => print(&Config::reference_markdown()),
        Action::Reference(_) => print(&Config::reference()),
    }
}

/// Prints to standard output; a closed pipe is no panic.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::output)
}
