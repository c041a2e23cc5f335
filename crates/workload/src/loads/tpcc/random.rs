//! Random values of TPC-C, as clauses 2.1.5, 2.1.6 and 4.3.2 define them.

use crate::chance::Chance;

/// A uniform random number from `x` to `y`, both included.
pub(super) fn uniform(chance: &mut Chance, x: i64, y: i64) -> i64 {
    let length = (y - x).unsigned_abs() + 1;
    x + chance.within(0..length).cast_signed()
}

/// NURand(A, x, y): the bitwise OR of two uniform random numbers, shifted by a constant.
fn uneven(chance: &mut Chance, a: i64, x: i64, y: i64, constant: i64) -> i64 {
    let both = uniform(chance, 0, a) | uniform(chance, x, y);
    (both + constant) % (y - x + 1) + x
}

/// The constants C of NURand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constants {
    customer: i64,
    item: i64,
    name_at_load: i64,
    name: i64,
}

impl Constants {
    /// Draws the constants such that the names of the run differ from those of the load
    /// as clause 2.1.6.1 requires.
    pub(super) fn new(chance: &mut Chance) -> Self {
        let name_at_load = uniform(chance, 0, 255);
        let name = loop {
            let name = uniform(chance, 0, 255);
            let delta = (name - name_at_load).abs();
            if (65..=119).contains(&delta) && delta != 96 && delta != 112 {
                break name;
            }
        };
        Self {
            customer: uniform(chance, 0, 1_023),
            item: uniform(chance, 0, 8_191),
            name_at_load,
            name,
        }
    }

    /// Seed for the contents of the tables.
    pub(super) const fn seed(&self) -> u64 {
        let low = self.customer << 16 | self.item;
        (self.name_at_load << 40 | self.name << 48 | low).cast_unsigned()
    }

    /// A random customer number, from 1 to `customers`.
    pub(super) fn customer(&self, chance: &mut Chance, customers: i64) -> i64 {
        uneven(chance, 1_023, 1, customers, self.customer)
    }

    /// A random item number, from 1 to `items`.
    pub(super) fn item(&self, chance: &mut Chance, items: i64) -> i64 {
        uneven(chance, 8_191, 1, items, self.item)
    }

    /// The number of a random last name for a request, below `names`.
    pub(super) fn name(&self, chance: &mut Chance, names: u64) -> u64 {
        let last = names.cast_signed() - 1;
        uneven(chance, 255, 0, last, self.name).unsigned_abs()
    }

    /// The number of a random last name for a loaded customer, below `names`.
    pub(super) fn name_at_load(&self, chance: &mut Chance, names: u64) -> u64 {
        let last = names.cast_signed() - 1;
        uneven(chance, 255, 0, last, self.name_at_load).unsigned_abs()
    }
}

/// The last name of a number below 1,000: a syllable for each digit.
pub(super) fn last_name(number: u64) -> String {
    const SYLLABLES: [&str; 10] = [
        "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
    ];
    let syllable = |digit: u64| SYLLABLES[usize::try_from(digit % 10).unwrap_or(0)];
    [number / 100, number / 10, number].map(syllable).concat()
}

/// A random string of `x` to `y` letters and digits.
pub(super) fn letters(chance: &mut Chance, x: i64, y: i64) -> String {
    const LETTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-.";
    let length = usize::try_from(uniform(chance, x, y)).unwrap_or(0);
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut bits = chance.next();
        for _ in 0..10.min(length - text.len()) {
            text.push(char::from(LETTERS[(bits & 63) as usize]));
            bits >>= 6;
        }
    }
    text
}

/// A random string of `count` digits.
pub(super) fn digits(chance: &mut Chance, count: usize) -> String {
    (0..count)
        .map(|_| char::from(b'0' + chance.within(0..10) as u8))
        .collect()
}

/// A random zip code: four random digits and five ones.
pub(super) fn zip(chance: &mut Chance) -> String {
    digits(chance, 4) + "11111"
}

/// Random data of an item or its stock: one in ten contains ORIGINAL.
pub(super) fn data(chance: &mut Chance) -> String {
    let mut text = letters(chance, 26, 50);
    if chance.once_in(10) {
        let at = usize::try_from(uniform(chance, 0, text.len() as i64 - 8)).unwrap_or(0);
        text.replace_range(at..at + 8, "ORIGINAL");
    }
    text
}

/// A random permutation of the numbers from 1 to `n`.
pub(super) fn permutation(chance: &mut Chance, n: i64) -> Vec<i64> {
    let mut numbers: Vec<i64> = (1..=n).collect();
    for at in (1..numbers.len()).rev() {
        let other = chance.within(0..at as u64 + 1);
        numbers.swap(at, usize::try_from(other).unwrap_or(0));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_those_of_the_standard() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn uneven_numbers_stay_in_bounds_and_are_uneven() {
        let mut chance = Chance::new(1);
        let constants = Constants::new(&mut chance);
        let mut counts = vec![0_u32; 3_001];
        for _ in 0..300_000 {
            let customer = constants.customer(&mut chance, 3_000);
            counts[usize::try_from(customer).unwrap()] += 1;
        }
        assert_eq!(counts[0], 0);
        counts.sort_unstable();
        let tenth: u32 = counts.iter().rev().take(300).sum();
        assert!(tenth > 90_000, "the busiest tenth has {tenth} of 300000");
        for names in [10, 60, 1_000] {
            assert!((0..1_000).all(|_| constants.name(&mut chance, names) < names));
        }
    }

    #[test]
    fn the_constants_of_names_differ_as_they_must() {
        for seed in 0..200 {
            let constants = Constants::new(&mut Chance::new(seed));
            let delta = (constants.name - constants.name_at_load).abs();
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112);
        }
    }

    #[test]
    fn a_permutation_has_every_number_once() {
        let mut numbers = permutation(&mut Chance::new(4), 100);
        assert!(!numbers.is_sorted());
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=100).collect::<Vec<i64>>());
    }
}
