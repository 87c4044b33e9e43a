//! Hints for names that are not known.

use softdiff_engine::suggest::nearest;

/// `did you mean "x"? known: ...`, or only what is known.
pub(crate) fn hint<'a>(written: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let all: Vec<&str> = known.clone().into_iter().collect();
    match nearest(written, known) {
        Some(word) => format!("did you mean {word}? known: {}", all.join(", ")),
        None => format!("known: {}", all.join(", ")),
    }
}
