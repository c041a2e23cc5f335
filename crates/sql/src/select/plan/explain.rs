//! EXPLAIN: turns the nodes of a plan into a description, with names in place of
//! positions. [`super::explain_text`] prints it.

use super::estimate::rows_of;
use super::explain_text::{Described, Relationship};
use super::node::{Aggregate, Cache, FullJoin, Join, Matching, Node, Scan, SetFunction, SetKind};
use super::with::{Reading, With};
use crate::expression::{AggregateCall, Expression, Instrument, Names, column_name};
use crate::select::QueryPlan;
use crate::value::{KeyOrder, Value};

/// Cost of returning a row, in PostgreSQL's units, in which reading a page costs one.
const ROW_COST: f64 = 0.01;

/// Describes a plan; with what has been counted, if it has run.
pub(crate) fn describe(plan: &QueryPlan, counted: Option<&Instrument>, verbose: bool) -> Described {
    let mut relations = 0;
    count_relations(&plan.root, &mut relations);
    let mut describe = Describe {
        names: Names::default(),
        shown: Vec::new(),
        qualified: relations > 1,
        counted,
        verbose,
    };
    describe.node(&plan.root, &[]).0
}

fn count_relations(node: &Node, relations: &mut usize) {
    match node {
        Node::Scan(_) | Node::System(_) | Node::Derived(_) | Node::Function(_) => *relations += 1,
        _ => {}
    }
    node.inputs(&mut |input| {
        crate::expression::with_stack(|| count_relations(input, relations));
    });
}

struct Describe<'a> {
    names: Names<'a>,
    /// Numbers of the subqueries that have been described.
    shown: Vec<usize>,
    /// Whether columns are shown with their tables.
    qualified: bool,
    counted: Option<&'a Instrument>,
    verbose: bool,
}

/// A described node, and the names of its rows' columns.
type Named = (Described, Vec<String>);

impl<'a> Describe<'a> {
    fn node(&mut self, node: &'a Node, driving: &[String]) -> Named {
        crate::expression::with_stack(|| {
            let (mut described, columns) = self.node_here(node, driving);
            self.subqueries(&mut described);
            (described, columns)
        })
    }

    /// Describes the subqueries of expressions that have been shown since the last node.
    fn subqueries(&mut self, described: &mut Described) {
        let found = std::mem::take(&mut self.names.subqueries);
        for (subquery, taken) in found {
            if self.shown.contains(&subquery.number) {
                continue;
            }
            self.shown.push(subquery.number);
            let outer = std::mem::replace(&mut self.names.outer, taken);
            let name = match subquery.correlations.is_empty() && subquery.operand.is_none() {
                true => format!("InitPlan {}", subquery.number),
                false => format!("SubPlan {}", subquery.number),
            };
            let (plan, _) = self.node(&subquery.plan.root, &[]);
            described.add(Relationship::Named(name.clone()), plan);
            if let Some(hashed) = &subquery.hashed {
                let (plan, _) = self.node(&hashed.plan.root, &[]);
                described.add(Relationship::Named(format!("{name} (hashed)")), plan);
            }
            self.names.outer = outer;
        }
    }

