//! Zip archives that lie.

use crate::forge::checkpoint::Checkpoint;
use crate::forge::zip::{End, Entry, Zip64, write, write_with_end};
use crate::{Case, case};

/// The good archive with one thing changed in its entries.
fn entries(change: impl FnOnce(&mut Vec<Entry>)) -> Vec<u8> {
    let mut entries = Checkpoint::default().entries();
    change(&mut entries);
    write(&entries)
}

/// The good archive with another end record.
fn end(end: End) -> Vec<u8> {
    write_with_end(&Checkpoint::default().entries(), &end)
}

/// The good archive whose short end record refers to this zip64 record.
fn zip64(zip64: Zip64) -> Vec<u8> {
    let (length, offset) = (Some(u32::MAX), Some(u32::MAX));
    end(End { count: Some(u16::MAX), length, offset, zip64: Some(zip64), ..End::default() })
}

fn many_entries() -> Vec<u8> {
    let entries: Vec<Entry> = (0..65_537).map(|number| Entry::new(&number.to_string(), vec![])).collect();
    write_with_end(&entries, &End { count: Some(u16::MAX), zip64: Some(Zip64::default()), ..End::default() })
}

fn truncated(length: impl FnOnce(usize) -> usize) -> Vec<u8> {
    let mut bytes = Checkpoint::default().write();
    bytes.truncate(length(bytes.len()));
    bytes
}

pub fn cases() -> Vec<Case> {
    let legacy = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.".to_vec();
    let saturated = |extra: &[u8]| {
        let extra = extra.to_vec();
        entries(|e| (e[1].flags, e[1].size, e[1].stored_size, e[1].extra) = (8, u32::MAX, u32::MAX, extra))
    };
    let mut prefixed = vec![0; 64];
    prefixed.extend(Checkpoint::default().write());
    vec![
        case("empty file", vec![], "NotZip", "Could not find EOCD"),
        case("text file", b"hello".repeat(100), "NotZip", "not a zip archive, or an incomplete one"),
        case("a megabyte of zeros", vec![0; 1 << 20], "NotZip", "Could not find EOCD"),
        case("torch before 1.6", legacy, "LegacyTorch", "before torch 1.6"),
        case("last byte missing", truncated(|n| n - 1), "NotZip", "incomplete"),
        case("end record missing", truncated(|n| n - 22), "NotZip", "incomplete"),
        case("half the file", truncated(|n| n / 2), "NotZip", "incomplete"),
        case("four bytes", truncated(|_| 4), "NotZip", "incomplete"),
        case("bytes before the archive", prefixed, "NotZip", "No CDFH found"),
        case("second volume", end(End { disk: 1, ..End::default() }), "NotZip", "Multi-disk"),
        case("too few entries", end(End { count: Some(1), ..End::default() }), "ZipDamaged", "missing from central"),
        case("too many entries", end(End { count: Some(99), ..End::default() }), "NotZip", "Unexpected end"),
        case("no entries", write(&[]), "MissingEntry", "data.pkl"),
        case("directory beyond the file", end(End { offset: Some(1 << 30), ..End::default() }), "NotZip", "offset"),
        case("a billion entries", zip64(Zip64 { count: Some(1 << 30), ..Zip64::default() }), "NotZip", "EOCD64"),
        case("65537 entries", many_entries(), "ZipTooManyEntries", "65537 entries, more than the limit of 65536"),
        case(
            "entries that need more than the directory",
            zip64(Zip64 { count: Some(5000), ..Zip64::default() }),
            "NotZip",
            "EOCD64",
        ),
        case("zip64 count lies", zip64(Zip64 { count: Some(3), ..Zip64::default() }), "ZipDamaged", "missing from"),
        case("zip64 offset lies", zip64(Zip64 { offset: Some(3), ..Zip64::default() }), "NotZip", "Central Directory"),
        case(
            "zip64 directory wraps around",
            zip64(Zip64 { offset: Some(u64::MAX), ..Zip64::default() }),
            "NotZip",
            "EOCD64",
        ),
        case("zip64 beyond the file", zip64(Zip64 { located: Some(u64::MAX), ..Zip64::default() }), "NotZip", "EOCD64"),
        case("zip64 not there", zip64(Zip64 { located: Some(0), ..Zip64::default() }), "NotZip", "EOCD64"),
        case(
            "zip64 record wraps around",
            zip64(Zip64 { record_length: Some(u64::MAX), ..Zip64::default() }),
            "NotZip",
            "incomplete",
        ),
        case("zip64 volumes", zip64(Zip64 { disks: Some(2), ..Zip64::default() }), "NotZip", "Multi-disk"),
        case("deflated", entries(|e| e[1].method = 8), "ZipCompressed", "Deflated"),
        case("encrypted", entries(|e| e[1].flags = 1), "ZipEncrypted", "byteorder"),
        case("wrong crc", entries(|e| e[2].crc ^= 1), "ZipCrc", "tiny/data/0"),
        case("wrong crc of the pickle", entries(|e| e[0].crc ^= 1), "ZipCrc", "tiny/data.pkl"),
        case("duplicate", entries(|e| e.push(e[2].clone())), "ZipDuplicate", "the same name"),
        case("entry inside another", entries(nest), "ZipOverlap", "overlap"),
        case("entry into the next", entries(|e| grow(e, 40)), "ZipOverlap", "overlap"),
        case("last entry into the directory", entries(|e| grow_last(e)), "ZipOverlap", "the directory"),
        case("entry beyond the file", entries(|e| grow(e, 1 << 30)), "ZipDamaged", "ends beyond the file"),
        case("size of the local header", entries(|e| e[1].local_size += 1), "ZipDamaged", "size mismatch"),
        case("stored size differs", entries(|e| e[1].stored_size += 1), "ZipDamaged", "stored size is 7, expected 6"),
        case("local name differs", entries(|e| e[1].local_name = "tiny/byteorde_".into()), "ZipDamaged", "filename"),
        case("header beyond the file", entries(|e| e[1].offset = Some(1 << 31)), "ZipDamaged", "Unexpected end"),
        case("header elsewhere", entries(|e| e[1].offset = Some(7)), "ZipDamaged", "Invalid local file header"),
        case("extra field missing", saturated(&[]), "ZipDamaged", "ends beyond the file"),
        case("extra field short", saturated(&[1, 0, 4, 0, 1, 2, 3, 4]), "NotZip", "ZIP64 extra field"),
        case("extra field too long", saturated(&[1, 0, 255, 255]), "NotZip", "ZIP64 extra field"),
        case("size of 2^64 - 1", saturated(&[&[1, 0, 16, 0][..], &[255; 16]].concat()), "ZipDamaged", "overflows"),
        case("no pickle", entries(|e| rename(e, 0, "tiny/model.pkl")), "MissingEntry", "data.pkl"),
        case("two pickles", entries(|e| e.push(Entry::new("b/data.pkl", vec![]))), "TwoPickles", "\"tiny\" and \"b\""),
        case("storage missing", entries(|e| drop(e.remove(2))), "MissingEntry", "tiny/data/0"),
        case("name not text", not_utf8(), "ZipName", "not UTF-8"),
        case("big-endian", big_endian("big"), "ByteOrder", "byte order \"big\""),
        case("no byte order", big_endian(""), "ByteOrder", "byte order \"\""),
        case("control characters in the byte order", big_endian("\x1b[2J"), "ByteOrder", "\\u{1b}[2J"),
    ]
}

