//! Every kind of source gives the pictures, labels and classes that were put in.

use forge::npy::npy;
use forge::pack::{deflated, gzip};
use forge::{tar, zip};
use softdiff::archive::zip::{Index, Rules};
use softdiff::data::{Crop, DataError, Dataset, Exif, LoadOptions, OnBad, Source, Split, Survey, Transform, write_npz};
use softdiff::image::png;
use softdiff::recipe::Recipe;
use std::fs;
use std::path::{Path, PathBuf};

mod forge;

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("data").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn load(path: &Path) -> Dataset {
    load_split(path, Split::Train)
}

fn load_split(path: &Path, split: Split) -> Dataset {
    let source = Source::open_split(path, split).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    source.load(&LoadOptions::default(), &|_, _| {}).unwrap()
}

/// Picture number `i` of the tests: 4 x 3, RGB.
fn pixels(i: usize) -> Vec<u8> {
    (0..36).map(|at| (i * 40 + at * 5) as u8).collect()
}

fn file(i: usize) -> Vec<u8> {
    png::encode(4, 3, 3, &pixels(i))
}

fn all(count: usize) -> Vec<u8> {
    (0..count).flat_map(pixels).collect()
}

/// Two classes, in the order of the paths.
const TREE: [(&str, usize); 4] =
    [("set/ape/1.png", 0), ("set/ape/deep/er/0.PNG", 1), ("set/bee/a.png", 2), ("set/bee/b.png", 3)];

fn check_tree(dataset: &Dataset) {
    assert_eq!(dataset.pixels(), all(4));
    assert_eq!((dataset.len(), dataset.height(), dataset.width(), dataset.channels()), (4, 3, 4, 3));
    assert_eq!(dataset.labels().unwrap(), [0, 0, 1, 1]);
    assert_eq!(dataset.classes(), ["ape", "bee"]);
}

fn write_tree(root: &Path) {
    for (name, i) in TREE {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file(i)).unwrap();
    }
    fs::write(root.join("readme.txt"), "not a picture").unwrap();
    fs::write(root.join("set/.hidden.png"), "not looked at").unwrap();
}

#[test]
fn a_folder_is_read_in_the_order_of_its_paths() {
    let root = folder("tree");
    write_tree(&root);
    let source = Source::open(&root).unwrap();
    assert_eq!((source.len(), source.ignored(), source.format()), (4, 1, "folder of images"));
    assert_eq!(source.picture_name(1), "set/ape/deep/er/0.PNG");
    check_tree(&load(&root));
}

#[test]
#[cfg(unix)]
fn links_to_files_are_followed_and_links_to_folders_are_not() {
    let root = folder("links");
    write_tree(&root);
    std::os::unix::fs::symlink(&root, root.join("set/loop")).unwrap();
    fs::rename(root.join("set/bee/b.png"), root.join("kept.bin")).unwrap();
    std::os::unix::fs::symlink(root.join("kept.bin"), root.join("set/bee/b.png")).unwrap();
    check_tree(&load(&root));
}

#[test]
fn zip_tar_and_tar_gz_are_read_as_the_folder_is() {
    let root = folder("archives");
    let stored: Vec<_> = TREE.iter().rev().map(|&(name, i)| zip::Entry::new(name, file(i))).collect();
    fs::write(root.join("stored.zip"), zip::write(&stored)).unwrap();
    let mut packed: Vec<_> = TREE.iter().map(|&(name, i)| deflated(name, &file(i))).collect();
    packed.push(zip::Entry::new("set/", vec![]));
    packed.push(deflated("__MACOSX/set/._1.png", b"resource fork"));
    fs::write(root.join("deflated.zip"), zip::write(&packed)).unwrap();
    let mut members: Vec<_> = TREE.iter().rev().map(|&(name, i)| tar::Entry::new(name, file(i))).collect();
    members.insert(0, tar::Entry::of_kind("set/", b'5', vec![]));
    fs::write(root.join("a.tar"), tar::write(&members)).unwrap();
    fs::write(root.join("a.tar.gz"), gzip(&tar::write(&members))).unwrap();
    for name in ["stored.zip", "deflated.zip", "a.tar", "a.tar.gz"] {
        check_tree(&load(&root.join(name)));
    }
    assert_eq!(load(&root.join("stored.zip")).hash(), load(&root.join("a.tar.gz")).hash());
}

