//! Tests of what a client is told when the leader is lost.

use super::*;

fn tracker() -> Tracker {
    Tracker::new(Status::Idle, Owed::NOTHING)
}

/// Tracks a client's message; no statement was prepared before.
fn send(tracker: &mut Tracker, message: u8, contents: &[u8]) -> Verdict {
    tracker.client(message, contents, |_| None)
}

fn query(tracker: &mut Tracker, text: &str) {
    let contents = [text.as_bytes(), b"\0"].concat();
    assert_eq!(send(tracker, kind::QUERY, &contents), Verdict::Pass);
}

fn parse(tracker: &mut Tracker, name: &str, text: &str) {
    let contents = format!("{name}\0{text}\0\0\0");
    send(tracker, kind::PARSE, contents.as_bytes());
}

/// Tracks Bind, Execute and Sync of a statement that had this effect at the last
/// ReadyForQuery.
fn run(tracker: &mut Tracker, name: &str, known: Option<Effect>) {
    let contents = format!("\0{name}\0");
    tracker.client(kind::BIND, contents.as_bytes(), |_| known);
    send(tracker, kind::EXECUTE, b"\0\0\0\0\0");
    send(tracker, kind::SYNC, b"");
}

/// The client's messages after the loss: types, with the SQLSTATE of errors and the
/// status of ReadyForQuery.
fn lost(tracker: &mut Tracker) -> String {
    let mut out = Vec::new();
    tracker.lost(&mut out);
    told(&out)
}

fn told(mut out: &[u8]) -> String {
    let mut words = Vec::new();
    while let Some((&message, rest)) = out.split_first() {
        let length = i32::from_be_bytes(*rest.first_chunk().unwrap()) as usize;
        let contents = &rest[4..length];
        words.push(match message {
            answer::READY => format!("Z{}", char::from(contents[0])),
            answer::ERROR => {
                let mut fields = contents.split(|&byte| byte == 0);
                let state = fields.find_map(|field| field.strip_prefix(b"C"));
                String::from_utf8(state.unwrap().to_vec()).unwrap()
            }
            other => char::from(other).to_string(),
        });
        out = &rest[length..];
    }
    words.join(" ")
}

#[test]
fn who_waits_for_nothing_is_told_nothing() {
    let mut tracker = tracker();
    query(&mut tracker, "insert into t values (1)");
    tracker.answered(b'C', b"INSERT 0 1\0");
    tracker.answered(answer::READY, b"I");
    assert_eq!(lost(&mut tracker), "");
    assert!(!tracker.in_transaction());
}

#[test]
fn a_commit_may_have_happened_and_the_rest_has_not() {
    for (status, text, expected) in [
        ("I", "select 1", "40001 ZI"),
        ("I", "begin", "40001 ZI"),
        ("I", "insert into t values (1)", "40003 ZI"),
        ("T", "insert into t values (1)", "40001 ZE"),
        ("T", "commit", "40003 ZI"),
        ("T", "rollback", "40001 ZI"),
        ("T", "select 1; commit", "40003 ZI"),
        ("T", "select 1; select 2", "40001 ZE"),
        ("E", "select 1", "40001 ZE"),
        // What only reads changes nothing, however many statements it is.
        ("I", "select 1; select ';'; table t", "40001 ZI"),
        ("I", "begin; select 1; commit", "40001 ZI"),
        ("I", "with w as (select 1) select * from w", "40001 ZI"),
        ("I", "copy t to stdout", "40001 ZI"),
        ("I", "select 1; insert into t values (1)", "40003 ZI"),
        ("I", "begin; insert into t values (1); commit", "40003 ZI"),
        ("T", "rollback; select 1", "40001 ZI"),
        ("T", "rollback; insert into t values (1)", "40003 ZI"),
        ("T", "insert into t values (1); rollback", "40003 ZI"),
        ("T", "commit; select 1", "40003 ZI"),
    ] {
        let mut tracker = tracker();
        tracker.answered(answer::READY, status.as_bytes());
        query(&mut tracker, text);
        assert_eq!(lost(&mut tracker), expected, "{status} {text}");
    }
}

