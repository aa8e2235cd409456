//! The WebSocket codec and handshake.

use meridian_ws::decode::{Control, Decoder, Error, Event, Kinds, Role};
use meridian_ws::frame::{Opcode, encode_frame};
use meridian_ws::handshake::{ClientHandshake, accept};

const FRAME_BYTES_MAX: u64 = 1 << 16;

/// Everything a stream of frames held.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    payload: Vec<u8>,
    /// Debug texts of the control frames, which borrow from the decoder.
    controls: Vec<String>,
    messages: usize,
    error: Option<Error>,
}

/// Reads frames. The first byte picks the role, the kinds of message and the size of the pieces in which the rest is
/// read a second time: what comes out may not depend on how the stream was cut.
pub fn check_frames(input: &[u8]) {
    let Some((settings, stream)) = input.split_first() else { return };
    let role = if settings & 1 == 0 { Role::Server } else { Role::Client };
    let kinds = if settings & 2 == 0 { Kinds::BinaryOnly } else { Kinds::Any };
    let chunk_len = usize::from(settings >> 2) + 1;
    let decoder = || Decoder::new(role, kinds, FRAME_BYTES_MAX);
    let whole = hear(decoder(), stream, stream.len().max(1));
    assert_eq!(whole, hear(decoder(), stream, chunk_len), "in pieces of {chunk_len}");
    let unframed = unframe(decoder(), stream, chunk_len);
    assert_eq!(
        (&unframed.payload, &unframed.controls, &unframed.error),
        (&whole.payload, &whole.controls, &whole.error)
    );
    check_round_trip(role, &whole.payload);
}

fn hear(mut decoder: Decoder, stream: &[u8], chunk_len: usize) -> Heard {
    let mut heard = Heard::default();
    for chunk in stream.chunks(chunk_len) {
        let mut chunk = chunk.to_vec();
        let mut at = 0;
        loop {
            let step = match decoder.next(&mut chunk[at..]) {
                Ok(step) => step,
                Err(error) => {
                    heard.error = Some(error);
                    return heard;
                }
            };
            let consumed = step.consumed;
            match step.event {
                Event::Data { range, last, .. } => {
                    heard.messages += usize::from(last);
                    heard.payload.extend_from_slice(&chunk[at + range.start..at + range.end]);
                }
                Event::Control(control) => heard.controls.push(describe(control)),
                Event::NeedMore => {
                    assert_eq!(at + consumed, chunk.len(), "bytes were left over");
                    break;
                }
            }
            at += consumed;
        }
    }
    heard
}

fn unframe(mut decoder: Decoder, stream: &[u8], chunk_len: usize) -> Heard {
    let mut heard = Heard::default();
    for chunk in stream.chunks(chunk_len) {
        let mut chunk = chunk.to_vec();
        let unframed = decoder.unframe(&mut chunk, |control| heard.controls.push(describe(control)));
        heard.payload.extend_from_slice(&chunk[..unframed.payload_len]);
        if let Err(error) = unframed.outcome {
            heard.error = Some(error);
            assert!(decoder.is_closed());
            break;
        }
    }
    heard
}

fn describe(control: Control<'_>) -> String {
    format!("{control:?}")
}

/// What is framed comes out again.
fn check_round_trip(role: Role, payload: &[u8]) {
    let mask = matches!(role, Role::Server).then_some([1, 2, 3, 4]);
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, Opcode::Binary, payload, mask);
    let heard = hear(Decoder::new(role, Kinds::BinaryOnly, u64::MAX), &bytes, bytes.len());
    assert_eq!((heard.payload.as_slice(), heard.messages, heard.error), (payload, 1, None));
}

/// Reads an HTTP head as a server, and as a client the answer.
pub fn check_handshake(input: &[u8]) {
    let client = ClientHandshake::new([7; 16], "mqtt");
    let _ = client.check(input);
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    if !matches!(request.parse(input), Ok(httparse::Status::Complete(_))) {
        return;
    }
    let mut response = Vec::new();
    match accept(&request, &["mqtt"]) {
        Ok(accepted) => accepted.write_response(&mut response),
        Err(refusal) => {
            refusal.write_response(&mut response);
            assert!(client.check(&response).is_err(), "a refusal was taken for an agreement");
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let parsed = httparse::Response::new(&mut headers).parse(&response);
    assert!(matches!(parsed, Ok(httparse::Status::Complete(_))), "{:?}", String::from_utf8_lossy(&response));
}
