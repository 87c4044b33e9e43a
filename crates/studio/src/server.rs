//! Connections: each has one request, and none waits for another one's client.
//!
//! A single thread talks to all clients, so a slow one costs memory, but no thread; work is done by [`spawn_blocking`].
//!
//! [`spawn_blocking`]: tokio::task::spawn_blocking

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// Longest request line and headers together.
const LONGEST_HEAD: usize = 16 << 10;
/// Most headers.
const MOST_HEADERS: usize = 64;
/// Within this time the headers of a request must have come, and then its body.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Within this time a connection is over: its request is read, worked on, and its answer taken.
const LONGEST_CONNECTION: Duration = Duration::from_secs(60);
/// How long bytes of a request that was answered early are still read.
const LINGER: Duration = Duration::from_millis(500);
/// Most connections.
const CONNECTIONS: usize = 256;
/// Requests that are worked on at the same time.
const WORKERS: usize = 32;

/// Answers connections from threads of its own, for as long as the process lives.
pub fn serve(listener: std::net::TcpListener, router: Router) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(WORKERS)
        .thread_name("studio worker")
        .build()?;
    let entered = runtime.enter();
    let listener = TcpListener::from_std(listener)?;
    drop(entered);
    let listen = move || runtime.block_on(accept(listener, router));
    std::thread::Builder::new().name("studio server".into()).spawn(listen)?;
    Ok(())
}

/// A connection that may still be open.
struct OpenConnection {
    task: AbortHandle,
    /// Whether its request is being answered.
    busy: Arc<AtomicBool>,
}

async fn accept(listener: TcpListener, router: Router) {
    let mut open: VecDeque<OpenConnection> = VecDeque::new();
    loop {
        let accepted = listener.accept().await;
        open.retain(|connection| !connection.task.is_finished());
        if accepted.is_err() || open.len() >= CONNECTIONS {
            // The oldest client that has not sent its request gives way.
            let idle = open.iter().position(|connection| !connection.busy.load(Ordering::Relaxed)).unwrap_or(0);
            open.remove(idle).inspect(|connection| connection.task.abort());
        }
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, or a client that left at once: try again in a moment.
            sleep(Duration::from_millis(1)).await;
            continue;
        };
        let busy = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(answer(stream, router.clone(), busy.clone())).abort_handle();
        open.push_back(OpenConnection { task, busy });
    }
}

async fn answer(stream: TcpStream, router: Router, busy: Arc<AtomicBool>) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request| {
        busy.store(true, Ordering::Relaxed);
        Box::pin(router.call(request))
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_headers(MOST_HEADERS)
        .max_buf_size(LONGEST_HEAD)
        .keep_alive(false)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    // What went wrong has been answered where that was possible.
    let _ = timeout(LONGEST_CONNECTION, poll_fn(|context| connection.poll_without_shutdown(context))).await;
    let mut stream = connection.into_parts().io.into_inner();
    busy.store(false, Ordering::Relaxed);
    // Bytes left unread at closing would reset the connection before the client has read the answer.
    let _ = stream.shutdown().await;
    let _ = timeout(LINGER, copy(&mut stream.take(16 << 20), &mut sink())).await;
}