#[test]
fn every_cycle_is_answered_and_an_open_one_waits_for_sync() {
    let mut tracker = tracker();
    let steps: [(u8, &[u8]); 9] = [
        (kind::PARSE, b"s\0insert into t values (1)\0\0\0"),
        (kind::BIND, b"\0s\0"),
        (kind::EXECUTE, b"\0\0\0\0\0"),
        (kind::SYNC, b""),
        (kind::PARSE, b"\0select 1\0\0\0"),
        (kind::BIND, b"\0\0"),
        (kind::EXECUTE, b"\0\0\0\0\0"),
        (kind::SYNC, b""),
        (kind::PARSE, b"\0select 2\0\0\0"),
    ];
    for (message, contents) in steps {
        assert_eq!(send(&mut tracker, message, contents), Verdict::Pass);
    }
    assert_eq!(lost(&mut tracker), "40003 ZI 40001 ZI 40001");
    assert_eq!(send(&mut tracker, kind::BIND, b"\0\0"), Verdict::Drop);
    assert_eq!(send(&mut tracker, kind::SYNC, b""), Verdict::Ready);
    assert_eq!(send(&mut tracker, kind::BIND, b"\0s\0"), Verdict::Pass);
}

#[test]
fn what_a_commit_behind_it_may_have_committed_is_in_doubt() {
    for (status, texts, expected) in [
        (
            "I",
            &["begin", "insert into t values (1)", "commit"][..],
            "40003 ZI 40003 ZI 40003 ZI",
        ),
        (
            "I",
            &["begin; insert into t values (1)", "commit"],
            "40003 ZI 40003 ZI",
        ),
        (
            "T",
            &["insert into t values (1)", "commit", "select 1"],
            "40003 ZE 40003 ZI 40001 ZI",
        ),
        (
            "I",
            &["select 1", "insert into t values (1)", "select 2"],
            "40001 ZI 40003 ZI 40001 ZI",
        ),
        (
            "T",
            &["insert into t values (1)", "select 2"],
            "40001 ZE 40001 ZE",
        ),
    ] {
        let mut tracker = tracker();
        tracker.answered(answer::READY, status.as_bytes());
        for text in texts {
            query(&mut tracker, text);
        }
        assert_eq!(lost(&mut tracker), expected, "{status} {texts:?}");
    }
}

#[test]
fn what_a_prepared_statement_does_is_what_the_session_carries() {
    let insert = Some(Effect::Change);
    for (status, known, expected) in [
        ("T", insert, "40001 ZE"),
        ("I", insert, "40003 ZI"),
        ("T", Some(Effect::Nothing), "40001 ZE"),
        ("T", None, "40003 ZI"),
    ] {
        let mut tracker = tracker();
        tracker.answered(answer::READY, status.as_bytes());
        run(&mut tracker, "s", known);
        assert_eq!(lost(&mut tracker), expected, "{status} {known:?}");
    }
    // By EXECUTE, too, unless what was asked before may have changed it.
    let execute = b"execute s\0";
    for (known, expected) in [
        (insert, "40003 ZI"),
        (Some(Effect::Nothing), "40001 ZI"),
        (None, "40003 ZI"),
    ] {
        let mut tracker = tracker();
        tracker.client(kind::QUERY, execute, |name| known.filter(|_| name == b"s"));
        assert_eq!(lost(&mut tracker), expected, "{known:?}");
    }
    let mut pipelined = tracker();
    query(&mut pipelined, "prepare s as insert into t values (1)");
    pipelined.client(kind::QUERY, execute, |_| Some(Effect::Nothing));
    assert_eq!(lost(&mut pipelined), "40003 ZI 40003 ZI");
    // A newer statement of that name replaces the known effect.
    let mut tracker = tracker();
    parse(&mut tracker, "s", "select 1");
    run(&mut tracker, "s", insert);
    assert_eq!(lost(&mut tracker), "40001 ZI");
}

