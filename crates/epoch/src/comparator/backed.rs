//! A backup for each front end, as the text has it (§3.5.1), around any engine: what a transaction is
//! about to write is known elsewhere before its first operation leaves, and its outcome before its
//! client is told. So another node could end what a dead front end has left.
//!
//! ```text
//!   front end 1 (node 1)                     backup (node 2)
//!   put {a, b}   ── intent 7: a, b ────────▶ kept
//!                ◀── kept 7 ────────────────
//!   … the transaction, as without a backup …
//!   committed    ── outcome 7 ─────────────▶ forgotten
//!                ◀── noted 7 ───────────────
//!   the client is answered
//! ```
//!
//! Reads leave nothing behind, and go without. What is to be said to a backup at one time is one
//! payload, whose first byte tells it from one of the engine's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use coeval_council::NodeId;

use crate::answer::Answer;
use crate::codec::{Malformed, Reader, put_bytes, put_u64};
use crate::engine::{Engine, Turn};
use crate::operation::{Key, Write};
use crate::wire::{list, put_count};

/// First byte of the engine's payloads, and of ours.
const ENGINE: u8 = 0;
const OURS: u8 = 1;

const INTENT: u8 = 1;
const KEPT: u8 = 2;
const OUTCOME: u8 = 3;
const NOTED: u8 = 4;

/// What is said between a front end and its backup, of the front end's transactions by number.
#[derive(Debug)]
enum Word {
    Intent(u64, Arc<Vec<Key>>),
    Kept(u64),
    Outcome(u64),
    Noted(u64),
}

/// An engine whose front end has a backup on another node. See the module.
#[derive(Debug)]
pub struct BackedFrontEnd<E> {
    engine: E,
    backup: NodeId,
    next: u64,
    /// Transactions whose intent is not kept yet.
    intended: BTreeMap<u64, (u64, Vec<Write>)>,
    /// Transactions that the engine runs: their numbers by their handles.
    running: BTreeMap<u64, u64>,
    /// Answers whose outcome is not noted yet.
    answered: BTreeMap<u64, (u64, Answer)>,
    answers: Vec<(u64, Answer)>,
    /// What this node keeps as a backup of others.
    kept: BTreeMap<(NodeId, u64), Arc<Vec<Key>>>,
    said: BTreeMap<NodeId, Vec<Word>>,
}

impl<E: Engine> BackedFrontEnd<E> {
    /// An engine, and the node that backs its front end up.
    pub fn new(engine: E, backup: NodeId) -> Self {
        Self {
            engine,
            backup,
            next: 1,
            intended: BTreeMap::new(),
            running: BTreeMap::new(),
            answered: BTreeMap::new(),
            answers: Vec::new(),
            kept: BTreeMap::new(),
            said: BTreeMap::new(),
        }
    }

    /// Keys of transactions under way that this node keeps for a front end.
    #[must_use]
    pub fn kept_for(&self, front_end: NodeId) -> BTreeSet<Key> {
        let kept = self.kept.range((front_end, 0)..=(front_end, u64::MAX));
        kept.flat_map(|(_, keys)| keys.iter().cloned()).collect()
    }

    fn say(&mut self, to: NodeId, word: Word) {
        self.said.entry(to).or_default().push(word);
    }

    fn hear(&mut self, from: NodeId, word: Word) {
        match word {
            Word::Intent(number, keys) => {
                self.kept.insert((from, number), keys);
                self.say(from, Word::Kept(number));
            }
            Word::Kept(number) => {
                if let Some((handle, writes)) = self.intended.remove(&number) {
                    self.running.insert(handle, number);
                    self.engine.put_all(handle, writes);
                }
            }
            Word::Outcome(number) => {
                self.kept.remove(&(from, number));
                self.say(from, Word::Noted(number));
            }
            Word::Noted(number) => self.answers.extend(self.answered.remove(&number)),
        }
    }
}

impl<E: Engine> Engine for BackedFrontEnd<E> {
    fn put_all(&mut self, handle: u64, writes: Vec<Write>) {
        let number = self.next;
        self.next += 1;
        let keys = writes.iter().map(|write| write.key.clone()).collect();
        self.intended.insert(number, (handle, writes));
        self.say(self.backup, Word::Intent(number, Arc::new(keys)));
    }

    fn get_latest(&mut self, handle: u64, keys: Vec<Key>) {
        self.engine.get_latest(handle, keys);
    }

    fn receive(&mut self, from: NodeId, payload: Bytes) -> Result<(), Malformed> {
        match payload.first() {
            Some(&ENGINE) => self.engine.receive(from, payload.slice(1..)),
            Some(&OURS) => {
                let mut reader = Reader::new(payload.slice(1..));
                let words = list(&mut reader, take_word)?;
                reader.end()?;
                words.into_iter().for_each(|word| self.hear(from, word));
                Ok(())
            }
            _ => Err(Malformed),
        }
    }

    fn tick(&mut self) {
        self.engine.tick();
    }

    fn persisted(&mut self, number: u64) {
        self.engine.persisted(number);
    }

    fn take(&mut self) -> Turn {
        let mut turn = self.engine.take();
        for (handle, answer) in std::mem::take(&mut turn.answers) {
            match self.running.remove(&handle) {
                Some(number) => {
                    self.answered.insert(number, (handle, answer));
                    self.say(self.backup, Word::Outcome(number));
                }
                None => self.answers.push((handle, answer)),
            }
        }
        for (_, payload) in &mut turn.payloads {
            let marked = [&[ENGINE], &payload[..]].concat();
            *payload = marked.into();
        }
        let said = std::mem::take(&mut self.said).into_iter();
        turn.payloads
            .extend(said.map(|(to, words)| (to, encode(&words))));
        turn.answers = std::mem::take(&mut self.answers);
        turn
    }
}

fn encode(words: &[Word]) -> Bytes {
    let mut out = vec![OURS];
    put_count(&mut out, words.len());
    for word in words {
        let mut head = |kind: u8, number: u64| {
            out.push(kind);
            put_u64(&mut out, number);
        };
        match word {
            Word::Intent(number, keys) => {
                head(INTENT, *number);
                put_count(&mut out, keys.len());
                keys.iter().for_each(|key| put_bytes(&mut out, key));
            }
            Word::Kept(number) => head(KEPT, *number),
            Word::Outcome(number) => head(OUTCOME, *number),
            Word::Noted(number) => head(NOTED, *number),
        }
    }
    out.into()
}

fn take_word(reader: &mut Reader) -> Result<Word, Malformed> {
    let (kind, number) = (reader.u8()?, reader.u64()?);
    Ok(match kind {
        INTENT => Word::Intent(number, Arc::new(list(reader, Reader::bytes)?)),
        KEPT => Word::Kept(number),
        OUTCOME => Word::Outcome(number),
        NOTED => Word::Noted(number),
        _ => return Err(Malformed),
    })
}
