//! The range balancer: decides which logical ranges are split, merged or given another
//! ring.
//!
//! # When a space is divided
//!
//! A range costs a writer a lookup and cache lines of its own; it saves a validator from
//! checking the registrations of transactions that wrote other ranges. So a key space has
//! one range until validators have checked some registrations in vain, and is divided
//! from then on, until no predicate has been validated for a while.
//!
//! # How large they are
//!
//! The target is about [`Limits::records`](super::map::Limits) keys for each range, and
//! twice, four times … as many when there would be more ranges than the limit. A range
//! with more than twice the target is split into ranges of the target; neighbours that
//! together have at most the target are merged. So a new range is far from both
//! thresholds.
//!
//! ```text
//!   target 100  [ 90 )[ 250           )[ 40 )[ 30 )[ 20 )[ 80 )
//!                      split            merged            as it is
//!               [ 90 )[ 100 )[ 150    )[ 90             )[ 80 )
//! ```
//!
//! # Where the numbers come from
//!
//! The balancer counts keys by walking over the index, and only where enough has been
//! registered since the last count. Registrations tell how much was written and not
//! whether keys appeared or disappeared: where a new count equals the old one, the
//! balancer waits for twice as many registrations, up to a limit. So updates cost next to
//! nothing, and no commit counts anything.
//!
//! # Rings
//!
//! A single range has the largest ring; the more ranges there are, the smaller are their
//! rings, since each sees fewer writers. A range whose ring wrapped around before a
//! predicate could be decided gets one of four times the slots, as far as memory allows.
//! A range that no transaction has written for a while, and whose registrations no
//! running transaction has to check, gets an empty ring, which frees its slots.
//!
//! # In small steps
//!
//! A *pass* goes over all ranges in key order; a step of it counts a few thousand keys,
//! or replaces some ranges ([`super::replace`]). Passes become rarer when they change
//! nothing.

use std::ops::ControlFlow;

use coeval_types::Timestamp;

use super::map::{Map, RangeMap};
use super::range::{Range, UNKNOWN};
use super::reorganised::Reorganised;
use super::replace::{Change, Replacement};

/// Rounds without a validated predicate after which the space is one range again: a
/// minute.
const UNUSED_ROUNDS: u32 = 1200;
/// Largest number of rounds between two passes.
const MAX_PAUSE: u32 = 16;
/// Keys counted in a step.
const COUNTED: u64 = 4096;
/// Ranges scanned in a step.
const LOOKED_AT: usize = 1024;
/// Ranges created in a step, about.
const MADE: usize = 64;
/// Fewest slots of a ring, unless the largest ring has fewer.
const FEWEST_SLOTS: usize = 64;
/// Bound on the slots of all rings of a space together, as a multiple of the largest
/// ring; each ring gets the fewest slots in any case.
const LARGEST_RINGS: usize = 16;
/// Multiple of the target: after this many registrations at the latest, the balancer
/// counts a range's keys again.
const PATIENCE: u64 = 16;

/// The state of a space that the balancer needs at each step.
pub(crate) struct BalancerInput<'walk> {
    /// Estimated number of keys.
    pub(crate) keys: u64,
    /// A timestamp that is not after any registered snapshot.
    pub(crate) horizon: Timestamp,
    /// Visits the keys at or above the first argument and below the second, in order.
    pub(crate) walk: &'walk Walk<'walk>,
    /// Counters of splits and merges.
    pub(crate) reorganised: &'walk Reorganised,
}

/// The function type of [`BalancerInput::walk`].
pub(crate) type Walk<'walk> =
    dyn Fn(&[u8], Option<&[u8]>, &mut dyn FnMut(&[u8]) -> ControlFlow<()>) + 'walk;

/// Work left after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BalancerProgress {
    /// No work is left in this round.
    Done,
    /// Another step is needed.
    More,
    /// Another step is needed, once commits under way were assigned their timestamps.
    Waiting,
}

/// State of the balancer between steps.
#[derive(Debug)]
pub(super) struct RangeBalancer {
    /// Registrations that validators recently checked in vain.
    in_vain: u64,
    unused_rounds: u32,
    /// Target number of keys in a range; `u64::MAX` for a single range.
    aim: u64,
    /// Rounds until the next pass, and the number at the last pass.
    pause: u32,
    last_pause: u32,
    /// Whether the next pass must count every range.
    recount: bool,
    /// Slots of all rings, as of the last pass.
    slots: usize,
    pass: Option<Pass>,
    /// The replacement under way, and the position after it at which the pass continues.
    replacement: Option<(Replacement, usize)>,
}

impl Default for RangeBalancer {
    fn default() -> Self {
        Self {
            in_vain: 0,
            unused_rounds: 0,
            aim: u64::MAX,
            pause: 0,
            last_pause: 1,
            recount: false,
            slots: 0,
            pass: None,
            replacement: None,
        }
    }
}

