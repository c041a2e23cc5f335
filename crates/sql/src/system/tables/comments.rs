//! System tables of comments: `pg_description` and, for what all databases share,
//! `pg_shdescription`.

use crate::catalog::{DATABASES, ROLES, SCHEMAS as SCHEMA_CLASS};
use crate::expression::EvaluationContext;
use crate::system::listed_schemas;
use crate::system::table::system_table;

/// A comment: class, object, part, text.
type Row<'a> = (u32, u32, i32, &'a str);

/// Comments on objects of a database, or on what all databases share.
fn comments<'a>(context: &'a EvaluationContext<'_>, shared: bool) -> impl Iterator<Item = Row<'a>> {
    let of_users = context.catalog.comments().values();
    let of_users = of_users
        .filter(move |comment| matches!(comment.class, ROLES | DATABASES) == shared)
        .flat_map(|comment| {
            let texts = comment.texts.iter();
            texts.map(|(part, text)| (comment.class, comment.object, *part, text.as_str()))
        });
    let own = listed_schemas(context.catalog).filter(move |_| !shared);
    let own = own.filter_map(move |(oid, _, comment)| {
        let replaced = context.catalog.comment(SCHEMA_CLASS, oid, 0).is_some();
        let text = comment.filter(|_| !replaced)?;
        Some((SCHEMA_CLASS, oid, 0, text))
    });
    own.chain(of_users)
}

system_table! {
    /// Comments on objects and their columns.
    PG_DESCRIPTION = PG_CATALOG 2609 Table pg_description;
    context => comments(context, false);
    (class, object, part, text) => {
        objoid: Oid = object,
        classoid: Oid = class,
        objsubid: Int4 = part,
        description: Text = text,
    }
}

system_table! {
    /// Comments on roles and databases.
    PG_SHDESCRIPTION = PG_CATALOG 2396 Table pg_shdescription;
    context => comments(context, true);
    (class, object, _, text) => {
        objoid: Oid = object,
        classoid: Oid = class,
        description: Text = text,
    }
}
