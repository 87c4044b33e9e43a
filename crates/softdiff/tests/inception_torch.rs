//! The network from torch files in both formats, written here byte by byte.

mod forge;

use forge::damage::damage_anywhere;
use forge::pickle::{Code, call, int, list, named, pickle, storage, tensor, text};
use forge::zip::{Entry, write};
use safetensors::SafeTensors;
use softdiff::import::torch::TorchFile;
use softdiff::inception::Inception;

/// A tensor: its name, its shape and its bytes (f32).
type Tensor = (String, Vec<i64>, Vec<u8>);

/// The code of a state dictionary whose storages are numbered.
fn state(tensors: &[Tensor]) -> Code {
    let entries: Vec<u8> = tensors
        .iter()
        .enumerate()
        .flat_map(|(key, (name, shape, bytes))| {
            let stride: Vec<i64> = (1..=shape.len()).map(|axis| shape[axis..].iter().product()).collect();
            let storage = storage("FloatStorage", &key.to_string(), bytes.len() as i64 / 4);
            [text(name), tensor(storage, 0, shape, &stride)].concat()
        })
        .collect();
    [&call("collections", "OrderedDict", &[])[..], b"(", &entries, b"u"].concat()
}

fn new_format(tensors: &[Tensor]) -> Vec<u8> {
    let mut entries = vec![Entry::new("w/data.pkl", pickle(&state(tensors)))];
    entries.extend(tensors.iter().enumerate().map(|(key, t)| Entry::new(&format!("w/data/{key}"), t.2.clone())));
    write(&entries)
}

fn old_format(tensors: &[Tensor]) -> Vec<u8> {
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.".to_vec();
    let machine = named(&[("protocol_version", int(1001)), ("little_endian", b"\x88".to_vec())]);
    let keys: Vec<Code> = (0..tensors.len()).map(|key| text(&key.to_string())).collect();
    let mut file =
        [magic, pickle(&int(1001)), pickle(&machine), pickle(&state(tensors)), pickle(&list(&keys))].concat();
    for (_, _, bytes) in tensors {
        file.extend((bytes.len() as u64 / 4).to_le_bytes());
        file.extend(bytes);
    }
    file
}

fn example() -> Vec<Tensor> {
    let bytes = |n: usize| (0..n).flat_map(|i| (i as f32 * 0.5).to_le_bytes()).collect();
    vec![("a.weight".into(), vec![2, 3], bytes(6)), ("b".into(), vec![4], bytes(4))]
}

#[test]
fn both_formats_hold_the_same_tensors_and_the_old_one_is_read_only_where_asked_for() {
    let (new, old) = (new_format(&example()), old_format(&example()));
    assert!(TorchFile::open(&old).is_err());
    for bytes in [new, old] {
        let file = TorchFile::open_any(&bytes).unwrap();
        let found = file.tensor(&file.root().get("a.weight").unwrap()).unwrap();
        assert_eq!(found.shape, [2, 3]);
        assert_eq!(found.data.into_f32(), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
        let found = file.tensor(&file.root().get("b").unwrap()).unwrap();
        assert_eq!(found.data.into_f32(), [0.0, 0.5, 1.0, 1.5]);
    }
}

#[test]
fn a_damaged_file_of_the_old_format_is_an_error_wherever_it_is_cut_or_changed() {
    let whole = old_format(&example());
    for length in 0..whole.len() {
        let cut = &whole[..length];
        let read = TorchFile::open_any(cut).and_then(|file| file.tensor(&file.root().get("b")?).map(|_| ()));
        assert!(read.is_err(), "cut at {length}");
    }
    damage_anywhere(&whole, 0, 2000, |changed| {
        // Anything may come out but a panic.
        let _ = TorchFile::open_any(changed).and_then(|file| file.tensor(&file.root().get("b")?).map(|_| ()));
    });
}

/// The names of pytorch-fid for a name of the safetensors file.
fn pytorch(ours: &str) -> String {
    let stem = ["Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "Conv2d_3b_1x1", "Conv2d_4a_3x3"];
    let blocks = ["5b", "5c", "5d", "6a", "6b", "6c", "6d", "6e", "7a", "7b", "7c"];
    let number = |text: &str| text.strip_prefix('_').map_or(0, |n| n.parse::<usize>().unwrap());
    let (unit, kind) = ours.strip_prefix("net.layers.").unwrap().rsplit_once('.').unwrap();
    let kind = match kind {
        "weight" => "conv.weight",
        "beta" => "bn.bias",
        "mean" => "bn.running_mean",
        _ => "bn.running_var",
    };
    let Some(rest) = unit.strip_prefix("mixed") else {
        return format!("{}.{kind}", stem[number(unit.strip_prefix("conv").unwrap())]);
    };
    let (block, unit) = rest.split_once('.').unwrap();
    let block = number(block);
    let towers = match block {
        0..=2 => ["branch5x5", "branch3x3dbl"],
        3 => ["branch3x3dbl", ""],
        4..=7 => ["branch7x7", "branch7x7dbl"],
        8 => ["branch3x3", "branch7x7x3"],
        _ => ["branch3x3", "branch3x3dbl"],
    };
    let branch = match unit {
        "conv" if block == 3 => "branch3x3".into(),
        "conv" => "branch1x1".into(),
        "tower_mixed_conv" => "branch3x3_2a".into(),
        "tower_mixed_conv_1" => "branch3x3_2b".into(),
        "tower_1_mixed_conv" => "branch3x3dbl_3a".into(),
        "tower_1_mixed_conv_1" => "branch3x3dbl_3b".into(),
        _ if unit.starts_with("tower_2") => "branch_pool".into(),
        _ => {
            let (tower, conv) = unit.split_once("conv").unwrap();
            format!("{}_{}", towers[usize::from(tower.starts_with("tower_1"))], number(conv) + 1)
        }
    };
    format!("Mixed_{}.{branch}.{kind}", blocks[block])
}

#[test]
fn the_published_names_in_either_torch_format_give_the_same_network() {
    let Some(path) = std::env::var_os("SOFTDIFF_INCEPTION") else {
        eprintln!("skipped: set SOFTDIFF_INCEPTION to the FID network; docs/evaluation.md says where to get it");
        return;
    };
    let expected = Inception::read(path.as_ref()).unwrap().hash();
    let bytes = std::fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors: Vec<Tensor> = Vec::new();
    for (name, view) in file.tensors() {
        let shape: Vec<i64> = view.shape().iter().map(|&size| size as i64).collect();
        let name = pytorch(&name);
        if let Some(unit) = name.strip_suffix("bn.bias") {
            let ones = (0..shape[0]).flat_map(|_| 1f32.to_le_bytes()).collect();
            tensors.push((format!("{unit}bn.weight"), shape.clone(), ones));
        }
        tensors.push((name, shape, view.data().to_vec()));
    }
    tensors.push(("fc.bias".into(), vec![3], vec![0; 12]));
    let folder = std::env::temp_dir();
    for (name, bytes) in [("new", new_format(&tensors)), ("old", old_format(&tensors))] {
        let path = folder.join(format!("softdiff-inception-{}-{name}.pth", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let read = Inception::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.map(|network| network.hash()).unwrap(), expected, "{name}");
    }
}
