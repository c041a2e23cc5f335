//! Comparators of reads (`coeval.read_comparator`): what each of them asks, and where it reads.

use std::sync::atomic::Ordering::Relaxed;

use coeval_txn::Standing;

use super::*;

impl Two {
    async fn comparing(&self, comparator: &str) -> Wire {
        let mut wire = self.client().await;
        let set = format!("set coeval.read_comparator = {comparator}");
        wire.rows(&set).await;
        // The home session opens with a question of its own.
        wire.query(WHO).await;
        wire
    }

    /// Questions that are shared, questions of one reader, those that are to be asked later,
    /// and those that were.
    fn asked(&self) -> [u64; 4] {
        let tables = &self.tables;
        [
            &tables.questions,
            &tables.alone,
            &tables.later,
            &tables.insisted,
        ]
        .map(|counter| counter.load(Relaxed))
    }
}

#[test]
fn comparators_differ_in_whom_they_ask() {
    run(async |two| {
        for (comparator, expected, each) in [
            ("none", "home", [1, 0, 0, 0]),
            ("single", "leader", [0, 0, 0, 0]),
            ("weak", "home", [0, 0, 0, 0]),
            ("alone", "home", [0, 1, 0, 0]),
            ("basic", "home", [0, 1, 0, 0]),
            // No client writes: after a while it asks.
            ("adaptive", "home", [0, 0, 1, 1]),
        ] {
            let mut wire = two.comparing(comparator).await;
            let before = two.asked();
            for _ in 0..3 {
                assert_eq!(who(&wire.query(WHO).await), expected, "{comparator}");
            }
            let after = two.asked();
            for kind in 0..4 {
                let asked = after[kind] - before[kind];
                assert_eq!(asked, 3 * each[kind], "{comparator}, {kind}");
            }
        }
        let mut wire = two.comparing("single").await;
        wire.rows("set coeval.read_comparator = none").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
    });
}

#[test]
fn only_superusers_may_have_reads_go_other_ways() {
    run(async |two| {
        let mut bob = two.client_as("bob").await;
        let refused = bob.query("set coeval.read_comparator = weak").await;
        assert_eq!(error(&refused).sqlstate(), "42501");
        let mut ada = two.client().await;
        let refused = ada.query("set coeval.read_comparator = often").await;
        assert_eq!(error(&refused).sqlstate(), "22023");
    });
}

#[test]
fn basic_reads_what_is_here_and_leaves_the_rest_to_the_leader() {
    run(async |two| {
        let mut wire = two.comparing("basic").await;
        let tables = &two.tables;
        for (standing, expected) in [
            (Standing::LacksLog, "leader"),
            (Standing::Uncommitted, "leader"),
            (Standing::Replays, "home"),
            (Standing::Shows, "home"),
        ] {
            *tables.standing.lock().unwrap() = standing;
            let begun = two.begun();
            assert_eq!(who(&wire.query(WHO).await), expected, "{standing:?}");
            assert_eq!(two.begun() > begun, expected == "home", "{standing:?}");
        }
        assert!(tables.is_silent.load(Relaxed), "its answers move nothing");
        // What is not replayed is waited for; the answer to a question that is lost is not.
        *tables.standing.lock().unwrap() = Standing::Replays;
        tables.loses.store(true, Relaxed);
        assert_eq!(who(&wire.query(WHO).await), "leader");
        *tables.standing.lock().unwrap() = Standing::Shows;
        assert_eq!(who(&wire.query(WHO).await), "leader");
    });
}

#[test]
fn adaptive_reads_are_spared_or_ask_after_a_while() {
    run(async |two| {
        let mut wire = two.comparing("adaptive").await;
        wire.rows("set coeval.read_comparator_wait = '1h'").await;
        let before = two.asked();
        // Another answer of the leader has come before the read looks.
        two.tables.spares.store(true, Relaxed);
        assert_eq!(who(&wire.query(WHO).await), "home");
        let after = two.asked();
        assert_eq!((after[2] - before[2], after[3] - before[3]), (1, 0));
        // None comes: the read goes to the leader as one does whose question is not answered.
        two.tables.spares.store(false, Relaxed);
        assert_eq!(who(&wire.query(WHO).await), "leader");
        wire.rows("set coeval.read_comparator_wait = '0'").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        assert_eq!(two.asked()[3] - before[3], 1);
    });
}
