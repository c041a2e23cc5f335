//! Tests of components and groups against reachability.

use super::*;

fn graph(nodes: u32, edges: &[(u32, u32)]) -> Graph {
    let edges: Vec<Edge> = edges
        .iter()
        .map(|(from, to)| (*from, *to, edge::WW))
        .collect();
    Graph::new(nodes, nodes, &edges)
}

#[test]
fn components_are_found() {
    let graph = graph(
        7,
        &[
            (0, 1),
            (1, 2),
            (2, 0),
            (2, 3),
            (3, 4),
            (4, 5),
            (5, 4),
            (5, 6),
        ],
    );
    let mut found = graph.components(edge::WW);
    found.iter_mut().for_each(|members| members.sort_unstable());
    found.sort();
    assert_eq!(found, [vec![0, 1, 2], vec![4, 5]]);
    assert!(graph.components(edge::RW).is_empty());
    let (part, members) = graph.part(vec![5, 4]);
    assert_eq!(members, [4, 5]);
    assert_eq!(part.edges(0).collect::<Vec<_>>(), [(1, edge::WW)]);
}

#[test]
fn components_agree_with_reachability() {
    let mut state = 7_u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    for _ in 0..500 {
        let nodes = 2 + random(7);
        let count = random(14);
        let mut reach = vec![vec![false; nodes as usize]; nodes as usize];
        let mut edges = Vec::new();
        for _ in 0..count {
            let (from, to) = (random(nodes) as u32, random(nodes) as u32);
            if from != to {
                edges.push((from, to));
                reach[from as usize][to as usize] = true;
            }
        }
        for via in 0..nodes as usize {
            for from in 0..nodes as usize {
                for to in 0..nodes as usize {
                    reach[from][to] |= reach[from][via] && reach[via][to];
                }
            }
        }
        let mut together = vec![vec![false; nodes as usize]; nodes as usize];
        for members in graph(nodes as u32, &edges).components(edge::WW) {
            for a in &members {
                for b in &members {
                    together[*a as usize][*b as usize] = true;
                }
            }
        }
        for a in 0..nodes as usize {
            for b in 0..nodes as usize {
                assert_eq!(reach[a][b] && reach[b][a], together[a][b], "{edges:?}");
            }
        }
    }
}

/// The transactions that each transaction reaches through virtual nodes only.
fn pairs(graph: &Graph, transactions: u32) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    for source in 0..transactions {
        let mut found = vec![false; graph.nodes()];
        let mut stack = vec![source];
        while let Some(node) = stack.pop() {
            for (target, _) in graph.edges(node) {
                if !std::mem::replace(&mut found[target as usize], true)
                    && !graph.is_transaction(target)
                {
                    stack.push(target);
                }
            }
        }
        pairs.extend(
            (0..transactions)
                .filter(|to| found[*to as usize])
                .map(|to| (source, to)),
        );
    }
    pairs
}

#[test]
fn all_pairs_are_those_and_no_others() {
    for (sources, targets) in [(0..3, 1..9), (0..9, 3..12), (2..10, 0..12), (0..6, 6..12)] {
        let mut edges = Edges::new(12);
        let from: Vec<_> = sources.clone().map(|node| (node, edge::RW)).collect();
        edges.all_pairs(&from, &targets.clone().collect::<Vec<_>>());
        let size = edges.list.len();
        let expected: Vec<_> = sources
            .flat_map(|from| targets.clone().map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
            .collect();
        assert_eq!(pairs(&edges.into_graph(), 12), expected);
        assert!(size <= 4 * 12 + 2 * 12);
    }
}
