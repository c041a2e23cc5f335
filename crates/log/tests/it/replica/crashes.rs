//! A follower's log with crashes at every change of its disk: recovery finds the old log,
//! a prefix of it, or the new one, and never a mix.

use std::path::Path;
use std::sync::{Arc, Mutex};

use coeval_env::JoinError;
use coeval_env::sim::{Loss, Node, World};
use coeval_log::{HardState, ReplicaLog};
use coeval_types::{Lsn, Term};

use super::frames::{FIRST, Stretch, content, open};
use super::leading::{commit_all, lead};
use crate::support::{put, small};

const DIRECTORY: &str = "/data";
const STEPS: usize = 12;

/// Pseudo-random numbers that a seed decides.
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % sides
    }
}

/// The effect that one call was to have.
#[derive(Clone, Debug)]
enum CrashStep {
    Append(Stretch),
    Flush,
    HardState(HardState),
    Truncate(u64),
    Replace(u64, Stretch),
    MakeRoom,
}

/// State that must be on the disk.
#[derive(Clone, Debug, Default)]
struct Known {
    content: Stretch,
    flushed: u64,
    hard_state: HardState,
    under_way: Option<CrashStep>,
    /// Whether the directory has been opened once.
    begun: bool,
}

type Shared = Arc<Mutex<Known>>;

/// The frames of `stretch` that end at or before `end`.
fn cut(stretch: &Stretch, end: u64) -> Stretch {
    let mut cut = stretch.clone();
    cut.ends.retain(|at| *at <= end);
    cut.bytes.truncate((end - stretch.start) as usize);
    cut
}

fn join(one: &Stretch, other: &Stretch) -> Stretch {
    assert_eq!(one.end(), other.start);
    let mut joined = one.clone();
    joined.bytes.extend_from_slice(&other.bytes);
    joined.ends.extend_from_slice(&other.ends);
    joined
}

/// The term of the frame that ends at `end`, from its timestamp.
fn term_at(stretch: &Stretch, end: u64) -> u32 {
    let Some(number) = stretch.ends.iter().position(|at| *at == end) else {
        return 0;
    };
    let start = match number {
        0 => stretch.start,
        number => stretch.ends[number - 1],
    };
    let at = (start - stretch.start) as usize + 8;
    let stamp = u64::from_le_bytes(stretch.bytes[at..at + 8].try_into().unwrap());
    (stamp >> 44) as u32
}

/// A few frames after `after`, the first of them a mark if the term is new there.
fn frames(dice: &mut Dice, after: &Stretch, term: u32) -> Stretch {
    let mut stretch = Stretch::at(after.end().max(FIRST));
    if term_at(after, stretch.start) < term {
        stretch = stretch.mark(term, &[term as u8; 9]);
    }
    for _ in 0..dice.roll(4) {
        let length = [10, 150, 700, 3000][dice.roll(4) as usize];
        let value = vec![dice.roll(256) as u8; length];
        stretch = stretch.commit(term, dice.roll(100) as u8, &value);
    }
    stretch
}

/// Chooses the next step, and returns it with the state that must be on the disk once it
/// is done.
fn choose(dice: &mut Dice, known: &Known) -> (CrashStep, Known) {
    let mut then = known.clone();
    let log = &known.content;
    let state = known.hard_state;
    let term = state.term.0;
    // A frame's start, or the end, at or after the commit index.
    let starts: Vec<u64> = [FIRST]
        .into_iter()
        .chain(log.ends.iter().copied())
        .filter(|at| *at >= state.commit.0)
        .collect();
    let somewhere = starts[dice.roll(starts.len() as u64) as usize];
    let step = match dice.roll(9) {
        0..=2 if term > 0 => {
            let more = frames(dice, log, term);
            then.content = join(log, &more);
            CrashStep::Append(more)
        }
        3 => CrashStep::Flush,
        4 => CrashStep::MakeRoom,
        5 if somewhere < log.end() => {
            then.content = cut(log, somewhere);
            then.flushed = somewhere;
            CrashStep::Truncate(somewhere)
        }
        6 | 7 if term > 0 && somewhere < log.end() => {
            let kept = cut(log, somewhere);
            // A newer leader's mark, or entries of a term from before.
            let old = term_at(&kept, somewhere);
            let its = if old > 0 && dice.roll(3) == 0 {
                old
            } else {
                term
            };
            let more = frames(dice, &kept, its);
            then.content = join(&kept, &more);
            then.flushed = then.content.end();
            CrashStep::Replace(somewhere, more)
        }
        8 => {
            let commit = Lsn(known.flushed).max(state.commit);
            then.hard_state.commit = commit;
            CrashStep::HardState(then.hard_state)
        }
        _ => {
            then.hard_state = HardState {
                term: Term(term + 1),
                vote: (dice.roll(2) == 0).then(|| dice.roll(5)),
                ..state
            };
            CrashStep::HardState(then.hard_state)
        }
    };
    if matches!(step, CrashStep::Flush) {
        then.flushed = log.end();
    }
    (step, then)
}

