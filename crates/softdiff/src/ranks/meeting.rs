//! Where the ranks meet without MPI: rank 0 listens, the others come, and each learns NCCL's identifier and the hosts of all. A rank
//! that does not come is named, which NCCL would wait for without end.

use super::RankError;
use super::connect::{accept, dial, missing, watched};
use crate::run::Holder;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long the ranks wait for each other.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// What a rank waits longer than rank 0, which says who is missing.
const LONGER: Duration = Duration::from_secs(5);
/// Bytes of a host's name.
pub(super) const NAME: usize = 256;
/// First byte of an answer: all have come.
const ALL: u8 = 1;

/// What all ranks know when they have met.
pub(super) struct Meeting {
    /// What rank 0 brought.
    pub(super) token: Vec<u8>,
    /// The host of each rank.
    pub(super) hosts: Vec<String>,
    /// Connections to the other ranks: on rank 0 to all, elsewhere to rank 0.
    pub(super) peers: Vec<(usize, TcpStream)>,
}

/// Waits at `HOST:PORT` for all ranks. `token` is what rank 0 brings, of `length` bytes.
pub(super) fn meet(
    place: &str,
    (rank, size): (usize, usize),
    length: usize,
    token: impl FnOnce() -> Result<Vec<u8>, softdiff_engine::Error>,
    patience: Duration,
) -> Result<Meeting, RankError> {
    let greeting = format!("softdiff, one of {size} ranks");
    match rank {
        0 => receive(place, size, greeting.as_bytes(), token()?, patience),
        _ => arrive(place, (rank, size), greeting.as_bytes(), length, patience),
    }
}

fn receive(
    place: &str,
    size: usize,
    greeting: &[u8],
    token: Vec<u8>,
    patience: Duration,
) -> Result<Meeting, RankError> {
    let listener = listen(place).map_err(|error| {
        let (what, problem) = (format!("rank 0 cannot listen at {place}"), error.to_string());
        softdiff_engine::Error::Device { what, problem, hint: "set MASTER_PORT to a port that is free".into() }
    })?;
    let unheard = |error: std::io::Error| RankError::Lost(format!("the ranks did not meet at {place}: {error}"));
    let mut peers = accept(&listener, greeting, size, patience).map_err(unheard)?;
    let mut hosts = vec![Holder::this().host; size];
    let mut lost = missing(&peers, size);
    for (rank, stream) in &mut peers {
        let mut name = [0; NAME];
        match watched(stream).and_then(|()| stream.read_exact(&mut name)) {
            Ok(()) => hosts[*rank] = host_of(&name),
            Err(_) => lost.push(*rank),
        }
    }
    if !lost.is_empty() {
        lost.sort_unstable();
        let problem = not_come(&lost, size, place, patience);
        let answer = [&[0], problem.as_bytes()].concat();
        // One that is gone by now needs no answer.
        peers.iter_mut().for_each(|(_, stream)| drop(stream.write_all(&answer)));
        return Err(RankError::Lost(problem));
    }
    let names: Vec<u8> = hosts.iter().flat_map(|host| name_of(host)).collect();
    let answer = [&[ALL], &token[..], &names].concat();
    for (_, stream) in &mut peers {
        stream.write_all(&answer).map_err(unheard)?;
    }
    Ok(Meeting { token, hosts, peers })
}

fn arrive(
    place: &str,
    (rank, size): (usize, usize),
    greeting: &[u8],
    length: usize,
    patience: Duration,
) -> Result<Meeting, RankError> {
    let mut stream = dial(&[place], patience)
        .map_err(|error| RankError::Lost(format!("{} ({error})", not_come(&[0], size, place, patience))))?;
    let mut answer = vec![0; 1 + length + size * NAME];
    let heard = (|| {
        stream.write_all(greeting)?;
        stream.write_all(&(rank as u32).to_le_bytes())?;
        stream.write_all(&name_of(&Holder::this().host))?;
        stream.set_read_timeout(Some(patience + LONGER))?;
        stream.read_exact(&mut answer[..1])?;
        if answer[0] != ALL {
            let mut problem = String::new();
            (&stream).take(length as u64 + NAME as u64).read_to_string(&mut problem)?;
            return Ok(Some(problem));
        }
        stream.read_exact(&mut answer[1..])?;
        watched(&stream)?;
        Ok(None)
    })();
    match heard {
        Ok(None) => {
            let (token, names) = answer[1..].split_at(length);
            let hosts = names.chunks_exact(NAME).map(host_of).collect();
            Ok(Meeting { token: token.to_vec(), hosts, peers: vec![(0, stream)] })
        }
        Ok(Some(problem)) => Err(RankError::Lost(problem)),
        Err(error) => {
            let error: std::io::Error = error;
            Err(RankError::Lost(format!("rank 0 at {place} ended before all {size} ranks had arrived ({error})")))
        }
    }
}

