//! What a network predicts is part of the model: every kind of objective, trained for a few hundred steps, is sampled as
//! what it was trained for, and sampled as anything else it is worse.

mod run_support;

use run_support::folder;
use softdiff::corruption::Shape;
use softdiff::engine::Precision;
use softdiff::engine::cpu::CpuExecutor;
use softdiff::engine::rng::RandomStream;
use softdiff::engine::{Device, Graph, Params, Plan};
use softdiff::hint::Hint;
use softdiff::image::from_unit;
use softdiff::metrics::sliced_wasserstein;
use softdiff::model::{Generation, Generator, Model};
use softdiff::noise::Alpha;
use softdiff::objective::{Head, OutputScale, Parametrisation, Prediction, TimeVars};
use softdiff::path::Path as SoftPath;
use softdiff::recipe::Recipe;
use softdiff::run::RunFolder;
use softdiff::sampler::{Ihdm, Momentum, Sampler, Sampling};
use softdiff::train::{CustomParts, PreparedRun, RunStore, Scorer, Unwatched, train};

const SIDE: usize = 8;
const SEEDS: u64 = 64;

/// Trains a recipe of small images in `name`; gives the distance of its samples to the data, and the model.
fn trained(name: &str, path: &str, objective: &str, sampler: &str) -> (f64, PreparedRun, Model) {
    let text = format!(
        "[data]\nsource = \"embedded:fashion-mnist\"\nsize = {SIDE}\nlimit = 256\n{path}\n{objective}\n\
         [network]\npreset = \"small\"\nchannels = 8\nmultipliers = [1, 2]\n\
         [train]\nsteps = 300\nbatch = 16\nrate = 4e-3\nwarmup = 20\nema = [0.98]\nprecision = \"f32\"\n\
         [checkpoint]\nevery = 300\nmetric = \"sliced-wasserstein\"\nimages = {SEEDS}\n\
         [preview]\nevery = 300\nimages = 2\n[sample]\n{sampler}\n"
    );
    let recipe = Recipe::parse(&text, "test.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
    let root = folder(&format!("predictions_{name}"));
    let (run, device) = (RunFolder::new(&root), Device::Cpu);
    let lock = run.lock().unwrap();
    let store = Some(RunStore { folder: &run, lock: &lock });
    let prepared = PreparedRun::new(recipe, CustomParts::default(), store, &mut Unwatched, &|_, _, _, _| {}).unwrap();
    train(&prepared.spec().unwrap(), store, &device, &mut Unwatched).unwrap();
    let model = Model::open(&root, None).unwrap();
    let section = &model.recipe.sample;
    let (sampler, sampling) = (section.build().unwrap(), section.sampling(&model.path).unwrap());
    let seeds: Vec<u64> = (0..SEEDS).collect();
    let generation = model.generation(&*sampler, &sampling, 64);
    let mut generator = Generator::new(&device, model.predictor(), &generation, Precision::F32).unwrap();
    let images = generator.images(&generation, &seeds, &mut |_, _| Ok(())).unwrap();
    // The scores of training are made in the same way, and so is what an exported model makes.
    let score = Scorer::new(&prepared, &device, None).unwrap().score(&model.params).unwrap();
    assert_eq!(score.value, distance(&prepared, &images));
    let exported = root.join("exported");
    model.export(&exported, false).unwrap();
    let again = Model::open(&exported, None).unwrap();
    assert_eq!(again.prediction, model.prediction);
    (score.value, prepared, model)
}

fn distance(prepared: &PreparedRun, images: &[f64]) -> f64 {
    let reference = &prepared.dataset.pixels()[..SEEDS as usize * SIDE * SIDE];
    sliced_wasserstein(&from_unit(images), reference, SIDE * SIDE, 256, 0).unwrap().0
}

/// The distance to the data if the network's output is read as `prediction`.
fn misread(prepared: &PreparedRun, model: &mut Model, prediction: Prediction, sampler: &dyn Sampler) -> f64 {
    model.prediction = prediction;
    let sampling = Sampling::uniform(40).unwrap();
    let seeds: Vec<u64> = (0..SEEDS).collect();
    let mut denoiser = model.denoiser(&Device::Cpu, 64, Precision::F32).unwrap();
    let generation = Generation { path: &model.path, prior: &model.prior, sampler, sampling: &sampling, batch: 64 };
    distance(prepared, &generation.images(&mut denoiser, &seeds, &mut |_, _| Ok(())).unwrap())
}

const NOISE_PATH: &str = "[path]\nkind = \"vp\"";
const HEAT_PATH: &str = "[path]\nkind = \"simultaneous\"\nsmallest = 0.02\nlargest = 0.02\n\
                         [path.corruption]\nkind = \"heat\"\nlargest = 4\n[schedule]\nmethod = \"even\"";

#[test]
fn every_kind_of_objective_is_sampled_as_what_it_was_trained_for() {
    let check = |kind: &str, right: f64, wrong: f64| {
        assert!(right < 0.2 && right < 0.6 * wrong, "{kind}: {right}, read wrongly {wrong}");
    };
    for kind in ["soft", "clean", "look-ahead"] {
        let objective = format!("[objective]\nkind = \"{kind}\"");
        let (right, prepared, mut model) = trained(kind, HEAT_PATH, &objective, "steps = 40");
        let other = Prediction::OneStep { head: Head::PAPER, step: 0.025 };
        check(kind, right, misread(&prepared, &mut model, other, &Ihdm { s_noise: 1.0 }));
    }
    let objective = "[objective]\nkind = \"noise\"\nweight = \"one\"";
    let (right, prepared, mut model) = trained("noise", NOISE_PATH, objective, "steps = 40");
    check("noise", right, misread(&prepared, &mut model, Prediction::PAPER, &Momentum));
    let objective = "[objective]\nkind = \"one-step\"\nstep = 0.025";
    let (right, prepared, mut model) = trained("one-step", HEAT_PATH, objective, "");
    assert_eq!((model.recipe.sample.sampler.as_str(), model.recipe.sample.steps), ("ihdm", 40));
    let error = attempt(&model, &Momentum, 40);
    assert!(error.contains("with the sampler 'ihdm'"), "{error}");
    let error = attempt(&model, &Ihdm { s_noise: 1.0 }, 50);
    assert!(error.contains("begin at time 1 with 40 steps"), "{error}");
    check("one-step", right, misread(&prepared, &mut model, Prediction::PAPER, &Momentum));
    let error = attempt(&model, &Ihdm { s_noise: 1.0 }, 40);
    assert!(error.contains("objective.kind \"one-step\"; use 'momentum'"), "{error}");
}

#[test]
fn a_preconditioned_network_is_sampled_with_the_spectrum_of_its_images() {
    let objective = "[objective]\nparametrisation = \"wiener\"";
    let (right, prepared, mut model) = trained("wiener", HEAT_PATH, objective, "steps = 40");
    let exported = folder("predictions_wiener_alone");
    model.export(&exported, false).unwrap();
    let wrong = misread(&prepared, &mut model, Prediction::PAPER, &Momentum);
    assert!(right < 0.2 && right < 0.6 * wrong, "{right}, read as a residual {wrong}");
    std::fs::remove_file(exported.join("spectrum.safetensors")).unwrap();
    std::fs::remove_file(exported.join("manifest.json")).unwrap();
    let error = Model::open(&exported, None).err().unwrap().to_string();
    assert!(error.contains("needs spectrum.safetensors"), "{error}");
}

/// What sampling says that cannot be.
fn attempt(model: &Model, sampler: &dyn Sampler, steps: usize) -> String {
    let sampling = Sampling::uniform(steps).unwrap();
    let generation = model.generation(sampler, &sampling, 1);
    let mut generator = Generator::new(&Device::Cpu, model.predictor(), &generation, Precision::F32).unwrap();
    generator.images(&generation, &[0], &mut |_, _| Ok(())).unwrap_err().in_full()
}

#[test]
fn the_graph_and_the_plain_function_read_an_output_alike() {
    let shape = Shape::new(2, 2, 1);
    let path = SoftPath::variance_preserving(shape, Alpha::LINEAR).unwrap();
    let clean = Head { parametrisation: Parametrisation::Clean, scale: OutputScale::One };
    let mut stream = RandomStream::new(1, "prediction");
    for prediction in [Prediction::PAPER, Prediction::Clean(clean), Prediction::Noise] {
        for t in [0.1, 0.5, 1.0] {
            let at = path.at(t).unwrap();
            let [output, xt] = [0, 1].map(|_| stream.normals(shape.len()));
            let mut g = Graph::new();
            let [f, x] = ["output", "xt"].map(|name| g.input(name, [1, 2, 2, 1]).unwrap());
            let [sigma, alpha] = ["sigma", "alpha"].map(|name| g.input(name, [1, 1, 1, 1]).unwrap());
            let vars = TimeVars { t: None, sigma, alpha: Some(alpha) };
            let x0_hat = prediction.emit(&mut g, f, x, vars).unwrap();
            let mut run = CpuExecutor::<f64>::new(Plan::new(&g, &[x0_hat]).unwrap());
            let alpha = at.scale().unwrap();
            for (name, values) in [("output", &output[..]), ("xt", &xt), ("sigma", &[at.sigma]), ("alpha", &[alpha])] {
                // Not every prediction reads everything.
                let _ = run.set(name, values);
            }
            run.run(&Params::zeros(&g), 0, 0).unwrap();
            let expected = prediction.x0_hat(&output, &xt, &at).unwrap();
            for (found, expected) in run.get(x0_hat).unwrap().iter().zip(&expected) {
                assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{prediction:?} at {t}");
            }
        }
    }
    // The noise itself leads back to the image.
    let x0 = stream.normals(shape.len());
    let eta = stream.normals(shape.len());
    let xt = path.diffuse(&x0, 0.7, &eta).unwrap();
    let back = Prediction::Noise.x0_hat(&eta, &xt, &path.at(0.7).unwrap()).unwrap();
    assert!(back.iter().zip(&x0).all(|(a, b)| (a - b).abs() < 1e-12));
}
