//! TCP connections of all ranks to rank 0.

use super::launcher::place;
use super::watch::BEAT;
use softdiff_engine::Error;
use softdiff_engine::ranks::Ranks;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

/// The longest that connecting may take.
const CONNECTING: Duration = Duration::from_secs(20);
/// The longest that one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(3);

/// Connections to rank 0, or from all others. Rank 0 tells the others its port and a secret by MPI.
pub(super) fn connect(ranks: &Ranks, hosts: &[String], local: bool) -> std::io::Result<Vec<(usize, TcpStream)>> {
    let other = |error: Error| std::io::Error::other(error.to_string());
    let secret = || RandomState::new().hash_one(std::process::id()).to_le_bytes();
    let listener = match ranks.is_first() {
        true => {
            let address = if local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
            TcpListener::bind((address, 0))
                .and_then(|listener| listener.local_addr().map(|at| (listener, at.port())))
                .ok()
        }
        false => None,
    };
    let greeting: Vec<u8> = match &listener {
        Some((_, port)) => [&port.to_le_bytes()[..], &own_address().octets(), &secret(), &secret()].concat(),
        None => vec![0; 22],
    };
    // Also where rank 0 has no port: the others wait for this.
    let greeting = ranks.broadcast(greeting).map_err(other)?;
    let (port, secret) = (u16::from_le_bytes([greeting[0], greeting[1]]), &greeting[6..]);
    let address = Ipv4Addr::new(greeting[2], greeting[3], greeting[4], greeting[5]).to_string();
    let streams = match listener {
        Some((listener, _)) => {
            let found = accept(&listener, secret, ranks.size(), CONNECTING)?;
            if let Some(rank) = missing(&found, ranks.size()).first() {
                return Err(std::io::Error::other(format!("rank {rank} did not connect")));
            }
            found
        }
        None if ranks.is_first() || port == 0 => return Err(std::io::Error::other("rank 0 has no TCP port")),
        None => {
            let named = std::env::var("MASTER_ADDR").unwrap_or_else(|_| hosts[0].clone());
            let places = if local { vec!["127.0.0.1"] } else { vec![named.as_str(), address.as_str()] };
            let places: Vec<String> = places.into_iter().map(|host| place(host, port)).collect();
            let places: Vec<&str> = places.iter().map(String::as_str).collect();
            let mut stream = dial(&places, CONNECTING)?;
            stream.write_all(secret)?;
            stream.write_all(&(ranks.rank() as u32).to_le_bytes())?;
            vec![(0, stream)]
        }
    };
    streams.iter().try_for_each(|(_, stream)| watched(stream))?;
    Ok(streams)
}

/// Sets up a connection for signs of life.
pub(super) fn watched(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(BEAT))?;
    stream.set_write_timeout(Some(BEAT))
}

/// The address by which others reach this machine, where it has a route; nothing is sent.
fn own_address() -> Ipv4Addr {
    let elsewhere = (Ipv4Addr::new(192, 0, 2, 1), 9);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    let address = socket.and_then(|socket| socket.connect(elsewhere).and_then(|()| socket.local_addr()));
    match address.map(|address| address.ip()) {
        Ok(IpAddr::V4(address)) => address,
        _ => Ipv4Addr::LOCALHOST,
    }
}

/// Connects to the first of these, `HOST:PORT`, that answers.
pub(super) fn dial(places: &[&str], patience: Duration) -> std::io::Result<TcpStream> {
    let begun = Instant::now();
    let mut problem = std::io::Error::other(format!("{} has no address", places[0]));
    while begun.elapsed() < patience {
        let addresses = places.iter().filter_map(|place| place.to_socket_addrs().ok());
        for address in addresses.flatten() {
            match TcpStream::connect_timeout(&address, ATTEMPT) {
                Ok(stream) => return Ok(stream),
                Err(error) => problem = error,
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(problem)
}

/// The connections of the other ranks that come in time and know the secret.
pub(super) fn accept(
    listener: &TcpListener,
    secret: &[u8],
    size: usize,
    patience: Duration,
) -> std::io::Result<Vec<(usize, TcpStream)>> {
    listener.set_nonblocking(true)?;
    let begun = Instant::now();
    let mut found: Vec<(usize, TcpStream)> = Vec::new();
    while found.len() + 1 < size && begun.elapsed() < patience {
        match listener.accept() {
            Ok((mut stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(BEAT))?;
                let mut greeting = vec![0; secret.len() + 4];
                if stream.read_exact(&mut greeting).is_ok() && &greeting[..secret.len()] == secret {
                    let number = greeting[secret.len()..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
                    if missing(&found, size).contains(&(number as usize)) {
                        found.push((number as usize, stream));
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The ranks that did not come to rank 0.
pub(super) fn missing(found: &[(usize, TcpStream)], size: usize) -> Vec<usize> {
    (1..size).filter(|rank| found.iter().all(|(other, _)| other != rank)).collect()
}
