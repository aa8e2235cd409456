//! What a connection reads, and what each packet does.

use crate::connection::{Connection, Touched, put_len};
use crate::router::Router;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;

/// Bytes of one read.
const READ_LEN: usize = 64 * 1024;

/// Reads until the connection ends.
pub(crate) async fn serve(router: &Router, mut read_half: OwnedReadHalf, connection: &Arc<Connection>) {
    let mut buffer = vec![0; READ_LEN];
    let mut len = 0;
    let mut touched = Vec::new();
    loop {
        match read_half.read(&mut buffer[len..]).await {
            Ok(0) | Err(_) => return,
            Ok(read) => len += read,
        }
        let mut used = 0;
        while let Some((header_len, body_len)) = frame(&buffer[used..len]) {
            let body = &buffer[used + header_len..][..body_len];
            if !handle(router, connection, buffer[used], body, &mut touched) {
                return;
            }
            used += header_len + body_len;
        }
        buffer.copy_within(used..len, 0);
        len -= used;
        for target in touched.drain(..) {
            target.flush();
        }
    }
}

/// Lengths of header and body of the packet at the start, if it is whole.
fn frame(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut body_len = 0;
    for (index, byte) in bytes.iter().enumerate().skip(1).take(4) {
        body_len |= usize::from(byte & 0x7f) << (7 * (index - 1));
        if byte & 0x80 == 0 {
            let header_len = index + 1;
            return (bytes.len() >= header_len + body_len).then_some((header_len, body_len));
        }
    }
    None
}

/// Handles one packet; false if it ends the connection.
fn handle(
    router: &Router,
    connection: &Arc<Connection>,
    first_byte: u8,
    body: &[u8],
    touched: &mut Touched,
) -> bool {
    match first_byte >> 4 {
        1 => connection.reply(&[0x20, 2, 0, 0], touched),
        3 => publish(router, connection, first_byte >> 1 & 3, body, touched),
        4 => connection.acknowledge(),
        8 => subscribe(router, connection, body, touched),
        12 => connection.reply(&[0xd0, 0], touched),
        14 => return false,
        _ => {}
    }
    true
}

fn publish(router: &Router, connection: &Arc<Connection>, qos: u8, body: &[u8], touched: &mut Touched) {
    let topic_end = 2 + be16(body);
    let payload = if qos > 0 { &body[topic_end + 2..] } else { &body[topic_end..] };
    for (target, subscribed_qos) in router.lookup(&body[2..topic_end]).iter() {
        target.deliver(&body[..topic_end], qos.min(*subscribed_qos), payload, touched);
    }
    if qos == 1 {
        connection.reply(&[0x40, 2, body[topic_end], body[topic_end + 1]], touched);
    }
}

fn subscribe(router: &Router, connection: &Arc<Connection>, body: &[u8], touched: &mut Touched) {
    let mut rest = &body[2..];
    let mut codes = Vec::new();
    while !rest.is_empty() {
        let (filter, after) = rest[2..].split_at(be16(rest));
        let qos = after[0] & 3;
        router.add(filter, (Arc::clone(connection), qos));
        codes.push(qos);
        rest = &after[1..];
    }
    router.publish_changes();
    let mut suback = vec![0x90];
    put_len(&mut suback, 2 + codes.len());
    suback.extend_from_slice(&body[..2]);
    suback.extend_from_slice(&codes);
    connection.reply(&suback, touched);
}

fn be16(bytes: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([bytes[0], bytes[1]]))
}
