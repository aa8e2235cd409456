//! The generator against a broker that misbehaves to order: what it reports must be what was done to it.

use super::measure::{Measured, measure};
use super::packet::{self, Version};
use super::plan;
use super::settings::Settings;
use super::stats::Counters;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What becomes of every tenth message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Drop,
    Repeat,
}

/// Hands every message to every subscriber, apart from its fault.
struct Toy {
    fault: Fault,
    subscribers: Mutex<Vec<TcpStream>>,
    messages: AtomicU64,
    faults: AtomicU64,
}

impl Toy {
    fn start(fault: Fault) -> (Arc<Self>, SocketAddr) {
        let toy = Self {
            fault,
            subscribers: Mutex::default(),
            messages: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        };
        let toy = Arc::new(toy);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::clone(&toy);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let toy = Arc::clone(&shared);
                thread::spawn(move || toy.serve(stream));
            }
        });
        (toy, address)
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(len @ 1..) = stream.read(&mut chunk) {
            bytes.extend_from_slice(&chunk[..len]);
            while let Ok(Some(frame)) = packet::frame(&bytes) {
                if bytes.len() < frame.total_len {
                    break;
                }
                let packet: Vec<u8> = bytes.drain(..frame.total_len).collect();
                self.handle(&mut stream, &packet, frame.header_len);
            }
        }
    }

    fn handle(&self, stream: &mut TcpStream, packet: &[u8], header_len: usize) {
        match packet[0] >> 4 {
            1 => stream.write_all(&[0x20, 2, 0, 0]).expect("the client is there"),
            8 => {
                self.subscribers
                    .lock()
                    .expect("no panic")
                    .push(stream.try_clone().expect("a descriptor is left"));
                let [high, low] = [packet[header_len], packet[header_len + 1]];
                stream.write_all(&[0x90, 3, high, low, 0]).expect("the client is there");
            }
            3 => {
                let number = self.messages.fetch_add(1, Ordering::Relaxed);
                let faulty = number % 10 == 5 && self.fault != Fault::None;
                let copies = match self.fault {
                    Fault::Drop if faulty => 0,
                    Fault::Repeat if faulty => 2,
                    _ => 1,
                };
                self.faults.fetch_add(u64::from(faulty), Ordering::Relaxed);
                for mut subscriber in self.subscribers.lock().expect("no panic").iter() {
                    for _ in 0..copies {
                        // A subscriber that left at the end of the run is no fault.
                        let _ = subscriber.write_all(packet);
                    }
                }
            }
            _ => {}
        }
    }
}

fn settings(address: SocketAddr) -> Settings {
    Settings {
        url: format!("mqtt://{address}"),
        address,
        version: Version::V311,
        username: None,
        password: None,
        prefix: "bench".to_owned(),
        pids: Vec::new(),
        duration: Duration::from_millis(200),
        warm_up: Duration::from_millis(50),
        drain: Duration::from_secs(2),
        connecting: 10,
        filters_per_subscribe: 1,
        threads: 1,
        qos: 0,
        subscribe_qos: 0,
        size: 64,
        rate: Some(2_000.0),
        window: None,
        inflight: 1,
        batch: 32,
    }
}

fn one_to_three(settings: Settings) -> Measured {
    let shape = plan::FanOut {
        publishers: 1,
        topics: 1,
        subscribers: 3,
        wildcard: false,
        idle_subscribers: 0,
        idle_topics: 0,
        idle_distinct: false,
        blocked_subscribers: 0,
    };
    let plan = plan::fan_out(&settings, &shape).expect("one publisher is few enough");
    measure(plan, settings).expect("the toy broker answers")
}

fn missing(run: &Measured) -> u64 {
    let Counters { delivered, duplicates, .. } = run.total;
    run.expected + duplicates - delivered
}

#[test]
fn a_faithful_broker_loses_nothing() {
    let (toy, address) = Toy::start(Fault::None);
    let run = one_to_three(settings(address));
    assert_eq!(run.total.published, toy.messages.load(Ordering::Relaxed));
    assert_eq!(run.expected, 3 * run.total.published);
    let Counters { gaps, duplicates, reordered, foreign, .. } = run.total;
    assert_eq!((missing(&run), gaps, duplicates, reordered, foreign), (0, 0, 0, 0, 0));
    assert!((1..=run.total.delivered).contains(&run.latency.len()));
}

#[test]
fn a_closed_loop_delivers_all_it_published() {
    let (_, address) = Toy::start(Fault::None);
    let run = one_to_three(Settings { rate: None, window: Some(4), threads: 2, ..settings(address) });
    assert!(run.total.published > 0);
    assert_eq!((missing(&run), run.total.written_off), (0, 0));
}

#[test]
fn dropped_messages_are_counted_as_lost_at_each_subscriber() {
    let (toy, address) = Toy::start(Fault::Drop);
    let run = one_to_three(settings(address));
    let dropped = 3 * toy.faults.load(Ordering::Relaxed);
    assert!(dropped > 0);
    assert_eq!((missing(&run), run.total.duplicates), (dropped, 0));
}

#[test]
fn repeated_messages_are_counted_and_hide_no_loss() {
    let (toy, address) = Toy::start(Fault::Repeat);
    let run = one_to_three(settings(address));
    let repeated = 3 * toy.faults.load(Ordering::Relaxed);
    assert!(repeated > 0);
    assert_eq!((missing(&run), run.total.duplicates), (0, repeated));
}

#[test]
fn a_broker_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let settings = settings(address);
    let plan = plan::idle(&settings, 1, false);
    let error = measure(plan, settings).err().expect("nobody listens");
    assert!(error.to_string().contains("refused"), "{error}");
}
