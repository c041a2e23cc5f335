//! System tables of columns and their defaults: `pg_attribute`, `pg_attrdef`.

use crate::Value;
use crate::catalog::Generation;
use crate::system::default_oid;
use crate::system::definition::column_expression;
use crate::system::relation::attributes;
use crate::system::table::system_table;
use crate::system::tables::collation_oid;

system_table! {
    /// Columns of relations. Dropped columns have no row.
    PG_ATTRIBUTE = PG_CATALOG 1249 Table pg_attribute;
    context => attributes(context.catalog);
    each => {
        attrelid: Oid = each.relation.oid(),
        attname: Name = each.name,
        atttypid: Oid = each.column_type.data_type.oid(),
        attstattarget: Int4 = -1i32,
        attlen: Int2 = each.column_type.data_type.length(),
        attnum: Int2 = each.number,
        attndims: Int4 = i32::from(each.column_type.data_type.element().is_some()),
        attcacheoff: Int4 = -1i32,
        atttypmod: Int4 = each.column_type.modifier,
        attbyval: Bool = each.column_type.data_type.facts().by_value,
        attalign: InternalChar = each.column_type.data_type.facts().alignment as u8,
        attstorage: InternalChar = each.column_type.data_type.facts().storage as u8,
        attcompression: InternalChar = 0u8,
        attnotnull: Bool = each.not_null,
        atthasdef: Bool = each.expression().is_some(),
        atthasmissing: Bool = false,
        attidentity: InternalChar = match each.generation {
            Some(Generation::Identity { always: true }) => b'a',
            Some(Generation::Identity { always: false }) => b'd',
            _ => 0,
        },
        attgenerated: InternalChar = match each.generation {
            Some(Generation::Stored(_)) => b's',
            _ => 0,
        },
        attisdropped: Bool = false,
        attislocal: Bool = true,
        attinhcount: Int4 = 0i32,
        attcollation: Oid = collation_oid(each.column_type.data_type),
        attacl: AclItemArray = Value::Null,
        attoptions: TextArray = Value::Null,
        attfdwoptions: TextArray = Value::Null,
        attmissingval: TextArray = Value::Null,
    }
}

system_table! {
    /// Default expressions of columns, and those that compute one, as SQL.
    PG_ATTRDEF = PG_CATALOG 2604 Table pg_attrdef;
    context => attributes(context.catalog)
        .filter_map(|each| Some((each, column_expression(&each, context)?)));
    (each, expression) => {
        oid: Oid = default_oid(each.relation.oid(), each.number),
        adrelid: Oid = each.relation.oid(),
        adnum: Int2 = each.number,
        adbin: Text = expression,
    }
}
