//! Checkpoints whose parts are sound and do not fit together.

use crate::forge::checkpoint::{BIAS, Checkpoint, WEIGHT};
use crate::forge::pickle::{Code, float, int, list, named, numpy_scalar, pickle, text};
use crate::forge::zip::write;
use crate::{Case, case};

/// The good checkpoint after a change.
fn changed(change: impl FnOnce(&mut Checkpoint)) -> Vec<u8> {
    let mut forged = Checkpoint::default();
    change(&mut forged);
    forged.write()
}

/// The good checkpoint with one top-level value replaced, or removed.
fn root(key: &str, value: Option<Code>) -> Vec<u8> {
    let forged = Checkpoint::default();
    let mut root = forged.root();
    root.retain(|(name, _)| *name != key);
    let mut entries: Vec<(&str, Code)> = root;
    entries.extend(value.map(|value| (key, value)));
    write(&forged.entries_with(pickle(&named(&entries))))
}

fn lr(format: &str, order: &str, bytes: &[u8]) -> Vec<u8> {
    changed(|c| c.lr = numpy_scalar("numpy._core.multiarray", format, order, bytes))
}

fn value(name: &'static str, values: [f32; 2]) -> Vec<u8> {
    let mut forged = Checkpoint::default();
    let code = forged.floats(&values, &[2]);
    forged.with(name, code).write()
}

pub fn cases() -> Vec<Case> {
    vec![
        case("no model", root("model", None), "MissingKey", "the checkpoint has no key \"model\""),
        case("no ema", root("ema", None), "MissingKey", "no key \"ema\""),
        case("no step", root("step", None), "MissingKey", "no key \"step\""),
        case("model is a list", root("model", Some(list(&[]))), "WrongType", "model: expected a dict, found a list"),
        case("model is empty", root("model", Some(named(&[]))), "Count", "model has 0 items"),
        case("ema is None", root("ema", Some(b"N".to_vec())), "WrongType", "ema: expected a dict, found None"),
        case("ema without list", root("ema", Some(named(&[("decay", float(0.5))]))), "MissingKey", "shadow_params"),
        case("optimizer is empty", root("optimizer", Some(named(&[]))), "MissingKey", "optimizer has no key"),
        case("step is text", root("step", Some(text("7"))), "WrongType", "step: expected a number, found a string"),
        case("step is negative", root("step", Some(int(-1))), "OutOfRange", "step is -1"),
        case("step is not whole", root("step", Some(float(0.5))), "OutOfRange", "a whole number"),
        case("step is NaN", root("step", Some(float(f64::NAN))), "OutOfRange", "step is NaN"),
        case("step beyond 2^53", root("step", Some(int(i64::MAX))), "OutOfRange", "a whole number"),
        // The model.
        case("NaN weight", value(BIAS, [0.0, f32::NAN]), "NonFinite", "element 1 of all_modules.1.bias is NaN"),
        case(
            "infinite weight",
            value(BIAS, [f32::NEG_INFINITY, 0.0]),
            "NonFinite",
            "element 0 of all_modules.1.bias is -inf",
        ),
        case("weight too large for f32", large_double(), "NonFinite", "all_modules.1.bias is inf"),
        case("NaN noise level", value("module.sigmas", [1.0, f32::NAN]), "OutOfRange", "model.module.sigmas is NaN"),
        case(
            "unknown entry",
            changed(|c| c.model[3].0 = "module.head.weight".into()),
            "UnknownParameter",
            "\"head.weight\"",
        ),
        case(
            "escape codes",
            changed(|c| c.model[3].0 = "all_modules.\x1b[2J".into()),
            "UnknownParameter",
            "\\u{1b}[2J",
        ),
        case(
            "names collide",
            changed(|c| c.model[3].0 = WEIGHT.replace("module.all", "all")),
            "DuplicateParameter",
            "1.weight",
        ),
        case("number as name", root("model", Some(number_as_name())), "WrongType", "model: expected a string"),
        // The average.
        case("average too short", changed(|c| drop(c.shadow.pop())), "Count", "has 1 items, expected 2, one for each"),
        case("average too long", changed(|c| c.shadow.push(c.shadow[0].clone())), "Count", "has 3 items"),
        case(
            "average in another order",
            changed(|c| c.shadow.reverse()),
            "Shape",
            "ema.shadow_params[0] has shape [2], expected [2, 3] of all_modules.1.weight",
        ),
        case(
            "NaN average",
            changed(|c| c.shadow[1] = c.floats(&[f32::NAN; 2], &[2])),
            "NonFinite",
            "ema.shadow_params[1]: element 0 of all_modules.1.bias",
        ),
        case(
            "average of numbers",
            changed(|c| c.shadow[1] = int(0)),
            "WrongType",
            "ema.shadow_params[1]: expected a tensor",
        ),
        case("average is a dict", changed(|c| c.shadow = vec![named(&[]), named(&[])]), "WrongType", "found a dict"),
        case("decay above 1", changed(|c| c.decay = float(1.5)), "OutOfRange", "ema.decay is 1.5"),
        case("decay is NaN", changed(|c| c.decay = float(f64::NAN)), "OutOfRange", "ema.decay is NaN"),
        case("updates negative", changed(|c| c.updates = int(-3)), "OutOfRange", "ema.num_updates is -3"),
        // The optimizer.
        case(
            "moment of another shape",
            changed(|c| c.state[0].1 = c.moments(&[0.1; 2], &[2], int(1))),
            "Shape",
            "optimizer.state[1].exp_avg has shape [2], expected [2, 3]",
        ),
        case("state missing", changed(|c| drop(c.state.pop())), "MissingKey", "2 (all_modules.1.bias)"),
        case(
            "state without moments",
            changed(|c| c.state[0].1 = named(&[("step", int(1))])),
            "MissingKey",
            "\"exp_avg\"",
        ),
        case(
            "NaN moment",
            changed(|c| c.state[1].1 = c.moments(&[f32::NAN; 2], &[2], int(1))),
            "NonFinite",
            "optimizer.state[2].exp_avg",
        ),
        case(
            "negative second moment",
            changed(|c| c.state[1].1 = c.moments(&[-0.5; 2], &[2], int(1))),
            "OutOfRange",
            "exp_avg_sq of all_modules.1.bias is -0.5",
        ),
        case(
            "step of Adam negative",
            changed(|c| c.state[1].1 = c.moments(&[0.5; 2], &[2], int(-1))),
            "OutOfRange",
            "optimizer.state[2].step is -1",
        ),
        case("step of Adam is a matrix", changed(step_is_a_matrix), "Count", "6 items, expected 1 number"),
        case(
            "too few indices",
            changed(|c| drop(c.params.pop())),
            "Count",
            "optimizer.param_groups[0].params has 2 items, expected 3",
        ),
        case("indices of text", changed(|c| c.params[2] = text("2")), "WrongType", "params[2]: expected an integer"),
        case(
            "no groups",
            root("optimizer", Some(groups(&[]))),
            "Count",
            "optimizer.param_groups has 0 items, expected 1",
        ),
        case("two groups", root("optimizer", Some(groups(&[int(1), int(2)]))), "Count", "has 2 items"),
        case(
            "group is a number",
            root("optimizer", Some(groups(&[int(1)]))),
            "WrongType",
            "param_groups[0]: expected a dict",
        ),
        case("lr is text", changed(|c| c.lr = text("fast")), "WrongType", "param_groups[0].lr: expected a number"),
        case("lr is infinite", changed(|c| c.lr = float(f64::INFINITY)), "OutOfRange", "lr is inf"),
        case("lr big-endian", lr("f8", ">", &[0; 8]), "ByteOrder", "byte order \">\""),
        case("lr too short", lr("f8", "<", &[0; 7]), "Count", "7 items, expected the bytes of one f8"),
        case("lr complex", lr("c16", "<", &[0; 16]), "WrongType", "a numpy dtype f8, f4, i8 or i4"),
        case("lr an object", lr("O8", "|", &[0; 8]), "WrongType", "a numpy dtype f8"),
        case("lr beyond latin1", changed(|c| c.lr = beyond_latin1()), "WrongType", "text in latin1"),
        case("lr in another encoding", changed(|c| c.lr = other_encoding()), "WrongType", "the encoding latin1"),
    ]
}

