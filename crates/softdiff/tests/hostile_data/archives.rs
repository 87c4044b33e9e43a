//! Archives that lie.

use super::pictures::picture;
use super::{Case, case};
use crate::forge::pack::{deflate, deflated, gzip};
use crate::forge::tar;
use crate::forge::zip::{self, Entry, write};

fn png() -> Vec<u8> {
    picture("rgb.png")
}

/// A zip of one deflated picture with one thing changed.
fn zip_of(change: impl FnOnce(&mut Entry)) -> Vec<u8> {
    let mut entry = deflated("a.png", &png());
    change(&mut entry);
    write(&[entry])
}

fn named(name: &str) -> Vec<u8> {
    write(&[deflated(name, &png())])
}

fn tar_of(change: impl FnOnce(&mut Vec<tar::Entry>)) -> Vec<u8> {
    let mut entries = vec![tar::Entry::new("a.png", png()), tar::Entry::new("b.png", png())];
    change(&mut entries);
    tar::write(&entries)
}

/// A deflated entry of `claim` bytes whose data really are that many zeros.
fn bomb(length: usize) -> Vec<u8> {
    write(&[deflated("a.png", &vec![0; length])])
}

pub fn archives() -> Vec<Case> {
    let nested = write(&[Entry::new("inner.zip", bomb(1 << 20))]);
    let quoted = |length: u32| {
        zip_of(|entry| {
            entry.data = deflate(&[0; 1000]);
            (entry.size, entry.stored_size) = (length, entry.data.len() as u32);
        })
    };
    vec![
        case("zip of zeros, 1000 to 1", "a.png", bomb(20 << 20), "Ratio", "above the limit of 200 to 1"),
        case("zip entry of 65 MiB", "a.png", bomb(65 << 20), "TooLarge", "limit of 67108864"),
        case("zip entry of 4 GiB", "a.png", quoted(u32::MAX - 1), "TooLarge", "4294967294 bytes once unpacked"),
        case("zip entry longer than it says", "a.png", quoted(10), "Length", "expected 10"),
        case("zip entry shorter than it says", "a.png", quoted(2000), "Length", "expected 2000"),
        case("zip in a zip", "nested.zip", nested, "Empty", "no images"),
        case("zip without entries", "empty.zip", write(&[]), "Empty", "no images"),
        case("zip of noise", "noise.zip", b"PK\x03\x04 nothing more".to_vec(), "NotZip", "not a zip archive"),
        case("deflated bytes damaged", "a.png", zip_of(|e| e.data.fill(0xFF)), "Deflate", "damaged or cut off"),
        case("deflated bytes of another picture", "a.png", zip_of(|e| e.crc ^= 1), "ZipCrc", "crc32"),
        case("zip entry by Zstandard", "a.zip", zip_of(|e| e.method = 93), "ZipMethod", "compressed by"),
        case("encrypted zip entry", "a.zip", zip_of(|e| e.flags |= 1), "ZipEncrypted", "encrypted"),
        case("zip name up and out", "../../etc/a.png", named("../../etc/a.png"), "UnsafeName", "outside the archive"),
        case("zip name from the root", "/etc/a.png", named("/etc/a.png"), "UnsafeName", "outside the archive"),
        case("zip name of a drive", "C:\\a.png", named("C:\\a.png"), "UnsafeName", "outside the archive"),
        case(
            "zip name with a backslash way up",
            "x\\..\\..\\a.png",
            named("x\\..\\..\\a.png"),
            "UnsafeName",
            "outside",
        ),
        case(
            "zip of two entries of one name",
            "d.zip",
            write(&[deflated("a.png", &png()), deflated("a.png", &png())]),
            "ZipDuplicate",
            "the same name",
        ),
        case(
            "zip entries that overlap",
            "o.zip",
            {
                let inner = deflated("b.png", &png());
                write(&[zip::Entry { offset: Some(0), local_name: "b.png".into(), ..inner.clone() }, inner])
            },
            "Zip",
            "zip:",
        ),
        case(
            "tar with a symbolic link",
            "link.png",
            tar_of(|e| e.push(tar::Entry::of_kind("link.png", b'2', vec![]))),
            "Link",
            "never followed",
        ),
        case(
            "tar with a hard link",
            "link.png",
            tar_of(|e| e.push(tar::Entry::of_kind("link.png", b'1', vec![]))),
            "Link",
            "never followed",
        ),
        case(
            "tar with a device",
            "dev.png",
            tar_of(|e| e.push(tar::Entry::of_kind("dev.png", b'3', vec![]))),
            "NotAFile",
            "not an ordinary file",
        ),
        case(
            "tar name up and out",
            "../a.png",
            tar_of(|e| e[0].name = "../a.png".into()),
            "UnsafeName",
            "outside the archive",
        ),
        case(
            "tar name from the root",
            "/a.png",
            tar_of(|e| e[0].name = "/a.png".into()),
            "UnsafeName",
            "outside the archive",
        ),
        case(
            "tar of two entries of one name",
            "t.tar",
            tar_of(|e| e[1].name = "a.png".into()),
            "TarDuplicate",
            "\"a.png\" appears twice",
        ),
        case(
            "tar entry of 8 GiB",
            "t.tar",
            tar_of(|e| e[1].size = Some(b"77777777777\0".to_vec())),
            "Truncated",
            "8589934591 bytes wanted",
        ),
        case(
            "tar entry of 2^63",
            "t.tar",
            tar_of(|e| e[1].size = Some([&[0x80, 0, 0, 0, 0x7F][..], &[0xFF; 7]].concat())),
            "Truncated",
            "bytes wanted",
        ),
        case(
            "tar entry of 2^88",
            "t.tar",
            tar_of(|e| e[1].size = Some([&[0x80][..], &[0xFF; 11]].concat())),
            "TarHeader",
            "size overflow",
        ),
        case(
            "tar size not octal",
            "t.tar",
            tar_of(|e| e[1].size = Some(b"0000000009\0\0".to_vec())),
            "TarHeader",
            "not a number",
        ),
        case(
            "tar with a wrong checksum",
            "t.tar",
            tar_of(|e| e[1].checksum = Some(5)),
            "TarHeader",
            "checksum mismatch",
        ),
        case("tar cut in a header", "t.tar", tar_of(|_| {})[..1700].to_vec(), "Truncated", "tar"),
        case("tar cut in an entry", "t.tar", tar_of(|_| {})[..600].to_vec(), "Truncated", "tar entry"),
        case(
            "pax record that does not end",
            "t.tar",
            tar_of(|e| e.insert(0, tar::Entry::of_kind("x", b'x', b"99 path=a\n".to_vec()))),
            "TarHeader",
            "malformed pax",
        ),
        case(
            "pax size that lies",
            "t.tar",
            tar_of(|e| e.insert(0, tar::Entry::of_kind("x", b'x', b"22 size=999999999999\n".to_vec()[..].to_vec()))),
            "Tar",
            "tar",
        ),
        case(
            "GNU name of 100 KB",
            "t.tar",
            tar_of(|e| e.insert(0, tar::Entry::of_kind("x", b'L', vec![b'a'; 100_000]))),
            "TarHeader",
            "65536",
        ),
        case("gzip bomb", "b.tar.gz", gzip(&vec![0; 64 << 20]), "Ratio", "above the limit of 200 to 1"),
        case(
            "gzip cut in half",
            "h.tar.gz",
            {
                let whole = gzip(&tar_of(|_| {}));
                whole[..whole.len() / 2].to_vec()
            },
            "Deflate",
            "damaged or cut off",
        ),
        case("gzip of gzip", "g.gz", gzip(&gzip(b"hello")), "Unknown", "begins with"),
    ]
}
