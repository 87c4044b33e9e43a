//! Text from an untrusted file as it may be shown.

/// Quoted, control characters escaped, and short.
pub fn quote(text: &str) -> String {
    const LONGEST: usize = 120;
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}
