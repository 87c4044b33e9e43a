//! `softdiff train --tensorboard`: an event file that grows with the run, whatever is killed in between.
#![cfg(unix)]

mod support;

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::{Scratch, bytes, command, done, softdiff, text, tiny};

const LONG: [&str; 4] =
    ["--set=train.steps=40", "--set=checkpoint.every=6", "--set=preview.every=20", "--set=network.channels=16"];

/// A number of Protocol Buffers, and what follows it.
fn varint(bytes: &[u8]) -> (u64, &[u8]) {
    let length = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let value = bytes[..length].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7F));
    (value, &bytes[length..])
}

/// The fields of a message: number, integer or bits, and bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let (key, rest) = varint(bytes);
        let (value, content, rest) = match key & 7 {
            0 => (varint(rest).0, &rest[..0], varint(rest).1),
            1 => (u64::from_le_bytes(rest[..8].try_into().unwrap()), &rest[..0], &rest[8..]),
            5 => (u64::from(u32::from_le_bytes(rest[..4].try_into().unwrap())), &rest[..0], &rest[4..]),
            _ => {
                let (length, rest) = varint(rest);
                let (content, rest) = rest.split_at(length as usize);
                (length, content, rest)
            }
        };
        fields.push((key >> 3, value, content));
        bytes = rest;
    }
    fields
}

/// What all event files of a folder hold: how often each tag stands at each step, and the losses. A torn last record is left out.
fn read(folder: &str) -> (BTreeMap<(u64, String), usize>, BTreeMap<u64, f32>) {
    let (mut counts, mut losses) = (BTreeMap::new(), BTreeMap::new());
    let Ok(entries) = std::fs::read_dir(folder) else { return (counts, losses) };
    for entry in entries {
        let path = entry.unwrap().path();
        assert!(path.file_name().unwrap().to_str().unwrap().starts_with("events.out.tfevents."), "{}", path.display());
        let file = bytes(path);
        let mut rest = &file[..];
        while rest.len() >= 12 {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            let Some(record) = rest.get(12..12 + length) else { break };
            rest = rest.get(16 + length..).unwrap_or_default();
            let event = fields(record);
            let step = event.iter().find(|field| field.0 == 2).map_or(0, |field| field.1);
            for summary in event.iter().filter(|field| field.0 == 5) {
                for value in fields(summary.2) {
                    let value = fields(value.2);
                    let tag = text(value.iter().find(|field| field.0 == 1).unwrap().2);
                    if tag == "loss" {
                        let bits = value.iter().find(|field| field.0 == 2).unwrap().1;
                        losses.insert(step, f32::from_bits(bits as u32));
                    }
                    *counts.entry((step, tag)).or_default() += 1;
                }
            }
        }
    }
    (counts, losses)
}

#[test]
fn a_run_killed_again_and_again_has_every_value_once_and_the_file_grows_while_it_trains() {
    let scratch = Scratch::new("tensorboard-killed");
    let (straight, killed) = (scratch.path("straight"), scratch.path("killed"));
    let logs = scratch.path("logs");
    done(&tiny(&straight, &[&LONG[..], &["--tensorboard"]].concat()));
    let expected = read(&format!("{straight}/tensorboard"));
    assert_eq!(expected.0[&(40, "loss".to_owned())], 1);
    assert_eq!(expected.0[&(20, "preview".to_owned())], 1);
    let arguments = [&LONG[..], &["--tensorboard", &logs]].concat();
    let mut last = 0;
    for step in [2, 8, 14, 20, 30] {
        let mut child =
            command(&tiny(&killed, &arguments)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while read(&logs).1.keys().next_back().is_none_or(|&at| at < step) && child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "step {step} never came");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let (counts, losses) = read(&logs);
        assert!(counts.values().all(|&count| count == 1), "{counts:?}");
        last = last.max(*losses.keys().next_back().unwrap());
    }
    assert!(last >= 30);
    done(&tiny(&killed, &arguments));
    assert_eq!(read(&logs), expected);
}

#[test]
fn a_run_that_began_without_it_is_written_from_its_beginning() {
    let scratch = Scratch::new("tensorboard-later");
    let (run, logs) = (scratch.path("run"), scratch.path("logs"));
    done(&tiny(&run, &[]));
    done(&tiny(&run, &["--set=train.steps=12", "--tensorboard", &logs]));
    let (_, losses) = read(&logs);
    assert_eq!(losses.keys().copied().collect::<Vec<_>>(), [2, 4, 6, 8, 10, 12]);
    // Torn at any byte, what is whole is kept and the rest written again.
    let file = std::fs::read_dir(&logs).unwrap().next().unwrap().unwrap().path();
    let content = bytes(&file);
    std::fs::write(&file, &content[..content.len() - 3]).unwrap();
    done(&tiny(&run, &["--set=train.steps=14", "--tensorboard", &logs]));
    let (counts, losses) = read(&logs);
    assert_eq!(losses.keys().copied().collect::<Vec<_>>().last(), Some(&14));
    assert!(counts.values().all(|&count| count == 1), "{counts:?}");
    std::fs::write(scratch.path("file"), "").unwrap();
    let failed = softdiff(&tiny(&run, &["--tensorboard", &scratch.path("file/logs")]));
    assert!(!failed.status.success() && text(&failed.stderr).contains("file/logs"), "{}", text(&failed.stderr));
}