/// A pass over all ranges.
#[derive(Debug, Default)]
struct Pass {
    at: usize,
    recounts: bool,
    changed: bool,
    counting: Option<Counting>,
    /// Adjacent ranges that may be merged.
    run: Option<RangeRun>,
    planned: Vec<Planned>,
    /// Keys in all ranges that the pass has visited.
    records: u64,
    slots: usize,
    /// Slots that the pass has added to rings which were too small.
    added: usize,
}

#[derive(Debug)]
struct Planned {
    change: Change,
    /// Number of keys in each new range.
    records: Vec<u64>,
}

#[derive(Debug)]
struct RangeRun {
    first: usize,
    count: usize,
    records: u64,
}

/// A count of a range's keys, which may take several steps.
#[derive(Debug)]
struct Counting {
    from: Vec<u8>,
    written: u64,
    total: u64,
    /// Keys after the last boundary.
    behind: u64,
    /// A key for each time that the target was reached.
    boundaries: Vec<Box<[u8]>>,
}

/// The parts into which a range is split.
struct Parts {
    boundaries: Vec<Box<[u8]>>,
    records: Vec<u64>,
}

/// Why planning stopped.
enum Stop {
    /// The step has reached its limit of work.
    Step,
    /// Enough changes are planned to be carried out.
    Full,
    /// The last range was reached.
    End,
}

impl Pass {
    fn plan(&mut self, change: Change, records: Vec<u64>) {
        self.planned.push(Planned { change, records });
    }

    /// Number of ranges that the planned changes add.
    fn growth(&self) -> isize {
        let growth =
            |planned: &Planned| planned.records.len() as isize - planned.change.count as isize;
        self.planned.iter().map(growth).sum()
    }

    fn end_run(&mut self, aim: u64, slots: usize) {
        if let Some(run) = self.run.take().filter(|run| run.count > 1) {
            let change = Change {
                first: run.first,
                count: run.count,
                boundaries: Vec::new(),
                slots,
            };
            let records = if aim == u64::MAX {
                UNKNOWN
            } else {
                run.records
            };
            self.plan(change, vec![records]);
        }
    }

    /// Handles a range that stays unchanged, or is merged with its neighbours.
    fn keep(&mut self, records: u64, aim: u64, slots: usize) {
        // Where all ranges become one, the numbers do not matter.
        let records = match aim {
            u64::MAX => known(records),
            _ => records,
        };
        let fits = |run: &RangeRun| run.records.saturating_add(records) <= aim;
        match &mut self.run {
            Some(run) if fits(run) => {
                run.count += 1;
                run.records += records;
            }
            _ => {
                self.end_run(aim, slots);
                self.run = Some(RangeRun {
                    first: self.at,
                    count: 1,
                    records,
                });
            }
        }
    }
}

impl Counting {
    fn of(range: &Range) -> Self {
        Self {
            from: range.lower.to_vec(),
            written: range.written(),
            total: 0,
            behind: 0,
            boundaries: Vec::new(),
        }
    }

    /// Continues counting. True when it has reached the range's end, or enough
    /// boundaries.
    fn go_on(&mut self, range: &Range, aim: u64, budget: &mut u64, walk: &Walk<'_>) -> bool {
        let from = std::mem::take(&mut self.from);
        let mut ended = true;
        walk(&from, range.upper.as_deref(), &mut |key| {
            if *budget == 0 {
                self.from = key.to_vec();
                ended = false;
                return ControlFlow::Break(());
            }
            *budget -= 1;
            if self.behind == aim {
                self.boundaries.push(key.into());
                self.behind = 0;
                if self.boundaries.len() == MADE {
                    return ControlFlow::Break(());
                }
            }
            self.behind += 1;
            self.total += 1;
            ControlFlow::Continue(())
        });
        ended
    }

    /// The parts into which the range is split so that it adds at most `room` ranges,
    /// with the number of keys in each.
    fn parts(mut self, aim: u64, room: usize) -> Option<Parts> {
        // When counting stopped at enough boundaries, the last part is not fully counted.
        let unfinished = self.boundaries.len() == MADE;
        if !unfinished && self.behind < aim / 2 && self.boundaries.pop().is_some() {
            self.behind += aim;
        }
        if self.boundaries.is_empty() || room == 0 {
            return None;
        }
        // With too little room, each part is this multiple of the target.
        let times = self.boundaries.len().div_ceil(room);
        let left = self.boundaries.len() % times;
        let boundaries = self.boundaries.into_iter();
        let boundaries: Vec<_> = boundaries.skip(times - 1).step_by(times).collect();
        let mut records = vec![aim * times as u64; boundaries.len()];
        records.push(match unfinished {
            true => UNKNOWN,
            false => self.behind + aim * left as u64,
        });
        Some(Parts {
            boundaries,
            records,
        })
    }
}

