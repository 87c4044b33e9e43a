//! Tensors that reach outside their storage, or ask for too much.

use crate::forge::checkpoint::{Checkpoint, WEIGHT};
use crate::forge::pickle::{Code, call, float, global, int, ints, list, rebuild, storage, tensor, text, tuple};
use crate::{Case, case};

/// The good checkpoint with another weight; storage 2 holds its six floats.
fn weight(code: Code) -> Vec<u8> {
    Checkpoint::default().with(WEIGHT, code).write()
}

fn six() -> Code {
    storage("FloatStorage", "2", 6)
}

/// A view of the six floats.
fn view(offset: i64, size: &[i64], stride: &[i64]) -> Vec<u8> {
    weight(tensor(six(), offset, size, stride))
}

/// A tensor over the persistent id with this description.
fn described(items: &[Code]) -> Vec<u8> {
    weight(tensor([tuple(items), b"Q".to_vec()].concat(), 0, &[2, 3], &[3, 1]))
}

pub fn cases() -> Vec<Case> {
    let float_class = || global("torch", "FloatStorage");
    let huge = 1 << 40;
    vec![
        case("offset beyond the storage", view(1, &[2, 3], &[3, 1]), "TensorRange", "element 6 of storage \"2\""),
        case("size beyond the storage", view(0, &[3, 3], &[3, 1]), "TensorRange", "which has 6"),
        case("stride beyond the storage", view(0, &[2, 3], &[4, 1]), "TensorRange", "element 6"),
        case("huge offset", view(i64::MAX, &[2, 3], &[3, 1]), "TensorRange", "all_modules.1.weight"),
        case("negative offset", view(-1, &[2, 3], &[3, 1]), "OutOfRange", "is -1, expected an offset of at least 0"),
        case("negative size", view(0, &[2, -3], &[3, 1]), "OutOfRange", "is -3, expected a size"),
        case("negative stride", view(0, &[2, 3], &[3, -1]), "OutOfRange", "is -1, expected a stride"),
        case("stride overflow", view(0, &[3, 3], &[i64::MAX, i64::MAX]), "TensorOverflow", "the last offset"),
        case("element overflow", view(0, &[huge, huge], &[0, 0]), "TensorOverflow", "the number of elements"),
        case(
            "overflow hidden by a zero",
            view(0, &[huge, huge, 0], &[1, 1, 1]),
            "TensorOverflow",
            "number of elements",
        ),
        case("stride 0 bomb of 4 TiB", view(0, &[huge], &[0]), "TensorBudget", "would need 43980465"),
        case("stride 0 bomb of 2 MiB", view(0, &[1 << 19], &[0]), "TensorBudget", "more than the limit of 1048576"),
        case("many small bombs", many_small_bombs(), "TensorBudget", "more than the limit"),
        case("sizes and strides differ", view(0, &[2, 3], &[3]), "Count", "2 items, expected 1, one for each stride"),
        case("nine axes", view(0, &[1; 9], &[1; 9]), "Count", "9 items, expected at most 8 axes"),
        case(
            "size is a number",
            weight(rebuild(&[six(), int(0), int(6), ints(&[1])])),
            "WrongType",
            "found an integer",
        ),
        case(
            "size of floats",
            weight(rebuild(&[six(), int(0), tuple(&[float(6.0)]), ints(&[1])])),
            "WrongType",
            "expected an integer, found a float",
        ),
        case(
            "offset is text",
            weight(rebuild(&[six(), text("0"), ints(&[6]), ints(&[1])])),
            "WrongType",
            "found a string",
        ),
        case(
            "no storage",
            weight(rebuild(&[int(1), int(0), ints(&[6]), ints(&[1])])),
            "WrongType",
            "expected a storage",
        ),
        case(
            "too few arguments",
            weight(call("torch._utils", "_rebuild_tensor_v2", &[six()])),
            "WrongType",
            "the arguments of a tensor",
        ),
        case("a number for a tensor", weight(int(1)), "WrongType", "weight: expected a tensor, found an integer"),
        case("an object for a tensor", weight(call("_codecs", "encode", &[])), "WrongType", "found an object"),
        case(
            "parameter of nothing",
            weight(call("torch._utils", "_rebuild_parameter", &[])),
            "WrongType",
            "a parameter",
        ),
        case("parameter of a parameter", weight(wrapped_twice()), "WrongType", "expected a tensor"),
        case("description is a number", weight(tensor(b"K\x01Q".to_vec(), 0, &[6], &[1])), "WrongType", "description"),
        case("description too short", described(&[text("storage")]), "WrongType", "the description of a storage"),
        case(
            "description of something else",
            described(&[text("module"), float_class(), text("2"), text("cpu"), int(6)]),
            "WrongType",
            "the tag",
        ),
        case(
            "no storage type",
            described(&[text("storage"), text("FloatStorage"), text("2"), text("cpu"), int(6)]),
            "WrongType",
            "expected a storage type, found a string",
        ),
        case(
            "a function for a storage type",
            described(&[text("storage"), global("_codecs", "encode"), text("2"), text("cpu"), int(6)]),
            "WrongType",
            "expected a storage type, found a global",
        ),
        case(
            "key is a number",
            described(&[text("storage"), float_class(), int(2), text("cpu"), int(6)]),
            "WrongType",
            "expected a string",
        ),
        case(
            "key walks out of the folder",
            described(&[text("storage"), float_class(), text("../../etc/passwd"), text("cpu"), int(6)]),
            "MissingEntry",
            "tiny/data/../../etc/passwd",
        ),
        case(
            "storage shorter than said",
            weight(tensor(storage("FloatStorage", "2", 7), 0, &[7], &[1])),
            "StorageLength",
            "24 bytes, expected 7 x 4",
        ),
        case(
            "storage of another type",
            weight(tensor(storage("DoubleStorage", "2", 6), 0, &[6], &[1])),
            "StorageLength",
            "expected 6 x 8",
        ),
        case(
            "negative storage length",
            weight(tensor(storage("FloatStorage", "2", -1), 0, &[6], &[1])),
            "StorageLength",
            "expected -1 x 4",
        ),
        case(
            "huge storage length",
            weight(tensor(storage("FloatStorage", "2", i64::MAX), 0, &[6], &[1])),
            "StorageLength",
            "x 4",
        ),
        case(
            "storage length is a list",
            weight(tensor(length_is_a_list(), 0, &[6], &[1])),
            "WrongType",
            "expected an integer",
        ),
        case(
            "unknown storage type",
            weight(tensor(storage("ComplexFloatStorage", "2", 3), 0, &[3], &[1])),
            "PickleGlobal",
            "torch.ComplexFloatStorage",
        ),
        case(
            "integers for weights",
            weight(tensor(storage("IntStorage", "2", 6), 0, &[2, 3], &[3, 1])),
            "NotFloat",
            "int32",
        ),
    ]
}

/// Each fits in the budget, all together do not.
fn many_small_bombs() -> Vec<u8> {
    let mut forged = Checkpoint::default();
    for index in 0..1000 {
        forged.model.push((format!("module.all_modules.{}.weight", index + 2), tensor(six(), 0, &[1 << 12], &[0])));
    }
    forged.write()
}

fn wrapped_twice() -> Code {
    let wrap = |code| call("torch._utils", "_rebuild_parameter", &[code]);
    wrap(wrap(tensor(six(), 0, &[2, 3], &[3, 1])))
}

fn length_is_a_list() -> Code {
    let description = tuple(&[text("storage"), global("torch", "FloatStorage"), text("2"), text("cpu"), list(&[])]);
    [description, b"Q".to_vec()].concat()
}
