//! Schedules, drawn from a seed.

use super::{Groups, Player};

/// One step of a schedule.
#[derive(Clone, Debug)]
pub enum Step {
    /// Only nodes of one group hear each other from now on.
    Part(Groups),
    /// All others have forgotten their leader, then this node stands.
    Elect(u64),
    /// This node stands, whatever the others have heard.
    Stand(u64),
    /// If this node serves, it is proposed this.
    Propose(u64, Vec<u8>),
    /// All that lead have so many ticks.
    Tick(u32),
    /// A node crashes and comes back.
    Restart(u64),
}

/// Numbers from a seed (SplitMix64).
pub struct Chance(pub u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % limit
    }
}

/// The next step: mostly proposals to those who lead, while there are any.
pub fn next(chance: &mut Chance, nodes: u64, player: &dyn Player) -> Step {
    let node = 1 + chance.below(nodes);
    let leaders: Vec<u64> = (1..=nodes)
        .filter(|node| player.look(*node).leads)
        .collect();
    match chance.below(20) {
        0..3 => {
            let mut groups: Groups = vec![Default::default(), Default::default()];
            let together = chance.below(2) == 0;
            for node in 1..=nodes {
                let group = if together {
                    0
                } else {
                    chance.below(2) as usize
                };
                groups[group].insert(node);
            }
            Step::Part(groups)
        }
        3..6 => Step::Elect(node),
        6 => Step::Stand(node),
        7..9 => Step::Restart(node),
        9 => Step::Tick(super::ELECTION_TICKS),
        10 => Step::Tick(1 + chance.below(4) as u32),
        _ if leaders.is_empty() => Step::Elect(node),
        _ => {
            let leader = leaders[chance.below(leaders.len() as u64) as usize];
            Step::Propose(leader, chance.below(1000).to_string().into_bytes())
        }
    }
}
