//! How the server is, from before it is ready until it has stopped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::shared::Shared;

/// What the server is at.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<Phase>);

#[derive(Debug, Default)]
enum Phase {
    /// It reads back what it was told before.
    #[default]
    Recovering,
    Ready(Weak<Shared>),
    Stopping,
}

impl Health {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on there is somebody to ask.
    pub(crate) fn ready(&self, shared: &Arc<Shared>) {
        *self.phase() = Phase::Ready(Arc::downgrade(shared));
    }

    pub(crate) fn stopping(&self) {
        *self.phase() = Phase::Stopping;
    }

    /// The server, while it is ready.
    pub(super) fn shared(&self) -> Option<Arc<Shared>> {
        match &*self.phase() {
            Phase::Ready(shared) => shared.upgrade(),
            Phase::Recovering | Phase::Stopping => None,
        }
    }

    /// Whether clients will be served, and the same as a JSON object.
    pub(super) fn report(&self) -> (bool, String) {
        let status = |status: &str| (false, object(&[("status", status)]));
        let shared = match &*self.phase() {
            Phase::Recovering => return status("recovering"),
            Phase::Stopping => return status("stopping"),
            Phase::Ready(shared) => shared.upgrade(),
        };
        let Some(shared) = shared else {
            return status("stopping");
        };
        let failure = shared.failure.borrow().clone();
        match failure {
            Some(reason) => (false, object(&[("status", "failed"), ("reason", &reason)])),
            None => {
                let version = ("version", env!("CARGO_PKG_VERSION"));
                (true, object(&[("status", "ready"), version]))
            }
        }
    }
}

/// A JSON object of strings, on a line.
fn object(members: &[(&str, &str)]) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{}:{}", string(name), string(value)))
        .collect();
    format!("{{{}}}\n", members.join(","))
}

fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => quoted.push_str(&format!("\\u{:04x}", control as u32)),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_json() {
        let text = "a \"b\" \\ \n\u{1} ä";
        let parsed: serde_json::Value = serde_json::from_str(&string(text)).unwrap();
        assert_eq!(parsed, text);
    }

    #[test]
    fn it_recovers_until_it_is_ready() {
        let health = Health::default();
        assert_eq!(
            health.report(),
            (false, "{\"status\":\"recovering\"}\n".to_owned())
        );
        assert!(health.shared().is_none());
        health.stopping();
        assert_eq!(
            health.report(),
            (false, "{\"status\":\"stopping\"}\n".to_owned())
        );
    }
}