#[test]
fn a_parse_that_may_have_been_skipped_says_nothing() {
    for pipelined in [false, true] {
        let mut tracker = tracker();
        parse(&mut tracker, "", "selec 1");
        parse(&mut tracker, "s", "select 1");
        send(&mut tracker, kind::SYNC, b"");
        if pipelined {
            run(&mut tracker, "s", Some(Effect::Change));
        }
        tracker.answered(answer::ERROR, b"");
        if !pipelined {
            run(&mut tracker, "s", Some(Effect::Change));
        }
        tracker.answered(answer::READY, b"I");
        assert_eq!(lost(&mut tracker), "40003 ZI");
    }
}

#[test]
fn names_without_number_or_end_are_in_doubt_and_not_kept() {
    let mut tracker = tracker();
    let long = "x".repeat(LONGEST_NAME + 1);
    parse(&mut tracker, &long, "select 1");
    assert!(tracker.parsed.effects.is_empty());
    run(&mut tracker, &long, None);
    assert_eq!(lost(&mut tracker), "40003 ZI");
    for name in 0..2 * MAX_NAMES {
        parse(&mut tracker, &name.to_string(), "select 1");
    }
    assert_eq!(tracker.parsed.effects.len(), MAX_NAMES);
    run(&mut tracker, &MAX_NAMES.to_string(), None);
    assert_eq!(lost(&mut tracker), "40003 ZI");
}

#[test]
fn an_error_is_told_once() {
    let mut tracker = tracker();
    query(&mut tracker, "insert into t values (1)");
    tracker.answered(answer::ERROR, b"");
    assert_eq!(lost(&mut tracker), "ZI");
    send(&mut tracker, kind::PARSE, b"\0select 1\0\0\0");
    tracker.answered(answer::ERROR, b"");
    assert_eq!(lost(&mut tracker), "");
    assert!(tracker.is_skipping());
}

/// `P! Q S`: the leader skips the Query, and answers the Sync.
#[test]
fn a_query_behind_a_failed_step_is_owed_nothing() {
    for sent_before_the_error in 1..=3 {
        let mut all = tracker();
        let ask = |all: &mut Tracker, which: usize| match which {
            0 => parse(all, "", "selec 1"),
            1 => query(all, "commit"),
            _ => {
                send(all, kind::SYNC, b"");
            }
        };
        (0..sent_before_the_error).for_each(|which| ask(&mut all, which));
        all.answered(answer::ERROR, b"");
        (sent_before_the_error..3).for_each(|which| ask(&mut all, which));
        let mut answered = all;
        answered.answered(answer::READY, b"I");
        assert_eq!(lost(&mut answered), "", "{sent_before_the_error}");
        let mut cut_off = tracker();
        (0..sent_before_the_error).for_each(|which| ask(&mut cut_off, which));
        cut_off.answered(answer::ERROR, b"");
        (sent_before_the_error..3).for_each(|which| ask(&mut cut_off, which));
        assert_eq!(lost(&mut cut_off), "ZI", "{sent_before_the_error}");
        assert!(!cut_off.is_skipping());
    }
    // Without the Sync the client waits for nothing but still owes it.
    let mut tracker = tracker();
    parse(&mut tracker, "", "selec 1");
    query(&mut tracker, "select 1");
    tracker.answered(answer::ERROR, b"");
    query(&mut tracker, "select 2");
    assert!(!tracker.waits());
    assert_eq!(lost(&mut tracker), "");
    assert!(tracker.is_skipping());
}

#[test]
fn a_query_that_fails_behind_answered_steps_is_owed_ready_for_query() {
    let mut tracker = tracker();
    parse(&mut tracker, "", "select 1");
    send(&mut tracker, kind::BIND, b"\0\0");
    send(&mut tracker, kind::DESCRIBE, b"P\0");
    send(&mut tracker, kind::EXECUTE, b"\0\0\0\0\0");
    query(&mut tracker, "selec 1");
    send(&mut tracker, kind::SYNC, b"");
    for message in *b"12TDC" {
        tracker.answered(message, b"");
    }
    tracker.answered(answer::ERROR, b"");
    assert_eq!(lost(&mut tracker), "ZI ZI");
}

