//! Running the server: from a configuration to event loops, and back on a signal.

use crate::config::{self, Loaded};
use crate::inbox::{Command, ShardHandle};
use crate::listener::{Bound, ListenError};
use crate::node::{Node, Timer};
use crate::settings::Settings;
use crate::shard::Shard;
use crate::{ErrorCode, banner, clock, log, machine};
use meridian_types::memory;
use mio::{Poll, Token, Waker};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Open files kept back from connections: listeners, pollers, standard streams, a configuration being read.
const FILES_RESERVED: usize = 64;
const WAKE_TOKEN: Token = Token(usize::MAX);

/// What the command line asks for besides the configuration.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// When the process started, for "ready in".
    pub started: Instant,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

/// What keeps the server from starting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A listener cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There can be no log.
    #[error(transparent)]
    Log(#[from] log::InitError),
    /// The operating system refuses something.
    #[error("cannot {what}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl StartError {
    /// Its stable code.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Listen(error) => error.code(),
            Self::Log(log::InitError::Level(_)) => ErrorCode::BadLevel,
            Self::Log(log::InitError::Thread(_)) | Self::System { .. } => ErrorCode::System,
        }
    }

    fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// Serves until SIGINT or SIGTERM; SIGHUP reads the configuration again. Blocks the calling thread.
///
/// # Errors
/// [`StartError`]: what keeps it from starting.
pub fn run(loaded: Loaded, options: RunOptions) -> Result<(), StartError> {
    clock::now();
    let log = log::init(&loaded.config.log)?;
    let outcome = serve(loaded, options, &log);
    log::flush();
    outcome
}

fn serve(loaded: Loaded, options: RunOptions, log: &log::Handle) -> Result<(), StartError> {
    let open_files = raise_open_files();
    let bound = open_listeners(&loaded)?;
    let thread_count = match loaded.config.server.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    };
    let mut polls = Vec::with_capacity(thread_count);
    let mut handles = Vec::with_capacity(thread_count);
    for _ in 0..thread_count {
        let poll = Poll::new().map_err(StartError::system("create an event queue"))?;
        let waker = Waker::new(poll.registry(), WAKE_TOKEN);
        handles.push(ShardHandle::new(waker.map_err(StartError::system("create an event queue"))?));
        polls.push(poll);
    }
    let connections_max = match loaded.config.server.connections_max {
        0 => open_files.saturating_sub(FILES_RESERVED),
        count => count.min(open_files.saturating_sub(FILES_RESERVED)),
    };
    memory::set_limit(machine::memory_max(loaded.config.server.memory_max));
    let node = Arc::new(Node::new(Settings::new(loaded.config.clone()), handles, connections_max));
    let urls: Vec<String> = bound.iter().map(|bound| bound.url().to_owned()).collect();
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(StartError::system("handle signals"))?;
    let threads = start_shards(&node, polls, bound)?;
    node.add_timer(clock::now(), Timer::Report);
    banner::print(&loaded, &urls, thread_count, open_files, connections_max, options.started);
    let mut loaded = loaded;
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        reload(&mut loaded, &node, log);
    }
    stop(&node, threads, loaded.config.server.shutdown_grace.0);
    Ok(())
}

fn open_listeners(loaded: &Loaded) -> Result<Vec<Bound>, ListenError> {
    let open = |listener: &config::Listener| Bound::open(&listener.url, listener.backlog);
    loaded.config.listener.iter().map(open).collect()
}

fn start_shards(
    node: &Arc<Node>,
    polls: Vec<Poll>,
    bound: Vec<Bound>,
) -> Result<Vec<JoinHandle<io::Result<()>>>, StartError> {
    let mut threads = Vec::with_capacity(polls.len());
    for (index, poll) in polls.into_iter().enumerate() {
        let mut listeners = Vec::with_capacity(bound.len());
        for (number, original) in bound.iter().enumerate() {
            let share = StartError::system("share a listener between threads");
            let mut copy = original.share().map_err(share)?;
            let watch = StartError::system("watch a listener");
            copy.register(poll.registry(), Token(number)).map_err(watch)?;
            listeners.push(copy);
        }
        let shard = Shard::new(index, node.clone(), poll, listeners);
        let thread = std::thread::Builder::new().name(format!("loop-{index}")).spawn(move || {
            let outcome = shard.run();
            if let Err(error) = &outcome {
                // The other loops cannot serve this one's connections.
                tracing::error!(%error, "an event loop failed; the process ends");
                log::flush();
                std::process::exit(1);
            }
            outcome
        });
        threads.push(thread.map_err(StartError::system("start a thread"))?);
    }
    Ok(threads)
}

/// Raises the soft limit of open files to the hard one; returns what it is then.
fn raise_open_files() -> usize {
    rlimit::increase_nofile_limit(u64::MAX).map_or(1024, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// SIGHUP: the new configuration is checked whole before anything of it counts.
fn reload(loaded: &mut Loaded, node: &Node, log: &log::Handle) {
    let new = match loaded.reload() {
        Ok(new) => new,
        Err(problems) => {
            for problem in problems {
                let code = problem.fault.code().text();
                tracing::error!(code, "configuration not reloaded: {problem}");
            }
            return;
        }
    };
    let changes = config::diff(&loaded.config, &new.config);
    if changes.is_empty() {
        tracing::info!("configuration reloaded: nothing changed");
        return;
    }
    if let Err(error) = log.set_level(&new.config.log.level) {
        tracing::error!(%error, "log level not changed");
    }
    // Listeners and threads stay what they are until the next start; connections refer to listeners by number.
    let mut config = new.config.clone();
    config.listener.clone_from(&loaded.config.listener);
    config.server.threads = loaded.config.server.threads;
    config.server.connections_max = loaded.config.server.connections_max;
    memory::set_limit(machine::memory_max(config.server.memory_max));
    node.set_settings(Settings::new(config));
    *loaded = new;
    for change in &changes {
        if change.is_reloadable() {
            tracing::info!("configuration reloaded: {change}");
        } else {
            tracing::warn!("configuration not reloaded: {change}");
        }
    }
}

/// Tells every client, waits for outboxes to drain, and ends whatever the grace time leaves.
fn stop(node: &Node, threads: Vec<JoinHandle<io::Result<()>>>, grace: Duration) {
    let clients = node.client_count.load(Relaxed);
    tracing::info!(clients, grace_secs = grace.as_secs(), "stopping");
    node.is_stopping.store(true, Relaxed);
    for shard in &node.shards {
        shard.send(Command::Stop);
    }
    let deadline = Instant::now() + grace;
    while Instant::now() < deadline && !threads.iter().all(JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_millis(2));
    }
    let left = node.client_count.load(Relaxed);
    if left == 0 {
        tracing::info!("stopped");
    } else {
        tracing::warn!(clients = left, "stopped; some clients did not take their last messages in time");
    }
}
