use super::*;
use proptest::prelude::*;

const GOOD: &str = "GET /mqtt HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: WebSocket\r\n\
    Connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Protocol: mqttv3.1, mqtt\r\nSec-WebSocket-Version: 13\r\n\r\n";

/// Lets the server answer `head` and gives the answer as text, or the refusal.
fn answer(head: &str) -> Result<String, Refusal> {
    let mut headers = [EMPTY_HEADER; 16];
    let mut request = Request::new(&mut headers);
    assert!(request.parse(head.as_bytes()).unwrap().is_complete());
    let mut out = Vec::new();
    accept(&request, &["mqtt"])?.write_response(&mut out);
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn the_handshake_of_the_rfc_is_accepted_with_mqtt_chosen() {
    let response = answer(GOOD).unwrap();
    assert!(response.starts_with("HTTP/1.1 101 "));
    assert!(response.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    assert!(response.contains("\r\nSec-WebSocket-Protocol: mqtt\r\n") && response.ends_with("\r\n\r\n"));
}

#[test]
fn lists_spread_over_several_lines_are_read() {
    let head = GOOD.replace("mqttv3.1, mqtt", "a\r\nSec-WebSocket-Protocol: mqtt");
    assert!(answer(&head).unwrap().contains("Protocol: mqtt\r\n"));
}

#[test]
fn a_client_that_offers_no_subprotocol_gets_none() {
    let response = answer(&GOOD.replace("Sec-WebSocket-Protocol: mqttv3.1, mqtt\r\n", "")).unwrap();
    assert!(!response.contains("Sec-WebSocket-Protocol"));
}

#[test]
fn refusals_say_what_is_wrong() {
    let refusal = |from: &str, to: &str| answer(&GOOD.replace(from, to)).unwrap_err();
    assert_eq!(refusal("GET", "POST"), Refusal::Method { method: "POST".to_owned() });
    assert_eq!(refusal("HTTP/1.1", "HTTP/1.0"), Refusal::HttpVersion);
    assert_eq!(refusal("Upgrade: WebSocket", "Upgrade: h2c"), Refusal::NotUpgrade);
    assert_eq!(refusal(", Upgrade", ""), Refusal::NotUpgrade);
    assert_eq!(refusal("Host", "Hos"), Refusal::NoHost);
    assert_eq!(refusal("Version: 13", "Version: 8"), Refusal::Version { asked: "8".to_owned() });
    assert_eq!(refusal("ZQ==", "ZQ"), Refusal::Key);
    assert_eq!(refusal("ZQ==", "Z!=="), Refusal::Key);
    assert_eq!(refusal("Sec-WebSocket-Key", "Key"), Refusal::Key);
    let (spoken, offered) = ("mqtt".to_owned(), "mqttv3.1, wamp".to_owned());
    assert_eq!(refusal("mqttv3.1, mqtt", "mqttv3.1, wamp"), Refusal::Subprotocol { spoken, offered });
}

#[test]
fn a_refusal_is_a_whole_response_that_names_the_version_spoken() {
    let mut out = Vec::new();
    answer(&GOOD.replace("Version: 13", "Version: 8")).unwrap_err().write_response(&mut out);
    let mut headers = [EMPTY_HEADER; 16];
    let mut response = Response::new(&mut headers);
    let Status::Complete(head_len) = response.parse(&out).unwrap() else { panic!("incomplete") };
    assert_eq!(response.code, Some(426));
    assert_eq!(values(response.headers, "sec-websocket-version").collect::<Vec<_>>(), ["13"]);
    assert_eq!(
        values(response.headers, "content-length").next().unwrap(),
        (out.len() - head_len).to_string()
    );
    assert!(out.ends_with(b"WebSocket version 13 is spoken here, the request asks for 8\n"));
}

fn client() -> ClientHandshake<'static> {
    ClientHandshake::new(*b"the sample nonce", "mqtt")
}

#[test]
fn client_and_server_agree_byte_by_byte() {
    let mut request = Vec::new();
    client().write_request("[::1]:8083", "/mqtt", &mut request);
    let response = answer(std::str::from_utf8(&request).unwrap()).unwrap();
    for end in 0..response.len() {
        assert_eq!(client().check(&response.as_bytes()[..end]), Ok(None));
    }
    let agreed = client().check(format!("{response}\x02").as_bytes()).unwrap();
    assert_eq!(agreed, Some(Agreed { consumed: response.len(), subprotocol: true }));
}

#[test]
fn answers_that_are_not_this_websocket_are_refused() {
    let good = answer(GOOD).unwrap();
    let check = |from: &str, to: &str| client().check(good.replace(from, to).as_bytes()).unwrap_err();
    let status = AnswerError::Status { status: 404, phrase: "Not Found".to_owned() };
    assert_eq!(check("101 Switching Protocols", "404 Not Found"), status);
    assert_eq!(check("Upgrade: websocket", "Upgrade: x"), AnswerError::Header { header: "Upgrade" });
    assert_eq!(check("Connection: Upgrade", "A: b"), AnswerError::Header { header: "Connection" });
    assert_eq!(check("s3pP", "xxxx"), AnswerError::Header { header: "Sec-WebSocket-Accept" });
    assert_eq!(
        check("Protocol: mqtt", "Protocol: wamp"),
        AnswerError::Subprotocol { chosen: "wamp".to_owned() }
    );
    assert!(matches!(client().check(b"\x20\x02\x00\x00"), Err(AnswerError::NotHttp { .. })));
    let endless = format!("HTTP/1.1 101 X\r\nA: {}", "a".repeat(HEAD_BYTES_MAX));
    assert!(matches!(client().check(endless.as_bytes()), Err(AnswerError::NotHttp { .. })));
}

proptest! {
    #[test]
    fn arbitrary_answers_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let agreed = client().check(&bytes);
        prop_assert!(!matches!(agreed, Ok(Some(_))));
    }
}
