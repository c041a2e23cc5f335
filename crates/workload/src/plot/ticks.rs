//! Axis scales: they map values to pixels, and choose the labelled ticks.

/// A mapping from values to pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    pixels: (f64, f64),
}

impl Scale {
    /// A scale that covers all of these values, from the first pixel to the second.
    pub(super) fn new(
        values: impl Iterator<Item = f64>,
        logarithmic: bool,
        pixels: (f64, f64),
    ) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 1.0);
        }
        if logarithmic {
            low = 10_f64.powf(low.log10().floor());
            high = 10_f64.powf(high.log10().ceil()).max(low * 10.0);
        } else {
            if low == high {
                high = if low == 0.0 { 1.0 } else { low + low.abs() };
            }
            let step = step(low, high);
            low = (low / step).floor() * step;
            high = (high / step).ceil() * step;
        }
        Self {
            low,
            high,
            logarithmic,
            pixels,
        }
    }

    /// The pixel of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// The labelled values, and their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let mut ticks = Vec::new();
        if self.logarithmic {
            let mut value = self.low;
            while value <= self.high * 1.000_001 {
                ticks.push((value, name(value, value)));
                value *= 10.0;
            }
        } else {
            let step = step(self.low, self.high);
            let count = ((self.high - self.low) / step).round() as u32;
            for number in 0..=count {
                let value = self.low + f64::from(number) * step;
                ticks.push((value, name(value, step)));
            }
        }
        ticks
    }
}

/// The distance between ticks: one, two or five times a power of ten, so that there are
/// four to ten of them.
fn step(low: f64, high: f64) -> f64 {
    let rough = (high - low) / 8.0;
    let power = 10_f64.powf(rough.log10().floor());
    let factors = [1.0, 2.0, 5.0];
    let enough = factors.into_iter().find(|factor| factor * power >= rough);
    enough.unwrap_or(10.0) * power
}

/// Formats a number with the precision of the step.
fn name(value: f64, step: f64) -> String {
    let scaled = |by: f64, unit: &str| {
        let digits = decimals(step / by);
        format!("{:.digits$}{unit}", value / by)
    };
    match value.abs().max(step) {
        large if large >= 1e6 => scaled(1e6, "M"),
        large if large >= 1e4 => scaled(1e3, "k"),
        _ => scaled(1.0, ""),
    }
}

fn decimals(step: f64) -> usize {
    let digits = -step.log10().floor();
    if digits > 0.0 {
        digits.min(9.0) as usize
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(values: &[f64], logarithmic: bool) -> Vec<String> {
        let scale = Scale::new(values.iter().copied(), logarithmic, (0.0, 100.0));
        scale.ticks().into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn round_values_are_named() {
        assert_eq!(names(&[0.0, 9.0], false), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(names(&[0.0, 0.3], false)[1], "0.05");
        assert_eq!(
            names(&[0.0, 40_000.0], false),
            ["0", "5000", "10k", "15k", "20k", "25k", "30k", "35k", "40k"]
        );
        assert_eq!(
            names(&[3.0, 2_000.0], true),
            ["1", "10", "100", "1000", "10k"]
        );
        assert_eq!(names(&[], false).len(), names(&[1.0], false).len());
    }

    #[test]
    fn the_ends_are_at_the_ends() {
        let scale = Scale::new([0.0, 10.0].into_iter(), false, (50.0, 150.0));
        assert_eq!((scale.place(0.0), scale.place(10.0)), (50.0, 150.0));
        let scale = Scale::new([1.0, 100.0].into_iter(), true, (0.0, 100.0));
        assert!((scale.place(10.0) - 50.0).abs() < 1e-9);
    }
}
