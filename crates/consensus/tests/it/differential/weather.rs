//! Simulated network conditions for packets in flight.

/// A seeded random number generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0) % limit
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let count = from.len() as u64;
        (count > 0).then(|| from[self.below(count) as usize])
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// A link: sender and receiver.
pub type Way = (u64, u64);

/// Order, repetition and loss of packets.
#[derive(Clone, Debug)]
pub enum Weather {
    /// Packets arrive in order, each once.
    Fair,
    /// All packets arrive. The relative speed of links, and which of them deliver twice,
    /// are the same for both players.
    Mixed(u64),
    /// Packets arrive in any order, twice, late or never.
    Storm(Chance),
}

impl Weather {
    /// Splits packets into those that arrive now and those still in flight. `way` returns
    /// `None` for a packet that is never lost.
    pub fn sort<Packet: Clone>(
        &mut self,
        mut packets: Vec<Packet>,
        way: impl Fn(&Packet) -> Option<Way>,
    ) -> (Vec<Packet>, Vec<Packet>) {
        match self {
            Self::Fair => (packets, Vec::new()),
            Self::Mixed(seed) => {
                let place = |packet: &Packet| {
                    let (from, to) = way(packet).unwrap_or_default();
                    mix(*seed ^ (from << 32) ^ (to << 8))
                };
                packets.sort_by_key(place);
                let times = |packet: Packet| {
                    let count = 1 + usize::from(place(&packet).is_multiple_of(3));
                    std::iter::repeat_n(packet, count)
                };
                (packets.into_iter().flat_map(times).collect(), Vec::new())
            }
            Self::Storm(chance) => {
                let (mut now, mut later) = (Vec::new(), Vec::new());
                for packet in packets {
                    let fate = chance.below(10);
                    match fate {
                        0..2 if way(&packet).is_some() => {}
                        2 => later.push(packet),
                        3 => {
                            let at = chance.below(now.len() as u64 + 1) as usize;
                            now.insert(at, packet.clone());
                            later.push(packet);
                        }
                        _ => {
                            let at = chance.below(now.len() as u64 + 1) as usize;
                            now.insert(at, packet);
                        }
                    }
                }
                (now, later)
            }
        }
    }
}
