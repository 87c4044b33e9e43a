//! Pickle code for values, as Python's protocol 2 writes them.

/// Code that pushes one value.
pub type Code = Vec<u8>;

/// A whole pickle.
pub fn pickle(root: &[u8]) -> Vec<u8> {
    [b"\x80\x02", root, b"."].concat()
}

pub fn text(text: &str) -> Code {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

pub fn int(value: i64) -> Code {
    match i32::try_from(value) {
        Ok(value) => [b"J", &value.to_le_bytes()[..]].concat(),
        Err(_) => [b"\x8a\x08", &value.to_le_bytes()[..]].concat(),
    }
}

pub fn float(value: f64) -> Code {
    [b"G", &value.to_be_bytes()[..]].concat()
}

pub fn tuple(items: &[Code]) -> Code {
    [b"(", &items.concat()[..], b"t"].concat()
}

pub fn list(items: &[Code]) -> Code {
    [b"](", &items.concat()[..], b"e"].concat()
}

pub fn dict(entries: &[(Code, Code)]) -> Code {
    let entries: Vec<u8> = entries.iter().flat_map(|(key, value)| [&key[..], value].concat()).collect();
    [b"}(", &entries[..], b"u"].concat()
}

pub fn named(entries: &[(&str, Code)]) -> Code {
    dict(&entries.iter().map(|(name, value)| (text(name), value.clone())).collect::<Vec<_>>())
}

pub fn global(module: &str, name: &str) -> Code {
    format!("c{module}\n{name}\n").into_bytes()
}

pub fn call(module: &str, name: &str, arguments: &[Code]) -> Code {
    [global(module, name), tuple(arguments), b"R".to_vec()].concat()
}

pub fn ints(values: &[i64]) -> Code {
    tuple(&values.iter().map(|&value| int(value)).collect::<Vec<_>>())
}

pub fn storage(class: &str, key: &str, elements: i64) -> Code {
    let description = tuple(&[text("storage"), global("torch", class), text(key), text("cpu"), int(elements)]);
    [description, b"Q".to_vec()].concat()
}

pub fn tensor(storage: Code, offset: i64, size: &[i64], stride: &[i64]) -> Code {
    rebuild(&[storage, int(offset), ints(size), ints(stride)])
}

/// A tensor with any first arguments; the last two are what torch always writes.
pub fn rebuild(arguments: &[Code]) -> Code {
    let mut arguments = arguments.to_vec();
    arguments.push(b"\x89".to_vec());
    arguments.push(call("collections", "OrderedDict", &[]));
    call("torch._utils", "_rebuild_tensor_v2", &arguments)
}

/// A numpy scalar; `bytes` are its bytes.
pub fn numpy_scalar(module: &str, format: &str, order: &str, bytes: &[u8]) -> Code {
    let dtype = call("numpy", "dtype", &[text(format), b"\x89".to_vec(), b"\x88".to_vec()]);
    let state = tuple(&[int(3), text(order), b"N".to_vec(), b"N".to_vec(), b"N".to_vec(), int(-1), int(-1), int(0)]);
    let latin1: String = bytes.iter().map(|&byte| char::from(byte)).collect();
    let content = call("_codecs", "encode", &[text(&latin1), text("latin1")]);
    call(module, "scalar", &[[dtype, state, b"b".to_vec()].concat(), content])
}
