use super::*;
use crate::cuda::compile::{order, place};
use crate::cuda::driver::Chip;
use crate::op::{NormOptions, Window};
use crate::op_cases::OP_CASES;
use crate::plan::Step;
use crate::{Init, Place, Plan, Precision, Result, Storage};
use std::collections::HashMap;

/// A network with two skips, and what its steps compute: the parts in order, then the gradients and the output.
struct Network {
    graph: Graph,
    parts: [Var; 4],
    outputs: Vec<Var>,
}

fn network(recompute: bool, narrow: usize) -> Result<Network> {
    let mut g = Graph::new();
    g.recompute(recompute);
    let mut count = 0;
    let mut weights = |g: &mut Graph, x: Var, filters: usize, taps: usize| -> Result<(Var, Var)> {
        count += 1;
        let channels = g.shape(x).last().copied().unwrap_or(0);
        let weight = g.param(&format!("w{count}"), [filters, taps, taps, channels], Init::Constant(0.1))?;
        Ok((weight, g.param(&format!("b{count}"), [filters], Init::Constant(0.0))?))
    };
    let mut norms = 0;
    let mut norm = |g: &mut Graph, x: Var| -> Result<Var> {
        norms += 1;
        let channels = g.shape(x).last().copied().unwrap_or(0);
        let gamma = g.param(&format!("gamma{norms}"), [channels], Init::Constant(1.0))?;
        let beta = g.param(&format!("beta{norms}"), [channels], Init::Constant(0.0))?;
        let options = NormOptions { groups: channels / 4, epsilon: 1e-6, silu: true, mask: None };
        g.group_norm_with(x, gamma, beta, None, options)
    };
    let mut block = |g: &mut Graph, x: Var, filters: usize| -> Result<Var> {
        let h = norm(g, x)?;
        let (w, b) = weights(g, h, filters, 3)?;
        let mut beside = x;
        if g.shape(x).last() != Some(&filters) {
            let (w, b) = weights(g, x, filters, 1)?;
            beside = g.conv2d(x, w, Some(b), Window::same(1))?;
        }
        g.residual_conv2d(h, w, Some(b), beside, Window::same(3), 0.7)
    };
    let taps = [1.0, 3.0, 3.0, 1.0];
    let x = g.input("x", [2, 8, 8, 8])?;
    let x = g.cast(x, Storage::Half)?;
    let first = block(&mut g, x, narrow)?;
    let second = block(&mut g, first, narrow)?;
    let down = g.fir_down(second, taps)?;
    let low = block(&mut g, down, 24)?;
    let up = g.fir_up(low, taps)?;
    let h = block(&mut g, up, 24)?;
    let joined = g.concat(&[h, second])?;
    let again = block(&mut g, joined, 32)?;
    let joined = g.concat(&[again, first])?;
    let out = block(&mut g, joined, 8)?;
    let out = g.cast(out, Storage::Full)?;
    let squares = g.square(out)?;
    let loss = g.sum(squares)?;
    let mut outputs = g.parameter_gradients(loss)?;
    outputs.push(out);
    Ok(Network { graph: g, parts: [h, second, again, first], outputs })
}

/// Plans it with what `find` finds, and counts the joins that are left.
fn planned(network: &Network, outputs: &[Var], precision: Precision) -> Result<(Views, Plan, usize)> {
    let (graph, chip) = (&network.graph, Chip::HOPPER);
    let target = CompileTarget { precision, chip };
    let nodes = order(graph, outputs, target);
    let views = find(&nodes, graph, outputs, target);
    let plan = place(graph, &nodes, outputs, target, views.clone(), |_| Ok(1000))?;
    let left = plan.steps().iter().filter(|step| matches!(step.op, Op::Concat(_))).count();
    Ok((views, plan, left))
}

/// Which of the four parts lie in others.
fn lie(network: &Network, views: &Views) -> [bool; 4] {
    network.parts.map(|part| views.get(part).is_some())
}

