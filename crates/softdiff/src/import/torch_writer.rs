//! Writes torch files as `torch.save` does: a zip archive of one pickle (protocol 2) and the numbers of each tensor.
//!
//! Only values that `torch.load(..., weights_only=True)` accepts can be written.

use softdiff_data::archive::zip::StoredZip;
use std::io::{self, Write};

/// A Python value.
pub enum TorchValue<'a> {
    /// `int`.
    Int(usize),
    /// `float`.
    Float(f64),
    /// `bool`.
    Flag(bool),
    /// `str`.
    Text(&'a str),
    /// `tuple`.
    Tuple(Vec<TorchValue<'a>>),
    /// `list`.
    List(Vec<TorchValue<'a>>),
    /// `dict` with names as keys.
    Dict(Vec<(&'static str, TorchValue<'a>)>),
    /// `OrderedDict` with names as keys, as state dictionaries are.
    Ordered(Vec<(String, TorchValue<'a>)>),
    /// A contiguous tensor of this shape. Tensors of the same slice share their storage.
    Tensor(&'a [usize], TorchNumbers<'a>),
}

/// The numbers of a tensor.
#[derive(Clone, Copy)]
pub enum TorchNumbers<'a> {
    /// `torch.float32`.
    F32(&'a [f32]),
    /// `torch.float64`.
    F64(&'a [f64]),
}

impl TorchNumbers<'_> {
    fn class(&self) -> &'static str {
        match self {
            TorchNumbers::F32(_) => "FloatStorage",
            TorchNumbers::F64(_) => "DoubleStorage",
        }
    }

    fn len(&self) -> usize {
        match self {
            TorchNumbers::F32(values) => values.len(),
            TorchNumbers::F64(values) => values.len(),
        }
    }

    fn is(&self, other: &TorchNumbers) -> bool {
        match (self, other) {
            (TorchNumbers::F32(one), TorchNumbers::F32(other)) => std::ptr::eq(*one, *other),
            (TorchNumbers::F64(one), TorchNumbers::F64(other)) => std::ptr::eq(*one, *other),
            _ => false,
        }
    }

    fn to_bytes(self) -> Vec<u8> {
        match self {
            TorchNumbers::F32(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            TorchNumbers::F64(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }
}

/// Writes a torch file that holds `root`; the same bytes for the same value.
pub fn write_torch(out: &mut impl Write, root: &TorchValue) -> io::Result<()> {
    let mut pickler = Pickler { code: b"\x80\x02".to_vec(), storages: Vec::new() };
    pickler.value(root);
    pickler.code.push(b'.');
    let mut zip = StoredZip::new(out);
    zip.entry("archive/data.pkl", &[&pickler.code])?;
    zip.entry("archive/byteorder", &[b"little"])?;
    for (key, numbers) in pickler.storages.iter().enumerate() {
        zip.entry(&format!("archive/data/{key}"), &[&numbers.to_bytes()])?;
    }
    zip.entry("archive/version", &[b"3\n"])?;
    zip.finish()
}

struct Pickler<'a> {
    code: Vec<u8>,
    storages: Vec<TorchNumbers<'a>>,
}

impl<'a> Pickler<'a> {
    fn value(&mut self, value: &TorchValue<'a>) {
        match value {
            TorchValue::Int(value) => self.size(*value),
            TorchValue::Float(value) => self.op(b"G", &value.to_be_bytes()),
            TorchValue::Flag(value) => self.op(if *value { b"\x88" } else { b"\x89" }, &[]),
            TorchValue::Text(text) => self.text(text),
            TorchValue::Tuple(items) => self.marked(b"t", |p| items.iter().for_each(|item| p.value(item))),
            TorchValue::List(items) => {
                self.op(b"]", &[]);
                self.marked(b"e", |p| items.iter().for_each(|item| p.value(item)));
            }
            TorchValue::Dict(entries) => {
                self.op(b"}", &[]);
                self.entries(entries);
            }
            TorchValue::Ordered(entries) => {
                self.ordered_dict();
                self.entries(entries);
            }
            TorchValue::Tensor(shape, numbers) => self.tensor(shape, *numbers),
        }
    }

    fn entries<T: AsRef<str>>(&mut self, entries: &[(T, TorchValue<'a>)]) {
        self.marked(b"u", |p| {
            for (name, value) in entries {
                p.text(name.as_ref());
                p.value(value);
            }
        });
    }

    /// `torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks)`.
    fn tensor(&mut self, shape: &[usize], numbers: TorchNumbers<'a>) {
        let key = self.storages.iter().position(|storage| storage.is(&numbers)).unwrap_or_else(|| {
            self.storages.push(numbers);
            self.storages.len() - 1
        });
        let strides = (1..=shape.len()).map(|axis| shape.iter().skip(axis).product());
        self.global("torch._utils", "_rebuild_tensor_v2");
        self.marked(b"t", |p| {
            p.marked(b"t", |p| {
                p.text("storage");
                p.global("torch", numbers.class());
                p.text(&key.to_string());
                p.text("cpu");
                p.size(numbers.len());
            });
            p.op(b"Q", &[]);
            p.size(0);
            p.marked(b"t", |p| shape.iter().for_each(|&size| p.size(size)));
            p.marked(b"t", |p| strides.for_each(|stride| p.size(stride)));
            p.op(b"\x89", &[]);
            p.ordered_dict();
        });
        self.op(b"R", &[]);
    }

    /// A number of up to 64 bits.
    fn size(&mut self, size: usize) {
        match i32::try_from(size) {
            Ok(size) => self.op(b"J", &size.to_le_bytes()),
            Err(_) => self.op(b"\x8a\x08", &(size as u64).to_le_bytes()),
        }
    }

    fn text(&mut self, text: &str) {
        self.op(b"X", &(text.len() as u32).to_le_bytes());
        self.code.extend_from_slice(text.as_bytes());
    }

    fn ordered_dict(&mut self) {
        self.global("collections", "OrderedDict");
        self.op(b")R", &[]);
    }

    fn global(&mut self, module: &str, name: &str) {
        self.code.extend_from_slice(format!("c{module}\n{name}\n").as_bytes());
    }

    fn marked(&mut self, end: &[u8], inside: impl FnOnce(&mut Self)) {
        self.op(b"(", &[]);
        inside(self);
        self.op(end, &[]);
    }

    fn op(&mut self, opcode: &[u8], operand: &[u8]) {
        self.code.extend_from_slice(opcode);
        self.code.extend_from_slice(operand);
    }
}
