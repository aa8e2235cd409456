//! What has to hold beyond the form of each value.

use super::listen::ListenUrl;
use super::problem::Fault;
use super::schema::nearest;
use super::{ByteSize, Class, Config, Duration};
use crate::log::LEVELS;
use meridian_types::limits::MQTT_PACKET_BYTES_MAX;
use std::collections::HashMap;
use std::time::Duration as Span;

/// The smallest limit on packets that leaves room for a CONNECT with a client id and a short will.
const PACKET_BYTES_MIN: u64 = 256;
/// Below this an outbox could not hold a usual batch of small messages.
const OUTBOX_BYTES_MIN: u64 = 1024;
/// Every server has to take client ids of this length [MQTT-3.1.3-5].
const CLIENT_ID_BYTES_MIN: usize = 23;
const THREADS_MAX: usize = 1024;
/// Less would not hold what a few busy clients have under way.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// A key, what is wrong with its value, and what to do.
type Broken = (String, Fault, Option<String>);
/// A key, and what is odd about its value.
type Odd = (String, String);

/// Checks a configuration whose values are all of the right form.
pub(super) fn check(config: &Config) -> (Vec<Broken>, Vec<Odd>) {
    let mut checker = Checker::default();
    checker.check_server(config);
    checker.check_listeners(config);
    checker.check_mqtt(config);
    checker.check_queues(config);
    checker.check_classes(config);
    (checker.broken, checker.odd)
}

#[derive(Default)]
struct Checker {
    broken: Vec<Broken>,
    odd: Vec<Odd>,
}

impl Checker {
    fn require(&mut self, holds: bool, key: impl Into<String>, rule: &str, found: impl ToString) {
        if !holds {
            let key = key.into();
            let fault = Fault::Invalid { key: key.clone(), rule: rule.to_owned(), found: found.to_string() };
            self.broken.push((key, fault, None));
        }
    }

    fn check_server(&mut self, config: &Config) {
        let threads = config.server.threads;
        let rule = format!("at most {THREADS_MAX} threads make sense");
        self.require(threads <= THREADS_MAX, "server.threads", &rule, threads);
        let memory = config.server.memory_max;
        let rule = format!("0 for half of the machine's memory, or at least {}", ByteSize(MEMORY_BYTES_MIN));
        self.require(memory.0 == 0 || memory.0 >= MEMORY_BYTES_MIN, "server.memory_max", &rule, memory);
        if let Err(error) = crate::log::parse_level(&config.log.level) {
            let key = "log.level".to_owned();
            let help = nearest(&error.level, LEVELS).map(|level| format!("did you mean \"{level}\"?"));
            self.broken.push((key.clone(), Fault::BadLevel { key, source: error }, help));
        }
    }

    fn check_listeners(&mut self, config: &Config) {
        let mut seen: HashMap<(String, u16), usize> = HashMap::new();
        for (index, listener) in config.listener.iter().enumerate() {
            let key = |name: &str| format!("listener[{index}].{name}");
            match ListenUrl::parse(&listener.url) {
                Ok(url) => {
                    let other = (url.port > 0).then(|| seen.insert((url.host, url.port), index)).flatten();
                    let rule = "two listeners cannot share an address";
                    self.require(other.is_none(), key("url"), rule, format!("\"{}\" twice", listener.url));
                }
                Err(error) => {
                    let help = error.help();
                    self.broken.push((key("url"), Fault::BadUrl { key: key("url"), source: error }, help));
                }
            }
            self.require(listener.backlog > 0, key("backlog"), "at least 1", listener.backlog);
            let timeout = listener.connect_timeout;
            self.require(!timeout.0.is_zero(), key("connect_timeout"), "longer than zero", timeout);
            if let Some(class) = &listener.class {
                self.check_class_exists(config, key("class"), class);
            }
        }
        if config.listener.is_empty() {
            self.odd.push(("listener".to_owned(), "there is no listener: nobody can connect".to_owned()));
        }
    }

    fn check_class_exists(&mut self, config: &Config, key: String, name: &str) {
        let names = || config.class.iter().map(|class| class.name.as_str());
        if names().any(|known| known == name) {
            return;
        }
        let help = nearest(name, names()).map_or_else(
            || "define it: [[class]] with a name".to_owned(),
            |meant| format!("did you mean \"{meant}\"?"),
        );
        let rule = "a class that exists is needed".to_owned();
        let fault = Fault::Invalid { key: key.clone(), rule, found: format!("\"{name}\"") };
        self.broken.push((key, fault, Some(help)));
    }

