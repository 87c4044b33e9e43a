//! "Did you mean": the nearest of the known words.

use strsim::osa_distance;

/// Shorter words stand inside others by chance.
const SHORTEST: usize = 4;

/// The known word nearest to what was written, if it is near enough to be meant.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A long text is no slip of the pen, and distances cost its square.
    if written.len() > 64 {
        return None;
    }
    let plain = |word: &str| word.to_lowercase().replace([' ', '_'], "-");
    let written = plain(written);
    // A word inside the other is meant as well: batchsize, gaussian-blur, ncsnpp.
    let inside = |word: &str| {
        let (short, long) = if word.len() < written.len() { (word, &*written) } else { (&*written, word) };
        short.len() >= SHORTEST && long.contains(short)
    };
    let measured = known.into_iter().map(|word| (osa_distance(&written, &plain(word)), word));
    let measured: Vec<(usize, &str)> = measured.collect();
    let (distance, word) = *measured.iter().min_by_key(|measured| measured.0)?;
    // A third of the letters may be wrong.
    let limit = (written.chars().count().max(word.chars().count()) / 3).max(1);
    if distance <= limit {
        return Some(word);
    }
    // Or the beginning of a longer one, with a slip: eular for euler-maruyama.
    let letters = written.chars().count();
    let begins = |word: &str| {
        let beginning: String = plain(word).chars().take(letters).collect();
        letters >= SHORTEST && osa_distance(&written, &beginning) <= letters / 3
    };
    let by_distance = |words: &dyn Fn(&str) -> bool| {
        measured.iter().filter(|(_, word)| words(word)).min_by_key(|measured| measured.0).map(|(_, word)| *word)
    };
    by_distance(&|word| inside(&plain(word))).or_else(|| by_distance(&begins))
}

/// `did you mean "x"? known: ...`, or only what is known.
pub fn hint<'a>(written: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let all: Vec<&str> = known.clone().into_iter().collect();
    match nearest(written, known) {
        Some(word) => format!("did you mean {word}? known: {}", all.join(", ")),
        None => format!("known: {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        let known = ["steps", "batch", "rate", "log_every"];
        assert_eq!(nearest("stpes", known), Some("steps"));
        assert_eq!(nearest("log-every", known), Some("log_every"));
        assert_eq!(nearest("Batch", known), Some("batch"));
        assert_eq!(nearest("batchsize", known), Some("batch"));
        assert_eq!(nearest("euler", ["naive", "euler-maruyama"]), Some("euler-maruyama"));
        assert_eq!(nearest("epochs", known), None);
        assert_eq!(nearest("a", ["data", "batch"]), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"a".repeat(10_000), known), None);
        assert_eq!(nearest("anything", []), None);
    }
}
