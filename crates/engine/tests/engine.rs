//! What the engine promises as a whole: the same bits on any number of threads, planned memory, and clear errors.

use softdiff_engine::cpu::CpuExecutor;
use softdiff_engine::op::Window;
use softdiff_engine::rng::Stream;
use softdiff_engine::{Error, Graph, Hint, Init, Params, Plan, Result, Storage, Var};

/// A small network that uses every parallel kernel, its loss and its gradients.
fn network(g: &mut Graph) -> Result<(Var, Vec<Var>)> {
    let x = g.input("x", [6, 16, 16, 3])?;
    let w0 = g.param("conv0.weight", [40, 3, 3, 3], Init::Uniform { bound: 0.3 })?;
    let b0 = g.param("conv0.bias", [40], Init::Constant(0.1))?;
    let h = g.conv2d(x, w0, Some(b0), Window::same(3))?;
    // Wide enough for Winograd's tiles.
    let wide = g.param("wide.weight", [40, 3, 3, 40], Init::Uniform { bound: 0.05 })?;
    let h = g.conv2d(h, wide, None, Window::same(3))?;
    let gamma = g.param("norm.weight", [40], Init::Constant(1.0))?;
    let beta = g.param("norm.bias", [40], Init::Constant(0.0))?;
    let h = g.group_norm(h, gamma, beta, 10, 1e-6, true)?;
    let h = g.dropout(h, 0.1, 1)?;
    let h = g.fir_down(h, [1.0, 3.0, 3.0, 1.0])?;
    let tokens = g.reshape(h, [6, 64, 40])?;
    let tokens = g.concat(&[tokens, tokens, tokens])?;
    let a = g.attention(tokens, 0.16)?;
    let h2 = g.reshape(a, [6, 8, 8, 40])?;
    let h = g.concat(&[h, h2])?;
    let h = g.fir_up(h, [1.0, 3.0, 3.0, 1.0])?;
    let w1 = g.param("conv1.weight", [3, 3, 3, 80], Init::Uniform { bound: 0.1 })?;
    let y = g.conv2d(h, w1, None, Window::same(3))?;
    let noise = g.random_normal([6, 16, 16, 3], 2)?;
    let d = g.sub(y, noise)?;
    let loss = g.sum_squares(d)?;
    let gradients = g.parameter_gradients(loss)?;
    Ok((loss, gradients))
}

/// The bits of loss and gradients on `threads` threads.
fn bits(threads: usize, step: u32) -> Vec<u32> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let mut g = Graph::new();
        let (loss, gradients) = network(&mut g).unwrap();
        let mut outputs = gradients.clone();
        outputs.push(loss);
        let mut run = CpuExecutor::<f32>::new(Plan::new(&g, &outputs).unwrap());
        let mut x = vec![0.0; 6 * 16 * 16 * 3];
        Stream { seed: 5, purpose: 0, step: 0 }.fill_uniform(0, &mut x);
        run.set("x", &x).unwrap();
        run.run(&Params::initialise(&g, 1), 9, step).unwrap();
        outputs.iter().flat_map(|&v| run.get(v).unwrap().iter().map(|v| v.to_bits()).collect::<Vec<_>>()).collect()
    })
}

#[test]
fn results_are_bit_identical_for_any_number_of_threads() {
    let one = bits(1, 3);
    for threads in [2, 3, 7] {
        assert!(bits(threads, 3) == one, "{threads} threads give other bits");
    }
    assert!(bits(2, 4) != one, "another step must draw other masks and noise");
}

