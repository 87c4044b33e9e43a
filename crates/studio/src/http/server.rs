//! Connections, a bounded number at a time.

use super::request::HttpRequest;
use super::response::{HttpResponse, HttpStatus};
use super::{PATIENCE, WAITING, WORKERS};
use std::io::{self, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Who answers.
pub trait Handler: Send + Sync + 'static {
    /// The answer to one that must go no further, before its body is read.
    fn refuse(&self, request: &HttpRequest) -> Option<HttpResponse>;

    /// The answer to a request.
    fn answer(&self, request: &HttpRequest) -> HttpResponse;
}

/// Answers connections from threads of its own, for as long as the process lives.
pub fn serve(listener: TcpListener, handler: Arc<dyn Handler>) -> io::Result<()> {
    let (sender, receiver) = sync_channel::<TcpStream>(WAITING);
    let receiver = Arc::new(Mutex::new(receiver));
    for number in 0..WORKERS {
        let (receiver, handler) = (receiver.clone(), handler.clone());
        std::thread::Builder::new().name(format!("studio {number}")).spawn(move || {
            while let Some(stream) = next(&receiver) {
                answer(stream, handler.as_ref());
            }
        })?;
    }
    std::thread::Builder::new().name("studio door".into()).spawn(move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => {
                    if sender.send(stream).is_err() {
                        return;
                    }
                }
                // Out of file descriptors, or a client that left at once: others may fare better in a while.
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    })?;
    Ok(())
}

fn next(receiver: &Mutex<Receiver<TcpStream>>) -> Option<TcpStream> {
    receiver.lock().ok()?.recv().ok()
}

/// A stream that gives up at a deadline, however slowly bytes drip in.
struct Until {
    stream: TcpStream,
    deadline: Instant,
}

impl Read for Until {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into)
    }
}

fn answer(stream: TcpStream, handler: &dyn Handler) {
    let Ok(mut writer) = stream.try_clone() else { return };
    let mut reader = Until { stream, deadline: Instant::now() + PATIENCE };
    let request = HttpRequest::read(&mut reader, &|request| handler.refuse(request));
    let refused = request.is_err();
    let response = match request {
        // A mistake of ours must not cost more than this one answer.
        Ok(request) => catch_unwind(AssertUnwindSafe(|| handler.answer(&request))).unwrap_or_else(|_| {
            HttpResponse::problem(
                HttpStatus::Failed,
                "something went wrong here",
                "try again, and tell us what you did",
            )
        }),
        Err(problem) => problem,
    };
    // Whoever does not take the answer has left.
    let _ = writer.set_write_timeout(Some(PATIENCE));
    let _ = response.write(&mut writer);
    let _ = writer.shutdown(Shutdown::Write);
    if refused {
        // Unread bytes at closing would reset the connection before the answer is read: take some of them.
        reader.deadline = Instant::now() + Duration::from_millis(500);
        let _ = io::copy(&mut reader.take(16 << 20), &mut io::sink());
    }
}
