//! Clients of a cluster: transactions of some keys each, one after the other, and the check of what
//! is there at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use coeval_epoch::{Answer, EpochTimestamp, Found, Key, Operation, Write};
use coeval_measure::{Chance, Failure};

use crate::net::{Layout, Net};

/// Keys of all transactions under way, about.
pub(crate) const IN_FLIGHT_KEYS: usize = 200_000;
/// Most keys that one point writes: versions of comparators are not collected.
const MOST_WRITTEN: usize = 4_000_000;
/// Keys whose values are checked at the end.
const CHECKED: usize = 64;
/// How long the end is waited for, in steps.
const MOST_STEPS: usize = 50_000_000;

/// All keys that there are, of eight bytes.
pub(crate) fn keys(count: u32) -> Vec<Key> {
    let key = |number: u32| Bytes::copy_from_slice(&u64::from(number).to_be_bytes());
    (0..count).map(key).collect()
}

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Keys of a transaction.
    pub(crate) size: usize,
    /// Per cent of transactions that read.
    pub(crate) reads: u32,
    /// Transactions under way.
    pub(crate) clients: usize,
    /// Processor time of the nodes to spend, after a tenth of it to warm up.
    pub(crate) time: Duration,
}

impl Load {
    /// As many clients as fill a core, of transactions of that many keys.
    pub(crate) fn filling(size: usize, reads: u32, seconds: f64) -> Self {
        Self {
            size,
            reads,
            clients: (IN_FLIGHT_KEYS / size).clamp(20, 5000),
            time: Duration::from_secs_f64(seconds),
        }
    }

    /// The same, of a cluster that is not busy.
    pub(crate) fn light(self) -> Self {
        Self {
            clients: 10,
            ..self
        }
    }
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) transactions: u64,
    /// Processor time of the nodes, and time that passed.
    pub(crate) busy: Duration,
    pub(crate) passed: Duration,
    /// The mean time from a request to its answer.
    pub(crate) latency: Duration,
    pub(crate) size: usize,
}

impl Measured {
    /// Millions of keys in a second of one core.
    pub(crate) fn keys_of_a_core(&self) -> f64 {
        let keys = self.transactions as f64 * self.size as f64;
        keys / self.busy.as_secs_f64() / 1e6
    }

    /// Millions of keys in a second that passed.
    pub(crate) fn keys_a_second(&self) -> f64 {
        let keys = self.transactions as f64 * self.size as f64;
        keys / self.passed.as_secs_f64() / 1e6
    }

    /// Microseconds of processor time of a transaction.
    pub(crate) fn microseconds(&self) -> f64 {
        self.busy.as_secs_f64() * 1e6 / self.transactions.max(1) as f64
    }
}

struct UnderWay {
    begun: Duration,
    client: usize,
    /// Which of the checked keys it writes; `None` for a read.
    writes: Option<Vec<usize>>,
}

struct Clients<'keys> {
    load: Load,
    keys: &'keys [Key],
    chance: Chance,
    next: u64,
    written: usize,
    under_way: BTreeMap<u64, UnderWay>,
    /// Of each checked key: the newest committed transaction.
    newest: Vec<Option<(EpochTimestamp, u64)>>,
}

impl Clients<'_> {
    fn begin(&mut self, net: &mut Net, client: usize) {
        let handle = self.next;
        self.next += 1;
        let mut drawn = BTreeSet::new();
        let mut keys = Vec::with_capacity(self.load.size);
        let mut checked = Vec::new();
        while keys.len() < self.load.size {
            let number = self.chance.below(self.keys.len());
            if drawn.insert(number) {
                keys.push(self.keys[number].clone());
                if number < CHECKED {
                    checked.push(number);
                }
            }
        }
        let reads = self.chance.below(100) < self.load.reads as usize;
        let begun = net.elapsed();
        let node = client % net.len();
        if reads {
            net.request(node, |engine| engine.get_latest(handle, keys));
        } else {
            self.written += keys.len();
            let value = Bytes::copy_from_slice(&handle.to_le_bytes());
            let writes = keys.into_iter().map(|key| Write {
                key,
                operation: Operation::Value(value.clone()),
            });
            let writes = writes.collect();
            net.request(node, |engine| engine.put_all(handle, writes));
        }
        let under_way = UnderWay {
            begun,
            client,
            writes: (!reads).then_some(checked),
        };
        self.under_way.insert(handle, under_way);
    }

    /// Takes in an answer: the client, and how long it has waited.
    fn end(
        &mut self,
        now: Duration,
        handle: u64,
        answer: &Answer,
    ) -> Result<(usize, Duration), Failure> {
        let under_way = self.under_way.remove(&handle);
        let under_way = under_way.ok_or("an answer to no request")?;
        match (answer, under_way.writes) {
            (Answer::Committed(at), Some(checked)) => {
                for number in checked {
                    let newest = &mut self.newest[number];
                    *newest = (*newest).max(Some((*at, handle)));
                }
            }
            (Answer::Values(_, values), None) if values.len() == self.load.size => {}
            (answer, _) => return Err(format!("a request was answered by {answer:?}").into()),
        }
        Ok((under_way.client, now - under_way.begun))
    }
}

