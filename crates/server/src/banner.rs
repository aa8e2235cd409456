//! What the server says when it is ready.

use crate::config::Loaded;
use crate::log;
use std::io::{IsTerminal, Write};
use std::time::Instant;

/// Prints every address really bound, the limits found, and what a newcomer needs next. To standard error, with the
/// log, so that standard output stays free.
pub(crate) fn print(
    loaded: &Loaded,
    urls: &[String],
    threads: usize,
    open_files: usize,
    connections_max: usize,
    started: Instant,
) {
    let mut text = String::new();
    let version = env!("CARGO_PKG_VERSION");
    text.push_str(&format!("meridian {version}: {threads} event loops, {open_files} open files, "));
    text.push_str(&format!("at most {connections_max} connections\n"));
    for url in urls {
        let note = match url.split_once("://") {
            Some(("http", _)) => "   (/healthz, /readyz, /metrics; MQTT over WebSocket at /mqtt)",
            Some(("ws", _)) => "   (MQTT over WebSocket at /mqtt)",
            _ => "",
        };
        text.push_str(&format!("  listening on {url}{note}\n"));
    }
    if loaded.has_default_listeners() {
        text.push_str("  only this machine can connect; to open it: meridian --listen mqtt://0.0.0.0:1883\n");
    }
    for warning in &loaded.warnings {
        text.push_str(&format!("  warning: {warning}\n"));
    }
    text.push_str(&format!("ready in {} ms\n", started.elapsed().as_millis()));
    if !std::io::stderr().is_terminal() {
        tracing::info!(listeners = urls.join(" "), threads, open_files, connections_max, "ready");
    }
    // The text comes last: who waits for "ready" finds nothing of the start behind it.
    log::flush();
    // Nothing is to be done about a standard error that takes nothing.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
