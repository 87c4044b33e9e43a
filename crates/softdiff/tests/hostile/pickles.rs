//! Pickles that want to run code, or to be endless.

use crate::forge::checkpoint::Checkpoint;
use crate::forge::pickle::{call, dict, global, int, list, named, pickle, text, tuple};
use crate::forge::zip::write;
use crate::{Case, case};

/// A checkpoint with these opcodes for a pickle.
fn raw(bytes: &[u8]) -> Vec<u8> {
    write(&Checkpoint::default().entries_with(bytes.to_vec()))
}

/// A checkpoint whose root is this value.
fn root(code: &[u8]) -> Vec<u8> {
    raw(&pickle(code))
}

/// A value, and its opcodes again and again.
fn repeat(first: &[u8], again: &[u8], times: usize, last: &[u8]) -> Vec<u8> {
    root(&[first, &again.repeat(times), last].concat())
}

pub fn cases() -> Vec<Case> {
    let system = |module: &str, name: &str| root(&call(module, name, &[text("echo owned")]));
    let opcode = |code: &[u8]| root(code);
    let mut cut = Checkpoint::default().pickle();
    cut.truncate(cut.len() - 2);
    vec![
        case("empty", raw(b""), "Truncated", "pickle is cut off: 1 bytes wanted at offset 0"),
        case("protocol alone", raw(b"\x80"), "Truncated", "offset 1"),
        case("end cut off", raw(&cut), "Truncated", "pickle is cut off: 1 bytes wanted"),
        case("no STOP", raw(b"\x80\x02}"), "Truncated", "offset 3"),
        case("protocol 4", raw(b"\x80\x04}."), "PickleProtocol", "protocol 4, expected 2"),
        case("stop at once", raw(b"\x80\x02."), "PickleUnderflow", "STOP at offset 2"),
        case("values left", root(b"NN"), "PickleLeftover", "1 values on the stack"),
        case("mark left", raw(b"\x80\x02(N."), "PickleLeftover", "1 open marks"),
        case("bytes left", raw(b"\x80\x02N.N."), "PickleLeftover", "2 bytes after it"),
        case("17 megabytes", raw(&vec![b'N'; 17 << 20]), "PickleLimit", "16777216 bytes"),
        // Code.
        case("os.system", system("os", "system"), "PickleGlobal", "\"os.system\" at offset 2"),
        case("posix.system", system("posix", "system"), "PickleGlobal", "posix.system"),
        case("builtins.eval", system("builtins", "eval"), "PickleGlobal", "builtins.eval"),
        case("builtins.getattr", system("__builtin__", "getattr"), "PickleGlobal", "__builtin__.getattr"),
        case("subprocess", system("subprocess", "Popen"), "PickleGlobal", "subprocess.Popen"),
        case("torch.load", system("torch", "load"), "PickleGlobal", "torch.load"),
        case("another torch function", system("torch._utils", "_rebuild_tensor"), "PickleGlobal", "_rebuild_tensor\""),
        case("control characters", system("\x1b[2J", "x"), "PickleGlobal", "\\u{1b}[2J.x"),
        case("endless module name", root(&[b'c'; 9999]), "NoLineEnd", "128 bytes"),
        case("global cut off", raw(b"\x80\x02ctorch"), "NoLineEnd", "offset 3"),
        case("INST", opcode(b"(ios\nsystem\n"), "PickleOpcode", "opcode INST at offset 3"),
        case("OBJ", opcode(b"(N o"), "PickleOpcode", "opcode 0x20 (unknown)"),
        case("OBJ after a class", opcode(b"(No"), "PickleOpcode", "opcode OBJ"),
        case("STACK_GLOBAL", opcode(b"\x93"), "PickleOpcode", "opcode STACK_GLOBAL"),
        case("NEWOBJ", opcode(b"\x81"), "PickleOpcode", "opcode NEWOBJ"),
        case("EXT1", opcode(b"\x82\x01"), "PickleOpcode", "opcode EXT1"),
        case("PERSID", opcode(b"P1\n"), "PickleOpcode", "opcode PERSID"),
        case("FRAME", opcode(b"\x95"), "PickleOpcode", "opcode FRAME"),
        case("BYTEARRAY8", opcode(b"\x96"), "PickleOpcode", "opcode BYTEARRAY8"),
        case("unknown opcode", opcode(b"\xff"), "PickleOpcode", "0xff (unknown)"),
        case("call of a string", root(b"X\x01\0\0\0x)R"), "PickleOperand", "REDUCE at offset 9: expected an allowed"),
        case(
            "call without tuple",
            root(&[global("_codecs", "encode"), b"NR".into()].concat()),
            "PickleOperand",
            "a tuple",
        ),
        case("call of a storage type", root(&call("torch", "FloatStorage", &[])), "PickleOperand", "a storage type"),
        case(
            "OrderedDict of arguments",
            root(&call("collections", "OrderedDict", &[int(1)])),
            "PickleOperand",
            "without",
        ),
        case("state for a number", root(b"K\x01Nb"), "PickleOperand", "BUILD at offset 5: expected an object"),
        // The stack.
        case("REDUCE of nothing", root(b"R"), "PickleUnderflow", "REDUCE at offset 2"),
        case("TUPLE3 of two", root(b"NN\x87"), "PickleUnderflow", "TUPLE3 at offset 4"),
        case("below the mark", root(b"N(\x85"), "PickleUnderflow", "TUPLE1 at offset 4"),
        case("SETITEM of nothing", root(b"}s"), "PickleUnderflow", "SETITEM at offset 3"),
        case("TUPLE without mark", root(b"Nt"), "PickleNoMark", "TUPLE at offset 3"),
        case("SETITEMS without mark", root(b"}u"), "PickleNoMark", "SETITEMS"),
        case("APPENDS without mark", root(b"]e"), "PickleNoMark", "APPENDS"),
        case("APPENDS to nothing", root(b"(Ne"), "PickleUnderflow", "APPENDS"),
        case("APPEND to a dict", root(b"}Na"), "PickleOperand", "expected a list, found a dict"),
        case("SETITEM of a list", root(b"]K\x01Ns"), "PickleOperand", "expected a dict, found a list"),
        case("a key alone", root(b"}(K\x01u"), "PickleOperand", "a key alone"),
        case("a list as key", root(b"}]Ns"), "PickleOperand", "expected a string or an integer as key"),
        // Lengths.
        case("LONG1 of 255 bytes", root(&[&b"\x8a\xff"[..], &[1; 255]].concat()), "PickleLong", "255 bytes"),
        case("LONG1 cut off", raw(b"\x80\x02\x8a\x08\x01"), "Truncated", "8 bytes wanted"),
        case("LONG4 of 2 GiB", root(b"\x8b\xff\xff\xff\x7f"), "PickleOpcode", "opcode LONG4"),
        case("string of 4 GiB", root(b"X\xff\xff\xff\xff"), "PickleLimit", "1024 bytes in a string"),
        case("string cut off", raw(b"\x80\x02X\x10\0\0\0ab"), "Truncated", "16 bytes wanted at offset 7, 2 left"),
        case("string not UTF-8", root(b"X\x01\0\0\0\xff"), "PickleText", "offset 2"),
        case("memo never stored", root(b"h\x05"), "PickleMemo", "memo 5"),
        case("large memo index", root(b"j\xff\xff\xff\xff"), "PickleMemo", "memo 4294967295"),
        case("memo of nothing", root(b"q\x00"), "PickleUnderflow", "BINPUT"),
        // Bombs.
        case("a million marks", repeat(b"", b"(", 1_000_000, b""), "PickleLimit", "64 open marks"),
        case("nested lists in marks", repeat(b"", b"](", 1000, b""), "PickleLimit", "64 open marks"),
        case("a million values", repeat(b"", b"N", 1_000_000, b""), "PickleLimit", "524288 values"),
        case("a million memo slots", memo_slots(), "PickleLimit", "524288 memo slots"),
        case("five million opcodes", repeat(b"N", b"q\0", 5_000_000, b""), "PickleLimit", "4194304 opcodes"),
        case("nested 200 000 deep", repeat(b")", b"\x85", 200_000, b""), "WrongType", "expected a dict, found a tuple"),
        case("model nested 200 000 deep", deep_model(), "WrongType", "model: expected a dict, found a list"),
        case("memo bomb of 2^60 items", memo_bomb(), "WrongType", "model: expected a dict, found a tuple"),
        case("wide memo bomb", wide_memo_bomb(), "PickleLimit", "524288 values"),
        case("dictionary within itself", root(b"}q\0X\x05\0\0\0modelh\0s"), "UnknownParameter", "\"model\""),
        case("list within itself", root(b"}X\x05\0\0\0model]q\0h\0as"), "WrongType", "found a list"),
        case("root is a list", root(&list(&[int(1)])), "WrongType", "the checkpoint: expected a dict, found a list"),
        case("root is a number", root(&int(1)), "WrongType", "found an integer"),
        case("root with number keys", root(&dict(&[(int(1), int(2))])), "MissingKey", "no key \"model\""),
        case(
            "model with a tuple as value",
            root(&named(&[("model", tuple(&[]))])),
            "WrongType",
            "model: expected a dict",
        ),
    ]
}