/// Checks that recovery may return this log.
fn check(known: &Known, found: &[u8], hard_state: HardState) {
    let is_first_frames = |of: &Stretch, least: u64| {
        let end = FIRST + found.len() as u64;
        of.bytes.starts_with(found) && end >= least && (end == FIRST || of.ends.contains(&end))
    };
    let log = &known.content;
    let was = is_first_frames(log, known.flushed);
    let may_be = match &known.under_way {
        None | Some(CrashStep::Flush | CrashStep::MakeRoom | CrashStep::HardState(_)) => was,
        Some(CrashStep::Append(more)) => is_first_frames(&join(log, more), known.flushed),
        Some(CrashStep::Truncate(at)) => was || found == cut(log, *at).bytes,
        Some(CrashStep::Replace(at, more)) => {
            was || is_first_frames(&join(&cut(log, *at), more), *at)
        }
    };
    assert!(
        may_be,
        "{} bytes are none of what may be: {known:?}",
        found.len()
    );
    let kept = hard_state == known.hard_state;
    let set = matches!(&known.under_way, Some(CrashStep::HardState(new)) if *new == hard_state);
    assert!(kept || set, "{hard_state:?} of {known:?}");
}

/// Opens the log, checks what was recovered, and then takes steps.
async fn life(shared: Shared, mut dice: Dice, steps: usize) {
    let (mut log, table) = open(Path::new(DIRECTORY), small()).await.unwrap();
    let found = content(&log).await;
    {
        let mut known = shared.lock().unwrap();
        if !known.begun {
            known.begun = true;
            known.content = Stretch::at(FIRST);
            known.flushed = FIRST;
            known.hard_state.commit = Lsn(FIRST);
        }
        check(&known, &found, log.hard_state());
        // Everything that was recovered now must stay.
        let whole = match &known.under_way {
            Some(CrashStep::Append(more)) => join(&known.content, more),
            Some(CrashStep::Replace(at, more)) if !known.content.bytes.starts_with(&found) => {
                join(&cut(&known.content, *at), more)
            }
            _ => known.content.clone(),
        };
        known.content = cut(&whole, FIRST + found.len() as u64);
        assert_eq!(known.content.bytes, found);
        known.flushed = known.content.end();
        known.hard_state = log.hard_state();
        known.under_way = None;
        let marks = || log.marks().iter().map(|mark| mark.term);
        assert!(marks().is_sorted());
        let last = marks().next_back().unwrap_or_default();
        assert_eq!(last, log.last_term());
        let end = known.content.end();
        assert_eq!(Term(term_at(&known.content, end)), last);
        let commits = table.commits();
        assert!(
            commits
                .iter()
                .all(|commit| commit.lsn() < log.hard_state().commit)
        );
    }
    for _ in 0..steps {
        let (step, then) = {
            let mut known = shared.lock().unwrap();
            let (step, then) = choose(&mut dice, &known);
            known.under_way = Some(step.clone());
            (step, then)
        };
        take(&mut log, step).await;
        assert_eq!(content(&log).await, then.content.bytes);
        *shared.lock().unwrap() = Known {
            under_way: None,
            ..then
        };
    }
    if dice.roll(2) == 0 {
        log.close().await.unwrap();
        let mut known = shared.lock().unwrap();
        known.flushed = known.content.end();
    } else {
        std::mem::forget(log);
    }
}

