//! Files of tensors whose every byte is decided by their content.

use safetensors::{SafeTensorError, View, serialize};
use std::fmt::Display;

/// Tensors as safetensors bytes, with `metadata` in the header in the order given.
///
/// The crate takes metadata as a hash map and writes it in another order every time; here it comes after the fact.
pub fn to_safetensors<N: AsRef<str> + Ord + Display, V: View>(
    tensors: impl IntoIterator<Item = (N, V)>,
    metadata: &[(&str, String)],
) -> Result<Vec<u8>, SafeTensorError> {
    let plain = serialize(tensors, None)?;
    let Some((length, rest)) = plain.split_first_chunk().filter(|_| !metadata.is_empty()) else { return Ok(plain) };
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let entries: Vec<String> =
        metadata.iter().map(|(key, value)| format!("{}:{}", quoted(key), quoted(value))).collect();
    let mut begun = format!("{{\"__metadata__\":{{{}}}", entries.join(",")).into_bytes();
    let others = header[1..].trim_ascii_end();
    if others.len() > 1 {
        begun.push(b',');
    }
    begun.extend(others);
    begun.resize(begun.len().next_multiple_of(8), b' ');
    Ok([&(begun.len() as u64).to_le_bytes(), &begun[..], data].concat())
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c < ' ' => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::{Dtype, SafeTensors, tensor::TensorView};

    #[test]
    fn metadata_comes_back_and_every_byte_is_the_same_again() {
        let (bytes, names) = ([1u8, 2, 3, 4], ["a", "b"]);
        let metadata: Vec<(&str, String)> =
            vec![("z", "1".into()), ("quote", "\"\\\n\u{e9}".into()), ("a", "".into()), ("m", "x".into())];
        for count in 0..=2 {
            let write = || {
                let views = names[..count].iter().map(|n| (*n, TensorView::new(Dtype::U8, vec![4], &bytes).unwrap()));
                to_safetensors(views, &metadata).unwrap()
            };
            let file = write();
            assert!((0..20).all(|_| write() == file));
            let (_, header) = SafeTensors::read_metadata(&file).unwrap();
            let read = header.metadata().clone().unwrap();
            assert!(metadata.iter().all(|(key, value)| read[*key] == *value) && read.len() == metadata.len());
            let tensors = SafeTensors::deserialize(&file).unwrap();
            assert!(names[..count].iter().all(|name| tensors.tensor(name).unwrap().data() == bytes));
        }
    }
}
