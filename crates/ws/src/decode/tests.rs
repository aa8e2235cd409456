use super::*;
use crate::frame::{encode_close, encode_frame};
use proptest::prelude::*;

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// What a whole exchange says, with pieces of data joined per message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Message(Opcode, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
}

/// Feeds `chunks` one after the other and gathers what they say.
fn decode(decoder: &mut Decoder, chunks: Vec<Vec<u8>>) -> Result<Vec<Said>, Error> {
    let mut said = Vec::new();
    let mut message = Vec::new();
    for mut chunk in chunks {
        let mut at = 0;
        loop {
            let step = decoder.next(&mut chunk[at..])?;
            let data = match step.event {
                Event::NeedMore => {
                    assert_eq!(at + step.consumed, chunk.len(), "all input is used up");
                    break;
                }
                Event::Data { range, kind, last } => Some((at + range.start..at + range.end, kind, last)),
                Event::Control(Control::Ping(payload)) => {
                    said.push(Said::Ping(payload.to_vec()));
                    None
                }
                Event::Control(Control::Pong(payload)) => {
                    said.push(Said::Pong(payload.to_vec()));
                    None
                }
                Event::Control(Control::Close(close)) => {
                    said.push(Said::Close(close.map(|close| (close.code.get(), close.reason.to_owned()))));
                    None
                }
            };
            at += step.consumed;
            if let Some((range, kind, last)) = data {
                message.extend_from_slice(&chunk[range]);
                if last {
                    said.push(Said::Message(kind, std::mem::take(&mut message)));
                }
            }
        }
    }
    Ok(said)
}

fn server() -> Decoder {
    Decoder::new(Role::Server, Kinds::BinaryOnly, 1 << 20)
}

fn masked(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_frame(&mut out, opcode, payload, Some(MASK));
    out
}

/// A masked frame that is not the last of its message.
fn unfinished(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut out = masked(opcode, payload);
    out[0] &= 0x7f;
    out
}

fn error_of(bytes: &[u8]) -> Error {
    decode(&mut server(), vec![bytes.to_vec()]).unwrap_err()
}

