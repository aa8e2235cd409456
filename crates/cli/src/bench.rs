//! `meridian bench`: a load generator for any MQTT broker.
//!
//! One thread (by default) drives all connections by non-blocking sockets, so that the generator takes little of the
//! machine it shares with the broker. Each message carries a stamp: when it was meant to be sent, by which publisher,
//! with which sequence number; latency, loss, duplicates and order are read from it. The packets are encoded here and
//! not by the broker's own codec, so that a mistake there does not hide itself.
//!
//! | module | what it has |
//! |---|---|
//! | `args` | the command line |
//! | `settings` | what all parts of a run share |
//! | `plan` | which connections a mode needs, what each subscribes and publishes |
//! | `packet` | the few packets, encoded and decoded |
//! | `connection` | one connection: handshake, subscriptions, deliveries |
//! | `publisher` | who may publish how much, and when |
//! | `worker` | the event loop of one thread |
//! | `timer` | wake-ups finer than a millisecond |
//! | `stats` | counters and histograms |
//! | `process` | CPU time and memory of the server, from the kernel |
//! | `measure` | set-up, warm-up, measurement, drain |
//! | `report` | the result, as a table and as JSON |
//!
//! What it does not do: TLS, WebSocket, brokers spread over several addresses.

mod args;
mod connection;
mod measure;
mod packet;
mod plan;
mod process;
mod publisher;
mod report;
mod settings;
mod stats;
#[cfg(test)]
mod tests;
mod timer;
mod worker;

pub(crate) use args::BenchArgs;

/// Runs one benchmark and prints its result: a table on a terminal, JSON otherwise or where `--json` says.
///
/// # Errors
/// The URL or an option makes no sense, no connection could be set up, the server closed every one, or the JSON file
/// cannot be written.
pub(crate) fn run(args: BenchArgs) -> anyhow::Result<()> {
    let settings = args.settings()?;
    let plan = args.plan(&settings)?;
    let output = args.output();
    let result = measure::measure(plan, settings)?;
    report::emit(&result, &output)
}