    fn node_here(&mut self, node: &'a Node, driving: &[String]) -> Named {
        match node {
            // Nodes that only compute, filter or rename get no line of their own.
            Node::Project { input, expressions } => {
                let (mut described, columns) = self.node(input, driving);
                let columns: Vec<String> = expressions
                    .iter()
                    .map(|each| self.names.show(each, &columns))
                    .collect();
                if self.verbose {
                    described.output = Some(columns.join(", "));
                }
                (described, columns)
            }
            Node::Plan(plan) => self.node(&plan.root, driving),
            Node::Filter { input, condition } => {
                let (mut described, columns) = self.node(input, driving);
                let condition = self.names.show(condition, &columns);
                described.detail("Filter", condition);
                described.rows = rows_of(node);
                self.count(&mut described, node);
                (described, columns)
            }
            Node::One => self.leaf(node, "Result", driving, Vec::new()),
            Node::Values { rows } => {
                let width = rows.first().map_or(0, Vec::len);
                let columns = (1..=width)
                    .map(|number| format!("column{number}"))
                    .collect();
                let what = format!("Values Scan ({} rows)", rows.len());
                self.leaf(node, &what, driving, columns)
            }
            Node::Scan(scan) => self.scan(node, scan, driving),
            Node::System(table) => {
                let what = format!("System Table Scan on {}.{}", table.schema(), table.name);
                let columns = table.columns.iter();
                let columns = columns
                    .map(|(name, _)| column_name(table.name, name, self.qualified))
                    .collect();
                self.leaf(node, &what, driving, columns)
            }
            Node::Function(function) => {
                let (what, mut columns) = self.function(function, driving);
                if function.ordinality {
                    columns.push("ordinality".to_owned());
                }
                self.leaf(node, &what, driving, columns)
            }
            Node::Join(join) => self.join(node, join, driving),
            Node::FullJoin(join) => self.full_join(node, join, driving),
            Node::Cache(cache) => {
                let (described, columns) = self.cache(cache, driving);
                (described, columns)
            }
            Node::Derived(derived) if is_table_of_with(&derived.plan) => {
                let what = match &derived.plan {
                    Node::Common(common) if common.name != *derived.alias => {
                        format!("CTE Scan on {} {}", common.name, derived.alias)
                    }
                    Node::Common(common) => format!("CTE Scan on {}", common.name),
                    _ => format!("WorkTable Scan on {}", derived.alias),
                };
                let own = derived.columns.iter();
                let own = own.map(|name| column_name(&derived.alias, name, self.qualified));
                self.leaf(node, &what, driving, own.collect())
            }
            Node::Derived(derived) => {
                let outer = derived.correlations.as_ref().map(|correlations| {
                    let taken: Vec<String> = correlations
                        .iter()
                        .map(|each| self.names.show(each, driving))
                        .collect();
                    std::mem::replace(&mut self.names.outer, taken)
                });
                let (below, _) = self.node(&derived.plan, &[]);
                if let Some(outer) = outer {
                    self.names.outer = outer;
                }
                let what = match derived.alias.is_empty() {
                    true => "Subquery Scan".to_owned(),
                    false => format!("Subquery Scan on {}", derived.alias),
                };
                let own = derived
                    .columns
                    .iter()
                    .map(|name| column_name(&derived.alias, name, self.qualified));
                let columns = driving.iter().cloned().chain(own).collect();
                (self.over(node, &what, vec![below]), columns)
            }
            Node::ProjectSet(project) => {
                let (below, mut columns) = self.node(&project.input, driving);
                for function in &project.functions {
                    let (_, own) = self.function(function, &columns);
                    columns.extend(own);
                }
                (self.over(node, "ProjectSet", vec![below]), columns)
            }
            Node::Aggregate(aggregate) => self.aggregate(node, aggregate, driving),
            Node::Sort(sort) => {
                let (below, columns) = self.node(&sort.input, driving);
                let what = match sort.fetch {
                    Some(_) => "Sort (first rows only)",
                    None => "Sort",
                };
                let mut described = self.over(node, what, vec![below]);
                described.startup = described.total;
                let keys: Vec<String> = sort
                    .keys
                    .iter()
                    .map(|(key, order)| self.names.show(key, &columns) + ordered(*order))
                    .collect();
                described.detail("Sort Key", keys.join(", "));
                (described, columns)
            }
            Node::Distinct { input, by } => {
                let (below, columns) = self.node(input, driving);
                let mut described = self.over(node, "Unique", vec![below]);
                if !by.is_empty() {
                    let key = self.names.list(by, &columns, ", ");
                    described.detail("Unique Key", key);
                }
                (described, columns)
            }
            Node::Limit { input, .. } => {
                let (below, columns) = self.node(input, driving);
                (self.over(node, "Limit", vec![below]), columns)
            }
            Node::WithTies(limit) => {
                let (below, columns) = self.node(&limit.input, driving);
                (self.over(node, "Limit (with ties)", vec![below]), columns)
            }
            Node::Window(window) => {
                let (below, mut columns) = self.node(&window.input, driving);
                let mut described = self.over(node, "WindowAgg", vec![below]);
                described.startup = described.total;
                let mut own = vec![String::new(); window.width];
                for (_, calls) in &window.steps {
                    for (place, call) in calls {
                        own[*place] = self.names.window(call, &columns);
                    }
                }
                columns.append(&mut own);
                (described, columns)
            }
            Node::With(with) => self.with(with, driving),
            Node::Common(common) if common.reading() == Reading::Inlined => {
                self.node(&common.plan.root, &[])
            }
            Node::Common(common) => {
                let own = common.plan.columns().iter();
                let own = own.map(|column| column.name.clone()).collect();
                self.leaf(node, &format!("CTE Scan on {}", common.name), &[], own)
            }
            Node::Recursive(recursive) => {
                let (base, columns) = self.node(&recursive.base, &[]);
                let (step, _) = self.node(&recursive.step, &[]);
                (
                    self.over(node, "Recursive Union", vec![base, step]),
                    columns,
                )
            }
            Node::Working(_) => self.leaf(node, "WorkTable Scan", &[], Vec::new()),
            Node::Append(inputs) => {
                let mut names = Vec::new();
                let mut below = Vec::new();
                for input in inputs {
                    let (described, columns) = self.node(input, driving);
                    if names.is_empty() {
                        names = columns;
                    }
                    below.push(described);
                }
                (self.over(node, "Append", below), names)
            }
            Node::SetOperation(operation) => {
                let what = match operation.except {
                    true => "SetOp Except",
                    false => "SetOp Intersect",
                };
                let (left, columns) = self.node(&operation.left, driving);
                let (right, _) = self.node(&operation.right, driving);
                (self.over(node, what, vec![left, right]), columns)
            }
            Node::Lock(lock) => {
                let (below, columns) = self.node(&lock.input, driving);
                (self.over(node, "LockRows", vec![below]), columns)
            }
        }
    }

