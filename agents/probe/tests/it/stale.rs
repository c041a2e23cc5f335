//! A store that is stale on purpose, for 200 ms: Γ must show it, and no more than it.
//!
//! The store speaks as much of Redis's protocol as the probe does. It listens twice, as a
//! primary and as its replica, over one map behind one lock. When as many writes have come
//! as the test says, the replica answers from a copy of the map for 200 ms.
//!
//! A stale read started at the latest when the last stale answer was given, and what it
//! missed was written at the earliest when the copy was taken. So Γ is at most the time
//! between the two, however slow the machine is.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::command::{SHORT, probe};

const STALE: Duration = Duration::from_millis(200);

type Map = BTreeMap<String, String>;

#[derive(Default)]
struct State {
    map: Map,
    writes: usize,
    /// When and of what the copy was taken.
    copy: Option<(Instant, Map)>,
    /// When the last answer from the copy was given, after it was taken.
    stale_for: Duration,
}

struct Store {
    state: Mutex<State>,
    /// The number of writes after which the replica is stale.
    stale_after: Option<usize>,
}

/// Starts the store, and returns the endpoints of its primary and its replica.
fn start(stale_after: Option<usize>) -> (Arc<Store>, [String; 2]) {
    let store = Arc::new(Store {
        state: Mutex::default(),
        stale_after,
    });
    let endpoints = [false, true].map(|is_replica| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let store = store.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let store = store.clone();
                std::thread::spawn(move || serve(&store, stream.unwrap(), is_replica));
            }
        });
        format!("redis://{address}")
    });
    (store, endpoints)
}

fn serve(store: &Store, mut stream: TcpStream, is_replica: bool) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut from = BufReader::new(stream.try_clone().ok()?);
    loop {
        let command = command(&mut from)?;
        let answer = answer(store, &command, is_replica);
        stream.write_all(answer.as_bytes()).ok()?;
    }
}

/// An array of strings; `None` at the end.
fn command(from: &mut impl BufRead) -> Option<Vec<String>> {
    let number = |kind: char, from: &mut dyn BufRead| {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        line.trim_end().strip_prefix(kind)?.parse::<usize>().ok()
    };
    let count = number('*', from)?;
    let words = (0..count).map(|_| {
        let length = number('$', from)?;
        let mut word = vec![0; length + 2];
        from.read_exact(&mut word).ok()?;
        word.truncate(length);
        String::from_utf8(word).ok()
    });
    words.collect()
}

fn answer(store: &Store, command: &[String], is_replica: bool) -> String {
    let mut guard = store.state.lock().unwrap();
    let state = &mut *guard;
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    match (words[0].to_ascii_uppercase().as_str(), &words[1..]) {
        ("GET", [key]) => {
            let mut map = &state.map;
            if let Some((taken, copy)) = &state.copy
                && is_replica
                && taken.elapsed() < STALE
            {
                map = copy;
                state.stale_for = taken.elapsed();
            }
            match map.get(*key) {
                Some(value) => format!("${}\r\n{value}\r\n", value.len()),
                None => "$-1\r\n".to_owned(),
            }
        }
        ("SET", [key, value, ..]) => {
            if store.stale_after == Some(state.writes) {
                state.copy = Some((Instant::now(), state.map.clone()));
            }
            state.writes += 1;
            state.map.insert((*key).to_owned(), (*value).to_owned());
            "+OK\r\n".to_owned()
        }
        ("EXISTS", keys) => {
            let there = keys.iter().filter(|key| state.map.contains_key(**key));
            format!(":{}\r\n", there.count())
        }
        ("DEL", keys) => {
            let there = keys.iter().filter(|key| state.map.remove(**key).is_some());
            format!(":{}\r\n", there.count())
        }
        _ => "+OK\r\n".to_owned(),
    }
}

fn run(endpoints: &[String; 2]) -> super::command::Said {
    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    probe(&[&endpoints, &SHORT[..], &["--hot-operations-percent=100"]].concat())
}

#[test]
fn a_spike_is_seen_and_is_no_higher_than_it_was() {
    // The first 20 writes are those of the first values.
    let (store, endpoints) = start(Some(60));
    let said = run(&endpoints);
    assert_eq!(said.code, 1, "{}\n{}", said.out, said.error);
    let json = said.json();
    let state = store.state.lock().unwrap();
    let gamma = Duration::from_nanos(json["gamma_ns"].as_u64().unwrap());
    assert!(
        gamma <= state.stale_for,
        "{gamma:?} of {:?}",
        state.stale_for
    );
    assert!(
        gamma > STALE / 2,
        "{gamma:?} of {:?}: {json}",
        state.stale_for
    );
    assert_eq!(json["impossible"], 0);
    assert!(state.map.is_empty());
}

#[test]
fn without_the_fault_there_is_none() {
    let (store, endpoints) = start(None);
    let said = run(&endpoints);
    assert_eq!(said.code, 0, "{}\n{}", said.out, said.error);
    assert_eq!(said.json()["gamma_ns"], 0);
    let state = store.state.lock().unwrap();
    assert!(state.writes > 60 && state.stale_for.is_zero());
}