fn rename(entries: &mut [Entry], index: usize, name: &str) {
    entries[index].name = name.into();
    entries[index].local_name = name.into();
}

/// A whole entry hidden in the bytes of another: the trick of the non-recursive zip bomb.
fn nest(entries: &mut Vec<Entry>) {
    let hidden = Entry::new("tiny/hidden", b"hidden".to_vec());
    let outer = Entry::new("tiny/outer", write(std::slice::from_ref(&hidden)));
    let start: usize = entries.iter().map(|entry| 30 + entry.name.len() + entry.data.len()).sum();
    let inside = start + 30 + outer.name.len();
    entries.push(outer);
    entries.push(Entry { offset: Some(inside as u32), ..hidden });
}

/// The pickle's sizes, in the directory alone, reach into what follows.
fn grow(entries: &mut [Entry], by: u32) {
    entries[0].flags = 8;
    entries[0].size += by;
    entries[0].stored_size += by;
}

fn grow_last(entries: &mut [Entry]) {
    let last = entries.last_mut().unwrap();
    last.flags = 8;
    last.size += 40;
    last.stored_size += 40;
}

fn not_utf8() -> Vec<u8> {
    let mut bytes = Checkpoint::default().write();
    let directory = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    bytes[directory + 46] = 0xFF;
    bytes
}

fn big_endian(order: &'static str) -> Vec<u8> {
    Checkpoint { byteorder: Some(order), ..Checkpoint::default() }.write()
}
