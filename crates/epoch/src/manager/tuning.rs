//! Self-tuned lengths of epochs: an epoch is some times as long as a close takes, so that closes
//! take a bounded share of the nodes' time, and clients wait no longer than that needs.
//!
//! ```text
//!   closes take     0   0   2   6   6   6   2   0   0 ticks        minimum 2, maximum 20
//!   average         0   0   ½   1⅞  2⅞  3¾  3¼  2½  1⅞
//!   next epoch      2   2   2   7  11  15  13   9   7
//! ```

/// An epoch is this many times as long as a close.
const TIMES: u32 = 4;
/// The average is kept in as many parts of a tick.
const PARTS: u32 = 16;
/// It moves by one in so many parts of the difference, rounded up.
const SHARE: u32 = 4;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tuning {
    /// Parts of a tick that a close takes, on average.
    average: u32,
}

impl Tuning {
    /// A close has taken so many ticks.
    pub(super) fn closed_in(&mut self, ticks: u32) {
        let now = ticks.min(1 << 20) * PARTS;
        // Rounded up, so that it arrives.
        self.average = match now >= self.average {
            true => self.average + (now - self.average).div_ceil(SHARE),
            false => self.average - (self.average - now).div_ceil(SHARE),
        };
    }

    /// Ticks of the next epoch.
    pub(super) fn length(self, minimum: u32, maximum: u32) -> u32 {
        let length = self.average.saturating_mul(TIMES) / PARTS;
        length.min(maximum).max(minimum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the module.
    #[test]
    fn an_average_moves_a_quarter_of_the_way() {
        let mut tuning = Tuning::default();
        let lengths = [0, 0, 2, 6, 6, 6, 2, 0, 0].map(|ticks| {
            tuning.closed_in(ticks);
            tuning.length(2, 20)
        });
        assert_eq!(lengths, [2, 2, 2, 7, 11, 15, 13, 9, 7]);
    }

    #[test]
    fn the_length_follows_the_closes_between_its_bounds() {
        let mut tuning = Tuning::default();
        assert_eq!(tuning.length(2, 20), 2);
        let mut after = |ticks, count: usize| {
            (0..count).for_each(|_| tuning.closed_in(ticks));
            tuning.length(2, 20)
        };
        assert_eq!(after(3, 30), 12, "four times a close");
        assert_eq!(after(50, 30), 20, "no longer than the maximum");
        assert_eq!(after(1, 60), 4);
        assert_eq!(after(0, 60), 2, "and no shorter than the minimum");
        assert_eq!(after(u32::MAX, 60), 20);
    }
}
