//! What the fuzz targets of the folder `fuzz` run, and their corpus replayed.

mod access;
mod conversation;
#[path = "../../../../../fuzz/replay.rs"]
mod replay;
mod settings;

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

#[test]
fn access_files_let_nobody_in_by_mistake() {
    replay::replay("access", access::run);
}

#[test]
fn settings_say_the_same_when_they_are_read_again() {
    replay::replay("settings", settings::run);
}

/// A server ends the session of a panic and goes on, as it should; a fuzzer stops
/// at any panic, and so does this test.
#[test]
fn no_conversation_ends_by_a_mistake_of_the_server() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICKED.set(true);
            before(panic);
        }));
    });
    replay::replay("conversation", |input| {
        conversation::run(input);
        assert!(!PANICKED.get(), "something panicked");
    });
}