/// Runs a load on a new cluster, and checks what is there afterwards.
pub(crate) fn run(layout: &Layout, load: Load, keys: &[Key]) -> Result<Measured, Failure> {
    let mut net = Net::start(layout);
    let mut clients = Clients {
        load,
        keys,
        chance: Chance::new(7),
        next: 1,
        written: 0,
        under_way: BTreeMap::new(),
        newest: vec![None; CHECKED.min(keys.len())],
    };
    for client in 0..load.clients {
        clients.begin(&mut net, client);
    }
    let warm = load.time / 10;
    let mut began: Option<(Duration, Duration)> = None;
    let (mut transactions, mut waited) = (0_u64, Duration::ZERO);
    // Time may pass with nothing to do, where clients wait for epochs.
    let most = load.time * 20 + Duration::from_secs(2);
    loop {
        let answers = net.step()?;
        let now = net.elapsed();
        let is_over = clients.written > MOST_WRITTEN || now > most;
        if began.is_none() && (net.busy() >= warm || now > most / 10) {
            began = Some((net.busy(), now));
        }
        for (handle, answer) in answers {
            let (client, latency) = clients.end(now, handle, &answer)?;
            if began.is_some() {
                transactions += 1;
                waited += latency;
            }
            clients.begin(&mut net, client);
        }
        if let Some((busy, passed)) = began
            && (net.busy() - busy >= load.time || is_over)
        {
            let measured = Measured {
                transactions,
                busy: net.busy() - busy,
                passed: now - passed,
                latency: waited / u32::try_from(transactions.max(1)).unwrap_or(u32::MAX),
                size: load.size,
            };
            check(&mut net, clients)?;
            return match transactions {
                0 => Err("no transaction ended in time".into()),
                _ => Ok(measured),
            };
        }
    }
}

/// Waits for all answers, then reads the checked keys.
fn check(net: &mut Net, mut clients: Clients<'_>) -> Result<(), Failure> {
    let mut steps = 0;
    while !clients.under_way.is_empty() || !net.is_quiet() {
        for (handle, answer) in net.step()? {
            clients.end(net.elapsed(), handle, &answer)?;
        }
        steps += 1;
        if steps > MOST_STEPS {
            return Err("a request has no answer".into());
        }
    }
    let asked: Vec<Key> = clients.keys.iter().take(CHECKED).cloned().collect();
    net.request(0, |engine| engine.get_latest(u64::MAX, asked.clone()));
    for _ in 0..MOST_STEPS {
        let Some((_, answer)) = net.step()?.pop() else {
            continue;
        };
        let Answer::Values(_, values) = answer else {
            return Err("the last read was refused".into());
        };
        let values: BTreeMap<Key, Found> = values.into_iter().collect();
        for (key, newest) in asked.iter().zip(&clients.newest) {
            let expected = newest.map(|(_, handle)| handle.to_le_bytes());
            let found = match values.get(key) {
                Some(Found::Value(value)) => Some(&value[..]),
                _ => None,
            };
            if found != expected.as_ref().map(|bytes| &bytes[..]) {
                return Err(format!("key {key:?} is {found:?}, and not {expected:?}").into());
            }
        }
        return Ok(());
    }
    Err("the last read has no answer".into())
}
