//! Drives a broker with rumqttc: `rust-client v3|v5 HOST PORT SCENARIO` prints `ok`, or what went wrong.
#![forbid(unsafe_code)]

mod v3;
mod v5;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

/// How long something that must come may take; it is only spent on failure.
pub const WAIT: Duration = Duration::from_secs(15);

/// An error is what to print.
pub type Result<T> = std::result::Result<T, String>;

/// A message, sent or received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    pub topic: String,
    pub payload: String,
    pub qos: u8,
    pub retain: bool,
    pub content_type: Option<String>,
    pub user: Vec<(String, String)>,
}

/// What is asked of a connection.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub id: String,
    pub keep: bool,
    pub will: Option<Message>,
}

/// What the scenarios need of either version.
pub trait Client {
    fn session_present(&self) -> bool;
    fn subscribe(&mut self, filter: &str, qos: u8) -> Result<()>;
    /// Publishes and waits until the exchange its QoS asks for is over.
    fn publish(&mut self, message: &Message) -> Result<()>;
    fn next(&mut self) -> Result<Message>;
    fn disconnect(self: Box<Self>) -> Result<()>;
    /// Ends the connection without DISCONNECT.
    fn drop_connection(self: Box<Self>);
}

type Connect<'a> = &'a dyn Fn(Options) -> Result<Box<dyn Client>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [version, host, port, scenario] = arguments.as_slice() else {
        eprintln!("usage: rust-client v3|v5 HOST PORT SCENARIO");
        return ExitCode::from(2);
    };
    let Ok(port) = port.parse::<u16>() else {
        eprintln!("{port} is no port");
        return ExitCode::from(2);
    };
    let connect = |options: Options| -> Result<Box<dyn Client>> {
        match version.as_str() {
            "v3" => Ok(Box::new(v3::connect(host, port, options)?)),
            "v5" => Ok(Box::new(v5::connect(host, port, options)?)),
            other => Err(format!("no version {other}")),
        }
    };
    match run(scenario, &connect) {
        Ok(()) => {
            println!("ok");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{version} {scenario}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(scenario: &str, connect: Connect<'_>) -> Result<()> {
    match scenario {
        "qos" => qos(connect),
        "retained" => retained(connect),
        "will" => will(connect),
        "session" => session(connect),
        "shared" => shared(connect),
        "properties" => properties(connect),
        other => Err(format!("no scenario {other}")),
    }
}

fn options(id: &str) -> Options {
    Options { id: id.to_owned(), ..Options::default() }
}

fn message(topic: &str, payload: &str, qos: u8) -> Message {
    Message { topic: topic.to_owned(), payload: payload.to_owned(), qos, ..Message::default() }
}

fn expect(client: &mut Box<dyn Client>, wanted: &Message) -> Result<()> {
    let got = client.next().map_err(|error| format!("waiting for {wanted:?}: {error}"))?;
    if got == *wanted { Ok(()) } else { Err(format!("expected {wanted:?}, got {got:?}")) }
}

fn qos(connect: Connect<'_>) -> Result<()> {
    let mut subscriber = connect(options("rs-sub"))?;
    let mut publisher = connect(options("rs-pub"))?;
    subscriber.subscribe("rs/+/x", 2)?;
    for qos in 0..=2 {
        let sent = message(&format!("rs/{qos}/x"), &format!("qos {qos}"), qos);
        publisher.publish(&sent)?;
        expect(&mut subscriber, &sent)?;
    }
    publisher.disconnect()?;
    subscriber.disconnect()
}

fn retained(connect: Connect<'_>) -> Result<()> {
    let mut publisher = connect(options("rs-pub"))?;
    let kept = Message { retain: true, ..message("rs/retained", "kept", 1) };
    publisher.publish(&kept)?;
    let mut subscriber = connect(options("rs-sub"))?;
    subscriber.subscribe("rs/#", 1)?;
    expect(&mut subscriber, &kept)?;
    publisher.publish(&Message { payload: String::new(), ..kept })?;
    expect(&mut subscriber, &message("rs/retained", "", 1))?;
    let mut late = connect(options("rs-late"))?;
    late.subscribe("rs/#", 1)?;
    let live = message("rs/live", "first", 1);
    publisher.publish(&live)?;
    expect(&mut late, &live)
}

fn will(connect: Connect<'_>) -> Result<()> {
    let mut subscriber = connect(options("rs-sub"))?;
    subscriber.subscribe("rs/will", 1)?;
    let last = message("rs/will", "gone", 1);
    connect(Options { will: Some(last.clone()), ..options("rs-doomed") })?.drop_connection();
    expect(&mut subscriber, &last)
}

fn session(connect: Connect<'_>) -> Result<()> {
    let keeper = || Options { keep: true, ..options("rs-keeper") };
    let mut subscriber = connect(keeper())?;
    if subscriber.session_present() {
        return Err("session present at the first connection".to_owned());
    }
    subscriber.subscribe("rs/session", 2)?;
    subscriber.disconnect()?;
    let queued = message("rs/session", "while away", 2);
    connect(options("rs-pub"))?.publish(&queued)?;
    let mut subscriber = connect(keeper())?;
    if !subscriber.session_present() {
        return Err("no session present at the second connection".to_owned());
    }
    expect(&mut subscriber, &queued)
}

fn shared(connect: Connect<'_>) -> Result<()> {
    let mut members = [connect(options("rs-member-0"))?, connect(options("rs-member-1"))?];
    for member in &mut members {
        member.subscribe("$share/rs/rs/shared", 1)?;
    }
    let mut publisher = connect(options("rs-pub"))?;
    for index in 0..4 {
        publisher.publish(&message("rs/shared", &index.to_string(), 1))?;
    }
    let mut seen = BTreeSet::new();
    for member in &mut members {
        for _ in 0..2 {
            seen.insert(
                member.next().map_err(|error| format!("a member did not get its half: {error}"))?.payload,
            );
        }
    }
    if seen.len() == 4 { Ok(()) } else { Err(format!("expected four different messages, got {seen:?}")) }
}

fn properties(connect: Connect<'_>) -> Result<()> {
    let mut both = connect(options("rs-props"))?;
    both.subscribe("rs/props", 1)?;
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let sent = Message {
        content_type: Some("text/plain".to_owned()),
        user: vec![pair("b", "2"), pair("a", "1"), pair("b", "3")],
        ..message("rs/props", "x", 1)
    };
    both.publish(&sent)?;
    expect(&mut both, &sent)
}
