//! Copies of a file damaged at a few places, chosen by proptest: the same on every machine, and made smaller when one fails.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// What happens at one place of a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip(u8),
    Set(u8),
    Remove(usize),
    /// A piece of the file in another place: what makes sense, where it does not.
    Copy(Index, usize),
    Cut,
}

impl Damage {
    fn apply(self, bytes: &mut Vec<u8>, at: usize) {
        let piece = |from: usize, count: usize| from..(from + count).min(bytes.len());
        match self {
            Damage::Flip(bit) => bytes[at] ^= 1 << bit,
            Damage::Set(byte) => bytes[at] = byte,
            Damage::Remove(count) => drop(bytes.drain(piece(at, count))),
            Damage::Copy(from, count) => {
                let piece = bytes[piece(from.index(bytes.len()), count)].to_vec();
                bytes.splice(at..at, piece);
            }
            Damage::Cut => bytes.truncate(at),
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    // Limits of numbers, and markers of JPEG.
    let telling = select(&[0, 1, 0x7F, 0x80, 0xFF, 0xC4, 0xD9, 0xDA][..]);
    prop_oneof![
        4 => (0..8u8).prop_map(Damage::Flip),
        2 => any::<u8>().prop_map(Damage::Set),
        3 => telling.prop_map(Damage::Set),
        2 => (1..9usize).prop_map(Damage::Remove),
        2 => (any::<Index>(), 1..40usize).prop_map(|(from, count)| Damage::Copy(from, count)),
        1 => Just(Damage::Cut),
    ]
}

/// Hands `cases` copies of a file to `check`, each damaged at one to four places behind byte `first`. A panic of `check`
/// fails the test and shows the fewest damages that cause it.
pub fn damage_anywhere(file: &[u8], first: usize, cases: usize, check: impl Fn(&[u8])) {
    let config = Config { cases: cases as u32, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let damages = prop::collection::vec((any::<Index>(), damage()), 1..5);
    let result = runner.run(&damages, |damages| {
        let mut bytes = file.to_vec();
        for (place, damage) in damages {
            if bytes.len() > first {
                let at = first + place.index(bytes.len() - first);
                damage.apply(&mut bytes, at);
            }
        }
        check(&bytes);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