async fn take(log: &mut ReplicaLog, step: CrashStep) {
    match step {
        CrashStep::Append(more) => log.append(Lsn(more.start), &more.bytes).await.unwrap(),
        CrashStep::Flush => {
            log.flush().await.unwrap();
        }
        CrashStep::HardState(state) => log.set_hard_state(state).await.unwrap(),
        CrashStep::Truncate(at) => log.truncate(Lsn(at)).await.unwrap(),
        CrashStep::Replace(at, more) => log.replace(Lsn(at), &more.bytes).await.unwrap(),
        CrashStep::MakeRoom => log.make_room().await.unwrap(),
    }
}

fn run(
    world: &World,
    node: Node,
    known: &Shared,
    dice: &Dice,
    steps: usize,
) -> Result<(), JoinError> {
    let lived = world.run(node, life(Arc::clone(known), dice.clone(), steps));
    if lived.is_ok() {
        world.crash(node);
    }
    lived
}

#[test]
fn whatever_write_the_power_fails_at() {
    // Each seed runs another script and every fourth of its disk changes, offset by the
    // seed.
    for seed in 0..8 {
        let loss = [Loss::Random, Loss::Random, Loss::Everything, Loss::Nothing][seed as usize % 4];
        let mut crash_at = (seed + seed / 4) % 4;
        loop {
            let world = World::new(seed);
            let node = world.node();
            world.set_loss(node, loss);
            let known = Shared::default();
            let dice = Dice(seed + 1);
            world.crash_at(node, Some(crash_at));
            let first = run(&world, node, &known, &dice, STEPS);
            if first.is_ok() {
                assert!(
                    crash_at > 20,
                    "seed {seed}: the disk was changed many times"
                );
                break;
            }
            assert_eq!(
                first,
                Err(JoinError::Cancelled),
                "seed {seed} change {crash_at}"
            );
            for more in 1..=2 {
                let dice = Dice(seed + 1 + more * 1000);
                let next = run(&world, node, &known, &dice, 4);
                assert_eq!(next, Ok(()), "seed {seed}, after change {crash_at}");
            }
            crash_at += 4;
        }
    }
}

#[test]
fn many_lives() {
    for seed in 0..10 {
        let world = World::new(seed);
        let node = world.node();
        let known = Shared::default();
        for life in 0..12 {
            let ahead = 5 + (seed * 31 + life * 17) % 60;
            world.crash_at(node, Some(world.disk_changes(node) + ahead));
            let dice = Dice(seed * 1000 + life + 7);
            match run(&world, node, &known, &dice, STEPS) {
                Ok(()) | Err(JoinError::Cancelled) => {}
                Err(error) => panic!("seed {seed} life {life}: {error}"),
            }
        }
    }
}

/// After a failed sync the log promises nothing any more.
#[test]
fn a_failed_sync_ends_the_promises() {
    let mut failed = 0;
    for fail_at in 4..40 {
        let world = World::new(fail_at);
        let node = world.node();
        world.fail_sync_at(node, Some(fail_at));
        let ended = world.run(node, async move {
            let Ok((mut log, _)) = open(Path::new(DIRECTORY), small()).await else {
                return false;
            };
            let mut term = 0;
            let mut error = None;
            for number in 0..12_u8 {
                let round = async {
                    term += 1;
                    let state = HardState {
                        term: Term(term),
                        ..log.hard_state()
                    };
                    log.set_hard_state(state).await?;
                    let at = log.end();
                    let more = Stretch::at(at.0)
                        .mark(term, b"")
                        .commit(term, number, &[1; 900]);
                    log.append(at, &more.bytes).await?;
                    log.flush().await.map(|_| ())
                };
                match (round.await, &error) {
                    (Ok(()), None) => {}
                    (Ok(()), Some(_)) => panic!("durable after a failed sync"),
                    (Err(new), _) => error = Some(new.to_string()),
                }
            }
            error.is_some()
        });
        failed += u64::from(ended.unwrap());
    }
    assert!(failed > 10, "most of them were reached: {failed}");
}

