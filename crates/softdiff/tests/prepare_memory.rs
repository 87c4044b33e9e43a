//! Preparing a run computes with a data set as it is stored: no copy of it as f64, which takes eight times the memory.

use softdiff::metrics::sliced_wasserstein;
use softdiff::recipe::Recipe;
use softdiff::run::RunFolder;
use softdiff::train::{CustomParts, PreparedRun, RunStore, Unwatched};

mod counting;
mod forge;
mod run_support;

const IMAGES: usize = 20_000;
const SIDE: usize = 16;
/// What the images that are measured, the coefficients and the tables may take.
const BESIDES: usize = 24 << 20;

#[test]
fn preparing_takes_at_most_24_mib_beyond_the_file_and_its_images() {
    let root = run_support::folder("prepare_memory");
    let size = SIDE * SIDE * 3;
    let pixels: Vec<u8> = (0..IMAGES * size).map(|i| (i / size * 7919 + i * i / 97) as u8).collect();
    let shape = format!("({IMAGES}, {SIDE}, {SIDE}, 3)");
    let file = root.join("images.npy");
    std::fs::write(&file, forge::npy::npy("|u1", &shape, &pixels)).unwrap();
    // A blur has modes of its own; those of mixed channels are principal components of the corrupted images.
    for name in ["blur", "decolourisation"] {
        let text = format!(
            "[data]\nsource = \"{}\"\n[path.corruption]\nkind = \"{name}\"\n\
             [schedule]\nimages = 64\ncandidates = 16\nknots = 4\n[prior]\nkind = \"fitted\"\nmodes = 4\n\
             [network]\npreset = \"small\"\nchannels = 8\nmultipliers = [1, 2]\n",
            file.display()
        );
        let recipe = Recipe::parse(&text, "test.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
        let run = RunFolder::new(&root.join(name));
        let lock = run.lock().unwrap();
        let prepare = || {
            PreparedRun::new(
                recipe,
                CustomParts::default(),
                Some(RunStore { folder: &run, lock: &lock }),
                &mut Unwatched,
                &|_, _, _, _| {},
            )
            .unwrap()
        };
        let (prepared, taken) = counting::taken(prepare);
        assert_eq!(prepared.dataset.len(), IMAGES);
        assert!(taken <= 2 * pixels.len() + BESIDES, "{name}: {} MiB", taken >> 20);
    }
    let (_, taken) = counting::taken(|| sliced_wasserstein(&pixels, &pixels, size, 16, 0).unwrap());
    assert!(taken <= BESIDES, "sliced Wasserstein: {} MiB", taken >> 20);
}