#[test]
fn tar_names_longer_than_a_header_are_read() {
    let root = folder("long");
    let long = |class: &str| format!("{class}/{}.png", "x".repeat(300));
    let pax = |name: &str| {
        let record = format!(" path={name}\n");
        let length = (record.len()..).find(|length| length.to_string().len() + record.len() == *length).unwrap();
        format!("{length}{record}").into_bytes()
    };
    let entries = [
        tar::Entry::of_kind("././@LongLink", b'L', [long("ape").as_bytes(), b"\0"].concat()),
        tar::Entry::new("cut", file(0)),
        tar::Entry::of_kind("pax_global_header", b'g', b"19 comment=nothing\n".to_vec()),
        tar::Entry::of_kind("PaxHeader", b'x', pax(&long("bee"))),
        tar::Entry::new("cut too", file(1)),
    ];
    fs::write(root.join("a.tar"), tar::write(&entries)).unwrap();
    let source = Source::open(&root.join("a.tar")).unwrap();
    assert_eq!((source.picture_name(0), source.picture_name(1)), (long("ape"), long("bee")));
    assert_eq!(load(&root.join("a.tar")).pixels(), all(2));
}

#[test]
fn folders_named_train_and_test_are_parts() {
    let root = folder("parts");
    for (name, i) in [("train/x/1.png", 0), ("train/y/2.png", 1), ("test/x/3.png", 2)] {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), file(i)).unwrap();
    }
    assert_eq!(load(&root).pixels(), all(2));
    let test = load_split(&root, Split::Test);
    assert_eq!((test.pixels(), test.labels().unwrap()), (&pixels(2)[..], &[0][..]));
    assert_eq!(load_split(&root, Split::All).len(), 3);
    fs::remove_dir_all(root.join("test")).unwrap();
    assert!(matches!(Source::open_split(&root, Split::Test), Err(DataError::NoSplit { split: "test", .. })));
}

/// A record of CIFAR-10: the label, then three planes.
fn cifar_record(label: u8) -> Vec<u8> {
    let plane = |channel: usize| (0..1024).map(move |at| (at * 3 + channel * 50 + usize::from(label)) as u8);
    std::iter::once(label).chain((0..3).flat_map(plane)).collect()
}

#[test]
fn cifar_is_read_from_its_folder_and_from_its_archive() {
    let root = folder("cifar");
    let mut entries = Vec::new();
    let inner = root.join("cifar-10-batches-bin");
    fs::create_dir_all(&inner).unwrap();
    for (batch, name) in ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]
        .iter()
        .enumerate()
    {
        let bytes = [cifar_record(batch as u8), cifar_record(9 - batch as u8)].concat();
        fs::write(inner.join(format!("{name}.bin")), &bytes).unwrap();
        entries.push(tar::Entry::new(&format!("cifar-10-batches-bin/{name}.bin"), bytes));
    }
    let archive = root.join("cifar-10-binary.tar.gz");
    fs::write(&archive, gzip(&tar::write(&entries))).unwrap();
    for path in [&root, &inner, &archive] {
        let train = load(path);
        assert_eq!(train.labels().unwrap(), [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]);
        assert_eq!(train.classes()[9], "truck");
        let record = cifar_record(9);
        let picture = train.picture(1);
        assert!((0..1024).all(|at| (0..3).all(|c| picture[at * 3 + c] == record[1 + c * 1024 + at])));
        assert_eq!(load_split(path, Split::Test).labels().unwrap(), [5, 4]);
        assert_eq!(load_split(path, Split::All).len(), 12);
    }
    assert_eq!(load(&inner.join("data_batch_2.bin")).labels().unwrap(), [1, 8]);
}

fn idx_pictures(count: u32) -> Vec<u8> {
    let mut bytes = [[0, 0, 8, 3], count.to_be_bytes(), 3u32.to_be_bytes(), 4u32.to_be_bytes()].concat();
    bytes.extend((0..count * 12).map(|i| (i * 7) as u8));
    bytes
}

fn idx_labels(labels: &[u8]) -> Vec<u8> {
    [&[0, 0, 8, 1][..], &(labels.len() as u32).to_be_bytes(), labels].concat()
}

