//! Sans-I/O HTTP/1.1: health, readiness, metrics, a front page, and the door to MQTT over WebSocket.
//!
//! The connection driver appends what it reads to a buffer and calls [`respond`] as long as there is something in it:
//!
//! ```text
//! loop {
//!     match respond(surface, &input, &state, &mut output) {
//!         Outcome::Incomplete => break,                        // read more; close if the head takes too long
//!         Outcome::Done { consumed, keep_alive: true } => input.advance(consumed),
//!         Outcome::Done { keep_alive: false, .. } => close once `output` is written,
//!         Outcome::Upgrade { consumed } => input.advance(consumed), and from here on
//!             both directions are frames: Decoder::new(Role::Server, Kinds::BinaryOnly, limit)
//!     }
//! }
//! ```
//!
//! `input` never has to hold more than [`HEAD_BYTES_MAX`]: a longer head is refused, and bodies are not read. The
//! time limit on a head is the driver's. One request costs one pass over its head and no allocation but its answer.

mod metrics;
mod page;

pub use metrics::{Kind, Number, Sample, encode as encode_metrics};

use httparse::{EMPTY_HEADER, Request};
use meridian_ws::handshake;
use std::fmt::Write as _;

/// The longest head of a request, in bytes; a longer one is answered with 431.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The most header lines of a request; more are answered with 431.
pub const HEADERS_MAX: usize = 100;
/// Where MQTT over WebSocket is served.
pub const MQTT_PATH: &str = "/mqtt";

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// `http://`: everything.
    Full,
    /// `ws://`: nothing but WebSocket.
    WebSocket,
}

/// Whether clients are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// All listeners are bound.
    Ready,
    /// Not yet.
    Starting,
    /// Not any more.
    ShuttingDown,
}

/// What the pages report. Asked by the thread that serves the request; it should not block for long.
pub trait Observe {
    /// For `/readyz`.
    fn readiness(&self) -> Readiness;

    /// Appends all samples for `/metrics`.
    fn sample(&self, out: &mut Vec<Sample>);
}

/// What came of the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The head of a request is not complete yet; nothing was consumed or written.
    Incomplete,
    /// An answer was appended.
    Done {
        /// Bytes of the request.
        consumed: usize,
        /// Whether another request may follow; else the connection is closed after the answer.
        keep_alive: bool,
    },
    /// The connection is a WebSocket now, and the answer that says so was appended.
    Upgrade {
        /// Bytes of the request; frames follow.
        consumed: usize,
    },
}

