//! What the probe will do, told before it does it.
//!
//! The plan names every object that is created, how much is written at which rate, and what
//! remains if the probe is killed. Passwords are not part of it: a store tells its
//! endpoints by host, port and database.

use std::time::Duration;

use crate::hotspot::Hotspot;
use crate::options::Options;
use crate::store::Store;

/// The plan as text.
pub fn plan(options: &Options, store: &Store) -> String {
    let writes = f64::from(options.rate) * f64::from(100 - options.reads) / 100.0;
    let reads = f64::from(options.rate) - writes;
    let all = writes * f64::from(options.seconds);
    let hot = Hotspot::new(options, 0).hot_keys();
    let mut lines = vec!["coeval-probe will".to_owned()];
    for endpoint in store.endpoints() {
        lines.push(format!("  connect  to {endpoint}"));
    }
    lines.push(format!("  create   {}", store.creates()));
    lines.push(format!(
        "  run      {} operations a second for {} s: {reads} reads/s and {writes} writes/s,",
        options.rate, options.seconds
    ));
    lines.push(format!(
        "           about {all:.0} writes of 8 bytes in all; {} % of the operations on {hot} of \
         {} keys",
        options.hot_operations, options.keys
    ));
    lines.push(format!("  remove   {}", store.removes()));
    lines.join("\n") + "\n"
}

/// Gives the user time to object. Returns whether the run may begin.
pub async fn countdown(seconds: u32, stop: &mut crate::run::Stop) -> bool {
    eprintln!("It begins in {seconds} s; Ctrl-C ends it. (--yes begins at once.)");
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(seconds.into())) => true,
        () = stop.asked() => false,
    }
}
