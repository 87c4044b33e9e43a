//! What a machine has besides its GPU: processor, memory, folders, data, and the command that provides what is missing.

use serde_json::{Value, json};
use softdiff::data::named::{self, FID_INCEPTION, NAMED, NamedData};
use softdiff::engine::cpu::isa;
use softdiff::engine::{cache, memory};
use softdiff::inception::Inception;
use std::path::Path;

/// Adds it to the facts and, without `json`, prints it.
pub fn describe(facts: &mut Value, json: bool) {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let (model, instructions) = (cpu_model(), format!("{:?}", isa()));
    let ((free, limit), total) = (memory::available(), total_memory());
    let (cache, data) = (cache::folder(), named::folder());
    let there = |one: &&NamedData| data.as_deref().is_some_and(|folder| one.in_folder(folder).is_some());
    let (here, missing): (Vec<&NamedData>, Vec<&NamedData>) =
        NAMED.iter().copied().filter(|one| one.is_images()).partition(there);
    let network = Inception::file(None).filter(|file| file.exists());
    facts["cpu"] = json!({ "model": model, "threads": threads, "instructions": instructions });
    facts["memory"] = json!({ "available_bytes": known(free), "total_bytes": total });
    facts["cache_folder"] = json!(cache);
    facts["data_folder"] = json!(data);
    let named = |all: &[&NamedData]| all.iter().map(|one| one.name).collect::<Vec<_>>();
    facts["data"] = json!({ "here": named(&here), "missing": named(&missing) });
    facts["inception"] = match &network {
        Some(file) => json!({ "file": file }),
        None => json!({ "missing": FID_INCEPTION.command() }),
    };
    if json {
        return;
    }
    println!("cpu       {}, {threads} threads, {instructions}", model.as_deref().unwrap_or("of unknown model"));
    match (known(free), total) {
        (Some(free), Some(total)) => {
            println!("memory    {} available{limit} of {}", memory::Size(free), memory::Size(total))
        }
        (Some(free), None) => println!("memory    {} available{limit}", memory::Size(free)),
        _ => println!("memory    not known on this system; SOFTDIFF_MEMORY sets a limit"),
    }
    println!("cache     {}", shown(cache.as_deref(), "SOFTDIFF_CACHE"));
    println!("data      {}", shown(data.as_deref(), "SOFTDIFF_DATA"));
    if !here.is_empty() {
        println!("          here: {}", named(&here).join(", "));
    }
    if !missing.is_empty() {
        println!("          not here: softdiff data fetch {}", named(&missing).join(" "));
    }
    match network {
        Some(file) => println!("inception {}", file.display()),
        None => println!("inception not here, so no FID or KID: {}", FID_INCEPTION.command()),
    }
}

fn shown(folder: Option<&Path>, variable: &str) -> String {
    folder.map_or_else(
        || format!("none, for there is no home folder: set {variable}"),
        |folder| folder.display().to_string(),
    )
}

/// Bytes, where they are a number and not all there could be.
fn known(bytes: u64) -> Option<u64> {
    Some(bytes).filter(|&bytes| bytes < u64::MAX)
}

/// What the processor is called, where the system tells.
fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The memory of the machine, where the system tells.
fn total_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}