/// Listens at an address of this machine, or at that port of all of them where another machine forwards it.
fn listen(place: &str) -> std::io::Result<TcpListener> {
    let addresses: Vec<_> = place.to_socket_addrs()?.collect();
    TcpListener::bind(&addresses[..]).or_else(|error| match addresses.first() {
        Some(address) if error.kind() == std::io::ErrorKind::AddrNotAvailable => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
        }
        _ => Err(error),
    })
}

fn not_come(ranks: &[usize], size: usize, place: &str, patience: Duration) -> String {
    let numbers: Vec<String> = ranks.iter().map(usize::to_string).collect();
    let (word, has) = if ranks.len() == 1 { ("rank", "has") } else { ("ranks", "have") };
    let seconds = patience.as_secs();
    format!("{word} {} of {size} {has} not arrived at {place} within {seconds} s", numbers.join(", "))
}

/// A host's name, with zeros at the end.
pub(super) fn name_of(host: &str) -> [u8; NAME] {
    let mut name = [0; NAME];
    let length = host.len().min(NAME);
    name[..length].copy_from_slice(&host.as_bytes()[..length]);
    name
}

pub(super) fn host_of(name: &[u8]) -> String {
    String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Instant;

    /// A port that is free.
    fn place() -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        format!("localhost:{}", listener.local_addr().unwrap().port())
    }

    /// What these of `size` ranks hear.
    fn heard(ranks: &[usize], size: usize, place: &str, patience: Duration) -> Vec<Result<Meeting, String>> {
        let one = |rank: usize| {
            let met = meet(place, (rank, size), 3, || Ok(vec![5, 6, 7]), patience);
            met.map_err(|error| {
                assert!(matches!(error, RankError::Lost(_)), "{error}");
                error.to_string()
            })
        };
        thread::scope(|scope| {
            let threads: Vec<_> = ranks.iter().map(|&rank| scope.spawn(move || one(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn all_ranks_have_the_token_the_hosts_and_connections() {
        for size in [2, 5] {
            let order: Vec<usize> = (0..size).rev().collect();
            let met = heard(&order, size, &place(), Duration::from_secs(20));
            for (rank, meeting) in order.into_iter().zip(met) {
                let Meeting { token, hosts, peers } = meeting.unwrap();
                assert_eq!((token, hosts), (vec![5, 6, 7], vec![Holder::this().host; size]));
                let mut found: Vec<usize> = peers.iter().map(|(peer, _)| *peer).collect();
                found.sort_unstable();
                assert_eq!(found, if rank == 0 { (1..size).collect() } else { vec![0] });
            }
        }
    }

    #[test]
    fn ranks_that_do_not_arrive_are_named_to_all_others_in_time() {
        let (place, begun) = (place(), Instant::now());
        let words = format!("ranks 2, 4 of 5 have not arrived at {place} within 2 s");
        for said in heard(&[0, 1, 3], 5, &place, Duration::from_secs(2)) {
            assert_eq!(said.err().unwrap(), words);
        }
        assert!(begun.elapsed() < Duration::from_secs(8));
        // A rank with another idea of their number is none of them.
        thread::scope(|scope| {
            scope.spawn(|| heard(&[1], 3, &place, Duration::from_secs(2)));
            let said = heard(&[0], 2, &place, Duration::from_secs(2)).remove(0).err().unwrap();
            assert!(said.starts_with("rank 1 of 2 has not arrived"), "{said}");
        });
    }

    #[test]
    fn rank_0_that_does_not_arrive_or_ends_is_named() {
        let place = place();
        let said = heard(&[1], 2, &place, Duration::from_secs(1)).remove(0).err().unwrap();
        assert!(said.starts_with(&format!("rank 0 of 2 has not arrived at {place} within 1 s (")), "{said}");
        let listener = listen(&place).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || drop(listener.accept()));
            let said = heard(&[1], 2, &place, Duration::from_secs(5)).remove(0).err().unwrap();
            assert!(said.starts_with(&format!("rank 0 at {place} ended before")), "{said}");
        });
    }
}
