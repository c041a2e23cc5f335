//! Tests of the history readers and writers.

use coeval_check::history::{self, Format, History, Operation, Outcome, Register, Transaction};
use proptest::prelude::*;

fn edn(text: &str) -> Result<History, String> {
    history::read(text.as_bytes(), Format::Edn).map_err(|error| error.to_string())
}

fn json(text: &str) -> Result<History, String> {
    history::read(text.as_bytes(), Format::JsonLines).map_err(|error| error.to_string())
}

fn written(history: &History, format: Format) -> Vec<u8> {
    let mut text = Vec::new();
    history::write(history, format, &mut text).unwrap();
    text
}

#[test]
fn events_of_jepsen_become_transactions() {
    let text = "
        ; what a nemesis does is not ours
        {:type :info, :process :nemesis, :f :start, :value \"cut\", :time 1}
        {:type :invoke, :f :txn, :process 0, :time 10, :value [[:append 3 1] [:r 4 nil]]}
        {:type :invoke, :f :txn, :process 1, :time 12, :value [[:r 3 nil] [:r 9 nil]]}
        {:type :ok, :f :txn, :process 0, :time 20, :value [[:append 3 1] [:r 4 nil]]}
        #jepsen.history.Op{:type :info :f :txn :process 1 :time 22 :error [\\\\ 1.5 #{1 2}]
                           :value [[:r 3 nil] #_ left-out [:r 9 [-7, 2N]]]}
        {:type :invoke :process 2 :time 30 :value [[:append 3 2]]}
        {:type :fail :process 2 :time 31}
        {:type :invoke :process 3 :time 32 :value [[:append 3 3]]}";
    let history = edn(text).unwrap();
    let list = |key, elements: Option<&[i64]>| Operation::ReadList {
        key,
        elements: elements.map(<[i64]>::to_vec),
    };
    let append = |element| Operation::Append { key: 3, element };
    let expected = [
        (
            0,
            10,
            Some(20),
            Outcome::Committed,
            vec![append(1), list(4, Some(&[]))],
        ),
        (
            1,
            12,
            None,
            Outcome::Unknown,
            vec![list(3, None), list(9, Some(&[-7, 2]))],
        ),
        (2, 30, Some(31), Outcome::Aborted, vec![append(2)]),
        (3, 32, None, Outcome::Unknown, vec![append(3)]),
    ];
    let expected = expected.map(
        |(process, started, finished, outcome, operations)| Transaction {
            process,
            started,
            finished,
            outcome,
            read_only: false,
            operations,
        },
    );
    assert_eq!(history.transactions, expected);
}

#[test]
fn registers_names_and_single_operations() {
    let history = edn("[{:type :ok, :value [[:w :x 1] [:r :y nil] [:r 1 3]]}]").unwrap();
    // 1 is taken, so :x is 0 and :y is 2.
    assert_eq!(
        history.transactions[0].operations,
        [
            Operation::Write { key: 0, value: 1 },
            Operation::Read {
                key: 2,
                value: Some(Register::Absent)
            },
            Operation::Read {
                key: 1,
                value: Some(Register::Value(3))
            },
        ]
    );
    let history = edn("{:type :ok :f :write :value 5} {:type :ok :f :read :value [7 nil]}");
    let history = history.unwrap();
    assert_eq!(
        history.transactions[0].operations,
        [Operation::Write { key: 0, value: 5 }]
    );
    assert_eq!(
        history.transactions[1].operations,
        [Operation::Read {
            key: 7,
            value: Some(Register::Absent)
        }]
    );
    // Without times, positions in the file count.
    assert!(history.transactions[0].precedes(&history.transactions[1]));
}

#[test]
fn equal_times_are_told_apart_by_their_order() {
    let event = |kind, process| {
        format!("{{:type :{kind} :process {process} :time 0 :value [[:append 1 {process}]]}}\n")
    };
    let text = [
        event("invoke", 0),
        event("ok", 0),
        event("invoke", 1),
        event("ok", 1),
    ]
    .concat();
    let history = edn(&text).unwrap();
    assert!(history.transactions[0].precedes(&history.transactions[1]));
}

#[test]
fn lines_of_json() {
    let text = r#"
{"process":0,"started":10,"finished":25,"outcome":"committed","operations":[["append",3,1],["read_list",3,[1]]]}

{"process":2,"started":15,"outcome":"unknown","read_only":true,"operations":[["write",7,-4],["read",7,null],["read",7,5],["read",7],["read_list",3]]}"#;
    let history = json(text).unwrap();
    let read = |value| Operation::Read { key: 7, value };
    assert_eq!(history.transactions[0].finished, Some(25));
    assert_eq!(history.transactions[1].finished, None);
    assert!(history.transactions[1].read_only);
    assert_eq!(
        history.transactions[1].operations,
        [
            Operation::Write { key: 7, value: -4 },
            read(Some(Register::Absent)),
            read(Some(Register::Value(5))),
            read(None),
            Operation::ReadList {
                key: 3,
                elements: None
            },
        ]
    );
    let events = r#"{"type":"invoke","process":0,"time":4,"value":[["append","x",1],["r","x",null]]}
{"type":"ok","process":0,"time":9,"value":[["append","x",1],["r","x",[1]]]}"#;
    assert_eq!(
        json(events).unwrap().transactions[0].operations,
        [
            Operation::Append { key: 0, element: 1 },
            Operation::ReadList {
                key: 0,
                elements: Some(vec![1])
            },
        ]
    );
}

#[test]
fn one_array_of_json_is_read_like_lines() {
    let events = [
        r#"{"index":0,"type":"invoke","process":0,"f":"txn","value":[["append","x]",1]]}"#,
        r#"{"index":1,"type":"ok","process":0,"f":"txn","value":[["append","x]",1]]}"#,
        r#"{"index":2,"type":"invoke","process":1,"f":"txn","value":[["r","x]",null],["r","\"[",null]]}"#,
        r#"{"index":3,"type":"ok","process":1,"f":"txn","value":[["r","x]",[1]],["r","\"[",null]]}"#,
    ];
    let lines = json(&events.join("\n")).unwrap();
    assert_eq!(lines.transactions.len(), 2);
    assert_eq!(
        lines.transactions[1].operations[0],
        Operation::ReadList {
            key: 0,
            elements: Some(vec![1])
        }
    );
    for text in [
        format!("[{}]", events.join(",")),
        format!("\n [\n{}\n ]\n", events.join("\n ,\n")),
        format!("[{}]", events.join(",").replace(":[[", ":\n[\n  [")),
    ] {
        assert_eq!(json(&text), Ok(lines.clone()), "{text}");
    }
    assert_eq!(json(" []\n"), Ok(History::default()));
    let transaction = r#"{"process":0,"started":10,"finished":25,"outcome":"committed","operations":[["append",3,1]]}"#;
    assert_eq!(json(&format!("[{transaction}]")), json(transaction));
}

#[test]
fn what_a_client_was_not_told_need_not_be_readable() {
    let tried = "{:type :invoke :process 1 :value [[:append 1 1] [:r 1 nil]] :time 6}";
    for (kind, outcome) in [("info", Outcome::Unknown), ("fail", Outcome::Aborted)] {
        for said in [":timed-out", "4", "[[:append 1 :x]]", "{:a 1}", "[1 2]"] {
            let told = format!("{{:type :{kind} :process 1 :value {said} :time 7}}");
            let history = edn(&format!("{tried}{told}")).unwrap();
            assert_eq!(history.transactions[0].outcome, outcome);
            assert_eq!(
                history.transactions[0].operations,
                [
                    Operation::Append { key: 1, element: 1 },
                    Operation::ReadList {
                        key: 1,
                        elements: None
                    }
                ]
            );
            // No other event contains the attempted operations.
            let error = edn(&told).unwrap_err();
            assert!(error.starts_with("line 1, column 1: "), "{error}");
        }
    }
    let single = "{:type :invoke :process 1 :f :read :value nil :time 6}
                  {:type :info :process 1 :f :read :value :timed-out :time 7}";
    assert_eq!(edn(single).unwrap().transactions[0].operations.len(), 1);
    // A committed transaction needs its operations.
    let error = edn(&format!(
        "{tried}{{:type :ok :process 1 :value :done :time 7}}"
    ));
    assert!(error.unwrap_err().contains("sequence of operations"));
}

#[test]
fn what_is_no_history_is_refused_where_it_goes_wrong() {
    let edn_cases = [
        (
            "{:type :ok",
            "line 1, column 1: what is opened here is not closed",
        ),
        (
            "\n  {:type}",
            "line 2, column 3: a key of this map has no value",
        ),
        (
            "[{:type :ok}",
            "line 1, column 13: the sequence of events does not end",
        ),
        (
            "{:type :ok} ]",
            "line 1, column 13: ']' closes what was not opened",
        ),
        (
            "{:type :ok :value \"é",
            "line 1, column 19: this text is not closed",
        ),
        (
            "\"é\" {:type :ok}",
            "line 1, column 1: an event is a map, not a word",
        ),
        ("{:process 1}", "line 1, column 1: an event has a type"),
        ("{:type :okay}", "type \"okay\" is none of"),
        (
            "{:type :ok :process -1}",
            "process -1: they are numbered from 0",
        ),
        ("{:type :ok :time :now}", "a time is a number, not a word"),
        ("{:type :ok :time -4}", "time -4: it counts from 0 up"),
        (
            "{:type :ok :time 4} {:type :ok}",
            "column 21: some events have a time",
        ),
        (
            "{:type :ok :f :cas :value 4}",
            "f \"cas\" is none of txn, read, write",
        ),
        ("{:type :ok :value [[:append 1]]}", "an operation is"),
        (
            "{:type :ok :value [[:add 1 2]]}",
            "operation \"add\" is none of append, r, w",
        ),
        (
            "{:type :ok :value [[:append 1 :x]]}",
            "an element is a number, not a word",
        ),
        (
            "{:type :ok :value [[:append nil 1]]}",
            "a key is a number or a word, not nil",
        ),
        (
            "{:type :ok :value [[:append 1 99999999999999999999]]}",
            "column 31: 99999999999999999999 does not fit into 64 bits",
        ),
        (
            "{:type :ok :value [[:append 1 1] [:w 1 1]]}",
            "a list here and a register there",
        ),
        (
            "{:type :invoke} {:type :invoke}",
            "column 17: process 0 invokes while",
        ),
        (
            "{:type :ok :process 1} {:type :invoke} {:type :ok}",
            "line 1, column 1: this was completed and never invoked",
        ),
        (
            "{:type :invoke} {:type :ok}\n {:type :ok}",
            "line 2, column 2: this was completed and never invoked",
        ),
    ];
    for (text, expected) in edn_cases {
        let error = edn(text).unwrap_err();
        assert!(error.contains(expected), "{text}\n  {error}");
    }
    let deep = format!("{}{}", "{:type :ok :value ", "[".repeat(100_000));
    assert!(edn(&deep).unwrap_err().contains("nest deeper"));

    let json_cases = [
        (
            "{\"process\":0}",
            "line 1, column 13: missing field `started`",
        ),
        ("\n{\"process\":0,", "line 2, column 13: EOF while parsing"),
        ("[", "line 1, column 2: the array does not end"),
        (
            "[{\"type\":\"ok\"} {\"type\":\"ok\"}]",
            "line 1, column 16: between two elements of the array there is a comma, not '{'",
        ),
        (
            "[{\"type\":\"ok\"}]\n]",
            "line 2, column 1: behind the array there is nothing, not ']'",
        ),
        (
            "[\n{\"type\":\"ok\"},\n{\n\"type\":4}]",
            "line 3, column 1: the type of an event is a word, not a number",
        ),
        (
            "[{\"type\":\"ok\"},\n {\"type\":\n  ok}]",
            "line 3, column 3: expected value",
        ),
        ("[{\"type\":\"ok\"},]", "line 1, column 16: EOF"),
        (
            r#"{"process":0,"started":9,"finished":8,"outcome":"aborted","operations":[]}"#,
            "finished before it started",
        ),
        (
            "{\"process\":0,\"started\":9,\"outcome\":\"unknown\",\"operations\":[]}\n\
             {\"process\":0,\"started\":10,\"outcome\":\"committed\",\"operations\":[]}",
            "line 2, column 1: committed, and without finished",
        ),
        (
            r#"{"process":0,"started":9,"finished":null,"outcome":"committed","operations":[]}"#,
            "line 1, column 1: committed, and without finished",
        ),
        (
            r#"{"process":0,"finished":9,"outcome":"committed","operations":[]}"#,
            "missing field `started`",
        ),
        (
            r#"{"process":0,"started":null,"finished":9,"outcome":"committed","operations":[]}"#,
            "line 1, column 27: invalid type: null",
        ),
        (
            r#"{"process":0,"started":9,"outcome":"perhaps","operations":[]}"#,
            "unknown variant `perhaps`",
        ),
        (
            r#"{"process":0,"started":9,"outcome":"aborted","readonly":true,"operations":[]}"#,
            "unknown field `readonly`",
        ),
        (
            r#"{"process":0,"started":9,"outcome":"aborted","operations":[["add",1,2]]}"#,
            "operation \"add\" is none of",
        ),
        (
            r#"{"process":0,"started":9,"outcome":"aborted","operations":[["append",1]]}"#,
            "an operation without an element",
        ),
        (
            r#"{"process":0,"started":9,"outcome":"aborted","operations":[["write",1,2,3]]}"#,
            "at most three parts",
        ),
        (
            r#"{"process":-1,"started":9,"outcome":"aborted","operations":[]}"#,
            "column 13: invalid value",
        ),
    ];
    for (text, expected) in json_cases {
        let error = json(text).unwrap_err();
        assert!(error.contains(expected), "{text}\n  {error}");
    }
}

#[test]
fn names_of_files_say_their_format() {
    assert_eq!(Format::of_name("a/history.edn"), Some(Format::Edn));
    assert_eq!(Format::of_name("a.b.JSONL"), Some(Format::JsonLines));
    assert_eq!(Format::of_name("history"), None);
    assert_eq!(Format::of_name("history.txt"), None);
}

/// Transactions with distinct times, so that events preserve their order.
fn histories(lists: bool) -> impl Strategy<Value = History> {
    let operation = (0..4_u64, any::<i64>(), any::<Option<Vec<i64>>>(), 0..4_u8);
    let transaction = (
        0..3_u64,
        1..9_u64,
        1..9_u64,
        0..3_u8,
        any::<bool>(),
        prop::collection::vec(operation, 1..4),
    );
    prop::collection::vec(transaction, 0..12).prop_map(move |drafts| {
        let mut clocks = [0_u64; 3];
        let transactions = drafts.into_iter().enumerate().map(
            |(index, (process, pause, length, outcome, read_only, operations))| {
                // A process's times increase; each process has residues of its own.
                let clock = &mut clocks[usize::try_from(process).unwrap()];
                *clock += pause;
                let started = *clock * 3 + process;
                *clock += length;
                let finished = *clock * 3 + process;
                let outcome =
                    [Outcome::Committed, Outcome::Aborted, Outcome::Unknown][usize::from(outcome)];
                let learnt = outcome == Outcome::Committed;
                let operations = operations
                    .into_iter()
                    .map(|(key, value, elements, kind)| match (lists, kind) {
                        (true, 0) => Operation::Append {
                            key,
                            element: value,
                        },
                        (true, _) => Operation::ReadList {
                            key,
                            elements: learnt.then(|| elements.unwrap_or_default()),
                        },
                        (false, 0) => Operation::Write { key, value },
                        (false, 1) => Operation::Read {
                            key,
                            value: learnt.then_some(Register::Absent),
                        },
                        (false, _) => Operation::Read {
                            key,
                            value: learnt.then_some(Register::Value(value)),
                        },
                    });
                let known = outcome != Outcome::Unknown;
                Transaction {
                    // After an unknown outcome, a process has no further events.
                    process: if known { process } else { 10 + index as u64 },
                    started,
                    finished: known.then_some(finished),
                    outcome,
                    read_only,
                    operations: operations.collect(),
                }
            },
        );
        History {
            transactions: transactions.collect(),
        }
    })
}

/// Sorts by an order that both histories have.
fn sorted(mut history: History) -> History {
    history
        .transactions
        .sort_by_key(|transaction| (transaction.started, transaction.process));
    history
}

proptest! {
    #[test]
    fn csv_and_pauses_are_read_or_refused(
        columns in prop::sample::select(vec![
            "operation,key,value,started,finished\n",
            "outcome,started_us,_x,finished_s,process,value,key,operation\n",
            "started,duration_ms,node\n",
            "",
        ]),
        lines in "((read|write|r|w|ok|fail|info|k|-1|[0-9]{1,4}|\\.5|\"|,|,,|_|\n| |é){1,6},?){0,40}",
        operations in prop::collection::vec((0..2_u8, 0..3_u64, 0..4_u64, 0..50_u64, 0..9_u64), 0..20),
    ) {
        super::fuzz::history::run(format!("{columns}{lines}").as_bytes());
        // Valid lines, so that the judge has work, and one that is perhaps not.
        let mut text = "operation,key,value,started,finished\n".to_owned();
        for (kind, key, value, started, length) in operations {
            let kind = ["read", "write"][usize::from(kind)];
            text += &format!("{kind},{key},{value},{started},{}\n", started + length);
        }
        super::fuzz::history::run(format!("{text}{lines}").as_bytes());
        super::fuzz::history::run(text.as_bytes());
    }

    #[test]
    fn what_is_written_as_lines_is_read_back(history in histories(true)) {
        let text = written(&history, Format::JsonLines);
        prop_assert_eq!(history::read(&text, Format::JsonLines).unwrap(), history);
    }

    #[test]
    fn what_is_written_as_events_is_read_back(mut history in histories(true)) {
        // Some append shows that the keys are lists.
        for transaction in &mut history.transactions {
            transaction.operations.push(Operation::Append { key: 9, element: 1 });
        }
        let text = written(&history, Format::Edn);
        let read = history::read(&text, Format::Edn).unwrap();
        prop_assert_eq!(sorted(read), sorted(history));
    }

    #[test]
    fn registers_too(history in histories(false)) {
        let text = written(&history, Format::Edn);
        let read = history::read(&text, Format::Edn).unwrap();
        prop_assert_eq!(sorted(read), sorted(history));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[\\[\\]{}() :\"#_\\\\;a-z0-9,.\n-]{0,80}") {
        super::fuzz::history::run(text.as_bytes());
    }

    #[test]
    fn a_history_with_a_wrong_byte_is_read_or_refused(
        history in histories(true),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        edn in any::<bool>(),
    ) {
        let mut text = written(&history, if edn { Format::Edn } else { Format::JsonLines });
        if !text.is_empty() {
            let place = place.index(text.len());
            text[place] = byte;
            super::fuzz::history::run(&text);
        }
    }
}
