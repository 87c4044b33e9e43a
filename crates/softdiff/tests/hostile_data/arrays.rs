//! Arrays, IDX files and CIFAR batches that lie.

use super::{Case, case};
use crate::forge::npy::{npy, with_header};
use crate::forge::pack::deflated;
use crate::forge::zip::{Entry, write};

fn float(values: &[f32]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    npy("<f4", "(1, 2, 2)", &data)
}

fn version_2(length: u32) -> Vec<u8> {
    [b"\x93NUMPY\x02\x00", &length.to_le_bytes()[..], b"{'descr': '|u1'"].concat()
}

fn idx(magic: u8, sizes: &[u32], data: usize) -> Vec<u8> {
    let sizes: Vec<u8> = sizes.iter().flat_map(|size| size.to_be_bytes()).collect();
    [&[0, 0, 8, magic][..], &sizes, &vec![0; data]].concat()
}

fn npz(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    write(&entries.iter().map(|(name, data)| Entry::new(name, data.clone())).collect::<Vec<_>>())
}

pub fn arrays() -> Vec<Case> {
    let pictures = || npy("|u1", "(2, 2, 2)", &[0; 8]);
    let nested = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({}), }}", "9, ".repeat(200));
    vec![
        case("NaN", "a.npy", float(&[0.0, 0.5, f32::NAN, 1.0]), "NotABrightness", "value 2 is NaN"),
        case("infinity", "a.npy", float(&[0.0, f32::INFINITY, 0.0, 1.0]), "NotABrightness", "value 1 is inf"),
        case("floats to 255", "a.npy", float(&[0.0, 255.0, 1.0, 1.0]), "NotABrightness", "floats from 0 to 1"),
        case("floats from -1", "a.npy", float(&[-1.0, 1.0, 1.0, 1.0]), "NotABrightness", "value 0 is -1"),
        case("a header of 100 MB", "a.npy", version_2(100_000_000), "Damaged", "a header of 100000000 bytes"),
        case("a header of 4 GB", "a.npy", version_2(u32::MAX), "Damaged", "more than the limit"),
        case("a header cut off", "a.npy", version_2(1000), "Truncated", "npy header is cut off"),
        case(
            "a shape of 2^40 pictures",
            "a.npy",
            npy("|u1", "(1099511627776, 28, 28)", &[0; 100]),
            "Damaged",
            "needs 862017116176384",
        ),
        case(
            "a shape that overflows",
            "a.npy",
            npy("|u1", "(18446744073709551615, 28, 28)", &[0; 100]),
            "Damaged",
            "more than 2^64",
        ),
        case("a shape of no pictures", "a.npy", npy("|u1", "(0, 28, 28)", &[]), "Empty", "no images"),
        case("pictures without pixels", "a.npy", npy("|u1", "(9, 0, 28)", &[]), "Damaged", "outside the limits"),
        case("a shape of 200 axes", "a.npy", with_header(&nested, &[0; 9]), "Damaged", "but the shape"),
        case("a shape of words", "a.npy", npy("|u1", "(a, b)", &[0; 9]), "Damaged", "is not one"),
        case("a flat array", "a.npy", npy("|u1", "(2, 784)", &[0; 1568]), "Unsupported", "expected [n, height, width]"),
        case("channels first", "a.npy", npy("|u1", "(1, 3, 4, 4)", &[0; 48]), "Unsupported", "x.transpose(0, 2, 3, 1)"),
        case("four channels", "a.npy", npy("|u1", "(1, 2, 2, 4)", &[0; 16]), "Unsupported", "1 or 3"),
        case("pickled objects", "a.npy", npy("|O", "(1, 2, 2)", &[0; 32]), "Unsupported", "numbers of type \"|O\""),
        case(
            "records",
            "a.npy",
            with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", &[0; 4]),
            "Unsupported",
            "array of records",
        ),
        case("big-endian floats", "a.npy", npy(">f4", "(1, 1, 1)", &[0; 4]), "Unsupported", "big-endian"),
        case(
            "Fortran order",
            "a.npy",
            with_header("{'descr': '|u1', 'fortran_order': True, 'shape': (1, 1, 1), }", &[0]),
            "Unsupported",
            "Fortran order",
        ),
        case("16-bit numbers", "a.npy", npy("<u2", "(1, 1, 1)", &[0; 2]), "Unsupported", "expected uint8"),
        case("an unknown version", "a.npy", b"\x93NUMPY\x09\x00\x01\x00 ".to_vec(), "Unsupported", "version 9"),
        case("control characters in the header", "a.npy", with_header("{\x1b[2J}", &[]), "Damaged", "\\u{1b}[2J"),
        case(
            "npz of other arrays",
            "s.npz",
            npz(&[("mu.npy", pictures()), ("sigma.npy", pictures())]),
            "Unknown",
            "mu.npy, sigma.npy",
        ),
        case("npz with NaN", "images.npy", npz(&[("images.npy", float(&[f32::NAN; 4]))]), "NotABrightness", "NaN"),
        case(
            "npz with too few labels",
            "labels.npy",
            npz(&[("images.npy", pictures()), ("labels.npy", npy("|u1", "(1,)", &[0]))]),
            "Damaged",
            "for 2 images",
        ),
        case(
            "npz with negative labels",
            "labels.npy",
            npz(&[("images.npy", pictures()), ("labels.npy", npy("|i1", "(2,)", &[0, 255]))]),
            "Damaged",
            "below 0",
        ),
        case(
            "npz bomb",
            "images.npy",
            write(&[deflated("images.npy", &npy("|u1", "(32, 1000, 1000)", &vec![0; 32_000_000]))]),
            "Ratio",
            "200 to 1",
        ),
        case("IDX of 2^32 pictures", "a-idx3-ubyte", idx(3, &[u32::MAX, 28, 28], 784), "Damaged", "outside the limits"),
        case("IDX of 65536 a side", "a-idx3-ubyte", idx(3, &[1, 65536, 65536], 784), "Damaged", "outside the limits"),
        case(
            "IDX too short",
            "a-idx3-ubyte",
            idx(3, &[2, 28, 28], 784),
            "Damaged",
            "784 bytes after the header, expected 1568",
        ),
        case("IDX too long", "a-idx3-ubyte", idx(3, &[1, 28, 28], 785), "Damaged", "expected 784"),
        case("IDX header cut off", "a-idx3-ubyte", idx(3, &[1], 0), "Damaged", "header is cut off"),
        case("IDX without pixels", "a-idx3-ubyte", idx(3, &[1, 0, 28], 0), "Damaged", "outside the limits"),
        case("IDX of labels", "a-idx1-ubyte", idx(1, &[4], 4), "Unknown", "is not a data set"),
        case("CIFAR cut off", "data_batch_1.bin", vec![1; 3073 * 2 - 1], "Damaged", "multiple of 3073"),
        case("CIFAR with label 10", "data_batch_1.bin", vec![10; 3073], "Damaged", "label 10"),
        case("CIFAR of nothing", "data_batch_1.bin", vec![], "Damaged", "0 bytes"),
        case("a single picture", "one.png", super::pictures::picture("rgb.png"), "Unknown", "it is one PNG image"),
        case("text", "notes.txt", b"nothing to see".to_vec(), "Unknown", "begins with \"nothing to see\""),
        case("nothing", "nothing.bin", vec![], "Unknown", "it is empty"),
    ]
}