#[test]
fn the_lesser_instruction_sets_pass_the_gradient_and_forward_tests_too() {
    // The instruction set is chosen once per process, so other processes must run these tests.
    for isa in ["avx2", "portable"] {
        for test in ["gradients", "forward"] {
            let folder = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
            let newest = std::fs::read_dir(folder)
                .unwrap()
                .filter_map(|entry| entry.ok().map(|e| e.path()))
                .filter(|path| {
                    let name = path.file_name().unwrap().to_string_lossy().to_string();
                    name.starts_with(&format!("{test}-")) && path.extension().is_none_or(|e| e == "exe")
                })
                .max_by_key(|path| std::fs::metadata(path).and_then(|m| m.modified()).unwrap());
            let Some(program) = newest else { panic!("no test program {test}: run all tests of this crate") };
            let run = std::process::Command::new(program).env("SOFTDIFF_ISA", isa).output().unwrap();
            assert!(run.status.success(), "{test} under {isa}: {}", String::from_utf8_lossy(&run.stdout));
        }
    }
}

#[test]
fn the_plan_reuses_memory_and_says_how_much() {
    let mut g = Graph::new();
    let mut x = g.input("x", [1024]).unwrap();
    for _ in 0..20 {
        x = g.silu(x).unwrap();
    }
    let plan = Plan::new(&g, &[x]).unwrap();
    // A chain needs two buffers at a time, however long it is.
    assert_eq!(plan.arena_elements(), 2 * 1024);
    assert_eq!(plan.unshared_elements(), 20 * 1024);
    assert!(plan.to_string().contains("planned peak 0.0 MiB; without reuse 0.1 MiB (10.0 times as much)"));
}

#[test]
fn operations_that_no_output_needs_are_not_planned() {
    let mut g = Graph::new();
    let x = g.input("x", [4]).unwrap();
    let y = g.silu(x).unwrap();
    g.square(y).unwrap();
    assert_eq!(Plan::new(&g, &[y]).unwrap().len(), 1);
}

#[test]
fn joined_parameters_get_their_gradients_without_copies() {
    let mut g = Graph::new();
    let x = g.input("x", [2, 8]).unwrap();
    let x = g.cast(x, Storage::Half).unwrap();
    let mut rows = Vec::new();
    for (name, outputs) in [("a", 3), ("b", 4)] {
        let weight = g.param(name, [outputs, 8], Init::Uniform { bound: 1.0 }).unwrap();
        let weight = g.cast(weight, Storage::Half).unwrap();
        rows.push(g.reshape(weight, [outputs * 8]).unwrap());
    }
    let weight = g.concat(&rows).unwrap();
    let weight = g.reshape(weight, [7, 8]).unwrap();
    let y = g.linear(x, weight, None).unwrap();
    let loss = g.sum_squares(y).unwrap();
    let gradients = g.parameter_gradients(loss).unwrap();
    let outputs = [gradients[0], gradients[1], y];
    let plan = Plan::new(&g, &outputs).unwrap();
    // The input's cast, the join, two products, and the way back from the loss: nothing else copies.
    assert_eq!(plan.len(), 7, "{plan}");
    let mut run = CpuExecutor::<f64>::new(plan);
    let values: Vec<f64> = (0..16).map(|i| f64::from(i).sin()).collect();
    run.set("x", &values).unwrap();
    run.run(&Params::initialise(&g, 1), 0, 0).unwrap();
    let y = run.get(y).unwrap();
    for (gradient, first) in [(gradients[0], 0), (gradients[1], 3)] {
        for (i, &found) in run.get(gradient).unwrap().iter().enumerate() {
            let wanted: f64 = (0..2).map(|n| 2.0 * y[n * 7 + first + i / 8] * values[n * 8 + i % 8]).sum();
            assert!((found - wanted).abs() < 1e-12, "{found} is not {wanted}");
        }
    }
}

#[test]
fn parameters_survive_safetensors_bit_for_bit() {
    let mut g = Graph::new();
    network(&mut g).unwrap();
    let params = Params::<f32>::initialise(&g, 3);
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("params.safetensors");
    params.save(&path, &[("note", "test".into())]).unwrap();
    let mut read = Params::<f32>::zeros(&g);
    read.load(&path).unwrap();
    assert!(read == params);
    let double = params.cast::<f64>();
    let bytes = double.write_safetensors(&[]).unwrap();
    let mut again = Params::<f64>::zeros(&g);
    again.read_safetensors(&bytes).unwrap();
    assert!(again == double);
}

