//! The footer: the schema as leaves, and where each leaf's chunks lie.

use super::thrift::{self, Struct};
use super::{FileError, MAGIC, damaged, unsupported};
use crate::sets::MAX_PICTURES;
use serde_json::Value as Json;

/// Footers of files of many row groups have some MiB.
const MAX_FOOTER: u64 = 64 << 20;
/// The most columns of a table of images.
const MAX_COLUMNS: usize = 4096;

/// Physical types that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Physical {
    Int32,
    Int64,
    ByteArray,
    Other,
}

/// A column of values: a leaf of the schema.
pub struct SchemaLeaf {
    path: Vec<String>,
    pub physical: Physical,
    /// How many of its ancestors, and itself, may be null.
    pub max_definition: u32,
    repeated: bool,
}

/// A leaf's values in one row group.
pub struct Chunk {
    pub codec: i64,
    pub values: u64,
    pub offset: u64,
    pub length: u64,
}

/// What the reader needs of the footer.
pub struct Footer {
    leaves: Vec<SchemaLeaf>,
    /// For each leaf, its chunks in order.
    chunks: Vec<Vec<Chunk>>,
    pub rows: u64,
    /// The text under the key `huggingface`.
    huggingface: Option<Json>,
}

impl Footer {
    /// Reads the footer at the end of the file.
    pub fn read(bytes: &[u8]) -> Result<Footer, FileError> {
        let cut = || damaged("the file is cut off: it does not end with PAR1");
        let (rest, end) = bytes.split_last_chunk::<8>().ok_or_else(cut)?;
        let (length, magic) = end.split_at(4);
        if magic != MAGIC {
            return Err(cut());
        }
        let length = u64::from(u32::from_le_bytes(*length.first_chunk().ok_or_else(cut)?));
        if length > MAX_FOOTER || length > rest.len() as u64 {
            return Err(damaged(format!("a footer of {length} bytes in a file of {}", bytes.len())));
        }
        let footer = rest.get(rest.len() - length as usize..).unwrap_or_default();
        let (metadata, _) = thrift::read(footer)?;
        let leaves = leaves(&metadata)?;
        let rows = metadata.size(3, "the number of rows")?;
        if rows > MAX_PICTURES {
            return Err(damaged(format!("{rows} rows, more than the limit of {MAX_PICTURES}")));
        }
        let mut chunks: Vec<Vec<Chunk>> = leaves.iter().map(|_| Vec::new()).collect();
        for group in metadata.structs(4) {
            for (column, chunks) in group.structs(1).zip(&mut chunks) {
                chunks.push(chunk(column, bytes.len() as u64)?);
            }
        }
        let text = metadata.structs(5).find(|pair| pair.text(1) == Some("huggingface")).and_then(|pair| pair.text(2));
        let huggingface = text.and_then(|text| serde_json::from_str(text).ok());
        Ok(Footer { leaves, chunks, rows, huggingface })
    }

    /// The leaf of picture bytes: a field `bytes` of a struct, or a column of bytes with a likely name.
    pub fn picture_leaf(&self, names: &[&str]) -> Option<usize> {
        let fit = |leaf: &SchemaLeaf| leaf.physical == Physical::ByteArray && !leaf.repeated;
        let in_struct = |leaf: &SchemaLeaf| {
            fit(leaf) && leaf.path.len() == 2 && leaf.path.last().is_some_and(|name| name == "bytes")
        };
        let alone =
            |leaf: &SchemaLeaf| fit(leaf) && matches!(leaf.path.as_slice(), [name] if names.contains(&name.as_str()));
        self.leaves.iter().position(in_struct).or_else(|| self.leaves.iter().position(alone))
    }

    /// The leaf of labels, by its name.
    pub fn label_leaf(&self, names: &[&str]) -> Option<usize> {
        let whole = |leaf: &SchemaLeaf| matches!(leaf.physical, Physical::Int32 | Physical::Int64) && !leaf.repeated;
        names.iter().find_map(|&name| {
            self.leaves.iter().position(|leaf| whole(leaf) && matches!(leaf.path.as_slice(), [only] if only == name))
        })
    }

