//! Tests of histories in which a value was written twice: a read of it does not identify
//! its writer, so every judge rejects the history, and names the two transactions.

use coeval_check::history::{self, Format, History};
use coeval_check::transactions::{self, Level, Unjudgeable};
use coeval_check::{recency, registers};

fn lines(text: &str) -> History {
    history::read(text.as_bytes(), Format::JsonLines).unwrap()
}

/// Two transactions that write 1 to key 1, and a reader of it that misses the second one's
/// write to another key. If the reader saw the first one's value, nothing is wrong.
fn twice(outcomes: [&str; 2], write: &str, read: &str) -> History {
    let finished = |outcome: &str| match outcome {
        "unknown" => "",
        _ => "\"finished\":20,",
    };
    let [first, second] = outcomes;
    lines(&format!(
        r#"{{"process":0,"started":10,{}"outcome":"{first}","operations":[["{write}",1,1]]}}
{{"process":1,"started":10,{}"outcome":"{second}","operations":[["{write}",1,1],["{write}",2,6]]}}
{{"process":3,"started":70,"finished":80,"outcome":"committed","operations":[{read}]}}"#,
        finished(first),
        finished(second)
    ))
}

const OUTCOMES: [&str; 3] = ["committed", "aborted", "unknown"];

#[test]
fn whoever_wrote_them_they_are_refused_by_name() {
    for (write, read) in [
        ("write", r#"["read",1,1],["read",2,null]"#),
        ("append", r#"["read_list",1,[1]],["read_list",2,[]]"#),
    ] {
        for first in OUTCOMES {
            for second in OUTCOMES {
                let history = twice([first, second], write, read);
                let refused = Unjudgeable::WrittenTwice {
                    key: 1,
                    value: 1,
                    by: [0, 1],
                };
                let isolation = transactions::judge(&history, &[Level::Serializable]);
                assert_eq!(
                    isolation,
                    Err(refused.clone()),
                    "{write}, {first}, {second}"
                );
                if write == "write" {
                    let registers = registers::judge(&history);
                    assert_eq!(registers, Err(refused.clone()), "{first}, {second}");
                }
                let recency = recency::judge(&history);
                assert_eq!(recency, Err(refused.clone()), "{write}, {first}, {second}");
                let sessions = recency::sessions::judge(&history);
                assert_eq!(sessions, Err(refused), "{write}, {first}, {second}");
            }
        }
    }
}