/// Answers the request at the start of `buf`, if it is complete.
pub fn respond(surface: Surface, buf: &[u8], state: &dyn Observe, out: &mut Vec<u8>) -> Outcome {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = Request::new(&mut headers);
    match request.parse(buf) {
        Ok(httparse::Status::Complete(consumed)) if consumed <= HEAD_BYTES_MAX => {
            serve(surface, &request, consumed, state, out)
        }
        Ok(httparse::Status::Partial) if buf.len() < HEAD_BYTES_MAX => Outcome::Incomplete,
        Ok(_) => {
            let text = format!("the head of a request may have {HEAD_BYTES_MAX} bytes\n");
            refuse(Status::HeadTooLarge, &text, buf.len(), out)
        }
        Err(httparse::Error::TooManyHeaders) => {
            let text = format!("a request may have {HEADERS_MAX} header lines\n");
            refuse(Status::HeadTooLarge, &text, buf.len(), out)
        }
        Err(error) => {
            let text = format!("this is not an HTTP/1.1 request ({error}); MQTT has a listener of its own\n");
            refuse(Status::BadRequest, &text, buf.len(), out)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    HeadTooLarge,
    Unavailable,
}

impl Status {
    const fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

/// How an answer is sent.
#[derive(Clone, Copy)]
struct Delivery {
    /// Without its body.
    head_only: bool,
    /// The connection stays open.
    keep_alive: bool,
}

/// What an answer says besides its framing.
struct Answer {
    status: Status,
    content_type: &'static str,
    body: String,
}

impl Answer {
    fn text(status: Status, body: impl Into<String>) -> Self {
        Self { status, content_type: TEXT, body: body.into() }
    }
}

fn serve(
    surface: Surface,
    request: &Request<'_, '_>,
    consumed: usize,
    state: &dyn Observe,
    out: &mut Vec<u8>,
) -> Outcome {
    let path = path_of(request.path.unwrap_or_default());
    if path == MQTT_PATH {
        return match handshake::accept(request, &["mqtt"]) {
            Ok(accepted) => {
                accepted.write_response(out);
                Outcome::Upgrade { consumed }
            }
            Err(refusal) => {
                refusal.write_response(out);
                Outcome::Done { consumed, keep_alive: false }
            }
        };
    }
    let method = request.method.unwrap_or_default();
    let answer = match (method, surface) {
        _ if request.version == Some(1) && header(request, "Host").is_none() => {
            Answer::text(Status::BadRequest, "an HTTP/1.1 request needs a Host header\n")
        }
        ("GET" | "HEAD", Surface::Full) => answer_page(path, request, state),
        ("GET" | "HEAD", Surface::WebSocket) => {
            let text =
                format!("nothing is at this address; this port serves MQTT over WebSocket at {MQTT_PATH}\n");
            Answer::text(Status::NotFound, text)
        }
        _ => {
            Answer::text(Status::MethodNotAllowed, format!("{method} is not served here: use GET or HEAD\n"))
        }
    };
    let keep_alive = wants_keep_alive(request);
    write_answer(&answer, Delivery { head_only: method == "HEAD", keep_alive }, out);
    Outcome::Done { consumed, keep_alive }
}

fn answer_page(path: &str, request: &Request<'_, '_>, state: &dyn Observe) -> Answer {
    match path {
        "/" => Answer { status: Status::Ok, content_type: HTML, body: page::front(state.readiness()) },
        "/healthz" => Answer::text(Status::Ok, "ok\n"),
        "/readyz" => match state.readiness() {
            Readiness::Ready => Answer::text(Status::Ok, "ready\n"),
            Readiness::Starting => Answer::text(Status::Unavailable, "starting\n"),
            Readiness::ShuttingDown => Answer::text(Status::Unavailable, "shutting down\n"),
        },
        "/metrics" => {
            let mut samples = Vec::new();
            state.sample(&mut samples);
            // A browser would save a type it does not know instead of showing it.
            let is_browser = header(request, "Accept").is_some_and(|accept| accept.contains("text/html"));
            let content_type = if is_browser { TEXT } else { OPEN_METRICS };
            Answer { status: Status::Ok, content_type, body: metrics::encode(&samples) }
        }
        _ => Answer::text(
            Status::NotFound,
            format!(
                "nothing is at this address; there are / /healthz /readyz /metrics and {MQTT_PATH} (WebSocket)\n"
            ),
        ),
    }
}

/// The path of a request's target, which may be a whole URL (RFC 9112 §3.2.2) and have a query.
fn path_of(target: &str) -> &str {
    let after_scheme =
        target.strip_prefix("http://").map(|rest| rest.find('/').map_or("/", |at| &rest[at..]));
    let path = after_scheme.unwrap_or(target);
    path.split('?').next().unwrap_or(path)
}

/// Whether another request may follow. Not after one with a body, which is not read.
fn wants_keep_alive(request: &Request<'_, '_>) -> bool {
    let has_body = header(request, "Transfer-Encoding").is_some()
        || header(request, "Content-Length").is_some_and(|len| len.trim() != "0");
    let asks = |word: &str| {
        let lists = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("Connection"));
        let mut words = lists
            .filter_map(|header| std::str::from_utf8(header.value).ok())
            .flat_map(|list| list.split(','));
        words.any(|it| it.trim().eq_ignore_ascii_case(word))
    };
    let by_default = request.version == Some(1);
    !has_body && !asks("close") && (by_default || asks("keep-alive"))
}

fn header<'a>(request: &'a Request<'_, '_>, name: &str) -> Option<&'a str> {
    let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(found.value).ok()
}

fn refuse(status: Status, text: &str, consumed: usize, out: &mut Vec<u8>) -> Outcome {
    write_answer(&Answer::text(status, text), Delivery { head_only: false, keep_alive: false }, out);
    Outcome::Done { consumed, keep_alive: false }
}

fn write_answer(answer: &Answer, delivery: Delivery, out: &mut Vec<u8>) {
    let connection = if delivery.keep_alive { "keep-alive" } else { "close" };
    let mut head = format!("HTTP/1.1 {}\r\n", answer.status.line());
    if answer.status == Status::MethodNotAllowed {
        head.push_str("Allow: GET, HEAD\r\n");
    }
    let _ = write!(
        head,
        "Content-Type: {}\r\nContent-Length: {}\r\nConnection: {connection}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\n\r\n",
        answer.content_type,
        answer.body.len(),
    );
    out.extend_from_slice(head.as_bytes());
    if !delivery.head_only {
        out.extend_from_slice(answer.body.as_bytes());
    }
}

#[cfg(test)]
mod tests;
