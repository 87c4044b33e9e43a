//! Checkpoints written by hand: what files of other torch versions may look like, and must still give.

use forge::checkpoint::{BIAS, Checkpoint, W, WEIGHT};
use forge::pickle::{call, float, named, numpy_scalar, tensor};
use forge::zip::{End, Zip64, write_with_end};
use softdiff::import::ScoreSdeCheckpoint;
use softdiff::import::score_sde::OfficialTensor;

mod forge;

fn read(checkpoint: &Checkpoint) -> ScoreSdeCheckpoint {
    ScoreSdeCheckpoint::from_bytes(&checkpoint.write()).unwrap()
}

fn weight(checkpoint: &ScoreSdeCheckpoint) -> &OfficialTensor {
    &checkpoint.model[1].1
}

#[test]
fn an_old_checkpoint_reads_in_full() {
    let read = read(&Checkpoint { byteorder: None, ..Checkpoint::default() });
    let names: Vec<_> = read.ema.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["all_modules.1.weight", "all_modules.1.bias", "all_modules.0.W"]);
    assert_eq!(read.sigmas.unwrap(), [50.0, 0.01]);
    let adam = read.adam.unwrap();
    assert_eq!((adam.lr, adam.moments[0].step), (2e-4, 7));
    assert_eq!(adam.moments[1].second, OfficialTensor { shape: vec![2], data: vec![0.4; 2] });
}

#[test]
fn a_transposed_view_is_copied_in_row_major_order() {
    let mut forged = Checkpoint::default();
    let bytes = (0..8).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let storage = forged.store("FloatStorage", bytes, 8);
    let read = read(&forged.with(WEIGHT, tensor(storage, 2, &[2, 3], &[1, 2])));
    assert_eq!(weight(&read).data, [2.0, 4.0, 6.0, 3.0, 5.0, 7.0]);
}

#[test]
fn half_precision_widens_and_double_narrows() {
    let formats: [(&str, Vec<u8>); 3] = [
        ("HalfStorage", [0x3C00u16, 0xC000].iter().flat_map(|bits| bits.to_le_bytes()).collect()),
        ("BFloat16Storage", [0x3F80u16, 0xC000].iter().flat_map(|bits| bits.to_le_bytes()).collect()),
        ("DoubleStorage", [1.0f64, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect()),
    ];
    for (class, bytes) in formats {
        let mut forged = Checkpoint::default();
        let storage = forged.store(class, bytes, 2);
        let read = read(&forged.with(BIAS, tensor(storage, 0, &[2], &[1])));
        assert_eq!(read.model[2].1.data, [1.0, -2.0], "{class}");
    }
}

#[test]
fn a_parameter_wrapper_and_a_missing_data_parallel_prefix_change_nothing() {
    let plain = read(&Checkpoint::default());
    let mut forged = Checkpoint::default();
    for (name, code) in &mut forged.model {
        *name = name.replace("module.", "");
        *code = call("torch._utils", "_rebuild_parameter", &[code.clone(), b"\x88".to_vec(), b"N".to_vec()]);
    }
    assert_eq!(read(&forged), plain);
}

#[test]
fn both_spellings_of_numpy_and_plain_floats_give_the_learning_rate() {
    for lr in [
        numpy_scalar("numpy._core.multiarray", "f8", "<", &0.5f64.to_le_bytes()),
        numpy_scalar("numpy.core.multiarray", "f4", "<", &0.5f32.to_le_bytes()),
        float(0.5),
    ] {
        let read = read(&Checkpoint { lr, ..Checkpoint::default() });
        assert_eq!(read.adam.unwrap().lr, 0.5);
    }
}

#[test]
fn a_checkpoint_without_optimizer_or_before_the_first_step_is_fine() {
    let forged = Checkpoint::default();
    let root: Vec<_> = forged.root().into_iter().filter(|(name, _)| *name != "optimizer").collect();
    let entries = forged.entries_with(forge::pickle::pickle(&named(&root)));
    assert_eq!(ScoreSdeCheckpoint::from_bytes(&forge::zip::write(&entries)).unwrap().adam, None);

    let fresh = Checkpoint { state: vec![], updates: b"N".to_vec(), ..Checkpoint::default() };
    let read = read(&fresh);
    assert!(read.adam.unwrap().moments.is_empty());
    assert_eq!(read.ema_updates, None);
}

#[test]
fn zip64_fields_and_comments_are_understood() {
    let forged = Checkpoint::default();
    let mut entries = forged.entries();
    // The second entry keeps its sizes in the zip64 extra field.
    let size = u64::from(entries[1].size);
    entries[1].extra = [&[1, 0, 16, 0][..], &size.to_le_bytes(), &size.to_le_bytes()].concat();
    (entries[1].size, entries[1].stored_size) = (u32::MAX, u32::MAX);
    let end = End {
        count: Some(u16::MAX),
        length: Some(u32::MAX),
        offset: Some(u32::MAX),
        comment: b"a comment".to_vec(),
        zip64: Some(Zip64::default()),
        ..End::default()
    };
    let wide = ScoreSdeCheckpoint::from_bytes(&write_with_end(&entries, &end)).unwrap();
    assert_eq!(wide, read(&forged));
}

#[test]
fn a_wrong_length_of_the_directory_changes_nothing() {
    let forged = Checkpoint::default();
    for length in [0, 3, 9999] {
        let short = End { length: Some(length), ..End::default() };
        let wide = Zip64 { length: Some(length.into()), ..Zip64::default() };
        let wide = End { count: Some(u16::MAX), zip64: Some(wide), ..End::default() };
        for end in [short, wide] {
            let bytes = write_with_end(&forged.entries(), &end);
            assert_eq!(ScoreSdeCheckpoint::from_bytes(&bytes).unwrap(), read(&forged), "{length}");
        }
    }
}

#[test]
fn a_zip64_record_that_the_short_one_does_not_ask_for_changes_nothing() {
    let forged = Checkpoint::default();
    let lie = Zip64 { count: Some(3), length: Some(3), offset: Some(3), ..Zip64::default() };
    let nowhere = Zip64 { located: Some(u64::MAX), ..Zip64::default() };
    let volumes = Zip64 { disks: Some(2), record_length: Some(u64::MAX), ..Zip64::default() };
    for zip64 in [lie, nowhere, volumes] {
        let bytes = write_with_end(&forged.entries(), &End { zip64: Some(zip64), ..End::default() });
        assert_eq!(ScoreSdeCheckpoint::from_bytes(&bytes).unwrap(), read(&forged));
    }
}

#[test]
fn a_positional_model_has_no_frozen_parameter() {
    let mut forged = Checkpoint { params: vec![forge::pickle::int(1), forge::pickle::int(2)], ..Checkpoint::default() };
    forged.model.retain(|(name, _)| name != W);
    let read = read(&forged);
    assert_eq!(read.ema.len(), 2);
    assert_eq!(read.adam.unwrap().moments.len(), 2);
}