    /// The names of the classes, from Hugging Face's description of the label column.
    pub fn class_names(&self, names: &[&str]) -> Vec<String> {
        let features = self.huggingface.as_ref().and_then(|json| json.get("info")?.get("features"));
        let class_names = |name: &&str| features?.get(name)?.get("names")?.as_array();
        let found = names.iter().find_map(class_names).map(Vec::as_slice).unwrap_or_default();
        found.iter().filter_map(|name| name.as_str().map(String::from)).collect()
    }

    /// A leaf and its chunks.
    pub fn leaf(&self, index: usize) -> Option<(&SchemaLeaf, &[Chunk])> {
        Some((self.leaves.get(index)?, self.chunks.get(index)?))
    }

    /// The names of all columns, for messages.
    pub fn names(&self) -> String {
        let names: Vec<String> = self.leaves.iter().take(12).map(|leaf| leaf.path.join(".")).collect();
        crate::quote::quote(&names.join(", "))
    }
}

/// The schema is a tree in preorder; its leaves are the columns.
fn leaves(metadata: &Struct) -> Result<Vec<SchemaLeaf>, FileError> {
    let mut elements = metadata.structs(2);
    let root = elements.next().ok_or_else(|| damaged("no schema"))?;
    // Open nodes: children left, name, definition level, whether anything above repeats.
    let mut open = vec![(root.number(5).unwrap_or(0), String::new(), 0u32, false)];
    let mut leaves = Vec::new();
    for element in elements {
        while open.last().is_some_and(|&(left, ..)| left <= 0) {
            open.pop();
        }
        let Some((left, _, definition, repeated)) = open.last_mut() else {
            return Err(damaged("a schema with too many nodes"));
        };
        *left -= 1;
        let repetition = element.number(3).unwrap_or(0);
        let (definition, repeated) = (*definition + u32::from(repetition != 0), *repeated || repetition == 2);
        let name = element.text(4).ok_or_else(|| damaged("a column without a name"))?.to_string();
        match element.number(5) {
            Some(children) if children > 0 && open.len() < 16 => open.push((children, name, definition, repeated)),
            Some(children) if children > 0 => return Err(unsupported("a schema nested too deeply")),
            _ => {
                let physical = match element.number(1) {
                    Some(1) => Physical::Int32,
                    Some(2) => Physical::Int64,
                    Some(6) => Physical::ByteArray,
                    _ => Physical::Other,
                };
                let path = open.iter().skip(1).map(|(_, name, ..)| name.clone()).chain([name]).collect();
                leaves.push(SchemaLeaf { path, physical, max_definition: definition, repeated });
            }
        }
        if leaves.len() > MAX_COLUMNS {
            return Err(unsupported(format!("more than {MAX_COLUMNS} columns")));
        }
    }
    Ok(leaves)
}

fn chunk(column: &Struct, file: u64) -> Result<Chunk, FileError> {
    if column.text(1).is_some() {
        return Err(unsupported("columns in other files"));
    }
    let metadata = column.inner(3).ok_or_else(|| damaged("a column chunk without metadata"))?;
    let data = metadata.size(9, "the offset of a column")?;
    // Old writers put a 0 where there is no dictionary.
    let dictionary = metadata.number(11).and_then(|offset| u64::try_from(offset).ok()).filter(|&offset| offset > 0);
    let offset = dictionary.map_or(data, |dictionary| dictionary.min(data));
    let length = metadata.size(7, "the length of a column")?;
    if offset.checked_add(length).is_none_or(|end| end > file) {
        return Err(damaged(format!("a column at {offset} of {length} bytes in a file of {file}")));
    }
    Ok(Chunk {
        codec: metadata.number(4).unwrap_or(0),
        values: metadata.size(5, "the number of values")?,
        offset,
        length,
    })
}
