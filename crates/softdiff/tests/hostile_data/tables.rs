//! Parquet files that lie, and one good file of every kind.

use super::{Case, case, golden};
use crate::forge::npy::npy;
use crate::forge::pack::{deflated, gzip};
use crate::forge::{tar, zip};

fn parquet(name: &str) -> Vec<u8> {
    golden(&format!("parquet/{name}.parquet"))
}

/// The footer's length says something else.
fn footer_length(length: u32) -> Vec<u8> {
    let mut bytes = parquet("snappy");
    let at = bytes.len() - 8;
    bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// A file with a footer of our own.
fn with_footer(footer: &[u8]) -> Vec<u8> {
    [b"PAR1", footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

/// Every occurrence of `from` in a golden file becomes `to`: the first are statistics, not data.
fn replaced(name: &str, from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = parquet(name);
    while let Some(at) = bytes.windows(from.len()).position(|window| window == from) {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}

/// A schema of one column of required byte arrays called `image`, `rows` rows, and one chunk.
fn small(rows: &[u8], chunk: &[u8]) -> Vec<u8> {
    // Fields: version 1; schema of root (name, one child) and column (type 6, required, name); rows; row groups.
    let schema = [&[0x19, 0x2C, 0x48, 1, b'r', 0x15, 2, 0, 0x15, 12, 0x25, 0, 0x18, 5][..], b"image\0"].concat();
    let groups = [&[0x19, 0x1C, 0x19, 0x1C, 0x3C][..], chunk, &[0, 0, 0]].concat();
    with_footer(&[&[0x15, 2][..], &schema, &[0x16], rows, &groups, &[0]].concat())
}

/// Metadata of a chunk: codec, values, packed length and offset, each as a zigzag number.
fn chunk(codec: &[u8], values: &[u8], length: &[u8], offset: &[u8]) -> Vec<u8> {
    [&[0x15, 12, 0x35][..], codec, &[0x16], values, &[0x26], length, &[0x26], offset].concat()
}

pub fn tables() -> Vec<Case> {
    let cut = |length: usize| parquet("snappy")[..length].to_vec();
    let deep = with_footer(&[0x1C; 3000]);
    let huge_list = with_footer(&[0x19, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]);
    let many = [&[0x19, 0xF3, 0x80, 0x80, 0x80, 0x01][..], &vec![1; 1 << 21], &[0]].concat();
    let huge = [0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
    vec![
        case("Parquet cut off", "a.parquet", cut(900), "Damaged", "does not end with PAR1"),
        case("Parquet of its magic alone", "a.parquet", b"PAR1".to_vec(), "Damaged", "cut off"),
        case(
            "Parquet of two magics",
            "a.parquet",
            b"PAR1\0\0\0\0PAR1".to_vec(),
            "Truncated",
            "Parquet metadata is cut off",
        ),
        case(
            "a footer longer than the file",
            "a.parquet",
            footer_length(1 << 30),
            "Damaged",
            "a footer of 1073741824 bytes",
        ),
        case("a footer of 0 bytes", "a.parquet", footer_length(0), "Truncated", "metadata is cut off"),
        case("a footer that begins too late", "a.parquet", footer_length(300), "a.parquet", "Parquet"),
        case("a footer nested 3000 deep", "a.parquet", deep, "Damaged", "nested too deeply"),
        case("a list of 2^32 items", "a.parquet", huge_list, "Damaged", "more than the file can hold"),
        case("a list of 2 million items", "a.parquet", with_footer(&many), "Damaged", "more than 1048576 values"),
        case("an empty schema", "a.parquet", with_footer(&[0]), "Damaged", "no schema"),
        case(
            "no column of pictures",
            "a.parquet",
            parquet("no-pictures"),
            "Unsupported",
            "no column of image bytes among \"a, b\"",
        ),
        case(
            "2^63 rows",
            "a.parquet",
            small(&huge, &chunk(&[0], &[2], &[2], &[8])),
            "Damaged",
            "more than the limit of",
        ),
        case(
            "fewer values than rows",
            "a.parquet",
            small(&[8], &chunk(&[0], &[0], &[0], &[8])),
            "Damaged",
            "0 values in 4 rows",
        ),
        case(
            "more values than rows",
            "a.parquet",
            small(&[2], &chunk(&[0], &[20], &[20], &[8])),
            "Damaged",
            "10 values in 1 rows",
        ),
        case(
            "a column beyond the file",
            "a.parquet",
            small(&[2], &chunk(&[0], &[2], &[0xFE, 0xFF, 0x3F], &[8])),
            "Damaged",
            "in a file of",
        ),
        case(
            "a column at a negative offset",
            "a.parquet",
            small(&[2], &chunk(&[0], &[2], &[2], &[7])),
            "Damaged",
            "missing or negative",
        ),
        case(
            "a column without pages",
            "a.parquet",
            small(&[2], &chunk(&[0], &[2], &[0], &[8])),
            "Damaged",
            "ends before its last page",
        ),
        case("a page of noise", "a.parquet", small(&[2], &chunk(&[0], &[2], &[40], &[8])), "a.parquet", "Parquet"),
        case("Brotli", "a.parquet", parquet("brotli"), "Unsupported", "Brotli compression: write the file with Snappy"),
        case("delta encoding", "a.parquet", parquet("delta"), "Unsupported", "other than plain and dictionary"),
        case("Snappy page damaged", "a.parquet", replaced("snappy", b"PNG", b"\xFF\xFF\xFF"), "a.parquet", ""),
        case("pictures damaged", "a.parquet", replaced("none", b"\x89PNG", b"oops"), "Unknown", "row 0"),
    ]
}

/// One good file of every kind that is read from bytes.
pub fn good() -> Vec<(&'static str, Vec<u8>)> {
    let png = super::pictures::picture("rgb.png");
    let jpg = super::pictures::picture("progressive-420.jpg");
    let tar = tar::write(&[tar::Entry::new("a/1.png", png.clone()), tar::Entry::new("b/2.jpg", jpg.clone())]);
    let zip = zip::write(&[zip::Entry::new("a/1.png", png.clone()), deflated("b/2.jpg", &jpg)]);
    let images = npy("|u1", "(2, 2, 2, 3)", &[7; 24]);
    let npz = zip::write(&[
        zip::Entry::new("images.npy", images.clone()),
        deflated("labels.npy", &npy("<i8", "(2,)", &[0; 16])),
    ]);
    let idx = [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2][..], &[9; 8]].concat();
    vec![
        ("good.tar.gz", gzip(&tar)),
        ("good.tar", tar),
        ("good.zip", zip),
        ("good.npy", images),
        ("good.npz", npz),
        ("good-idx3-ubyte", idx),
        ("none.parquet", parquet("none")),
        ("snappy.parquet", parquet("snappy")),
        ("gzip.parquet", parquet("gzip")),
        ("zstd.parquet", parquet("zstd")),
        ("dictionary.parquet", parquet("dictionary")),
        ("version-2.parquet", parquet("version-2")),
        ("version-2-none.parquet", parquet("version-2-none")),
    ]
}
