//! The little of Protocol Buffers that event files need: a field is its number and kind, then its content.

/// A message under construction.
#[derive(Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// An integer.
    pub fn integer(mut self, field: u32, value: u64) -> Message {
        self.key(field, 0);
        self.varint(value);
        self
    }

    /// A number of 64 bits.
    pub fn double(mut self, field: u32, value: f64) -> Message {
        self.key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A number of 32 bits.
    pub fn float(mut self, field: u32, value: f32) -> Message {
        self.key(field, 5);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Text, bytes, or another message.
    pub fn bytes(mut self, field: u32, value: &[u8]) -> Message {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// The message's bytes.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    fn key(&mut self, field: u32, kind: u32) {
        self.varint(u64::from(field << 3 | kind));
    }

    /// Seven bits a byte, the lowest first; the eighth says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value > 0x7F {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    /// The examples of the encoding guide (protobuf.dev).
    #[test]
    fn the_guides_own_examples() {
        assert_eq!(Message::default().integer(1, 150).finish(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().bytes(2, b"testing").finish(), b"\x12\x07testing");
        let inner = Message::default().integer(1, 150).finish();
        assert_eq!(Message::default().bytes(3, &inner).finish(), [0x1A, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(Message::default().integer(1, u64::MAX).finish().len(), 11);
    }
}
