use super::*;
use std::path::Path;

fn parse(text: &str) -> Result<Loaded, Vec<Problem>> {
    Config::parse(text, Path::new("m.toml"))
}

/// All that is wrong with `text`, each with its place and help.
fn problems(text: &str) -> Vec<String> {
    parse(text).expect_err("the text has a problem").iter().map(Problem::to_string).collect()
}

/// The one thing that is wrong with a configuration of flags and variables alone.
fn problem_of(sources: &Sources) -> String {
    let problems = Config::load(sources).expect_err("there is a problem");
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].to_string()
}

fn set(text: &str) -> Sources {
    Sources { set: vec![text.to_owned()], ..Sources::default() }
}

fn env(name: &str, value: &str) -> Sources {
    Sources { env: vec![(name.to_owned(), value.to_owned())], ..Sources::default() }
}

#[test]
fn an_empty_file_is_the_default() {
    let loaded = parse("").unwrap();
    assert_eq!(loaded.config, Config::default());
    assert!(loaded.warnings.is_empty() && loaded.has_default_listeners());
}

#[test]
fn human_units_are_read() {
    let text = "[mqtt]\npacket_bytes_max = \"10 MiB\"\nkeep_alive_max = \"5 min\"\n\
        [queue]\nbytes_max = 4096\noutbox_bytes_max = \"64kB\"\n[server]\nsys_interval = 0";
    let config = parse(text).unwrap().config;
    assert_eq!(config.mqtt.packet_bytes_max, ByteSize(10 << 20));
    assert_eq!(config.mqtt.keep_alive_max, secs(300));
    assert_eq!((config.queue.bytes_max, config.queue.outbox_bytes_max), (ByteSize(4096), ByteSize(64_000)));
    assert_eq!(config.server.sys_interval, secs(0));
}

#[test]
fn spans_and_sizes_print_as_they_are_read() {
    for text in ["0s", "250ms", "30s", "5 min", "36h", "7d", "90s"] {
        assert_eq!(text.parse::<Duration>().unwrap().to_string(), text);
    }
    for text in ["0", "1000", "64 KiB", "10 MiB", "1536 MiB", "3 GiB"] {
        assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
    }
    assert_eq!("1h 30min".parse(), Ok(secs(5400)));
    assert_eq!("2 weeks".parse(), Ok(days(14)));
    for bad in ["", "s", "30", "5 parsecs", "1.5s", "-1s", "99999999999999999999s", "18446744073709551615d"] {
        assert!(bad.parse::<Duration>().is_err(), "{bad}");
    }
    for bad in ["", "MiB", "10 M", "-1", "1.5 GiB", "18446744073709551615 KiB"] {
        assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
    }
}

#[test]
fn an_unknown_key_is_shown_with_its_place_and_the_nearest() {
    let expected = "m.toml:2:1: unknown key `recieve_maximum` in [mqtt]\n  2 | recieve_maximum = 10\n    | \
        ^^^^^^^^^^^^^^^\n  help: did you mean `receive_maximum`?";
    assert_eq!(problems("[mqtt]\nrecieve_maximum = 10"), [expected]);
    for (text, help) in [
        ("[mqtt]\nmax_sessions = 1", "did you mean `sessions_max`?"),
        ("[mqtt]\nshareStrategy = 1", "did you mean `share_strategy`?"),
        ("[queue]\npacket_bytes_max = 1", "`packet_bytes_max` is a key of [mqtt]"),
        ("[log]\nfile = \"x\"", "the keys of [log] are level, format"),
        ("[listeners]\nurl = 1", "did you mean [[listener]]?"),
        ("[tls]", "the sections are server, log"),
        ("level = \"info\"", "`level` is a key of [log]"),
        ("port = 1883", "put it under a section"),
    ] {
        let found = problems(text);
        assert!(found.len() == 1 && found[0].contains(help), "{text}: {found:?}");
    }
}

#[test]
fn a_wrong_value_says_what_was_expected_and_found() {
    for (text, what) in [
        (
            "[mqtt]\nreceive_maximum = 70000",
            "m.toml:2:19: `mqtt.receive_maximum`: expected a whole number up to 65535, found 70000",
        ),
        ("[mqtt]\nreceive_maximum = -1", "found -1"),
        (
            "[mqtt]\npacket_bytes_max = \"10 M\"",
            "expected a size such as \"64 KiB\" or \"10 MiB\", found \"10 M\"",
        ),
        (
            "[server]\nsys_interval = 30",
            "expected a span of time with its unit, such as \"30s\" or \"5 min\", found 30",
        ),
        ("[queue]\noverflow = \"drop_oldest\"", "help: did you mean drop-oldest?"),
        (
            "[queue]\noverflow = \"none\"",
            "expected \"drop-oldest\", \"drop-newest\", \"disconnect\" or \"block\"",
        ),
        ("[queue]\noffline_qos0 = \"yes\"", "expected true or false, found \"yes\""),
        ("[log]\nlevel = [1]", "expected text in quotes, found an array"),
        ("mqtt = 5", "expected [mqtt], found 5"),
        ("[listener]\nurl = \"mqtt://a:1\"", "expected [[listener]], found [listener]"),
        ("[[mqtt]]\n", "expected [mqtt], found [[mqtt]]"),
    ] {
        let found = problems(text);
        assert!(found.len() == 1 && found[0].contains(what), "{text}: {found:?}");
    }
}

