//! A zip writer whose every field can be made to lie.

use super::crc32;

/// An entry as both headers describe it.
#[derive(Clone)]
pub struct Entry {
    pub name: String,
    pub data: Vec<u8>,
    pub crc: u32,
    pub method: u16,
    pub flags: u16,
    pub size: u32,
    pub stored_size: u32,
    /// The directory's claim, when not the truth.
    pub offset: Option<u32>,
    pub extra: Vec<u8>,
    pub local_name: String,
    pub local_size: u32,
}

impl Entry {
    pub fn new(name: &str, data: Vec<u8>) -> Entry {
        let size = data.len() as u32;
        Entry {
            name: name.into(),
            crc: crc32(&data),
            method: 0,
            flags: 0,
            size,
            stored_size: size,
            offset: None,
            extra: vec![],
            local_name: name.into(),
            local_size: size,
            data,
        }
    }
}

/// The end record; `None` means the truth.
#[derive(Clone, Default)]
pub struct End {
    pub disk: u16,
    pub count: Option<u16>,
    pub length: Option<u32>,
    pub offset: Option<u32>,
    pub comment: Vec<u8>,
    pub zip64: Option<Zip64>,
}

/// The zip64 end record and its locator; `None` means the truth.
#[derive(Clone, Default)]
pub struct Zip64 {
    pub count: Option<u64>,
    pub length: Option<u64>,
    pub offset: Option<u64>,
    pub record_length: Option<u64>,
    pub located: Option<u64>,
    pub disks: Option<u32>,
}

pub fn write(entries: &[Entry]) -> Vec<u8> {
    write_with_end(entries, &End::default())
}

pub fn write_with_end(entries: &[Entry], end: &End) -> Vec<u8> {
    let mut file = Vec::new();
    let mut directory = Vec::new();
    for entry in entries {
        let offset = entry.offset.unwrap_or(file.len() as u32);
        u32s(&mut file, &[0x0403_4b50]);
        u16s(&mut file, &[20, entry.flags, entry.method, 0, 0]);
        // With this flag sizes and checksum follow the data, and the local header has zeros.
        let streamed = entry.flags & 8 != 0;
        let local = if streamed { [0; 3] } else { [entry.crc, entry.local_size, entry.local_size] };
        u32s(&mut file, &local);
        u16s(&mut file, &[entry.local_name.len() as u16, 0]);
        file.extend(entry.local_name.as_bytes());
        file.extend(&entry.data);

        u32s(&mut directory, &[0x0201_4b50]);
        u16s(&mut directory, &[20, 20, entry.flags, entry.method, 0, 0]);
        u32s(&mut directory, &[entry.crc, entry.stored_size, entry.size]);
        u16s(&mut directory, &[entry.name.len() as u16, entry.extra.len() as u16, 0, 0, 0, 0, 0]);
        u32s(&mut directory, &[offset]);
        directory.extend(entry.name.as_bytes());
        directory.extend(&entry.extra);
    }
    let start = file.len() as u64;
    let length = directory.len() as u64;
    file.extend(directory);
    if let Some(zip64) = &end.zip64 {
        let record = file.len() as u64;
        let count = zip64.count.unwrap_or(entries.len() as u64);
        u32s(&mut file, &[0x0606_4b50]);
        u64s(&mut file, &[zip64.record_length.unwrap_or(44)]);
        u16s(&mut file, &[45, 45]);
        u32s(&mut file, &[0, 0]);
        u64s(&mut file, &[count, count, zip64.length.unwrap_or(length), zip64.offset.unwrap_or(start)]);
        u32s(&mut file, &[0x0706_4b50, 0]);
        u64s(&mut file, &[zip64.located.unwrap_or(record)]);
        u32s(&mut file, &[zip64.disks.unwrap_or(1)]);
    }
    let count = end.count.unwrap_or(entries.len() as u16);
    u32s(&mut file, &[0x0605_4b50]);
    u16s(&mut file, &[end.disk, 0, count, count]);
    u32s(&mut file, &[end.length.unwrap_or(length as u32), end.offset.unwrap_or(start as u32)]);
    u16s(&mut file, &[end.comment.len() as u16]);
    file.extend(&end.comment);
    file
}

pub fn u16s(file: &mut Vec<u8>, values: &[u16]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

pub fn u32s(file: &mut Vec<u8>, values: &[u32]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

pub fn u64s(file: &mut Vec<u8>, values: &[u64]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}