/// Runs `build` and gives the message of its error.
fn message<R>(build: impl FnOnce(&mut Graph) -> Result<R>) -> String {
    build(&mut Graph::new()).err().expect("an error").to_string()
}

#[test]
fn wrong_shapes_are_named_with_the_place_and_both_shapes() {
    let conv = message(|g| {
        let x = g.input("x", [1, 8, 8, 3])?;
        let w = g.param("w", [16, 3, 3, 4], Init::Constant(0.0))?;
        g.scoped("down.0.res.1", |g| g.conv2d(x, w, None, Window::same(3)))
    });
    assert_eq!(
        conv,
        "conv2d at `down.0.res.1`: the image has 3 channels but the weight takes 4 (inputs: [1, 8, 8, 3], [16, 3, 3, 4])"
    );
    let product = message(|g| {
        let a = g.input("a", [2, 3])?;
        let b = g.input("b", [4, 5])?;
        g.matmul(a, b, [false, false])
    });
    assert_eq!(product, "matmul: the inner sizes 3 and 4 differ (transposed: [false, false]) (inputs: [2, 3], [4, 5])");
    let sum = message(|g| {
        let a = g.input("a", [2, 3])?;
        let b = g.input("b", [2, 4])?;
        g.add(a, b)
    });
    assert!(sum.contains("shapes [2, 3] and [2, 4] differ"), "{sum}");
}

#[test]
fn impossible_requests_are_errors_not_panics() {
    let cases: Vec<(&str, String)> = vec![
        ("empty or too large", message(|g| g.input("x", [usize::MAX, 2]))),
        ("empty or too large", message(|g| g.input("x", [0]))),
        ("declared twice", message(|g| g.input("x", [1]).and(g.input("x", [2])))),
        (
            "declared twice",
            message(|g| {
                g.param("w", [1], Init::Constant(0.0))?;
                g.param("w", [2], Init::Constant(0.0))
            }),
        ),
        (
            "do not make 3 equal groups",
            message(|g| {
                let x = g.input("x", [1, 4])?;
                let c = g.input("c", [4])?;
                g.group_norm(x, c, c, 3, 1e-6, false)
            }),
        ),
        (
            "does not fit",
            message(|g| {
                let x = g.input("x", [1, 2, 2, 1])?;
                let w = g.input("w", [1, 5, 5, 1])?;
                g.conv2d(x, w, None, Window::valid(1))
            }),
        ),
        (
            "make no convolution",
            message(|g| {
                let x = g.input("x", [1, 2, 2, 1])?;
                let w = g.input("w", [1, 1, 1, 1])?;
                g.conv2d(x, w, None, Window::valid(0))
            }),
        ),
        (
            "rate 1.5",
            message(|g| {
                let x = g.input("x", [4])?;
                g.dropout(x, 1.5, 0)
            }),
        ),
        (
            "another number of elements",
            message(|g| {
                let x = g.input("x", [4])?;
                g.reshape(x, [5])
            }),
        ),
        (
            "has 4 channels",
            message(|g| {
                let x = g.input("x", [4])?;
                g.slice_channels(x, 2, 3)
            }),
        ),
        (
            "not all among",
            message(|g| {
                let x = g.input("x", [4])?;
                g.sum_axes(x, 0..2)
            }),
        ),
        (
            "cannot repeat",
            message(|g| {
                let x = g.input("x", [4])?;
                g.expand(x, [8])
            }),
        ),
        (
            "4 dimensions",
            message(|g| {
                let x = g.input("x", [4])?;
                g.fir_down(x, [1.0; 4])
            }),
        ),
        (
            "make no pooling",
            message(|g| {
                let x = g.input("x", [1, 4, 4, 1])?;
                g.max_pool(x, 2, 0, 0)
            }),
        ),
        ("at least one input", message(|g| g.combine(&[]))),
        ("at least one input", message(|g| g.concat(&[]))),
        (
            "not one element",
            message(|g| {
                let x = g.input("x", [4])?;
                g.gradients(x, &[x])
            }),
        ),
        (
            "does not reach the loss",
            message(|g| {
                let x = g.input("x", [4])?;
                let y = g.input("y", [4])?;
                let loss = g.sum(x)?;
                g.gradients(loss, &[y])
            }),
        ),
        (
            "has no gradient rule",
            message(|g| {
                let x = g.input("x", [4])?;
                let y = g.silu(x)?;
                let loss = g.sum(y)?;
                let d = g.gradients(loss, &[x])?;
                let second = g.sum(d[0])?;
                g.gradients(second, &[x])
            }),
        ),
        ("constant", message(|g| g.constant([3], vec![1.0]))),
    ];
    for (expected, found) in cases {
        assert!(found.contains(expected), "`{found}` does not say `{expected}`");
    }
}

