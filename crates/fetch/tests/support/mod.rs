//! A server on this machine that has one folder of files, and can misbehave.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How the server treats a request.
#[derive(Clone, Copy, Default)]
pub struct Manners {
    /// Answers every request with the whole file.
    pub ignores_ranges: bool,
    /// Breaks the connection after so many bytes of a body.
    pub breaks_after: Option<usize>,
    /// Sends so many bytes of a body, then nothing, and keeps the connection.
    pub stalls_after: Option<usize>,
    /// Never says how long a file is, and sends its last byte for ever.
    pub is_endless: bool,
}

/// Listens until the test is over.
pub struct Server {
    /// Its address, without a slash at the end.
    pub address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn start(files: &[(&str, Vec<u8>)], manners: Manners) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let files: HashMap<String, Vec<u8>> =
            files.iter().map(|(path, bytes)| (format!("/{path}"), bytes.clone())).collect();
        let (seen, files) = (requests.clone(), Arc::new(files));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, files) = (seen.clone(), files.clone());
                // A client that leaves is its own business.
                std::thread::spawn(move || drop(answer(stream, &files, manners, &seen)));
            }
        });
        Server { address, requests }
    }

    /// What was asked for so far: the path, and the first byte where there was one.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn answer(
    mut stream: TcpStream,
    files: &HashMap<String, Vec<u8>>,
    manners: Manners,
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            return Ok(());
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let range =
        head.lines().find_map(|line| line.strip_prefix("range: bytes=")).map(|range| range.trim_end_matches('-'));
    let start: usize = range.and_then(|range| range.parse().ok()).filter(|_| !manners.ignores_ranges).unwrap_or(0);
    let asked = range.map_or_else(|| path.clone(), |range| format!("{path} from {range}"));
    seen.lock().unwrap().push(asked);
    let Some(file) = files.get(&path) else {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let total = file.len();
    if start >= total {
        return write!(stream, "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let body = &file[start..];
    match start {
        _ if manners.is_endless => write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?,
        0 => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {total}\r\nConnection: close\r\n\r\n")?,
        _ => {
            let (last, length) = (total - 1, body.len());
            write!(stream, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{last}/{total}\r\n")?;
            write!(stream, "Content-Length: {length}\r\nConnection: close\r\n\r\n")?;
        }
    }
    let count = manners.breaks_after.or(manners.stalls_after).unwrap_or(body.len()).min(body.len());
    stream.write_all(&body[..count])?;
    stream.flush()?;
    if manners.stalls_after.is_some() {
        std::thread::sleep(Duration::from_secs(60));
    }
    if !manners.is_endless {
        return Ok(());
    }
    loop {
        stream.write_all(&[body[body.len() - 1]; 4096])?;
    }
}