fn groups(groups: &[Code]) -> Code {
    named(&[("state", named(&[])), ("param_groups", list(groups))])
}

fn number_as_name() -> Code {
    crate::forge::pickle::dict(&[(int(1), int(2))])
}

fn large_double() -> Vec<u8> {
    let mut forged = Checkpoint::default();
    let storage =
        forged.store("DoubleStorage", [1e300f64; 2].iter().flat_map(|value| value.to_le_bytes()).collect(), 2);
    forged.with(BIAS, crate::forge::pickle::tensor(storage, 0, &[2], &[1])).write()
}

fn step_is_a_matrix(forged: &mut Checkpoint) {
    let matrix = forged.floats(&[1.0; 6], &[2, 3]);
    forged.state[0].1 = forged.moments(&[0.1; 6], &[2, 3], matrix);
}

/// A scalar whose bytes were replaced in the finished code.
fn replaced(from: &str, to: &str) -> Code {
    let code = numpy_scalar("numpy._core.multiarray", "f8", "<", b"12345678");
    let (from, to) = (text(from), text(to));
    let at = code.windows(from.len()).position(|window| window == from).unwrap();
    [&code[..at], &to, &code[at + from.len()..]].concat()
}

fn beyond_latin1() -> Code {
    replaced("12345678", "1234567\u{20ac}")
}

fn other_encoding() -> Code {
    replaced("latin1", "zlib_codec")
}
