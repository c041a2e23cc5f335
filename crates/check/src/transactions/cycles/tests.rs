//! Tests of the cycle search against cyclic relations.

use super::*;

type Matrix = [[bool; 6]; 6];

fn compose(a: &Matrix, b: &Matrix) -> Matrix {
    let mut both = Matrix::default();
    for (from, row) in both.iter_mut().enumerate() {
        for (to, cell) in row.iter_mut().enumerate() {
            *cell = (0..6).any(|via| a[from][via] && b[via][to]);
        }
    }
    both
}

fn union(a: &Matrix, b: &Matrix) -> Matrix {
    let mut both = *a;
    for (row, other) in both.iter_mut().zip(b) {
        for (cell, other) in row.iter_mut().zip(other) {
            *cell |= other;
        }
    }
    both
}

fn is_cyclic(relation: &Matrix) -> bool {
    let mut closure = *relation;
    for _ in 0..6 {
        closure = union(&closure, &compose(&closure, relation));
    }
    (0..6).any(|node| closure[node][node])
}

/// Compares the found cycles with the relations by which the levels are defined, on
/// thousands of small graphs.
#[test]
fn verdicts_are_those_of_the_relations() {
    let mut state = 11_u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..20_000 {
        let mut edges = Vec::new();
        let [mut ww, mut wr, mut rw] = [Matrix::default(); 3];
        for _ in 0..3 + random(8) {
            let (from, to) = (random(6), random(6));
            if from == to {
                continue;
            }
            let choice = random(4) as usize;
            if choice < 3 {
                let says = [edge::WW, edge::WR, edge::RW][choice];
                [&mut ww, &mut wr, &mut rw][choice][from as usize][to as usize] = true;
                edges.push((from as u32, to as u32, says));
            } else if from < to {
                // Order edges never lead back.
                ww[from as usize][to as usize] = true;
                edges.push((from as u32, to as u32, edge::REALTIME));
            }
        }
        let graph = Graph::new(6, 6, &edges);
        let mut found = Vec::new();
        for members in graph.components(edge::KINDS) {
            for cycle in examples(&graph, members, &mut Budget::default()) {
                assert_is_a_cycle(&graph, &cycle);
                found.push(cycle.phenomenon());
            }
        }
        for phenomenon in &found {
            *seen.entry(*phenomenon).or_insert(0) += 1;
        }
        let any = |of: &[Phenomenon]| found.iter().any(|found| of.contains(found));
        let written = union(&ww, &wr);
        assert_eq!(any(&[Phenomenon::G0]), is_cyclic(&ww), "{edges:?}");
        let read_committed = [Phenomenon::G0, Phenomenon::G1c];
        assert_eq!(any(&read_committed), is_cyclic(&written), "{edges:?}");
        let snapshot = [
            Phenomenon::G0,
            Phenomenon::G1c,
            Phenomenon::GSingle,
            Phenomenon::LongFork,
            Phenomenon::GNonadjacent,
        ];
        // Cerone and Gotsman: (SO ∪ WR ∪ WW) ; RW? is acyclic.
        let relation = union(&written, &compose(&written, &rw));
        assert_eq!(any(&snapshot), is_cyclic(&relation), "{edges:?}");
        let all = union(&written, &rw);
        assert_eq!(!found.is_empty(), is_cyclic(&all), "{edges:?}");
    }
    assert!(seen.len() == 6, "{seen:?}");
}

fn assert_is_a_cycle(graph: &Graph, cycle: &Cycle) {
    let length = cycle.transactions.len();
    for place in 0..length {
        let (from, to) = (
            cycle.transactions[place],
            cycle.transactions[(place + 1) % length],
        );
        let says = cycle.says[place];
        let mut edges = graph.edges(from);
        assert!(edges.any(|edge| edge == (to, says)), "{cycle:?}");
    }
}