/// LONG_BINPUT of ever new indices to one value.
fn memo_slots() -> Vec<u8> {
    let puts: Vec<u8> = (0..600_000u32).flat_map(|index| [&b"r"[..], &index.to_le_bytes()].concat()).collect();
    root(&[&b"N"[..], &puts].concat())
}

fn deep_model() -> Vec<u8> {
    // Inner lists are appended to outer ones on the way back: `] ] ] … a a a`.
    let deep = [b"]".repeat(200_000), b"a".repeat(199_999)].concat();
    root(&named(&[("model", deep)]))
}

/// Each level is a pair of the level before: sixty pairs, 2^60 leaves when written out.
fn memo_bomb() -> Vec<u8> {
    let levels: Vec<u8> = (0..60u8).flat_map(|level| [b'q', level, b'h', level, 0x86]).collect();
    root(&named(&[("model", [&b")"[..], &levels].concat())]))
}

/// Each level is a tuple of ten thousand of the level before.
fn wide_memo_bomb() -> Vec<u8> {
    let level = |level: u8| [&b"("[..], &[b'h', level].repeat(10_000), b"tq", &[level + 1]].concat();
    let levels: Vec<u8> = (0..100).flat_map(level).collect();
    root(&[&b")q\0"[..], &levels].concat())
}