impl RangeMap {
    /// Begins a round in a space of about `keys` keys. Returns whether it has work to do.
    pub(crate) fn begin_round(&self, keys: u64) -> bool {
        let Ok(mut balancer) = self.balancer.try_lock() else {
            return false;
        };
        let balancer = &mut *balancer;
        let (used, in_vain) = self.demand.take();
        balancer.in_vain = (balancer.in_vain / 2).saturating_add(in_vain);
        balancer.unused_rounds = if used { 0 } else { balancer.unused_rounds + 1 };
        if balancer.pass.is_some() {
            return true;
        }
        let still = balancer.aim != u64::MAX && balancer.unused_rounds < UNUSED_ROUNDS;
        let aim = if still || balancer.in_vain >= self.limits.in_vain {
            self.aim(keys)
        } else {
            u64::MAX
        };
        balancer.pause = balancer.pause.saturating_sub(1);
        if aim == balancer.aim && balancer.pause > 0 {
            return false;
        }
        balancer.aim = aim;
        balancer.pass = Some(Pass {
            recounts: std::mem::take(&mut balancer.recount),
            ..Pass::default()
        });
        true
    }

    /// Target number of keys in a range when the space has `keys` keys.
    fn aim(&self, keys: u64) -> u64 {
        let most = self.limits.ranges as u64;
        let mut aim = self.limits.records;
        // Some slack: half-full ranges must not keep others from being split.
        while keys > aim.saturating_mul(most) / 4 * 3 {
            aim = aim.saturating_mul(2);
        }
        aim
    }

    /// Slots that a ring gets when there will be `ranges` ranges.
    fn share(&self, ranges: usize) -> usize {
        let largest = self.limits.slots;
        let share = largest * LARGEST_RINGS / ranges.max(1);
        share.clamp(FEWEST_SLOTS.min(largest), largest)
    }

    /// Bound on the slots of all rings, which lets some rings exceed their share.
    fn most_slots(&self, ranges: usize) -> usize {
        let largest = self.limits.slots;
        2 * LARGEST_RINGS * largest + ranges * FEWEST_SLOTS.min(largest)
    }

    /// Performs one small step of this round.
    pub(crate) fn step(&self, input: &BalancerInput<'_>) -> BalancerProgress {
        let Ok(mut balancer) = self.balancer.try_lock() else {
            return BalancerProgress::Done;
        };
        let balancer = &mut *balancer;
        if balancer.replacement.is_some() && !self.finish_replacement(balancer, input) {
            return BalancerProgress::Waiting;
        }
        let Some(mut pass) = balancer.pass.take() else {
            return BalancerProgress::Done;
        };
        let map = self.map();
        let stop = self.plan(balancer, &mut pass, &map, input);
        if let Stop::Step = stop {
            balancer.pass = Some(pass);
            return BalancerProgress::More;
        }
        if pass.planned.is_empty() {
            if let Stop::End = stop {
                end_pass(balancer, &pass, input.keys);
                return BalancerProgress::Done;
            }
        } else {
            pass.changed = true;
            let next = pass.at.saturating_add_signed(pass.growth());
            let planned = std::mem::take(&mut pass.planned);
            let (changes, records): (Vec<_>, Vec<_>) = planned
                .into_iter()
                .map(|planned| (planned.change, planned.records))
                .unzip();
            let patience = patience(match balancer.aim {
                u64::MAX => self.limits.records,
                aim => aim,
            });
            let replacement = self.link(&changes, |change, at, range| {
                range.tally.set(records[change][at], 0, patience);
            });
            balancer.replacement = Some((replacement, next));
        }
        balancer.pass = Some(pass);
        if balancer.replacement.is_some() && !self.finish_replacement(balancer, input) {
            return BalancerProgress::Waiting;
        }
        BalancerProgress::More
    }

    fn finish_replacement(&self, balancer: &mut RangeBalancer, input: &BalancerInput<'_>) -> bool {
        let Some((replacement, next)) = &mut balancer.replacement else {
            return true;
        };
        if !self.settle(replacement, input.horizon) {
            return false;
        }
        input.reorganised.note(replacement);
        if let Some(pass) = &mut balancer.pass {
            pass.at = *next;
        }
        balancer.replacement = None;
        true
    }