    /// The query behind WITH, and beside it the tables that are not in its place.
    fn with(&mut self, with: &'a With, driving: &[String]) -> Named {
        let (mut described, columns) = self.node(&with.input, driving);
        for common in &with.commons {
            if common.reading() != Reading::Inlined && common.is_read() {
                let (plan, _) = self.node(&common.plan.root, &[]);
                let name = format!("CTE {}", common.name);
                described.add(Relationship::Named(name), plan);
            }
        }
        (described, columns)
    }

    /// A node over others: it costs what they do, and its own rows.
    fn over(&self, node: &'a Node, what: &str, below: Vec<Described>) -> Described {
        let rows = rows_of(node);
        let total: f64 = below.iter().map(|each| each.total).sum();
        let mut described = Described::new(what, rows);
        described.total = total + rows * ROW_COST;
        let several = below.len() > 1;
        for (place, each) in below.into_iter().enumerate() {
            let relationship = match (several, place) {
                (true, 0) | (false, _) => Relationship::Outer,
                (true, _) => Relationship::Inner,
            };
            described.add(relationship, each);
        }
        self.count(&mut described, node);
        described
    }

    fn leaf(&self, node: &'a Node, what: &str, driving: &[String], own: Vec<String>) -> Named {
        let mut described = self.over(node, what, Vec::new());
        described.width = own.len() * 8;
        let columns = driving.iter().cloned().chain(own).collect();
        (described, columns)
    }

    fn count(&self, described: &mut Described, node: &'a Node) {
        described.counted = self.counted.map(|counted| counted.of(node));
    }

