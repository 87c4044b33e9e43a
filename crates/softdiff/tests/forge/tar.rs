//! A tar writer whose every field can be made to lie.

/// One member of an archive.
#[derive(Clone)]
pub struct Entry {
    pub name: String,
    pub kind: u8,
    pub data: Vec<u8>,
    /// The claim, when not the truth.
    pub size: Option<Vec<u8>>,
    pub checksum: Option<u64>,
}

impl Entry {
    pub fn new(name: &str, data: Vec<u8>) -> Entry {
        Entry { name: name.into(), kind: b'0', data, size: None, checksum: None }
    }

    pub fn of_kind(name: &str, kind: u8, data: Vec<u8>) -> Entry {
        Entry { kind, ..Entry::new(name, data) }
    }
}

pub fn write(entries: &[Entry]) -> Vec<u8> {
    let mut file = Vec::new();
    for entry in entries {
        let mut header = [0u8; 512];
        header[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
        let size = entry.size.clone().unwrap_or_else(|| format!("{:011o}\0", entry.data.len()).into_bytes());
        header[124..124 + size.len()].copy_from_slice(&size);
        header[156] = entry.kind;
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].fill(b' ');
        let sum = entry.checksum.unwrap_or_else(|| header.iter().map(|&byte| u64::from(byte)).sum());
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        file.extend(header);
        file.extend(&entry.data);
        file.resize(file.len().next_multiple_of(512), 0);
    }
    file.resize(file.len() + 1024, 0);
    file
}