#[test]
fn a_copy_swallows_sync_until_its_data_end() {
    let mut tracker = tracker();
    send(&mut tracker, kind::PARSE, b"\0copy t from stdin\0\0\0");
    send(&mut tracker, kind::BIND, b"\0\0");
    send(&mut tracker, kind::EXECUTE, b"\0\0\0\0\0");
    send(&mut tracker, kind::SYNC, b"");
    tracker.answered(answer::COPY_IN, b"");
    send(&mut tracker, kind::COPY_DATA, b"1\n");
    send(&mut tracker, kind::SYNC, b"");
    send(&mut tracker, kind::COPY_DONE, b"");
    send(&mut tracker, kind::SYNC, b"");
    assert_eq!(lost(&mut tracker), "40003 ZI");
    // The server does not commit a COPY whose data have not ended.
    query(&mut tracker, "copy t from stdin");
    tracker.answered(answer::COPY_IN, b"");
    send(&mut tracker, kind::COPY_DATA, b"1\n");
    assert_eq!(lost(&mut tracker), "40001 ZI");
    assert!(!tracker.is_skipping());
}

#[test]
fn a_sync_alone_gets_no_error() {
    let mut tracker = tracker();
    for _ in 0..3 {
        send(&mut tracker, kind::SYNC, b"");
    }
    assert_eq!(lost(&mut tracker), "ZI ZI ZI");
    tracker.answered(answer::READY, b"T");
    send(&mut tracker, kind::SYNC, b"");
    run(&mut tracker, "s", Some(Effect::Change));
    assert_eq!(lost(&mut tracker), "ZE 40001 ZE");
}

#[test]
fn the_rest_of_a_copy_that_has_failed_ends_no_later_one() {
    for is_pipelined in [false, true] {
        let mut tracker = tracker();
        query(&mut tracker, "copy t from stdin");
        tracker.answered(answer::COPY_IN, b"");
        if is_pipelined {
            send(&mut tracker, kind::COPY_DONE, b"");
        }
        tracker.answered(answer::ERROR, b"");
        tracker.answered(answer::READY, b"I");
        if !is_pipelined {
            send(&mut tracker, kind::COPY_DONE, b"");
        }
        query(&mut tracker, "copy t from stdin");
        tracker.answered(answer::COPY_IN, b"");
        assert!(tracker.is_copying());
        assert_eq!(lost(&mut tracker), "40001 ZI");
    }
}

#[test]
fn without_a_leader_each_cycle_is_refused() {
    let mut tracker = tracker();
    let error = Error::new(SqlState("57P03"), "nobody");
    let mut out = Vec::new();
    for message in [kind::QUERY, kind::PARSE, kind::BIND, kind::SYNC, kind::SYNC] {
        tracker.refuse(message, &error, &mut out);
    }
    assert_eq!(told(&out), "57P03 ZI 57P03 ZI ZI");
}

#[test]
fn any_message_that_leads_to_a_commit_begins_a_cycle() {
    let begin = [
        (kind::QUERY, true),
        (kind::FUNCTION_CALL, true),
        (kind::PARSE, true),
        (kind::BIND, true),
        (kind::DESCRIBE, true),
        (kind::EXECUTE, true),
        (kind::CLOSE, true),
        (kind::SYNC, false),
        (kind::FLUSH, false),
    ];
    for (message, begins) in begin {
        let mut tracker = tracker();
        assert_eq!(tracker.begins_cycle(message), begins, "{message}");
        send(&mut tracker, message, b"\0\0");
        // What has begun with a Describe has no other beginning.
        let is_between = matches!(
            message,
            kind::QUERY | kind::FUNCTION_CALL | kind::SYNC | kind::FLUSH
        );
        assert_eq!(tracker.begins_cycle(kind::BIND), is_between, "{message}");
    }
}