    fn check_mqtt(&mut self, config: &Config) {
        let mqtt = &config.mqtt;
        let packet = mqtt.packet_bytes_max;
        let rule =
            format!("from {PACKET_BYTES_MIN} bytes to {MQTT_PACKET_BYTES_MAX}, the largest MQTT can express");
        let fits = (PACKET_BYTES_MIN..=MQTT_PACKET_BYTES_MAX as u64).contains(&packet.0);
        self.require(fits, "mqtt.packet_bytes_max", &rule, packet);
        for (key, value) in [
            ("mqtt.receive_maximum", usize::from(mqtt.receive_maximum)),
            ("mqtt.inflight_max", usize::from(mqtt.inflight_max)),
            ("mqtt.sessions_max", mqtt.sessions_max),
            ("mqtt.subscriptions_max", mqtt.subscriptions_max),
        ] {
            self.require(value > 0, key, "at least 1", value);
        }
        let rule = format!("at least {CLIENT_ID_BYTES_MIN}, as MQTT demands, and at most 65535");
        let id_max = mqtt.client_id_bytes_max;
        let fits = (CLIENT_ID_BYTES_MIN..=65_535).contains(&id_max);
        self.require(fits, "mqtt.client_id_bytes_max", &rule, id_max);
        self.check_seconds("mqtt.keep_alive_max", mqtt.keep_alive_max, u64::from(u16::MAX));
        self.check_seconds("mqtt.session_expiry_max", mqtt.session_expiry_max, u64::from(u32::MAX));
        self.check_seconds("mqtt.session_expiry_v311", mqtt.session_expiry_v311, u64::from(u32::MAX));
        if mqtt.session_expiry_v311 > mqtt.session_expiry_max {
            let text = "it is longer than session_expiry_max, which holds for 3.1.1 clients too";
            self.odd.push(("mqtt.session_expiry_v311".to_owned(), text.to_owned()));
        }
    }

    /// MQTT counts in whole seconds, and in no more than a field holds.
    fn check_seconds(&mut self, key: &str, value: Duration, secs_max: u64) {
        let rule = format!("whole seconds, at most {secs_max}, which is all that MQTT can express");
        let fits = value.0.subsec_nanos() == 0 && value.0 <= Span::from_secs(secs_max);
        self.require(fits, key, &rule, value);
    }

    fn check_queues(&mut self, config: &Config) {
        let queue = &config.queue;
        self.check_queue("queue", queue.messages_max, queue.bytes_max, queue.outbox_bytes_max);
        for (index, class) in config.class.iter().enumerate() {
            self.check_queue(
                &format!("class[{index}]"),
                class.messages_max.unwrap_or_else(|| queue.messages_max.max(1)),
                class.bytes_max.unwrap_or_else(|| queue.bytes_max.max(ByteSize(1))),
                class
                    .outbox_bytes_max
                    .unwrap_or_else(|| queue.outbox_bytes_max.max(ByteSize(OUTBOX_BYTES_MIN))),
            );
        }
    }

    fn check_queue(&mut self, path: &str, messages: usize, bytes: ByteSize, outbox: ByteSize) {
        self.require(messages > 0, format!("{path}.messages_max"), "at least 1", messages);
        self.require(bytes.0 > 0, format!("{path}.bytes_max"), "at least 1 byte", bytes);
        let rule = format!("at least {}", ByteSize(OUTBOX_BYTES_MIN));
        self.require(outbox.0 >= OUTBOX_BYTES_MIN, format!("{path}.outbox_bytes_max"), &rule, outbox);
    }

    fn check_classes(&mut self, config: &Config) {
        for (index, class) in config.class.iter().enumerate() {
            let key = format!("class[{index}].name");
            if class.name.is_empty() {
                let rule = "a class needs a name".to_owned();
                let fault = Fault::Invalid { key, rule, found: "none".to_owned() };
                self.broken.push((format!("class[{index}]"), fault, None));
                continue;
            }
            let is_first = config.class.iter().position(|other| other.name == class.name) == Some(index);
            let found = format!("\"{}\" twice", class.name);
            self.require(is_first, key.clone(), "each class needs a name of its own", found);
            if is_first && !is_reachable(config, class) {
                let text = format!(
                    "no client can be of class \"{}\": it has neither client_id nor user_name, and no listener names it",
                    class.name
                );
                self.odd.push((key, text));
            }
        }
    }
}

fn is_reachable(config: &Config, class: &Class) -> bool {
    let is_named = || config.listener.iter().any(|listener| listener.class.as_deref() == Some(&class.name));
    class.client_id.is_some() || class.user_name.is_some() || is_named()
}
