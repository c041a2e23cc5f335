//! `pg_depend`: which object depends on which.
//!
//! A sequence belongs to a column, a default and a constraint to their columns, and the index of a
//! constraint to that. A default depends on the sequences that it takes numbers of. The rule that
//! makes a relation a view depends on that relation, as a part of it, and on each column that its
//! query uses; system tables are always there.

use crate::catalog::{CONSTRAINTS, FIRST_USER_OID, RELATIONS, Reference};
use crate::expression::EvaluationContext;
use crate::sequence::named_sequences;
use crate::statement::parse_expression;
use crate::system::relation::{Constraint, all_constraints, attributes, views};
use crate::system::table::system_table;
use crate::system::{default_oid, rule_oid};

/// OID of `pg_rewrite`, the class of rules.
const RULES: u32 = 2618;
/// OID of `pg_attrdef`, the class of defaults.
const DEFAULTS: u32 = 2604;

/// An object, or a part of one: class, OID, part.
type Address = (u32, u32, i32);

/// What depends, on what, and how.
type Dependency = (Address, Address, u8);

/// All dependencies between objects of users.
fn dependencies(context: &EvaluationContext<'_>) -> Vec<Dependency> {
    let mut all = Vec::new();
    of_sequences(context, &mut all);
    of_defaults(context, &mut all);
    of_constraints(context, &mut all);
    of_views(context, &mut all);
    all
}

fn of_sequences(context: &EvaluationContext<'_>, all: &mut Vec<Dependency>) {
    for (object, sequence) in context.catalog.sequences() {
        if let Some((table, attribute)) = sequence.owned_by {
            let how = if sequence.is_identity { b'i' } else { b'a' };
            let own = (RELATIONS, object.oid, 0);
            all.push((own, (RELATIONS, table, i32::from(attribute)), how));
        }
    }
}

fn of_defaults(context: &EvaluationContext<'_>, all: &mut Vec<Dependency>) {
    for each in attributes(context.catalog) {
        let Some(sql) = each.expression() else {
            continue;
        };
        let relation = each.relation.oid();
        let own = (DEFAULTS, default_oid(relation, each.number), 0);
        all.push((own, (RELATIONS, relation, i32::from(each.number)), b'a'));
        let parsed = sql.contains("regclass").then(|| parse_expression(sql));
        let named = parsed.and_then(Result::ok).map(named_sequences);
        for oid in named.unwrap_or_default() {
            all.push((own, (RELATIONS, oid, 0), b'n'));
        }
    }
}

fn of_constraints(context: &EvaluationContext<'_>, all: &mut Vec<Dependency>) {
    for constraint in all_constraints(context.catalog) {
        let own = (CONSTRAINTS, constraint.oid(), 0);
        for attribute in constraint.attributes() {
            let column = (RELATIONS, constraint.table().oid, i32::from(attribute));
            all.push((own, column, b'a'));
        }
        if let Constraint::Key(_, index) = constraint {
            all.push(((RELATIONS, index.oid, 0), own, b'i'));
        }
    }
}

fn of_views(context: &EvaluationContext<'_>, all: &mut Vec<Dependency>) {
    for (object, view) in views(context.catalog) {
        let rule = (RULES, rule_oid(object.oid), 0);
        for kind in [b'i', b'n'] {
            all.push((rule, (RELATIONS, object.oid, 0), kind));
        }
        let of_users = |each: &&Reference| each.oid >= FIRST_USER_OID;
        for each in view.definition.relations.iter().filter(of_users) {
            if each.used.is_empty() {
                all.push((rule, (RELATIONS, each.oid, 0), b'n'));
            }
            for attribute in &each.used {
                let on = (RELATIONS, each.oid, i32::from(*attribute));
                all.push((rule, on, b'n'));
            }
        }
    }
}

system_table! {
    /// Dependencies between objects.
    PG_DEPEND = PG_CATALOG 2608 Table pg_depend;
    context => dependencies(context);
    (of, on, kind) => {
        classid: Oid = of.0,
        objid: Oid = of.1,
        objsubid: Int4 = of.2,
        refclassid: Oid = on.0,
        refobjid: Oid = on.1,
        refobjsubid: Int4 = on.2,
        deptype: InternalChar = kind,
    }
}