#[test]
fn idx_is_read_raw_or_packed_with_the_labels_beside() {
    let root = folder("idx");
    fs::write(root.join("train-images-idx3-ubyte.gz"), gzip(&idx_pictures(3))).unwrap();
    fs::write(root.join("train-labels-idx1-ubyte.gz"), gzip(&idx_labels(&[2, 0, 1]))).unwrap();
    fs::write(root.join("t10k-images-idx3-ubyte"), idx_pictures(2)).unwrap();
    let train = load(&root);
    assert_eq!((train.len(), train.height(), train.width(), train.channels()), (3, 3, 4, 1));
    assert_eq!(train.labels().unwrap(), [2, 0, 1]);
    assert_eq!(train.pixels(), &idx_pictures(3)[16..]);
    assert_eq!(load(&root.join("train-images-idx3-ubyte.gz")), train);
    let test = load_split(&root, Split::Test);
    assert_eq!((test.len(), test.labels()), (2, None));
}

#[test]
fn arrays_of_bytes_and_of_floats_are_pictures() {
    let root = folder("npy");
    fs::write(root.join("grey.npy"), npy("|u1", "(2, 3, 4)", &[7; 24])).unwrap();
    assert_eq!(load(&root.join("grey.npy")), Dataset::new(3, 4, 1, vec![7; 24], None, vec![]));
    fs::write(root.join("rgb.npy"), npy("|u1", "(2, 3, 4, 3)", &all(2))).unwrap();
    assert_eq!(load(&root.join("rgb.npy")).pixels(), all(2));
    let floats = [0.0f32, 1.0, 0.5, 0.1].iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    fs::write(root.join("float.npy"), npy("<f4", "(1, 2, 2)", &floats)).unwrap();
    assert_eq!(load(&root.join("float.npy")).pixels(), [0, 255, 128, 26]);
    let doubles = [0.0f64, 0.25].iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    fs::write(root.join("double.npy"), npy("<f8", "(1, 1, 2, 1)", &doubles)).unwrap();
    assert_eq!(load(&root.join("double.npy")).pixels(), [0, 64]);
}

#[test]
fn archives_of_arrays_have_parts_and_labels() {
    let root = folder("npz");
    let labels = |labels: &[i32]| {
        npy("<i4", &format!("({},)", labels.len()), &labels.iter().flat_map(|l| l.to_le_bytes()).collect::<Vec<_>>())
    };
    let entries = [
        deflated("x_train.npy", &npy("|u1", "(2, 3, 4, 3)", &all(2))),
        deflated("y_train.npy", &labels(&[4, 2])),
        zip::Entry::new("x_test.npy", npy("|u1", "(1, 3, 4, 3)", &pixels(2))),
        zip::Entry::new("y_test.npy", npy("|u1", "(1, 1)", &[1])),
    ];
    fs::write(root.join("a.npz"), zip::write(&entries)).unwrap();
    let train = load(&root.join("a.npz"));
    assert_eq!((train.pixels(), train.labels().unwrap()), (&all(2)[..], &[4, 2][..]));
    let test = load_split(&root.join("a.npz"), Split::Test);
    assert_eq!((test.pixels(), test.labels().unwrap()), (&pixels(2)[..], &[1][..]));
    assert_eq!(load_split(&root.join("a.npz"), Split::All).labels().unwrap(), [4, 2, 1]);
}

#[test]
fn what_is_prepared_is_read_back_and_written_the_same_again() {
    let root = folder("prepared");
    write_tree(&root);
    let dataset = load(&root);
    let write = || {
        let mut bytes = Vec::new();
        write_npz(&mut bytes, &dataset, &serde_json::json!({ "source": "tree" })).unwrap();
        bytes
    };
    fs::write(root.join("a.npz"), write()).unwrap();
    assert_eq!(load(&root.join("a.npz")), dataset);
    assert_eq!(write(), write());
    // What np.savez would call them, images first; every member is an array.
    let bytes = write();
    let index = Index::open(&bytes, Rules { max_entries: 9, deflated: false }).unwrap();
    let names: Vec<&str> = index.names().collect();
    assert_eq!(names, ["arr_0.npy", "arr_1.npy", "dataset_json.npy"]);
    assert!(names.iter().all(|name| index.read(&bytes, name, u64::MAX).unwrap().starts_with(b"\x93NUMPY")));
}

