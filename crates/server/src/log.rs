//! Log lines: on standard error, as text for people or JSON for machines, with a level that can be changed while
//! running.
//!
//! A line is written per event of a lifecycle; nothing is written per message above `trace`. One thread writes them
//! (`writer`); who logs never waits for it.

mod writer;

use crate::config::{self, LogFormat};
use std::fmt;
use std::io::IsTerminal as _;
use std::sync::OnceLock;
use std::time::Duration;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::{Layer, Registry};
use writer::Writer;

/// How long the end of the process waits for its last lines to be written.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// The process's writer, once [`init`] has started it.
static WRITER: OnceLock<Writer> = OnceLock::new();

/// The words for levels.
pub(crate) const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Why a text is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{level}\" is none of off, error, warn, info, debug and trace")]
pub struct LevelError {
    /// What stands where a level should.
    pub level: String,
}

/// Reads a level (`info`), or levels by module (`info,meridian_server=debug`).
///
/// # Errors
/// [`LevelError`] names the part that is none. A word alone is always a level, never a module, so that a typing
/// error cannot silence everything.
pub fn parse_level(text: &str) -> Result<Targets, LevelError> {
    let mut targets = Targets::new().with_default(LevelFilter::INFO);
    for part in text.split(',').map(str::trim) {
        let (module, word) =
            part.split_once('=').map_or((None, part), |(module, word)| (Some(module.trim()), word));
        let word = word.trim().to_ascii_lowercase();
        let is_module = module.is_none_or(|module| !module.is_empty());
        let level = LEVELS.contains(&word.as_str()).then(|| word.parse::<LevelFilter>().ok()).flatten();
        let (true, Some(level)) = (is_module, level) else {
            return Err(LevelError { level: part.to_owned() });
        };
        targets = match module {
            Some(module) => targets.with_target(module, level),
            None => targets.with_default(level),
        };
    }
    Ok(targets)
}

/// Changes the level of a running process. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    set: std::sync::Arc<dyn Fn(Targets) + Send + Sync>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}

impl Handle {
    /// Takes a new level over, for all threads, at once.
    ///
    /// # Errors
    /// [`LevelError`]; the old level then stays.
    pub fn set_level(&self, level: &str) -> Result<(), LevelError> {
        (self.set)(parse_level(level)?);
        Ok(())
    }
}

/// Why there can be no log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The configured level is none.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// The thread that writes it cannot be started.
    #[error("cannot start a thread for the log")]
    Thread(#[source] std::io::Error),
}

/// Sets up the process's log, and has a panic told in it. Call it once, before the first event; a second call changes
/// nothing.
///
/// # Errors
/// [`InitError`] if the level is none or no thread can be started.
pub fn init(config: &config::Log) -> Result<Handle, InitError> {
    let targets = parse_level(&config.level)?;
    let is_text = match config.format {
        LogFormat::Text => true,
        LogFormat::Json => false,
        LogFormat::Auto => std::io::stderr().is_terminal(),
    };
    let style = match (is_text, has_colours(|name| std::env::var(name).ok())) {
        (false, _) => Style::Json,
        (true, colours) => Style::Text { colours: colours && std::io::stderr().is_terminal() },
    };
    let writer = Writer::start(std::io::stderr()).map_err(InitError::Thread)?;
    let (subscriber, handle) = build(targets, style, WRITER.get_or_init(|| writer).clone());
    // It fails only if there is one already: a test that starts two servers, and either will do.
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| tell_panic(panic, &usual)));
    }
    Ok(handle)
}

/// Waits until everything logged so far is written, a second at most: a reader that is stuck must not keep the process
/// from ending. For the end of the process.
pub fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush(FLUSH_PATIENCE);
    }
}

/// Lines dropped because standard error did not take them fast enough.
pub(crate) fn lines_dropped() -> u64 {
    WRITER.get().map_or(0, Writer::dropped)
}

type PanicHook = Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync>;

/// The last words of a process that is about to abort: through the log, whose end is waited for only so long.
fn tell_panic(panic: &std::panic::PanicHookInfo<'_>, usual: &PanicHook) {
    let thread = std::thread::current();
    tracing::error!(thread = thread.name(), "{panic}");
    flush();
    if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
        usual(panic);
    }
}

/// How lines look.
#[derive(Clone, Copy, Debug)]
enum Style {
    Text { colours: bool },
    Json,
}

fn build<W>(targets: Targets, style: Style, writer: W) -> (impl tracing::Subscriber + Send + Sync, Handle)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, reload) = reload::Layer::<Targets, Registry>::new(targets);
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let lines: Box<dyn Layer<_> + Send + Sync> = match style {
        Style::Json => Box::new(lines.json().flatten_event(true).with_span_list(false).with_filter(filter)),
        Style::Text { colours } => Box::new(lines.with_ansi(colours).with_target(false).with_filter(filter)),
    };
    let set = move |targets| {
        // It fails only if the subscriber is gone, and then there is no level to change.
        let _ = reload.reload(targets);
    };
    (Registry::default().with(lines), Handle { set: std::sync::Arc::new(set) })
}

/// Whether a terminal is to be given colours (<https://no-color.org>).
fn has_colours(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && variable("TERM").as_deref() != Some("dumb")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A writer that keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Kept {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
        }
    }

    impl std::io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn kept(level: &str, style: Style) -> (impl tracing::Subscriber + Send + Sync, Handle, Kept) {
        let kept = Kept::default();
        let writer = kept.clone();
        let (subscriber, handle) = build(parse_level(level).unwrap(), style, move || writer.clone());
        (subscriber, handle, kept)
    }

    #[test]
    fn levels_are_read_alone_and_by_module() {
        for level in ["off", "error", "INFO", "info,meridian_server=debug", " warn , a::b = trace "] {
            assert!(parse_level(level).is_ok(), "{level}");
        }
        for level in ["", "inof", "5", "meridian_server", "info,x=loud", "=debug", "info,"] {
            assert!(parse_level(level).is_err(), "{level}");
        }
    }

    #[test]
    fn the_level_can_be_changed_while_running() {
        let (subscriber, handle, kept) = kept("warn", Style::Text { colours: false });
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("too quiet");
            assert_eq!(kept.take(), "");
            handle.set_level("info").unwrap();
            tracing::info!(port = 1883, "listening");
            assert!(kept.take().ends_with("INFO listening port=1883\n"));
            assert!(handle.set_level("loud").is_err());
            tracing::info!("still here");
            assert!(kept.take().contains("still here"));
        });
    }

    #[test]
    fn json_lines_are_one_flat_object_each() {
        let (subscriber, _handle, kept) = kept("info", Style::Json);
        tracing::subscriber::with_default(subscriber, || tracing::warn!(limit = 5, "outbox \"full\""));
        let line = kept.take();
        assert!(line.starts_with('{') && line.ends_with("}\n") && line.lines().count() == 1, "{line}");
        assert!(line.contains(r#""message":"outbox \"full\"","limit":5"#), "{line}");
    }

    #[test]
    fn colours_are_left_out_on_request() {
        let with = |name: &'static str, value: &'static str| {
            has_colours(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert!(with("TERM", "xterm") && with("NO_COLOR", ""));
        assert!(!with("NO_COLOR", "1") && !with("TERM", "dumb"));
    }
}
