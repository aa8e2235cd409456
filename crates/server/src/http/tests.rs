use super::*;

struct State(Readiness);

impl Observe for State {
    fn readiness(&self) -> Readiness {
        self.0
    }

    fn sample(&self, out: &mut Vec<Sample>) {
        out.push(Sample::gauge("meridian_connections", "Open connections.", 7));
    }
}

/// The answer of a full listener that is ready, as text, and what came of it.
fn ask(request: &str) -> (Outcome, String) {
    ask_of(Surface::Full, Readiness::Ready, request.as_bytes())
}

fn ask_of(surface: Surface, readiness: Readiness, request: &[u8]) -> (Outcome, String) {
    let mut out = Vec::new();
    let outcome = respond(surface, request, &State(readiness), &mut out);
    (outcome, String::from_utf8(out).unwrap())
}

fn get(path: &str) -> String {
    ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).1
}

/// Status, `Content-Length` and body of an answer; the two have to agree.
fn parts(answer: &str) -> (u16, &str) {
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
    let len = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
    assert_eq!(len.parse(), Ok(body.len()), "{answer}");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

#[test]
fn pages_are_served() {
    assert_eq!(parts(&get("/healthz")), (200, "ok\n"));
    assert_eq!(parts(&get("/readyz?verbose")), (200, "ready\n"));
    assert_eq!(parts(&get("http://a:7070/healthz")), (200, "ok\n"));
    let front = get("/");
    assert!(parts(&front).0 == 200 && front.contains("text/html") && front.contains("href=\"/metrics\""));
    let metrics = get("/metrics");
    assert!(parts(&metrics).1.ends_with("meridian_connections 7\n# EOF\n"));
    assert!(
        metrics.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n")
    );
}

#[test]
fn readiness_is_told_by_the_status() {
    let request = b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n";
    let ask = |readiness| ask_of(Surface::Full, readiness, request).1;
    assert_eq!(parts(&ask(Readiness::Starting)), (503, "starting\n"));
    assert_eq!(parts(&ask(Readiness::ShuttingDown)), (503, "shutting down\n"));
}

#[test]
fn a_browser_is_shown_metrics_as_text() {
    let (_, answer) = ask("GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: text/html,*/*\r\n\r\n");
    assert!(answer.contains("Content-Type: text/plain"));
}

#[test]
fn a_head_request_gets_no_body() {
    let request = "HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    let (outcome, answer) = ask(request);
    assert!(answer.contains("Content-Length: 3\r\n") && answer.ends_with("\r\n\r\n"));
    assert_eq!(outcome, Outcome::Done { consumed: request.len(), keep_alive: true });
}

#[test]
fn refusals_help() {
    let answer = get("/metric");
    assert!(parts(&answer).0 == 404 && answer.contains("/metrics"));
    let (_, answer) = ask("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(parts(&answer).0 == 405 && answer.contains("\r\nAllow: GET, HEAD\r\n"));
    let (_, answer) = ask("GET / HTTP/1.1\r\n\r\n");
    assert!(parts(&answer).0 == 400 && answer.contains("Host"));
    let (outcome, answer) =
        ask_of(Surface::Full, Readiness::Ready, b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00");
    assert!(parts(&answer).0 == 400 && answer.contains("MQTT has a listener of its own"));
    assert_eq!(outcome, Outcome::Done { consumed: 14, keep_alive: false });
}

#[test]
fn heads_that_are_too_large_are_refused() {
    let long = format!("GET / HTTP/1.1\r\nHost: {}", "a".repeat(HEAD_BYTES_MAX));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(HEADERS_MAX + 1));
    for request in [long.clone(), format!("{long}\r\n\r\n"), many] {
        let (outcome, answer) = ask(&request);
        assert_eq!(parts(&answer).0, 431);
        assert!(matches!(outcome, Outcome::Done { keep_alive: false, .. }));
    }
}

#[test]
fn an_incomplete_head_is_waited_for() {
    let request = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    for end in 0..request.len() {
        assert_eq!(ask(&request[..end]), (Outcome::Incomplete, String::new()));
    }
    let done = Outcome::Done { consumed: request.len(), keep_alive: true };
    assert_eq!(ask(&format!("{request}GET /next")).0, done);
}

#[test]
fn connections_are_kept_as_the_version_and_the_client_say() {
    let keeps = |request: &str| match ask(request) {
        (Outcome::Done { keep_alive, .. }, answer) => {
            assert_eq!(answer.contains("Connection: keep-alive"), keep_alive);
            keep_alive
        }
        (other, _) => panic!("{other:?}"),
    };
    assert!(keeps("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(!keeps("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n"));
    assert!(!keeps("GET / HTTP/1.0\r\n\r\n"));
    assert!(keeps("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    assert!(!keeps("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"));
    assert!(!keeps("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
}

const UPGRADE: &str = "GET /mqtt HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";

#[test]
fn a_websocket_is_opened_on_both_surfaces() {
    for surface in [Surface::Full, Surface::WebSocket] {
        let (outcome, answer) = ask_of(surface, Readiness::Ready, format!("{UPGRADE}\x02").as_bytes());
        assert_eq!(outcome, Outcome::Upgrade { consumed: UPGRADE.len() });
        assert!(answer.starts_with("HTTP/1.1 101 ") && answer.contains("Sec-WebSocket-Protocol: mqtt\r\n"));
    }
}

#[test]
fn a_websocket_elsewhere_and_a_plain_request_to_mqtt_are_refused() {
    let (_, answer) = ask_of(Surface::WebSocket, Readiness::Ready, UPGRADE.replace("/mqtt", "/").as_bytes());
    assert!(parts(&answer).0 == 404 && answer.contains("at /mqtt"));
    let request = "GET /mqtt HTTP/1.1\r\nHost: a\r\n\r\n";
    let (outcome, answer) = ask(request);
    assert!(parts(&answer).0 == 426 && answer.contains("Upgrade: websocket"));
    assert_eq!(outcome, Outcome::Done { consumed: request.len(), keep_alive: false });
}