#[test]
fn archives_with_the_names_of_earlier_versions_are_read_with_their_facts() {
    let root = folder("npz-older");
    let facts = r#"{"classes":["cat","dog"],"origin":{"made":"by hand"}}"#;
    let entries = [
        zip::Entry::new("labels.npy", npy("<i8", "(2,)", &[1u64, 0].map(u64::to_le_bytes).concat())),
        zip::Entry::new("images.npy", npy("|u1", "(2, 3, 4, 3)", &all(2))),
        zip::Entry::new("dataset.json", facts.into()),
    ];
    fs::write(root.join("a.npz"), zip::write(&entries)).unwrap();
    let older = load(&root.join("a.npz"));
    assert_eq!((older.pixels(), older.labels().unwrap()), (&all(2)[..], &[1, 0][..]));
    assert_eq!(older.classes(), ["cat", "dog"]);
    let source = Source::open_split(&root.join("a.npz"), Split::All).unwrap();
    assert_eq!(source.origin().unwrap()["made"], "by hand");
}

fn parquet(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/parquet").join(name)
}

#[test]
fn parquet_of_every_codec_and_page_version_is_read() {
    let names = ["none", "snappy", "gzip", "zstd", "dictionary", "version-2", "version-2-none", "plain-column"];
    for name in names {
        let dataset = load(&parquet(&format!("{name}.parquet")));
        let expected: Vec<u8> = (0..12u8).flat_map(|i| [i % 5 * 10; 36]).collect();
        assert_eq!(dataset.pixels(), expected, "{name}");
        let labels: Vec<u32> = (0..12).map(|i| i % 3).collect();
        assert_eq!(dataset.labels().unwrap(), labels, "{name}");
        let classes: &[&str] = if name == "plain-column" { &[] } else { &["ape", "bee", "cat"] };
        assert_eq!(dataset.classes(), classes, "{name}");
    }
}

#[test]
fn parquet_rows_without_bytes_are_bad_pictures_and_labels_of_minus_one_are_none() {
    let source = Source::open(&parquet("nulls.parquet")).unwrap();
    assert_eq!((source.len(), source.label(0)), (12, None));
    let error = source.load(&LoadOptions::default(), &|_, _| {}).unwrap_err().to_string();
    assert_eq!(error, "nulls.parquet row 7: Parquet: a row without image bytes");
}

#[test]
fn parquet_shards_in_a_folder_are_one_set_with_parts() {
    let root = folder("shards");
    fs::create_dir_all(root.join("data")).unwrap();
    for name in ["train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"] {
        fs::copy(parquet("snappy.parquet"), root.join(format!("data/{name}.parquet"))).unwrap();
    }
    assert_eq!(load(&root).len(), 24);
    assert_eq!(load_split(&root, Split::Test).len(), 12);
    assert_eq!(load_split(&root, Split::All).len(), 36);
}

#[test]
fn the_embedded_set_has_its_pictures_labels_and_parts() {
    let train = Dataset::embedded().unwrap();
    assert_eq!((train.len(), train.height(), train.width(), train.channels()), (4096, 28, 28, 1));
    assert_eq!(train.classes()[9], "ankle boot");
    // The first training pictures of Fashion-MNIST: an ankle boot, two T-shirts, a dress.
    assert_eq!(train.labels().unwrap()[..4], [9, 0, 0, 3]);
    // The mean of all 60 000 is 0.2860, its standard deviation 0.3530.
    let statistics = train.statistics()[0];
    assert!((statistics.mean - 0.2860).abs() < 0.005 && (statistics.std - 0.3530).abs() < 0.005);
    let test = load_split(Path::new("embedded:fashion-mnist"), Split::Test);
    assert_eq!((test.len(), &test.labels().unwrap()[..3]), (1024, &[9, 2, 1][..]));
    assert_eq!(load_split(Path::new("embedded:fashion-mnist"), Split::All).len(), 5120);
    assert!(matches!(Source::open(Path::new("embedded:imagenet")), Err(DataError::UnknownEmbedded { .. })));
}