#[test]
fn parts_are_written_where_they_are_joined() -> Result<()> {
    let network = network(false, 16)?;
    let (views, _, left) = planned(&network, &network.outputs, Precision::Bf16)?;
    assert_eq!((lie(&network, &views), left), ([true; 4], 0));
    let firsts = network.parts.map(|part| views.get(part).map(|view| view.first));
    assert_eq!(firsts, [Some(0), Some(24), Some(0), Some(32)]);
    assert_eq!(views.pitch(network.parts[1], &network.graph), 40);
    // In f32 nothing is.
    let (views, _, left) = planned(&network, &network.outputs, Precision::Tf32)?;
    assert_eq!((lie(&network, &views), left), ([false; 4], 2));
    Ok(())
}

#[test]
fn what_callers_ask_for_is_by_itself() -> Result<()> {
    let network = network(false, 16)?;
    let outputs = [&network.outputs[..], &network.parts[1..2]].concat();
    let (views, plan, left) = planned(&network, &outputs, Precision::Bf16)?;
    assert_eq!((lie(&network, &views), left), ([true, false, true, true], 1));
    assert_eq!(plan.pitch(network.parts[1]), 16);
    Ok(())
}

#[test]
fn odd_channels_and_what_is_computed_again_are_copied() -> Result<()> {
    let odd = network(false, 12)?;
    let (views, _, left) = planned(&odd, &odd.outputs, Precision::Bf16)?;
    assert_eq!((lie(&odd, &views), left), ([false; 4], 2));
    let again = network(true, 16)?;
    let (views, _, left) = planned(&again, &again.outputs, Precision::Bf16)?;
    assert_eq!((lie(&again, &views), left), ([false; 4], 4));
    Ok(())
}

#[test]
fn what_a_convolution_refuses_is_copied() -> Result<()> {
    let network = network(false, 16)?;
    let Network { graph, parts, outputs } = &network;
    let target = CompileTarget { precision: Precision::Bf16, chip: Chip::HOPPER };
    let nodes = order(graph, outputs, target);
    let refused = |can: fn(&Problem) -> bool| {
        let mut views = find(&nodes, graph, outputs, target);
        refuse(&mut views, &nodes, graph, can);
        parts.map(|part| views.get(part).is_some())
    };
    assert_eq!(refused(|_| true), [true; 4]);
    // Whatever has parts; or only what writes 24 channels among 40.
    assert_eq!(refused(|_| false), [false; 4]);
    assert_eq!(refused(|problem| problem.pitches.y != 40 || problem.geometry.filters != 24), [false, true, true, true]);
    Ok(())
}

/// Runs a plan on memory that remembers of which tensor and element each byte is: in order, and with what runs aside as late as
/// it may be.
fn check_values(network: &Network, outputs: &[Var], precision: Precision) -> Result<()> {
    [false, true].into_iter().try_for_each(|late| check_values_if(late, network, outputs, precision))
}

