//! The textual form of events in a transcript.

use coeval_consensus::{
    Body, Content, Entry, Message, NodeId, Ready, Request, Role, RoleChange, Status, Write,
};

use crate::message_cluster::Packet;

/// `S3` for a mark, the payload for a proposal, the members for a change; preceded by the
/// index.
pub fn entries(entries: &[Entry]) -> String {
    let words: Vec<String> = entries
        .iter()
        .map(|entry| {
            let what = match &entry.content {
                Content::Mark(_) => format!("S{}", entry.term),
                Content::Membership(membership) => format!("{{{membership}}}"),
                Content::Payload(payload) => String::from_utf8_lossy(payload).into_owned(),
            };
            format!("{}:{what}", entry.end)
        })
        .collect();
    if words.is_empty() {
        "nothing".to_owned()
    } else {
        words.join(" ")
    }
}

fn body(body: &Body) -> String {
    match body {
        Body::VoteRequest {
            last,
            preliminary,
            transfer,
        } => {
            let kind = if *preliminary {
                "would you vote"
            } else {
                "vote"
            };
            let why = if *transfer {
                ", as the leader asked"
            } else {
                ""
            };
            format!("{kind} for me, with {last}{why}?")
        }
        Body::Vote {
            preliminary,
            granted,
        } => {
            let kind = if *preliminary { "I would" } else { "I do" };
            if *granted {
                kind.to_owned()
            } else {
                format!("{kind} not")
            }
        }
        Body::Append {
            previous,
            commit,
            entries: new,
        } => format!(
            "append behind {previous}: {}; committed {commit}",
            entries(new)
        ),
        Body::Appended { matched } => format!("appended {matched}"),
        Body::Heartbeat { commit, round } => format!("heartbeat {round}; committed {commit}"),
        Body::HeartbeatAnswer {
            round,
            verified: None,
        } => format!("heard {round}, my log may not be yours"),
        Body::HeartbeatAnswer {
            round,
            verified: Some(verified),
        } => format!(
            "heard {round}, have {}, on disk {}",
            verified.received, verified.durable
        ),
        Body::Recover(Request::Marks { start, end }) => {
            format!("recover: does a term begin in {start}..{end}?")
        }
        Body::Recover(Request::Check { last }) => format!("recover: do you have {last}?"),
        Body::Recover(Request::From { start }) => format!("recover: all from {start} on"),
        Body::Differs { end, entry } => format!(
            "no: before {end} I have {}",
            entries(std::slice::from_ref(entry))
        ),
        Body::Campaign => "stand for election".to_owned(),
        Body::Stale => "your term is over".to_owned(),
        Body::Ask { .. } => "up to where must I have applied?".to_owned(),
        Body::Asked { at, .. } => format!("up to {at}"),
    }
}

pub fn packet(packet: &Packet) -> String {
    match packet {
        Packet::Message(Message {
            from,
            to,
            term,
            body: said,
        }) => format!("{from}>{to} term {term}: {}", body(said)),
        Packet::Checkpoint {
            from,
            to,
            checkpoint,
        } => format!(
            "{from}>{to} checkpoint {} of {{{}}}",
            checkpoint.position, checkpoint.membership
        ),
    }
}

pub fn role(change: RoleChange) -> String {
    let role = match change.role {
        Role::Follower => match change.leader {
            Some(leader) => format!("follows {leader}"),
            None => "waits".to_owned(),
        },
        Role::PreCandidate => "asks whether to stand".to_owned(),
        Role::Candidate => "stands".to_owned(),
        Role::Leader { serving: false } => "leads".to_owned(),
        Role::Leader { serving: true } => "serves".to_owned(),
    };
    format!("{role} in term {}", change.term)
}

fn write(write: &Write) -> String {
    let mut words = Vec::new();
    if let Some(checkpoint) = &write.install {
        words.push(format!(
            "checkpoint {} in place of its log",
            checkpoint.position
        ));
    }
    if let Some(to) = write.truncate {
        words.push(format!("cut at {to}"));
    }
    if !write.entries.is_empty() {
        words.push(entries(&write.entries));
    }
    let state = write.hard_state;
    let vote = state
        .vote
        .map_or("nobody".to_owned(), |vote| vote.to_string());
    words.push(format!("term {}, vote {vote}", state.term));
    words.join("; ")
}

/// A node's output without its messages, which are listed when they arrive.
pub fn ready(node: NodeId, ready: &Ready) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(change) = ready.role {
        lines.push(format!("  {node} {}", role(change)));
    }
    if let Some(unwritten) = &ready.write {
        lines.push(format!("  {node} writes: {}", write(unwritten)));
    }
    if let Some(committed) = ready.committed {
        lines.push(format!(
            "  {node} applies {}..{}",
            committed.from, committed.to
        ));
    }
    for answer in ready.reads.iter().chain(&ready.asked) {
        let outcome = match &answer.outcome {
            Ok(at) => format!("sees all before {at}"),
            Err(refusal) => format!("is refused: {refusal}"),
        };
        lines.push(format!("  {node} read {} {outcome}", answer.context));
    }
    for to in &ready.checkpoints {
        lines.push(format!("  {node} finds that {to} needs a checkpoint"));
    }
    lines
}

pub fn status(status: &Status, log: &str) -> String {
    format!(
        "  {} {}; {{{}}}; committed {}; log {log}",
        status.id,
        role(status.role),
        status.membership,
        status.commit
    )
}