    fn scan(&mut self, node: &'a Node, scan: &'a Scan, driving: &[String]) -> Named {
        let named = if scan.alias == scan.table.name {
            scan.table.name.clone()
        } else {
            format!("{} {}", scan.table.name, scan.alias)
        };
        let qualified = self.qualified;
        let column = |place: usize| {
            let name = &scan.table.columns[place].name;
            column_name(&scan.alias, name, qualified)
        };
        let mut own: Vec<String> = (0..scan.table.columns.len()).map(column).collect();
        if scan.with_record {
            own.push("ctid".to_owned());
        }
        let path = scan.path.describe(
            &scan.table,
            &named,
            scan.direction,
            &column,
            (&mut self.names, driving),
        );
        let (mut described, columns) = self.leaf(node, &path.label, driving, own);
        described.kind = path.kind;
        described.relation = Some((scan.table.name.clone(), scan.alias.clone()));
        described.index = path.index;
        if let Some(condition) = path.condition {
            described.detail("Index Cond", condition);
        }
        if let Some(filter) = &scan.filter {
            let filter = self.names.show(filter, &columns);
            described.detail("Filter", filter);
        }
        (described, columns)
    }

    fn function(&mut self, function: &'a SetFunction, driving: &[String]) -> (String, Vec<String>) {
        let (name, columns) = match function.kind {
            SetKind::Series(_) => ("generate_series", None),
            SetKind::Unnest => {
                let name = "unnest";
                (name, Some(vec![name.to_owned(); function.arguments.len()]))
            }
            SetKind::Subscripts => ("generate_subscripts", None),
            SetKind::Json(set) => (set.name, Some(set.column_names(&function.arguments))),
            SetKind::Scalar => {
                let call = self.names.list(&function.arguments, driving, ", ");
                return ("Function Scan".to_owned(), vec![call]);
            }
            SetKind::Changed(_) => return ("CTE Scan".to_owned(), Vec::new()),
            SetKind::Table(table) => {
                let columns = table.columns.iter();
                let columns = columns.map(|(column, _)| (*column).to_owned());
                (table.name, Some(columns.collect()))
            }
            SetKind::Packed(table) | SetKind::Field(table, _) => (table.name, None),
        };
        let columns = columns.unwrap_or_else(|| vec![name.to_owned()]);
        (format!("Function Scan on {name}"), columns)
    }

    /// What is collected for a join, and found by keys.
    fn cache(&mut self, cache: &'a Cache, driving: &[String]) -> Named {
        let (below, columns) = self.node(&cache.input, driving);
        let what = if cache.keys.is_empty() {
            "Materialize"
        } else {
            "Hash"
        };
        let mut described = Described::new(what, below.rows);
        described.startup = below.total;
        described.total = below.total;
        described.width = below.width;
        // It collects these rows once, however often it is read.
        described.counted = below.counted;
        described.add(Relationship::Outer, below);
        (described, columns)
    }

    fn join(&mut self, node: &'a Node, join: &'a Join, driving: &[String]) -> Named {
        let (left, left_columns) = self.node(&join.left, driving);
        // A condition over a cache is one of the join.
        let (right, condition) = match &join.right {
            Node::Filter { input, condition } if matches!(**input, Node::Cache(_)) => {
                (&**input, Some(condition))
            }
            right => (right, None),
        };
        let keys = match right {
            Node::Cache(cache) => cache.keys.as_slice(),
            _ => &[],
        };
        let (inner, columns) = self.node(right, &left_columns);
        let method = if keys.is_empty() {
            "Nested Loop"
        } else {
            "Hash"
        };
        let (kind, word) = match join.kind {
            Matching::Inner if keys.is_empty() => ("Inner", ""),
            Matching::Inner => ("Inner", " Join"),
            Matching::Left(_) => ("Left", " Left Join"),
            Matching::Semi => ("Semi", " Semi Join"),
            Matching::Anti => ("Anti", " Anti Join"),
        };
        let loops = if keys.is_empty() && !matches!(right, Node::Cache(_)) {
            left.rows.max(1.0)
        } else {
            1.0
        };
        let total = left.total + inner.total * loops + join.rows * ROW_COST;
        let mut described = self.over(node, &format!("{method}{word}"), vec![left, inner]);
        described.total = total;
        described.kind = if keys.is_empty() {
            "Nested Loop"
        } else {
            "Hash Join"
        };
        described.join = Some(kind);
        if !keys.is_empty() {
            let keys = self.keys(keys, &left_columns, &columns);
            described.detail("Hash Cond", keys);
        }
        if let Some(condition) = condition {
            let condition = self.names.show(condition, &columns);
            described.detail("Join Filter", condition);
        }
        let columns = match join.kind {
            Matching::Inner | Matching::Left(_) => columns,
            Matching::Semi | Matching::Anti => left_columns,
        };
        (described, columns)
    }