#[test]
fn pictures_are_cropped_resized_and_converted_on_the_way_in() {
    let root = folder("transform");
    fs::write(root.join("a.png"), png::encode(89, 109, 3, &vec![100; 89 * 109 * 3])).unwrap();
    fs::write(root.join("b.png"), png::encode(178, 218, 1, &vec![50; 178 * 218])).unwrap();
    let source = Source::open(&root).unwrap();
    let options =
        |crop, size, channels| LoadOptions { transform: Transform { crop, size, channels }, ..LoadOptions::default() };
    let dataset = source.load(&options(Crop::Celeba, Some((64, 64)), None), &|_, _| {}).unwrap();
    assert_eq!((dataset.height(), dataset.width(), dataset.channels()), (64, 64, 3));
    assert!(dataset.picture(1).iter().all(|&sample| sample == 50));
    let grey = source.load(&options(Crop::Centre, Some((32, 16)), Some(1)), &|_, _| {}).unwrap();
    assert_eq!((grey.height(), grey.width(), grey.channels()), (16, 32, 1));
    let sizes = source.load(&LoadOptions::default(), &|_, _| {}).unwrap_err();
    assert_eq!(sizes.to_string(), "the images differ in size: a.png is 89 x 109, b.png is 178 x 218");
    let crop = source.load(&options(Crop::Size(100, 100), None, None), &|_, _| {}).unwrap_err();
    assert_eq!(crop.to_string(), "a.png: the image is 89 x 109, and the crop 100x100 does not fit it");
    fs::rename(root.join("b.png"), root.join("0.png")).unwrap();
    let mixed = Source::open(&root).unwrap().load(&options(Crop::Celeba, Some((8, 8)), None), &|_, _| {}).unwrap_err();
    assert_eq!(mixed.to_string(), "0.png is grey, a.png is coloured");
}

/// `good` good pictures and `bad` cut ones.
fn with_bad(name: &str, good: usize, bad: usize) -> PathBuf {
    let root = folder(name);
    for i in 0..good {
        fs::write(root.join(format!("{i:04}.png")), file(i)).unwrap();
    }
    for i in 0..bad {
        fs::write(root.join(format!("bad{i}.png")), &file(i)[..40]).unwrap();
    }
    root
}

#[test]
fn a_bad_picture_stops_unless_it_may_be_skipped() {
    let root = with_bad("bad", 199, 2);
    let source = Source::open(&root).unwrap();
    let error = source.load(&LoadOptions::default(), &|_, _| {}).unwrap_err();
    assert_eq!(error.to_string(), "bad0.png: PNG: the file is cut off");
    let skip = LoadOptions { on_bad: OnBad::Skip, ..LoadOptions::default() };
    let dataset = source.load(&skip, &|_, _| {}).unwrap();
    assert_eq!(dataset.len(), 199);
    let skipped: Vec<String> = dataset.skipped().iter().map(|skipped| skipped.to_string()).collect();
    assert_eq!(skipped, ["bad0.png: PNG: the file is cut off", "bad1.png: PNG: the file is cut off"]);
}

#[test]
fn more_than_one_bad_picture_in_a_hundred_stops_and_lists_them() {
    let root = with_bad("too-bad", 197, 2);
    let skip = LoadOptions { on_bad: OnBad::Skip, ..LoadOptions::default() };
    let error = Source::open(&root).unwrap().load(&skip, &|_, _| {}).unwrap_err();
    let expected = "2 of 199 images are bad, more than 1 %:\n  bad0.png: PNG: the file is cut off\n  bad1.png: PNG: the file is cut off";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_survey_counts_sizes_classes_duplicates_and_broken_files() {
    let root = folder("survey");
    write_tree(&root);
    fs::write(root.join("set/bee/c.png"), file(0)).unwrap();
    fs::write(root.join("set/bee/d.png"), png::encode(1, 1, 1, &[5])).unwrap();
    fs::write(root.join("set/bee/e.gif"), b"GIF89a").unwrap();
    let source = Source::open(&root).unwrap();
    let told = std::sync::Mutex::new(Vec::new());
    let survey = Survey::of(&source, Exif::Apply, &|done, total| told.lock().unwrap().push((done, total)));
    assert_eq!(survey.sizes.iter().collect::<Vec<_>>(), [(&(1, 1), &1), (&(4, 3), &5)]);
    assert_eq!((survey.grey, survey.coloured, survey.usual_size()), (1, 5, Some((4, 3))));
    assert_eq!(survey.class_counts.values().collect::<Vec<_>>(), [&2, &4]);
    assert_eq!(survey.duplicates, [(4, 0)]);
    assert_eq!(survey.broken[0].to_string(), "set/bee/e.gif: GIF: the file is cut off");
    assert_eq!(*told.lock().unwrap(), [(7, 7)]);
}

#[test]
fn loading_does_not_depend_on_the_number_of_threads() {
    let root = with_bad("threads", 300, 3);
    let skip = LoadOptions { on_bad: OnBad::Skip, ..LoadOptions::default() };
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Source::open(&root).unwrap().load(&skip, &|_, _| {}).unwrap())
    };
    assert_eq!(with(1), with(5));
    let dataset = with(2);
    let batches = softdiff::data::Batches::new(&dataset, 32, 1);
    assert_eq!(batches.gather(0).x0.len(), 32 * 36);
}