#[test]
fn all_that_is_wrong_is_reported_at_once_and_in_order() {
    let text = "[mqtt]\nkeepalive = 1\nsessions_max = 0\n[[listener]]\nurl = \"mqtts://a:1\"\nclass = \"x\"\n[log]\nlevel = 3";
    let found = problems(text);
    let places: Vec<_> = found.iter().map(|problem| problem.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["m.toml:2:1", "m.toml:8:9", "m.toml:5:7", "m.toml:6:9", "m.toml:3:16"], "{found:#?}");
}

#[test]
fn broken_toml_is_shown_with_its_place() {
    let found = problems("[mqtt]\nreceive_maximum = \n[queue\n");
    assert!(found[0].starts_with("m.toml:2:19: "), "{found:?}");
    assert!(found.len() == 2 && found[1].starts_with("m.toml:3:7: unclosed table"), "{found:?}");
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for (text, what) in [
        ("[mqtt]\nkeep_alive_max = \"20h\"", "at most 65535"),
        ("[mqtt]\nkeep_alive_max = \"500ms\"", "whole seconds"),
        ("[mqtt]\npacket_bytes_max = \"1 GiB\"", "the largest MQTT can express, found 1 GiB"),
        ("[mqtt]\nclient_id_bytes_max = 10", "at least 23"),
        ("[queue]\nmessages_max = 0", "at least 1, found 0"),
        (
            "[[class]]\nname = \"a\"\nclient_id = \"*\"\noutbox_bytes_max = 1",
            "`class[0].outbox_bytes_max`: at least 1 KiB",
        ),
        ("[[listener]]\nurl = \"mqtt://a:1\"\nbacklog = 0", "`listener[0].backlog`: at least 1"),
        (
            "[[listener]]\nurl = \"mqtt://a:1\"\n[[listener]]\nurl = \"ws://a:1\"",
            "m.toml:4:7: `listener[1].url`: two listeners",
        ),
        ("[[listener]]", "m.toml:1:1: `listener[0].url` is no address"),
        ("[[class]]\nclient_id = \"*\"", "m.toml:1:1: `class[0].name`: a class needs a name"),
        ("[log]\nlevel = \"loud=\"", "`log.level` is no level: \"loud=\" is none of off, error"),
    ] {
        let found = problems(text);
        assert!(found.len() == 1 && found[0].contains(what), "{text}: {found:?}");
    }
    let text =
        "[[listener]]\nurl = \"mqtt://a:1\"\nclass = \"slwo\"\n[[class]]\nname = \"slow\"\nclient_id = \"*\"";
    assert!(problems(text)[0].ends_with("help: did you mean \"slow\"?"));
}

#[test]
fn what_is_odd_is_warned_about() {
    let warnings = parse("[[class]]\nname = \"idle\"").unwrap().warnings;
    assert!(
        warnings.len() == 1 && warnings[0].to_string().starts_with("m.toml:2:8: no client can be of class")
    );
    let warnings = Config::load(&env("MERIDIAN_SERVICE_HOST", "10.0.0.1")).unwrap().warnings;
    assert!(warnings[0].to_string().starts_with("MERIDIAN_SERVICE_HOST: this variable names no key"));
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let path = std::env::temp_dir().join(format!("meridian-config-{}.toml", std::process::id()));
    std::fs::write(&path, "[mqtt]\nreceive_maximum = 1\ninflight_max = 1\nsessions_max = 1").unwrap();
    let variable = |name: &str, value: &str| (format!("MERIDIAN_MQTT_{name}"), value.to_owned());
    let sources = Sources {
        file: Some(path.clone()),
        env: vec![variable("RECEIVE_MAXIMUM", "2"), variable("INFLIGHT_MAX", "2")],
        listen: vec!["mqtt://[::1]:0".to_owned()],
        set: vec!["mqtt.receive_maximum = 3".to_owned(), "listener[0].backlog=9".to_owned()],
    };
    let loaded = Config::load(&sources).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mqtt = &loaded.config.mqtt;
    assert_eq!((mqtt.receive_maximum, mqtt.inflight_max, mqtt.sessions_max), (3, 2, 1));
    assert_eq!(loaded.origin("mqtt.receive_maximum").to_string(), "--set mqtt.receive_maximum = 3");
    assert_eq!(loaded.origin("mqtt.inflight_max").to_string(), "MERIDIAN_MQTT_INFLIGHT_MAX");
    assert_eq!(loaded.origin("mqtt.sessions_max").to_string(), format!("{}:4", path.display()));
    assert_eq!(*loaded.origin("mqtt.share_strategy"), Origin::Default);
    let listener = Listener { url: "mqtt://[::1]:0".to_owned(), backlog: 9, ..Listener::default() };
    assert_eq!(loaded.config.listener, [listener]);
    assert!(!loaded.has_default_listeners());
}

