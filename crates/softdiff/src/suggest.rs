//! "Did you mean": the nearest of the known words.

/// Shorter words stand inside others by chance.
const SHORTEST: usize = 4;

/// The known word nearest to what was written, if it is near enough to be meant.
pub(crate) fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
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
    let measured = known.into_iter().map(|word| (distance(&written, &plain(word)), word));
    let measured: Vec<(usize, &str)> = measured.collect();
    let (distance, word) = *measured.iter().min_by_key(|measured| measured.0)?;
    // A third of the letters may be wrong.
    let limit = (written.chars().count().max(word.chars().count()) / 3).max(1);
    if distance <= limit {
        return Some(word);
    }
    measured.iter().filter(|(_, word)| inside(&plain(word))).min_by_key(|measured| measured.0).map(|(_, word)| *word)
}

/// `did you mean "x"? known: ...`, or only what is known.
pub(crate) fn hint<'a>(written: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let all: Vec<&str> = known.clone().into_iter().collect();
    match nearest(written, known) {
        Some(word) => format!("did you mean {word}? known: {}", all.join(", ")),
        None => format!("known: {}", all.join(", ")),
    }
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn one word into the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = vec![0; b.len() + 1];
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let changed = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            next[j] = changed.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                next[j] = next[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
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
