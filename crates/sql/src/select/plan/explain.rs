//! EXPLAIN: prints a plan as indented lines.

use super::node::{Node, SetKind};

/// Appends a line for the node and for each node below it.
pub(crate) fn explain(node: &Node, depth: usize, lines: &mut Vec<String>) {
    crate::expression::with_stack(|| explain_here(node, depth, lines));
}

fn explain_here(node: &Node, depth: usize, lines: &mut Vec<String>) {
    let indent = if depth == 0 {
        String::new()
    } else {
        format!("{}->  ", " ".repeat(depth * 6 - 4))
    };
    let line = match node {
        // Nodes that only compute or rename columns get no line of their own.
        Node::Project { input, .. } => return explain(input, depth, lines),
        Node::Plan(plan) => return explain(&plan.root, depth, lines),
        Node::One => "Result".to_owned(),
        Node::Values { rows } => format!("Values Scan ({} rows)", rows.len()),
        Node::Scan(scan) => {
            let named = if scan.alias == scan.table.name {
                scan.table.name.clone()
            } else {
                format!("{} {}", scan.table.name, scan.alias)
            };
            for (position, line) in scan
                .path
                .describe(&scan.table, &named, scan.direction, scan.filter.is_some())
                .into_iter()
                .enumerate()
            {
                lines.push(match position {
                    0 => format!("{indent}{line}"),
                    _ => format!("{}{line}", " ".repeat(depth * 6)),
                });
            }
            return;
        }
        Node::System(table) => format!("System Table Scan on {}.{}", table.schema(), table.name),
        Node::Function(function) => match function.kind {
            SetKind::Series(_) => "Function Scan on generate_series".to_owned(),
            SetKind::Unnest => "Function Scan on unnest".to_owned(),
            SetKind::Subscripts => "Function Scan on generate_subscripts".to_owned(),
            SetKind::Scalar => "Function Scan".to_owned(),
        },
        Node::ProjectSet(_) => "ProjectSet".to_owned(),
        Node::Filter { .. } => "Filter".to_owned(),
        Node::Join(join) if join.outer.is_some() => "Nested Loop Left Join".to_owned(),
        Node::Join(_) => "Nested Loop".to_owned(),
        Node::FullJoin(join) if join.keep_left => "Full Join".to_owned(),
        Node::FullJoin(_) => "Right Join".to_owned(),
        Node::Cache(cache) if cache.keys.is_empty() => "Materialize".to_owned(),
        Node::Cache(_) => "Hash".to_owned(),
        Node::Derived(_) => "Subquery Scan".to_owned(),
        Node::Aggregate(aggregate) if aggregate.keys.is_empty() => "Aggregate".to_owned(),
        Node::Aggregate(_) => "HashAggregate".to_owned(),
        Node::Sort(sort) if sort.fetch.is_some() => "Sort (first rows only)".to_owned(),
        Node::Sort(_) => "Sort".to_owned(),
        Node::Distinct { .. } => "Unique".to_owned(),
        Node::Limit { .. } => "Limit".to_owned(),
        Node::Append(_) => "Append".to_owned(),
        Node::SetOperation(operation) if operation.except => "SetOp Except".to_owned(),
        Node::SetOperation(_) => "SetOp Intersect".to_owned(),
        Node::Lock(_) => "LockRows".to_owned(),
    };
    lines.push(format!("{indent}{line}"));
    node.inputs(&mut |input| explain(input, depth + 1, lines));
}
