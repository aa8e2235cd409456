//! The data path of a broker and nothing else: `meridian-sketch PORT [THREADS]`. See the README beside it for what is
//! left out.

mod connection;
mod packets;
mod router;

use connection::Connection;
use router::Router;
use std::sync::Arc;
use tokio::net::TcpListener;

const USAGE: &str = "usage: meridian-sketch PORT [THREADS]";
const THREADS: usize = 2;

fn main() {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().and_then(|text| text.parse().ok()).expect(USAGE);
    let threads = args.next().map_or(THREADS, |text| text.parse().expect(USAGE));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_io().build();
    runtime.expect("the runtime starts").block_on(listen(port));
}

async fn listen(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
    let router = Arc::new(Router::default());
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        let (read_half, write_half) = stream.into_split();
        let connection = Arc::new(Connection::new(write_half));
        tokio::spawn(connection::write_when_writable(Arc::clone(&connection)));
        let router = Arc::clone(&router);
        tokio::spawn(async move {
            packets::serve(&router, read_half, &connection).await;
            router.remove(&connection);
            connection.close();
        });
    }
}