fn check_values_if(late: bool, network: &Network, outputs: &[Var], precision: Precision) -> Result<()> {
    let graph = &network.graph;
    let (views, plan, _) = planned(network, outputs, precision)?;
    // What no step writes: another shape of a tensor, or a piece of a single row.
    let written: Vec<Var> = plan.steps().iter().flat_map(|step| step.outputs.clone()).collect();
    let same: HashMap<Var, (Var, usize)> = graph
        .nodes()
        .iter()
        .filter(|node| !written.contains(&node.outputs[0]))
        .filter_map(|node| match &node.op {
            Op::Reshape(_) => Some((node.outputs[0], (node.inputs[0], 0))),
            Op::SliceChannels(op) => Some((node.outputs[0], (node.inputs[0], op.first))),
            _ => None,
        })
        .collect();
    let source = |mut var: Var, mut i: usize| {
        while let Some(&(before, first)) = same.get(&var) {
            (var, i) = (before, i + first);
        }
        (var, i)
    };
    // Where the elements of a tensor are.
    let bytes = |var: Var| -> Option<Vec<usize>> {
        let Place::Arena(offset) = plan.place(var) else { return None };
        let width = graph.shape(var).last().copied().unwrap_or(1);
        let unit = if precision.half(graph.storage(var)) { 2 } else { 4 };
        let at = |i: usize| offset + (i / width * plan.pitch(var) + i % width) * unit;
        Some((0..graph.shape(var).numel()).map(at).collect())
    };
    let mut memory: Vec<Option<(Var, usize)>> = vec![None; plan.arena_bytes()];
    let expect = |memory: &[Option<(Var, usize)>], var: Var, what: &str| {
        let parts: Vec<(Var, ChannelView)> = views.iter().filter(|(_, view)| view.whole == var).collect();
        let width = graph.shape(var).last().copied().unwrap_or(1);
        for (i, at) in bytes(var).into_iter().flatten().enumerate() {
            let (pixel, channel) = (i / width, i % width);
            let part = parts.iter().find_map(|&(part, view)| {
                let width = graph.shape(part).last().copied()?;
                let within = channel.checked_sub(view.first).filter(|&c| c < width)?;
                Some((part, pixel * width + within))
            });
            assert_eq!(memory[at], Some(part.unwrap_or(source(var, i))), "{what} {var:?}, element {i}");
        }
    };
    let mut run = |step: &Step| {
        step.inputs.iter().for_each(|&var| expect(&memory, var, step.op.name()));
        memory[step.scratch.0..][..step.scratch.1].fill(None);
        for &var in &step.outputs {
            for (i, at) in bytes(var).into_iter().flatten().enumerate() {
                // What joins leaves alone what lies there.
                let kept = matches!(step.op, Op::Concat(_))
                    && memory[at].is_some_and(|(of, _)| plan.lies_in(of, var) && step.inputs.contains(&of));
                if !kept {
                    memory[at] = Some((var, i));
                }
            }
        }
    };
    let mut pending: Vec<usize> = Vec::new();
    for (index, step) in plan.steps().iter().enumerate() {
        if late && step.second_stream {
            pending.push(index);
            continue;
        }
        let reads =
            |made: &Step| made.outputs.iter().any(|&v| step.inputs.iter().any(|&i| plan.root(i) == plan.root(v)));
        let wanted = pending.iter().rfind(|&&at| reads(&plan.steps()[at])).copied();
        let over = pending.partition_point(|&at| Some(at) <= wanted.max(plan.due(index)));
        pending.drain(..over).for_each(|at| run(&plan.steps()[at]));
        run(step);
    }
    pending.drain(..).for_each(|at| run(&plan.steps()[at]));
    outputs.iter().for_each(|&var| expect(&memory, var, "output"));
    Ok(())
}

#[test]
fn every_step_reads_what_was_written_for_it() -> Result<()> {
    for (recompute, narrow) in [(false, 16), (false, 12), (true, 16)] {
        let network = network(recompute, narrow)?;
        check_values(&network, &network.outputs, Precision::Bf16)?;
        check_values(&network, &network.outputs[network.outputs.len() - 1..], Precision::Bf16)?;
        // One part of the two by itself.
        check_values(&network, &[&network.outputs[..], &network.parts[1..3]].concat(), Precision::Bf16)?;
        check_values(&network, &network.outputs, Precision::F32)?;
    }
    Ok(())
}

#[test]
fn an_example_of_the_self_test_has_such_parts() -> Result<()> {
    let mut graph = Graph::new();
    let found = OP_CASES.iter().find(|e| e.name.starts_with("channels joined by convolutions"));
    let Some(example) = found else { panic!("no such example") };
    let mut vars = Vec::new();
    for (i, shape) in example.inputs.iter().enumerate() {
        let x = graph.input(&format!("x{i}"), *shape)?;
        vars.push(graph.cast(x, if shape.len() >= 3 { Storage::Half } else { Storage::Full })?);
    }
    let out = (example.build)(&mut graph, &vars)?;
    let out = graph.cast(out, Storage::Full)?;
    let loss = graph.sum(out)?;
    let outputs = [&graph.gradients(loss, &vars)?[..], &[out]].concat();
    let network = Network { graph, parts: [out; 4], outputs };
    let (_, _, left) = planned(&network, &network.outputs, Precision::Bf16)?;
    assert_eq!(left, 0);
    check_values(&network, &network.outputs, Precision::Bf16)
}