#[test]
fn frames_of_the_rfc_are_read() {
    let mut client = Decoder::new(Role::Client, Kinds::Any, 1 << 20);
    let said = decode(&mut client, vec![b"\x01\x03Hel\x80\x02lo".to_vec()]).unwrap();
    assert_eq!(said, [Said::Message(Opcode::Text, b"Hello".to_vec())]);
    let mut server = Decoder::new(Role::Server, Kinds::Any, 1 << 20);
    let said = decode(&mut server, vec![b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58".to_vec()]).unwrap();
    assert_eq!(said, [Said::Message(Opcode::Text, b"Hello".to_vec())]);
}

#[test]
fn control_frames_may_stand_between_fragments() {
    let input = [
        unfinished(Opcode::Binary, b"ab"),
        masked(Opcode::Ping, b"p"),
        masked(Opcode::Pong, b""),
        masked(Opcode::Continuation, b"c"),
    ];
    let said = decode(&mut server(), vec![input.concat()]).unwrap();
    let message = Said::Message(Opcode::Binary, b"abc".to_vec());
    assert_eq!(said, [Said::Ping(b"p".to_vec()), Said::Pong(vec![]), message]);
}

#[test]
fn what_follows_a_close_frame_is_ignored() {
    let mut input = Vec::new();
    encode_close(&mut input, CloseCode::GOING_AWAY, "bye", Some(MASK));
    input.extend_from_slice(b"\xff\xff\xff");
    let mut decoder = server();
    let said = decode(&mut decoder, vec![input]).unwrap();
    assert_eq!(said, [Said::Close(Some((1001, "bye".to_owned())))]);
    assert!(decoder.is_closed());
}

#[test]
fn an_empty_message_and_an_empty_close_are_heard() {
    let said = decode(&mut server(), vec![masked(Opcode::Binary, b""), masked(Opcode::Close, b"")]).unwrap();
    assert_eq!(said, [Said::Message(Opcode::Binary, vec![]), Said::Close(None)]);
}

#[test]
fn rules_of_framing_are_kept() {
    assert_eq!(error_of(b"\xc2"), Error::ReservedBits { byte: 0xc2 });
    assert_eq!(error_of(b"\x83"), Error::UnknownOpcode { bits: 3 });
    assert_eq!(error_of(b"\x8b"), Error::UnknownOpcode { bits: 0xb });
    assert_eq!(error_of(b"\x82\x01"), Error::NotMasked);
    assert_eq!(error_of(b"\x09"), Error::FragmentedControl);
    assert_eq!(error_of(b"\x89\xfe"), Error::ControlTooLong);
    assert_eq!(error_of(b"\x82\xfe\x00\x7d\0\0\0\0"), Error::BadLength { len: 125 });
    assert_eq!(error_of(b"\x82\xff\0\0\0\0\0\0\xff\xff\0\0\0\0"), Error::BadLength { len: 65_535 });
    assert_eq!(error_of(b"\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0"), Error::BadLength { len: 1 << 63 });
    assert_eq!(error_of(&masked(Opcode::Continuation, b"")), Error::NoMessage);
    let twice = [unfinished(Opcode::Binary, b"a"), masked(Opcode::Binary, b"b")].concat();
    assert_eq!(error_of(&twice), Error::MessageUnfinished);
    let mut client = Decoder::new(Role::Client, Kinds::Any, 10);
    assert_eq!(decode(&mut client, vec![masked(Opcode::Binary, b"")]), Err(Error::Masked));
}

#[test]
fn refusals_carry_the_close_code_that_fits() {
    assert_eq!(error_of(b"\x81").close_code(), CloseCode::UNSUPPORTED_DATA);
    assert_eq!(error_of(b"\xc2").close_code(), CloseCode::PROTOCOL_ERROR);
    assert_eq!(error_of(&masked(Opcode::Close, b"\x03\xe8\xff")).close_code(), CloseCode::INVALID_PAYLOAD);
    assert_eq!(error_of(&masked(Opcode::Close, b"\x03\xee")), Error::BadCloseCode { value: Some(1006) });
}

#[test]
fn a_frame_above_the_limit_is_refused_from_its_header() {
    let mut decoder = Decoder::new(Role::Server, Kinds::BinaryOnly, 1000);
    let header = crate::Header::new(Opcode::Binary, 1001, Some(MASK));
    let error = decode(&mut decoder, vec![header.as_bytes().to_vec()]).unwrap_err();
    assert_eq!(error, Error::TooLarge { len: 1001, limit: 1000 });
    assert_eq!(error.close_code(), CloseCode::TOO_BIG);
    let mut decoder = Decoder::new(Role::Server, Kinds::BinaryOnly, 1000);
    assert!(decode(&mut decoder, vec![masked(Opcode::Binary, &[7; 1000])]).is_ok());
}

#[test]
fn unframing_joins_payload_and_keeps_what_came_before_an_error() {
    let mut buf =
        [masked(Opcode::Binary, b"one"), masked(Opcode::Ping, b"!"), masked(Opcode::Binary, b"two")].concat();
    buf.push(0x81);
    let mut pings = Vec::new();
    let unframed = server().unframe(&mut buf, |control| pings.push(format!("{control:?}")));
    assert_eq!(&buf[..unframed.payload_len], b"onetwo");
    assert_eq!(unframed.outcome, Err(Error::Text));
    assert_eq!(pings, ["Ping([33])"]);
}

#[test]
fn a_decoder_that_holds_nothing_is_idle() {
    let mut decoder = server();
    let frame = masked(Opcode::Binary, b"abc");
    for (fed, byte) in frame.iter().enumerate() {
        assert_eq!(decoder.is_idle(), fed == 0, "after {fed} bytes");
        decode(&mut decoder, vec![vec![*byte]]).unwrap();
    }
    assert!(decoder.is_idle());
}

/// A message in fragments, with pings between them, or a ping or pong alone.
#[derive(Clone, Debug)]
enum Sent {
    Fragments(Vec<Vec<u8>>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
}

fn sent() -> impl Strategy<Value = Sent> {
    let control = || prop::collection::vec(any::<u8>(), 0..=CONTROL_BYTES_MAX);
    let fragment = prop::collection::vec(any::<u8>(), 0..300);
    prop_oneof![
        prop::collection::vec(fragment, 1..4).prop_map(Sent::Fragments),
        control().prop_map(Sent::Ping),
        control().prop_map(Sent::Pong),
    ]
}

fn encode_all(sent: &[Sent], mask: Option<[u8; 4]>) -> (Vec<u8>, Vec<Said>) {
    let mut bytes = Vec::new();
    let mut said = Vec::new();
    for item in sent {
        match item {
            Sent::Fragments(fragments) => {
                for (index, fragment) in fragments.iter().enumerate() {
                    let opcode = if index == 0 { Opcode::Binary } else { Opcode::Continuation };
                    let start = bytes.len();
                    encode_frame(&mut bytes, opcode, fragment, mask);
                    if index + 1 < fragments.len() {
                        bytes[start] &= 0x7f;
                    }
                }
                said.push(Said::Message(Opcode::Binary, fragments.concat()));
            }
            Sent::Ping(payload) => {
                encode_frame(&mut bytes, Opcode::Ping, payload, mask);
                said.push(Said::Ping(payload.clone()));
            }
            Sent::Pong(payload) => {
                encode_frame(&mut bytes, Opcode::Pong, payload, mask);
                said.push(Said::Pong(payload.clone()));
            }
        }
    }
    (bytes, said)
}

fn cut(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
}

proptest! {
    #[test]
    fn any_split_of_the_input_says_the_same(
        sent in prop::collection::vec(sent(), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        mask in any::<Option<[u8; 4]>>(),
    ) {
        let (bytes, expected) = encode_all(&sent, mask);
        let role = if mask.is_some() { Role::Server } else { Role::Client };
        let mut decoder = Decoder::new(role, Kinds::BinaryOnly, 1 << 20);
        prop_assert_eq!(decode(&mut decoder, cut(&bytes, &cuts)).unwrap(), expected);
        prop_assert!(decoder.is_idle());
    }

    #[test]
    fn unframing_any_split_gives_the_stream_of_payload(
        sent in prop::collection::vec(sent(), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let (bytes, said) = encode_all(&sent, Some(MASK));
        let mut decoder = server();
        let mut stream = Vec::new();
        for mut chunk in cut(&bytes, &cuts) {
            let unframed = decoder.unframe(&mut chunk, |_| ());
            prop_assert_eq!(unframed.outcome, Ok(()));
            stream.extend_from_slice(&chunk[..unframed.payload_len]);
        }
        let payloads = said.iter().filter_map(|said| match said {
            Said::Message(_, payload) => Some(payload.clone()),
            _ => None,
        });
        prop_assert_eq!(stream, payloads.collect::<Vec<_>>().concat());
    }

    #[test]
    fn arbitrary_bytes_never_panic(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..10)) {
        for role in [Role::Server, Role::Client] {
            let mut decoder = Decoder::new(role, Kinds::Any, 1 << 16);
            // One chunk at a time, so that the decoder is also used after an error.
            for chunk in &chunks {
                if decode(&mut decoder, vec![chunk.clone()]).is_err() {
                    prop_assert!(decoder.is_closed());
                }
            }
        }
    }
}
