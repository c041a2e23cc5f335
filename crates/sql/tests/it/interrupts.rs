//! `pg_cancel_backend` and `pg_terminate_backend` in a cluster that is made up: which sessions of
//! other nodes a statement asks for before it runs.

use std::sync::{Arc, Mutex};

use coeval_sql::instance::{
    Finding, Host, HostMetric, HostSetting, Interruption, SessionElsewhere, SessionsElsewhere,
    Sought, Totals,
};

use crate::client::{must, session};
use crate::engines::{database, occ};

/// A session of another node's client.
const ELSEWHERE: i32 = 2_097_153;

#[derive(Clone, Debug, Default)]
struct Asked {
    sought: Arc<Mutex<Vec<Sought>>>,
    interrupted: Arc<Mutex<Vec<(i32, Interruption)>>>,
}

impl Host for Asked {
    fn settings(&self) -> Vec<HostSetting> {
        Vec::new()
    }

    fn metrics(&self) -> Vec<HostMetric> {
        Vec::new()
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }

    fn started(&self) -> i64 {
        0
    }

    fn sessions_elsewhere(&self, sought: Sought) -> Finding {
        self.sought.lock().unwrap().push(sought);
        let mut found = SessionsElsewhere::default();
        found.add([SessionElsewhere {
            process_id: ELSEWHERE,
            role: 10,
            stay: 1,
        }]);
        Box::pin(std::future::ready(found))
    }

    fn interrupt_elsewhere(&self, session: SessionElsewhere, how: Interruption) {
        let mut interrupted = self.interrupted.lock().unwrap();
        interrupted.push((session.process_id, how));
    }
}

impl Asked {
    /// What was sought, and whom the function has interrupted elsewhere, since the last call.
    fn take(&self) -> (Vec<Sought>, Vec<(i32, Interruption)>) {
        let sought = std::mem::take(&mut *self.sought.lock().unwrap());
        let interrupted = std::mem::take(&mut *self.interrupted.lock().unwrap());
        (sought, interrupted)
    }
}

#[tokio::test]
async fn other_nodes_are_asked_for_sessions_that_the_leader_does_not_know() {
    let database = database(occ()).await;
    let asked = Asked::default();
    database.instance().set_host(Box::new(asked.clone()));
    let mut session = session(&database);
    must(&mut session, "create table t (a bool)").await;
    must(&mut session, "prepare p as select $1::bool").await;
    must(&mut session, "prepare q as select pg_cancel_backend($1)").await;
    let own = must(&mut session, "select pg_backend_pid()").await;
    let own = own[1].trim().to_owned();
    // A session that is here is interrupted here, whatever other nodes would say.
    for call in [
        format!("select pg_cancel_backend({own})"),
        format!("select pg_cancel_backend({own}), pg_cancel_backend(null)"),
        format!("execute q({own})"),
        format!("execute p(pg_cancel_backend({own}))"),
    ] {
        must(&mut session, &call).await;
        assert_eq!(asked.take(), (vec![], vec![]), "{call}");
    }
    let these = |number| vec![Sought::These(vec![number])];
    let canceled = vec![(ELSEWHERE, Interruption::Cancel)];
    for (call, sought) in [
        ("select pg_cancel_backend($)", these(ELSEWHERE)),
        // The same text with another literal is not planned again.
        ("select pg_cancel_backend($)", these(ELSEWHERE)),
        ("execute q($)", these(ELSEWHERE)),
        ("execute p(pg_cancel_backend($))", these(ELSEWHERE)),
        (
            "insert into t select pg_cancel_backend($)",
            these(ELSEWHERE),
        ),
        (
            "select (select pg_cancel_backend($)) from t",
            these(ELSEWHERE),
        ),
        (
            "explain analyze select pg_cancel_backend($)",
            these(ELSEWHERE),
        ),
        (
            "select pg_cancel_backend(v.a) from (values ($)) v (a)",
            vec![Sought::Any],
        ),
    ] {
        let call = call.replace('$', &ELSEWHERE.to_string());
        must(&mut session, &call).await;
        assert_eq!(asked.take(), (sought, canceled.clone()), "{call}");
    }
    let call = format!("select pg_terminate_backend({ELSEWHERE}), pg_cancel_backend({own})");
    must(&mut session, &call).await;
    let ended = vec![(ELSEWHERE, Interruption::Terminate)];
    assert_eq!(asked.take(), (these(ELSEWHERE), ended));
    // A number that is not known before: the leader is asked first, and each call is made once.
    let of_both = format!("from (values ({own}), ({ELSEWHERE}), ({own})) v (a)");
    let of_own = format!("from (values ({own})) v (a)");
    must(&mut session, "truncate t").await;
    for (from, sought, expected) in [
        (&of_own, vec![], vec![]),
        (&of_both, vec![Sought::Any], canceled.clone()),
    ] {
        let call = format!("select pg_cancel_backend(v.a) {from}");
        must(&mut session, &call).await;
        assert_eq!(asked.take(), (sought.clone(), expected.clone()), "{call}");
        must(&mut session, &format!("insert into t {call}")).await;
        assert_eq!(asked.take(), (sought, expected), "insert into t {call}");
    }
    let counted = must(&mut session, "select count(*) from t").await;
    assert_eq!(counted[1], "  4", "what was begun anew left nothing");
    // In a block the statement cannot begin anew.
    must(&mut session, "begin; select 1").await;
    must(
        &mut session,
        &format!("select pg_cancel_backend(v.a) {of_own}"),
    )
    .await;
    assert_eq!(asked.take(), (vec![Sought::Any], vec![]));
    must(&mut session, "commit").await;
    // What was told for an earlier statement is not taken for the next one's.
    must(&mut session, &format!("select pg_cancel_backend({own})")).await;
    must(&mut session, "explain select pg_cancel_backend(8)").await;
    assert_eq!(asked.take(), (vec![], vec![]));
    let said = must(&mut session, "select pg_cancel_backend(8)").await;
    assert_eq!((&*said[1], asked.take()), ("  f", (these(8), vec![])));
}
