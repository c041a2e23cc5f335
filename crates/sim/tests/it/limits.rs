//! Tests that long reads on followers meet their memory limit, on engines and on servers, and
//! that runs in which they do are clean.

use std::time::Duration;

use coeval_sim::{Options, run};

#[test]
fn long_reads_end_at_the_limit() {
    for scenario in [
        "cluster/bank/serializable/memory",
        "servers/seats/read-committed/memory",
    ] {
        let options = Options {
            length: Duration::from_millis(1500),
            ..Options::new(scenario.parse().unwrap(), 0)
        };
        let report = run(&options);
        assert!(report.is_clean(), "{}\n{report}", options.command());
        assert!(report.ended_reads > 0, "{}\n{report}", options.command());
    }
}