#[test]
fn weights_that_do_not_fit_are_refused_by_name_and_shape() {
    let declare = |shape: &[usize], name: &str| {
        let mut g = Graph::new();
        g.param(name, shape, Init::Constant(1.0)).unwrap();
        Params::<f32>::initialise(&g, 0)
    };
    let mut params = declare(&[2, 3], "down.0.conv.weight");
    let untouched = params.clone();
    let read = |params: &mut Params<f32>, bytes: &[u8]| params.read_safetensors(bytes).unwrap_err().in_full();
    let other_shape = declare(&[3, 2], "down.0.conv.weight").write_safetensors(&[]).unwrap();
    let expected = "parameter `down.0.conv.weight` has shape [3, 2] but the graph declares [2, 3]";
    assert_eq!(read(&mut params, &other_shape), expected);
    let other_name = declare(&[2, 3], "down.0.conv.weigth").write_safetensors(&[]).unwrap();
    let expected = "unknown parameter `down.0.conv.weigth`; did you mean `down.0.conv.weight`?";
    assert_eq!(read(&mut params, &other_name), expected);
    let nothing = Params::<f32>::zeros(&Graph::new()).write_safetensors(&[]).unwrap();
    assert_eq!(read(&mut params, &nothing), "parameter `down.0.conv.weight` [2, 3] is missing");
    let mut bytes = untouched.write_safetensors(&[]).unwrap();
    let len = bytes.len();
    bytes[len - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let expected = "parameter `down.0.conv.weight` [2, 3] has a non-finite value (NaN) at element 5";
    assert_eq!(read(&mut params, &bytes), expected);
    for cut in 0..len {
        assert!(params.read_safetensors(&bytes[..cut]).is_err());
    }
    assert!(params == untouched, "a refused file changes nothing");
    let missing = params.load(std::path::Path::new("no/such/file")).unwrap_err();
    assert!(matches!(&missing, Error::File { path, .. } if path == "no/such/file"));
}

#[test]
fn a_run_names_what_it_lacks() {
    let mut g = Graph::new();
    let x = g.input("image", [4]).unwrap();
    let w = g.param("w", [4], Init::Constant(0.0)).unwrap();
    let y = g.mul(x, w).unwrap();
    let z = g.silu(y).unwrap();
    let mut run = CpuExecutor::<f32>::new(Plan::new(&g, &[z]).unwrap());
    assert_eq!(run.set("imge", &[0.0; 4]).unwrap_err().in_full(), "unknown input `imge`; did you mean `image`?");
    let wrong = run.set("image", &[0.0; 5]).unwrap_err().to_string();
    assert_eq!(wrong, "input `image` has shape [5] but the graph declares [4]");
    let other = Params::zeros(&Graph::new());
    assert_eq!(run.run(&other, 0, 0).unwrap_err().to_string(), "parameter `w` [4] is missing");
    assert!(run.get(y).unwrap_err().hint().unwrap().contains("only tensors named when the plan was made are kept"));
}