#[test]
fn listeners_of_the_environment_are_a_list() {
    let loaded = Config::load(&env("MERIDIAN_LISTEN", "mqtt://a:1, ws://b:2")).unwrap();
    let urls: Vec<_> = loaded.config.listener.iter().map(|listener| listener.url.as_str()).collect();
    assert_eq!(urls, ["mqtt://a:1", "ws://b:2"]);
    assert_eq!(loaded.origin("listener[1].url").to_string(), "MERIDIAN_LISTEN");
}

#[test]
fn wrong_flags_and_variables_are_named() {
    for (sources, what) in [
        (
            set("mqtt.receive_maximum=lots"),
            "--set mqtt.receive_maximum=lots: `mqtt.receive_maximum`: expected a whole number",
        ),
        (set("mqtt.recieve_maximum=1"), "help: did you mean `receive_maximum`?"),
        (set("mqt.receive_maximum=1"), "help: did you mean [mqtt]?"),
        (set("receive_maximum"), "expected section.key=value"),
        (set("listener.backlog=1"), "help: say which one: listener[0].backlog"),
        (set("listener[2].backlog=1"), "there is no listener[2], only 2 of them, counted from 0"),
        (
            env("MERIDIAN_QUEUE_OVERFLOW", "blok"),
            "MERIDIAN_QUEUE_OVERFLOW: `queue.overflow`: expected \"drop-oldest\"",
        ),
        (env("MERIDIAN_QUEUE_OVERFLWO", "block"), "help: did you mean MERIDIAN_QUEUE_OVERFLOW?"),
        (
            Sources { listen: vec!["1883".to_owned()], ..Sources::default() },
            "--listen 1883: `listener[0].url` is no address",
        ),
    ] {
        let found = problem_of(&sources);
        assert!(found.contains(what), "{found}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let sources = Sources { file: Some("no/such.toml".into()), ..Sources::default() };
    let found = problem_of(&sources);
    assert!(found.starts_with("no/such.toml:1:1: the configuration file cannot be read: "), "{found}");
}

#[test]
fn what_is_printed_reads_back_as_the_same() {
    let text = "[log]\nlevel = \"a=\\\"debug\"\n[[class]]\nname = \"ä \\\\ b\"\nclient_id = \"x-*\"\noverflow = \"block\"\n\
        [[class]]\nname = \"c\"\nuser_name = \"u\"\n[mqtt]\nshare_strategy = \"hash-topic\"\nkeep_alive_max = \"90s\"";
    let text = text.replace("a=\\\"debug", "info");
    let loaded = parse(&text).unwrap();
    for comments in [Comments::None, Comments::Meaning, Comments::Origin] {
        let printed = loaded.to_toml(comments);
        assert_eq!(parse(&printed).expect(&printed).config, loaded.config);
    }
    assert_eq!(parse(&loaded.config.to_toml()).unwrap().config, loaded.config);
    assert!(loaded.to_toml(Comments::Origin).contains("# m.toml:"));
}

#[test]
fn the_reference_is_the_default_and_names_every_key() {
    let reference = Config::reference();
    assert_eq!(parse(&reference).expect(&reference).config, Config::default());
    let markdown = Config::reference_markdown();
    for key in ["threads", "share_strategy", "outbox_bytes_max", "client_id", "backlog", "MERIDIAN_LOG_LEVEL"]
    {
        assert!(reference.contains(key) || key.starts_with("MERIDIAN"), "{key}");
        assert!(markdown.contains(key), "{key}");
    }
}

#[test]
fn a_difference_says_what_changed_and_whether_it_needs_a_restart() {
    let old = parse("[[class]]\nname = \"a\"\nclient_id = \"*\"").unwrap().config;
    let mut new = old.clone();
    new.mqtt.packet_bytes_max = ByteSize(1 << 20);
    new.server.threads = 3;
    new.class[0].overflow = Some(Overflow::Block);
    new.class.push(Class { name: "b".to_owned(), ..Class::default() });
    new.listener.pop();
    let changes: Vec<_> = diff(&old, &new).iter().map(Change::to_string).collect();
    assert_eq!(
        changes,
        [
            "server.threads: 0 -> 3 (needs a restart)",
            "listener[1]: \"http://127.0.0.1:7070\" -> unset (needs a restart)",
            "mqtt.packet_bytes_max: \"16 MiB\" -> \"1 MiB\"",
            "class[0].overflow: unset -> \"block\"",
            "class[1]: unset -> \"b\"",
        ]
    );
    assert!(diff(&old, &old).is_empty());
}