#[test]
#[ignore = "needs CIFAR-10: set SOFTDIFF_CIFAR10 to the folder that holds cifar-10-batches-bin"]
fn the_whole_of_cifar_has_its_known_statistics() {
    let root = PathBuf::from(std::env::var_os("SOFTDIFF_CIFAR10").expect("SOFTDIFF_CIFAR10"));
    let train = load(&root);
    assert_eq!((train.len(), train.height(), train.width(), train.channels()), (50_000, 32, 32, 3));
    // The means and deviations that everybody normalises with.
    for (found, (mean, std)) in train.statistics().iter().zip([(0.4914, 0.2470), (0.4822, 0.2435), (0.4465, 0.2616)]) {
        assert!((found.mean - mean).abs() < 1e-4 && (found.std - std).abs() < 1e-4, "{found:?}");
    }
    assert_eq!(train.labels().unwrap()[..5], [6, 9, 9, 4, 1]);
    let test = load_split(&root, Split::Test);
    assert_eq!((test.len(), &test.labels().unwrap()[..5]), (10_000, &[3, 8, 8, 0, 6][..]));
    for dataset in [&train, &test] {
        let of_class = |class| dataset.labels().unwrap().iter().filter(|&&label| label == class).count();
        assert!((0..10).all(|class| of_class(class) == dataset.len() / 10));
    }
}

#[test]
fn a_size_in_a_recipe_crops_the_centre_as_data_prepare_does() {
    let root = folder("recipe-size");
    // The left half is black: stretched, it would stay half of the image.
    let pixels: Vec<u8> = (0..16 * 64).map(|at| if at % 64 < 26 { 0 } else { 255 }).collect();
    fs::write(root.join("a.png"), png::encode(64, 16, 1, &pixels)).unwrap();
    let source = Source::open(&root).unwrap();
    let loaded = |more: &str| {
        let text = format!("[data]\nsource = \"x\"\n{more}\n[path]\nkind = \"ve\"");
        let recipe = Recipe::parse(&text, "x", &[]).unwrap();
        assert_eq!(Recipe::parse(&recipe.to_toml(), "x", &[]).unwrap(), recipe);
        source.load(&recipe.data.load_options(), &|_, _| {}).unwrap()
    };
    let cropped = loaded("size = 16");
    assert_eq!(cropped.pixels()[..16], [[0; 2].as_slice(), &[255; 14]].concat());
    assert_eq!(cropped.hash(), loaded("size = 16\ncrop = \"centre\"").hash());
    // As it is asked for, and as older versions wrote it into the recipes of their runs.
    assert_ne!(loaded("size = 16\ncrop = \"none\"").hash(), cropped.hash());
    assert_eq!(loaded("").width(), 64);
}

#[test]
fn pictures_are_turned_upright_unless_their_orientation_is_ignored() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/orientation");
    let root = folder("orientation");
    fs::copy(golden.join("6.jpg"), root.join("a.jpg")).unwrap();
    let packed = folder("orientation-zip").join("a.zip");
    fs::write(&packed, zip::write(&[deflated("a.jpg", &fs::read(golden.join("6.jpg")).unwrap())])).unwrap();
    for path in [root, packed] {
        let source = Source::open(&path).unwrap();
        let size = |exif: bool| {
            let more = if exif { "" } else { "exif = false" };
            let text = format!("[data]\nsource = \"x\"\n{more}\n[path]\nkind = \"ve\"");
            let set = source.load(&Recipe::parse(&text, "x", &[]).unwrap().data.load_options(), &|_, _| {}).unwrap();
            (set.width(), set.height())
        };
        assert_eq!((size(true), size(false)), ((4, 7), (7, 4)));
    }
    // A run of a version that knew no orientation goes on with the images it was begun with.
    let mut recipe = Recipe::builtin("quickstart", &[]).unwrap();
    assert!(recipe.data.exif);
    let old: String =
        recipe.to_toml().lines().filter(|line| !line.starts_with("exif")).map(|l| format!("{l}\n")).collect();
    recipe.data.exif = false;
    assert_eq!(Recipe::parse_saved(&old, "x", &[]).unwrap(), recipe);
}
