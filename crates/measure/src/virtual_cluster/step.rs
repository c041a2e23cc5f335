//! Event handlers of the simulated cluster.

use std::time::Duration;

use coeval_consensus::{NodeId, Ready, Role};
use coeval_types::Lsn;

use super::machine::Input;
use super::model::{bytes_of, entries_of};
use super::{Cluster, Event, Own};

impl Cluster {
    pub(super) fn happens(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Arrives(message) => {
                let is_lost =
                    self.cut_off.contains(&message.from) || self.cut_off.contains(&message.to);
                if is_lost || self.machine(message.to).node.is_none() {
                    return Ok(());
                }
                if let Some(recovery) = &mut self.recovery {
                    recovery.arrives(&message, self.now);
                }
                self.comes(message.to, Input::Message(message))
            }
            Event::Request { node, input } => {
                if self.machine(node).node.is_some() {
                    return self.comes(node, input);
                }
                self.turn_away(input.client());
                Ok(())
            }
            Event::Ask { client } => {
                self.asks(client);
                Ok(())
            }
            Event::Answer { client } => {
                self.answered(client);
                Ok(())
            }
            Event::Own { node, life, own } if self.machine(node).life == life => {
                self.own(node, own)
            }
            Event::Own { .. } => Ok(()),
        }
    }

    fn own(&mut self, node: NodeId, own: Own) -> Result<(), String> {
        match own {
            Own::Tick => {
                self.after_own(self.model.tick, node, Own::Tick);
                self.comes(node, Input::Tick)
            }
            Own::RoundEnds => self.round_ends(node),
            Own::WriteEnds => {
                let machine = self.machine(node);
                let mut number = 0;
                for write in std::mem::take(&mut machine.writing) {
                    number = write.number;
                    machine.disk.write(write);
                }
                self.comes(node, Input::Persisted(number))?;
                self.begin_writing(node)
            }
            Own::Sent => {
                if let Some((to, message)) = self.machine(node).nic.left() {
                    let added = self.slowed.get(&node).copied().unwrap_or_default();
                    if let Some(message) = message {
                        self.after(self.model.one_way + added, Event::Arrives(message));
                    }
                    self.begin_sending(node, Some(to));
                }
                Ok(())
            }
            Own::Read(fetch) => self.comes(node, Input::Fetched(fetch)),
            Own::Applied(end) => {
                self.applied(node, end);
                Ok(())
            }
        }
    }

    /// Adds an input to the queue of a running node.
    fn comes(&mut self, node: NodeId, input: Input) -> Result<(), String> {
        self.machine(node).inbox.push_back(input);
        self.begin_round(node)
    }

    fn begin_round(&mut self, node: NodeId) -> Result<(), String> {
        if !self.machine(node).begin_round() {
            return Ok(());
        }
        let model = self.model;
        let inputs = &self.machines[&node].round;
        let mut cost: Duration = inputs.iter().map(|input| input.cost(&model)).sum();
        if self.writes_anew && self.is_recovering(node) {
            for input in inputs {
                cost += self.writing_anew(input)?;
            }
        }
        self.after_own(cost, node, Own::RoundEnds);
        Ok(())
    }

    fn is_recovering(&self, node: NodeId) -> bool {
        let recovery = self.recovery.as_ref();
        recovery.is_some_and(|watch| watch.node == node && watch.log_recovered.is_none())
    }

    /// Time to write all entries of a message to the copy, and again in place.
    fn writing_anew(&self, input: &Input) -> Result<Duration, String> {
        let Input::Message(message) = input else {
            return Ok(Duration::ZERO);
        };
        let entries = entries_of(message);
        match &self.files {
            Some(files) => files.replace(entries).map_err(|error| error.to_string()),
            None if entries.is_empty() => Ok(Duration::ZERO),
            None => Ok((self.model.flush + self.model.moving(bytes_of(entries))) * 2),
        }
    }

    fn round_ends(&mut self, node: NodeId) -> Result<(), String> {
        let inputs = std::mem::take(&mut self.machine(node).round);
        for input in inputs {
            let client = input.client();
            let is_write = matches!(input, Input::Write { .. });
            match client {
                Some(client) if is_write => self.propose(node, client),
                Some(client) => self.answer(client),
                None => self.hand_in(node, input)?,
            }
        }
        if let Some(consensus) = &mut self.machine(node).node {
            consensus.tell_commit();
            let ready = consensus.ready();
            self.hand_out(node, ready)?;
        }
        self.look_at_recovery(node);
        self.begin_round(node)
    }

    fn hand_in(&mut self, node: NodeId, input: Input) -> Result<(), String> {
        let machine = self.machine(node);
        let Some(consensus) = &mut machine.node else {
            return Ok(());
        };
        let result = match input {
            Input::Message(message) => consensus.receive(message),
            Input::Tick => {
                consensus.tick();
                Ok(())
            }
            Input::Persisted(number) => consensus.persisted(number),
            Input::Fetched(fetch) => consensus.fetched(fetch, Some(machine.disk.fetch(fetch))),
            Input::Write { .. } | Input::Read { .. } => Ok(()),
        };
        result.map_err(|refusal| format!("node {node} refuses: {refusal}"))
    }

    fn hand_out(&mut self, node: NodeId, ready: Ready) -> Result<(), String> {
        if let Some(change) = ready.role {
            let machine = self.machine(node);
            machine.role = change.role;
            if !matches!(change.role, Role::Leader { .. }) {
                let waiting = std::mem::take(&mut machine.waiting);
                self.turn_away(waiting.into_iter().map(|waiting| waiting.client));
            }
        }
        if let Some(write) = ready.write {
            self.machine(node).writes.push_back(write);
            self.begin_writing(node)?;
        }
        for message in ready.messages {
            self.machine(node).nic.push(message);
        }
        self.begin_sending(node, None);
        for fetch in ready.fetches {
            let places = fetch.entries.min((fetch.end.0 - fetch.from.0) as usize);
            let taken = match &self.files {
                Some(files) => files
                    .read(fetch.from, places)
                    .map_err(|error| error.to_string())?,
                None => self.model.moving(places as u64 * 136),
            };
            self.after_own(taken, node, Own::Read(fetch));
        }
        if let Some(committed) = ready.committed {
            self.acknowledge(node, committed.to.end);
            self.apply(node, committed.to.end);
        }
        Ok(())
    }

    fn begin_writing(&mut self, node: NodeId) -> Result<(), String> {
        if !self.machine(node).begin_writing() {
            return Ok(());
        }
        let writes = &self.machines[&node].writing;
        let taken = match &self.files {
            Some(files) if self.is_recovering(node) => {
                let mut taken = Duration::ZERO;
                for write in writes {
                    let result = files.write(&write.entries);
                    taken += result.map_err(|error| error.to_string())?;
                }
                taken
            }
            _ => {
                let bytes = writes.iter().map(|write| bytes_of(&write.entries));
                self.model.flush + self.model.moving(bytes.sum())
            }
        };
        self.after_own(taken, node, Own::WriteEnds);
        Ok(())
    }

    fn begin_sending(&mut self, node: NodeId, last: Option<NodeId>) {
        if let Some(bytes) = self.machine(node).nic.begin(last) {
            self.after_own(self.model.sending(bytes), node, Own::Sent);
        }
    }

    /// Applies committed entries on a node that does not have all of them yet.
    fn apply(&mut self, node: NodeId, end: Lsn) {
        let (now, replay) = (self.now, self.model.replay);
        let machine = self.machine(node);
        let count = end.0.saturating_sub(machine.handed.0);
        machine.handed = machine.handed.max(end);
        if machine.is_whole {
            return;
        }
        let took = replay * u32::try_from(count).unwrap_or(u32::MAX);
        machine.applying = machine.applying.max(now) + took;
        let wait = machine.applying - now;
        self.after_own(wait, node, Own::Applied(end));
    }

    fn applied(&mut self, node: NodeId, end: Lsn) {
        let is_settled = !self.is_recovering(node);
        let now = self.now;
        let machine = self.machine(node);
        if !is_settled || machine.is_whole || end < machine.handed {
            return;
        }
        machine.is_whole = true;
        if let Some(recovery) = &mut self.recovery
            && recovery.node == node
        {
            recovery.state_recovered = Some(now);
        }
    }

    /// Checks whether the recovering node's log equals the leader's, up to its original
    /// end.
    fn look_at_recovery(&mut self, node: NodeId) {
        let leader = self.leader();
        let end = leader.and_then(|leader| self.last(leader));
        let Some(recovery) = &mut self.recovery else {
            return;
        };
        let Some(consensus) = &self.machines[&node].node else {
            return;
        };
        if recovery.node != node || recovery.log_recovered.is_some() || recovery.heard.is_none() {
            return;
        }
        let Some(end) = end else { return };
        let status = consensus.status();
        let wanted = recovery.last.min(end.end).max(Lsn(1));
        if recovery.requests > 0 && status.verified >= wanted && status.durable >= wanted {
            recovery.log_recovered = Some(self.now);
            let handed = self.machine(node).handed;
            self.apply(node, handed);
        }
    }
}