    /// Visits ranges, and plans the changes to them.
    fn plan(
        &self,
        balancer: &RangeBalancer,
        pass: &mut Pass,
        map: &Map,
        input: &BalancerInput<'_>,
    ) -> Stop {
        let aim = balancer.aim;
        let now = map.ranges().len();
        let expected = match aim {
            u64::MAX => 1,
            aim => (input.keys / aim).min(self.limits.ranges as u64) as usize,
        };
        let share = self.share(now.max(expected));
        let merged = self.share(expected);
        let mut budget = COUNTED;
        for _ in 0..LOOKED_AT {
            let Some(range) = map.ranges().get(pass.at) else {
                pass.end_run(aim, merged);
                return Stop::End;
            };
            let room = self.limits.ranges as isize - now as isize - pass.growth();
            let room = room.max(0) as usize;
            if pass.counting.is_none() && is_due(range, aim, pass.recounts, room) {
                pass.counting = Some(Counting::of(range));
            }
            let mut parts = None;
            if let Some(counting) = &mut pass.counting {
                if !counting.go_on(range, aim, &mut budget, input.walk) {
                    return Stop::Step;
                }
                let counting = pass.counting.take().expect("it has just ended");
                parts = note_count(range, counting, aim, room);
            }
            let first = pass.at;
            let change = |boundaries, slots| Change {
                first,
                count: 1,
                boundaries,
                slots,
            };
            if let Some(parts) = parts {
                let change = change(parts.boundaries, share);
                pass.end_run(aim, merged);
                let unfinished = parts.records.last() == Some(&UNKNOWN);
                pass.plan(change, parts.records);
                if unfinished {
                    // The pass continues with the last part.
                    return Stop::Full;
                }
            } else if let Some(slots) = self.other_ring(balancer, pass, range, share, input.horizon)
            {
                let change = change(Vec::new(), slots);
                pass.end_run(aim, merged);
                pass.plan(change, vec![UNKNOWN]);
            } else {
                pass.keep(range.tally.records(), aim, merged);
            }
            pass.at += 1;
            pass.records = pass.records.saturating_add(known(range.tally.records()));
            pass.slots += range.ring.capacity();
            if pass.planned.len() >= MADE {
                pass.end_run(aim, merged);
                return Stop::Full;
            }
        }
        Stop::Step
    }

    /// Slots of the ring that should replace the range's ring, if one should.
    fn other_ring(
        &self,
        balancer: &RangeBalancer,
        pass: &mut Pass,
        range: &Range,
        share: usize,
        horizon: Timestamp,
    ) -> Option<usize> {
        let ring = &range.ring;
        let capacity = ring.capacity();
        if range.has_overflowed() && capacity < self.limits.slots {
            let slots = (capacity * 4).min(self.limits.slots);
            let added = pass.added + slots - capacity;
            if balancer.slots + added > self.most_slots(self.count()) {
                return None;
            }
            pass.added = added;
            return Some(slots);
        }
        let head = ring.head();
        let quiet = range.tally.is_quiet(head) && ring.slot_bytes() > 0;
        let legacy = quiet.then(|| ring.legacy(head, horizon)).flatten()?;
        legacy.survivors.is_empty().then_some(share)
    }
}

fn known(records: u64) -> u64 {
    if records == UNKNOWN { 0 } else { records }
}

fn patience(aim: u64) -> u64 {
    (aim / 2).max(1)
}

/// Whether the range's keys must be counted.
fn is_due(range: &Range, aim: u64, recounts: bool, room: usize) -> bool {
    if aim == u64::MAX {
        return false;
    }
    let (tally, records) = (&range.tally, range.tally.records());
    // A range known to be too large is counted to find where to split it.
    records == UNKNOWN
        || (records > aim.saturating_mul(2) && room > 0)
        || recounts
        || range.written() - tally.counted_at() >= tally.patience()
}

/// Stores the result of a count. Returns the parts if the range must be split.
fn note_count(range: &Range, counting: Counting, aim: u64, room: usize) -> Option<Parts> {
    let (total, before) = (counting.total, range.tally.records());
    let same = before != UNKNOWN && total.abs_diff(before) <= before / 4;
    let next = if same {
        let longer = range.tally.patience().saturating_mul(2);
        longer.clamp(patience(aim), aim.saturating_mul(PATIENCE))
    } else {
        patience(aim)
    };
    range.tally.set(total, counting.written, next);
    if total <= aim.saturating_mul(2) {
        return None;
    }
    counting.parts(aim, room)
}

fn end_pass(balancer: &mut RangeBalancer, pass: &Pass, keys: u64) {
    balancer.last_pause = if pass.changed {
        1
    } else {
        (balancer.last_pause * 2).min(MAX_PAUSE)
    };
    balancer.pause = balancer.last_pause;
    balancer.slots = pass.slots + pass.added;
    // Keys that were deleted were registered before; a range that was counted too early
    // shows in the sum.
    let aim = balancer.aim;
    let too_many = keys.saturating_mul(2).saturating_add(aim.saturating_mul(2));
    balancer.recount = !pass.recounts && pass.records > too_many;
}
