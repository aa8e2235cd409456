//! The binary as its users run it: each test starts a broker of its own on free ports.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The program with arguments; nothing of the environment configures it.
fn meridian(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MERIDIAN_")) {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end.
fn run(args: &[&str]) -> Output {
    meridian(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A broker that is ready, and ends with the test.
struct Broker {
    child: Child,
    mqtt: String,
    http: String,
}

impl Broker {
    fn start() -> Self {
        let args =
            ["--listen", "mqtt://127.0.0.1:0", "--listen", "http://127.0.0.1:0", "--set", "server.threads=1"];
        let mut child = meridian(&args).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut url_of = |scheme: &str| {
            let url_in = |line: String| {
                line.split_whitespace().find(|word| word.starts_with(scheme)).map(str::to_owned)
            };
            lines.find_map(url_in).expect("the banner names the address")
        };
        let (mqtt, http) = (url_of("mqtt://"), url_of("http://"));
        lines.find(|line| line.contains("ready in")).expect("the banner says when it is ready");
        // A banner that goes on must not meet a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, mqtt, http }
    }

    fn websocket(&self) -> String {
        format!("{}/mqtt", self.http.replace("http://", "ws://"))
    }

    /// Publishes and expects success.
    fn publish(&self, args: &[&str]) {
        let output = run(&[&["pub", "-L", &self.mqtt], args].concat());
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A subscriber that is subscribed: a retained message of a topic of its own has come out. It counts for `-C`.
/// It leaves after half a minute, so that a message that never comes fails the test.
fn subscribed(broker: &Broker, url: &str, args: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    static PROBE_COUNT: AtomicUsize = AtomicUsize::new(0);
    let probe = format!("probe/{}", PROBE_COUNT.fetch_add(1, Ordering::Relaxed));
    broker.publish(&["-t", &probe, "-m", "probe", "-r"]);
    let mut child =
        meridian(&[&["sub", "-L", url, "-W", "30", "-t", &probe], args].concat()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("probe") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the subscriber ended early");
    }
    (child, out)
}

#[test]
fn messages_travel_at_every_qos_in_both_versions_over_both_transports() {
    let broker = Broker::start();
    for url in [broker.mqtt.clone(), broker.websocket()] {
        for version in ["3.1.1", "5"] {
            for qos in ["0", "1", "2"] {
                let (mut child, mut out) =
                    subscribed(&broker, &url, &["-t", "a/#", "-q", qos, "-V", version, "-v", "-C", "3"]);
                let options = ["-L", &url, "-q", qos, "-V", version];
                for message in [["-t", "a/b", "-m", "ä"], ["-t", "a", "-m", ""]] {
                    assert!(run(&[&["pub"], &options[..], &message[..]].concat()).status.success());
                }
                let mut text = String::new();
                out.read_to_string(&mut text).unwrap();
                assert_eq!(text, "a/b ä\na \n", "{url} {version} {qos}");
                assert!(child.wait().unwrap().success());
            }
        }
    }
}

#[test]
fn lines_of_standard_input_become_messages_in_order() {
    let broker = Broker::start();
    let (mut child, mut out) = subscribed(&broker, &broker.mqtt, &["-t", "lines", "-q", "1", "-C", "5001"]);
    let args = ["pub", "-L", &broker.mqtt, "-t", "lines", "-l", "-q", "1"];
    let mut publisher = meridian(&args).stdin(Stdio::piped()).spawn().unwrap();
    let lines: String = (0..5000).map(|number| format!("line {number}\n")).collect();
    publisher.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(publisher.wait().unwrap().success());
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    assert!(text == lines, "{} bytes came of {}", text.len(), lines.len());
    assert!(child.wait().unwrap().success());
}

#[test]
fn properties_come_out_as_json() {
    let broker = Broker::start();
    let (mut child, mut out) = subscribed(&broker, &broker.mqtt, &["-t", "j", "-C", "2", "--json"]);
    broker.publish(&[
        "-t",
        "j",
        "-m",
        "{}",
        "-D",
        "publish",
        "content-type",
        "application/json",
        "-D",
        "publish",
        "user-property",
        "a",
        "b",
        "-D",
        "publish",
        "message-expiry-interval",
        "60",
    ]);
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let json: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((json["topic"].as_str(), json["payload"].as_str()), (Some("j"), Some("{}")));
    assert_eq!(json["content_type"], "application/json");
    assert_eq!(json["user_properties"], serde_json::json!([["a", "b"]]));
    assert!(child.wait().unwrap().success());
}

#[test]
fn retained_messages_are_printed_and_cleared() {
    let broker = Broker::start();
    broker.publish(&["-t", "kept/1", "-m", "one", "-r"]);
    broker.publish(&["-t", "kept/2", "-m", "two", "-r", "-q", "1"]);
    let print =
        || stdout(&run(&["sub", "-L", &broker.mqtt, "-t", "kept/#", "--retained-only", "-F", "%t=%p %r"]));
    let printed = print();
    let mut lines: Vec<_> = printed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["kept/1=one 1", "kept/2=two 1"]);
    broker.publish(&["-t", "kept/1", "-n", "-r"]);
    assert_eq!(print(), "kept/2=two 1\n");
}

#[test]
fn a_kept_session_collects_while_away() {
    let broker = Broker::start();
    let session = ["sub", "-L", &broker.mqtt, "-c", "-i", "keeper", "-q", "1", "-t", "away"];
    assert!(run(&[&session[..], &["-E"]].concat()).status.success());
    broker.publish(&["-t", "away", "-m", "one", "-q", "1"]);
    broker.publish(&["-t", "away", "-m", "two", "-q", "2"]);
    assert_eq!(stdout(&run(&[&session[..], &["-C", "2"]].concat())), "one\ntwo\n");
}

#[test]
fn an_interrupted_subscriber_says_goodbye_and_a_killed_one_leaves_its_will() {
    let broker = Broker::start();
    let (mut watcher, mut out) = subscribed(&broker, &broker.mqtt, &["-t", "wills", "-C", "2"]);
    for (payload, signal) in [("unseen", "-INT"), ("seen", "-KILL")] {
        let will = ["--will-topic", "wills", "--will-payload", payload];
        let (mut child, _out) = subscribed(&broker, &broker.mqtt, &will);
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().success(), signal == "-INT");
    }
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    assert_eq!(text, "seen\n");
    assert!(watcher.wait().unwrap().success());
}

#[test]
fn failures_have_exit_code_1_and_say_what_to_try() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let output = run(&["pub", "-h", "127.0.0.1", "-p", &port, "-t", "a", "-m", "b"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("refused") && stderr(&output).contains("`meridian server`"));

    let broker = Broker::start();
    let output = run(&["sub", "-L", &broker.mqtt, "-t", "silence", "-C", "1", "-W", "0.2"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("0 of 1 messages came in 0.2 s"));

    let output = run(&["--listen", &broker.mqtt]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("in use") && stderr(&output).contains("meridian --listen mqtt://127.0.0.1:")
    );
    assert!(stderr(&output).starts_with("error[E0202]: mqtt://"), "{}", stderr(&output));

    let output = run(&["sub", "-L", &broker.mqtt.replace("mqtt://", "ws://"), "-t", "a"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("use mqtt:// instead of ws://"), "{}", stderr(&output));

    let output = run(&["sub", "-L", &broker.http.replace("http://", "mqtt://"), "-t", "a"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("use ws://host:port/mqtt"), "{}", stderr(&output));
}

#[test]
fn wrong_usage_has_exit_code_2() {
    for (args, what) in [
        (&["pub", "-t", "a/+", "-m", "x"][..], "must not hold the wildcards"),
        (&["sub", "-t", "a#"], "# must be the whole of the last level"),
        (&["sub", "-t", "a", "-F", "%y"], "%y is no field"),
        (&["pub", "-t", "a", "-m", "x", "-V", "3.1.1", "-x", "5"], "no session expiry"),
        (&["--set", "mqtt.recieve_maximum=1"], "did you mean `receive_maximum`?"),
        (&["--set", "mqtt.recieve_maximum=1"], "error[E0102]: --set mqtt.recieve_maximum=1: unknown key"),
        (&["config", "check", "--config", "no/such.toml"], "error[E0101]: no/such.toml"),
        (&["config", "check", "no/such.toml"], "error[E0101]: no/such.toml"),
        (&["config", "show", "no/such.toml"], "error[E0101]: no/such.toml"),
        (&["config", "check", "a.toml", "--config", "b.toml"], "cannot be used with"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(stderr(&output).contains(what), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn the_configuration_is_checked_shown_and_explained() {
    let path = std::env::temp_dir().join(format!("meridian-commands-{}.toml", std::process::id()));
    let file = path.to_str().unwrap();
    std::fs::write(&path, run(&["config", "reference"]).stdout).unwrap();
    for source in [&["--config", file][..], &[file]] {
        let check = run(&[&["config", "check"], source].concat());
        assert!(check.status.success() && stdout(&check).contains("mqtt://127.0.0.1:1883"), "{check:?}");
        let options = ["--set", "log.level=debug", "--origin"];
        let show = stdout(&run(&[&["config", "show"], source, &options].concat()));
        let line_of = |key: &str| show.lines().find(|line| line.starts_with(key)).unwrap();
        let (level, format) = (line_of("level"), line_of("format"));
        assert!(level.contains("\"debug\"") && level.ends_with("# --set log.level=debug"), "{level}");
        assert!(format.contains(file), "{format}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child = meridian(&["config", "reference"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");

    let broker = Broker::start();
    let (mut child, out) = subscribed(&broker, &broker.mqtt, &["-t", "pipe"]);
    drop(out);
    broker.publish(&["-t", "pipe", "-m", "x"]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn completions_are_printed_for_shells() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&run(&["completions", shell])).contains("meridian"), "{shell}");
    }
}