#[test]
fn a_full_disk_is_said_and_the_log_goes_on_when_there_is_room() {
    let mut refused = 0;
    for capacity in (12_000..70_000).step_by(3000) {
        let world = World::new(capacity);
        let node = world.node();
        world.set_capacity(node, capacity);
        let opened = world
            .run(node, open(Path::new(DIRECTORY), small()))
            .unwrap();
        let Ok((mut log, _)) = opened else {
            continue;
        };
        let mut all = Stretch::at(FIRST);
        for term in 1..5 {
            all = all.mark(term, b"");
            for rid in 0..6 {
                all = all.commit(term, rid, &[rid; 900]);
            }
        }
        let more = all.clone();
        let filled = world.run(node, async move {
            let state = HardState {
                term: Term(5),
                ..log.hard_state()
            };
            if let Err(error) = log.set_hard_state(state).await {
                assert!(error.is_disk_full(), "{error}");
                return (log, false);
            }
            let Err(error) = log.append(Lsn(FIRST), &more.bytes).await else {
                return (log, false);
            };
            assert!(error.is_disk_full(), "{error}");
            // Some first frames may have been written before the disk was full.
            assert!(log.end() == Lsn(FIRST) || more.ends.contains(&log.end().0));
            log.flush().await.unwrap();
            (log, true)
        });
        let (mut log, was_set) = filled.unwrap();
        if !was_set {
            continue;
        }
        refused += 1;
        world.set_capacity(node, u64::MAX);
        let resumed = world.run(node, async move {
            let rest = all.bytes[(log.end().0 - FIRST) as usize..].to_vec();
            log.append(log.end(), &rest).await.unwrap();
            log.flush().await.unwrap();
            std::mem::forget(log);
            all
        });
        let all = resumed.unwrap();
        world.crash(node);
        let found = world.run(node, async {
            let (log, _) = open(Path::new(DIRECTORY), small()).await.unwrap();
            (content(&log).await, log.marks().len())
        });
        assert_eq!(found.unwrap(), (all.bytes, 4), "capacity {capacity}");
    }
    assert!(refused > 5, "most of the capacities let it open: {refused}");
}

/// Log that a leader has sent, and the part that it has reported durable.
#[derive(Clone, Debug, Default)]
struct Led {
    sent: Vec<u8>,
    flushed: usize,
}

/// Opens the log that earlier runs have left, leads for a while, and follows again.
async fn leaders_life(led: Arc<Mutex<Led>>) {
    let (mut log, _) = open(Path::new(DIRECTORY), small()).await.unwrap();
    let found = content(&log).await;
    {
        let mut led = led.lock().unwrap();
        assert!(
            found.len() >= led.flushed,
            "{} of {}",
            found.len(),
            led.flushed
        );
        let both = found.len().min(led.sent.len());
        assert!(
            found[..both] == led.sent[..both],
            "others were sent something else"
        );
        led.sent = found;
        led.flushed = led.sent.len();
    }
    for _ in 0..2 {
        let from = log.end();
        let leading = lead(log).await;
        let mut stream = leading.stream(from).unwrap();
        for rid in 0..6_u64 {
            let committed = commit_all(&leading).await;
            while let Some(chunk) = stream.read(1000).await.unwrap() {
                led.lock().unwrap().sent.extend_from_slice(&chunk.bytes);
            }
            led.lock().unwrap().flushed = (committed.0 - FIRST) as usize;
            put(&leading, &[(rid, &[rid as u8; 300]), (rid + 9, &[7; 20])])
                .await
                .unwrap();
        }
        log = leading.retire().await.unwrap();
        while let Some(chunk) = stream.read(1000).await.unwrap() {
            led.lock().unwrap().sent.extend_from_slice(&chunk.bytes);
        }
        let led = led.lock().unwrap();
        assert_eq!((log.end().0 - FIRST) as usize, led.sent.len());
    }
    assert_eq!(content(&log).await, led.lock().unwrap().sent);
    std::mem::forget(log);
}

#[test]
fn whatever_write_of_a_leader_the_power_fails_at() {
    for seed in 0..4 {
        let loss = [Loss::Random, Loss::Everything, Loss::Random, Loss::Nothing][seed as usize];
        let mut crash_at = seed;
        loop {
            let world = World::new(seed);
            let node = world.node();
            world.set_loss(node, loss);
            let led = Arc::default();
            world.crash_at(node, Some(crash_at));
            let first = world.run(node, leaders_life(Arc::clone(&led)));
            if first.is_ok() {
                assert!(crash_at > 30, "the disk was changed many times");
                break;
            }
            assert_eq!(
                first,
                Err(JoinError::Cancelled),
                "seed {seed} change {crash_at}"
            );
            for _ in 0..2 {
                let next = world.run(node, leaders_life(Arc::clone(&led)));
                assert_eq!(next, Ok(()), "seed {seed}, after change {crash_at}");
                world.crash(node);
            }
            crash_at += 4;
        }
    }
}