    fn keys(
        &mut self,
        keys: &'a [(Expression, Expression)],
        left: &[String],
        right: &[String],
    ) -> String {
        let shown: Vec<String> = keys
            .iter()
            .map(|(known, own)| {
                let known = self.names.show(known, left);
                let own = self.names.show(own, right);
                format!("({known} = {own})")
            })
            .collect();
        match shown.as_slice() {
            [one] => one.clone(),
            several => format!("({})", several.join(" AND ")),
        }
    }

    fn full_join(&mut self, node: &'a Node, join: &'a FullJoin, driving: &[String]) -> Named {
        let (left, left_columns) = self.node(&join.left, driving);
        let (right, columns) = self.node(&join.right, &left_columns);
        let mut hash = Described::new(
            if join.keys.is_empty() {
                "Materialize"
            } else {
                "Hash"
            },
            right.rows,
        );
        hash.startup = right.total;
        hash.total = right.total;
        hash.counted = right.counted;
        hash.add(Relationship::Outer, right);
        let (kind, word) = match join.keep_left {
            true => ("Full", "Full Join"),
            false => ("Right", "Right Join"),
        };
        let method = if join.keys.is_empty() {
            "Nested Loop"
        } else {
            "Hash"
        };
        let mut described = self.over(node, &format!("{method} {word}"), vec![left, hash]);
        described.kind = if join.keys.is_empty() {
            "Nested Loop"
        } else {
            "Hash Join"
        };
        described.join = Some(kind);
        if !join.keys.is_empty() {
            let keys = self.keys(&join.keys, &left_columns, &columns);
            described.detail("Hash Cond", keys);
        }
        if join.condition != Expression::Constant(Value::Bool(true)) {
            let condition = self.names.show(&join.condition, &columns);
            described.detail("Join Filter", condition);
        }
        (described, columns)
    }

    fn aggregate(&mut self, node: &'a Node, aggregate: &'a Aggregate, driving: &[String]) -> Named {
        let (below, columns) = self.node(&aggregate.input, driving);
        let what = if aggregate.keys.is_empty() {
            "Aggregate"
        } else {
            "HashAggregate"
        };
        let mut described = self.over(node, what, vec![below]);
        described.kind = "Aggregate";
        described.startup = described.total;
        let mut own: Vec<String> = aggregate
            .keys
            .iter()
            .map(|each| self.names.show(each, &columns))
            .collect();
        let keys_of = |set: &Vec<usize>| -> String {
            let names: Vec<&str> = set.iter().map(|key| own[*key].as_str()).collect();
            names.join(", ")
        };
        match aggregate.sets.as_slice() {
            [set] if set.is_empty() => {}
            [set] => described.detail("Group Key", keys_of(set)),
            sets => {
                let sets = sets.iter().map(|set| format!("({})", keys_of(set)));
                let sets: Vec<String> = sets.collect();
                described.detail("Grouping Sets", sets.join(", "));
            }
        }
        let groupings = aggregate.groupings.iter();
        let groupings: Vec<String> = groupings
            .map(|grouping| format!("GROUPING({})", keys_of(grouping)))
            .collect();
        let shown = |call: &'a AggregateCall| self.names.aggregate(call, &columns);
        own.extend(aggregate.calls.iter().map(shown));
        own.extend(groupings);
        (described, own)
    }
}

/// Whether a subquery in FROM is a reference to a table of WITH whose rows are kept, or to
/// the working table of a recursive query.
fn is_table_of_with(plan: &Node) -> bool {
    match plan {
        Node::Common(common) => common.reading() != Reading::Inlined,
        other => matches!(other, Node::Working(_)),
    }
}

/// The words of a sort order.
fn ordered(order: KeyOrder) -> &'static str {
    match (order.descending, order.nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    }
}
