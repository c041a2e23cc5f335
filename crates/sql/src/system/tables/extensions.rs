//! System tables of extensions: `pg_extension`, `pg_available_extensions`.

use std::sync::Arc;

use crate::Value;
use crate::catalog::BUILT_IN;
use crate::system::PUBLIC as PUBLIC_NAMESPACE;
use crate::system::table::system_table;

system_table! {
    /// Extensions that were created.
    PG_EXTENSION = PG_CATALOG 3079 Table pg_extension;
    context => context.catalog.extensions().map(Arc::clone);
    each => {
        oid: Oid = each.oid,
        extname: Name = each.name.as_str(),
        extowner: Oid = each.owner,
        extnamespace: Oid = PUBLIC_NAMESPACE,
        extrelocatable: Bool = true,
        extversion: Text = each.version.as_str(),
        extconfig: OidArray = Value::Null,
        extcondition: TextArray = Value::Null,
    }
}

system_table! {
    /// Extensions that can be created.
    PG_AVAILABLE_EXTENSIONS = PG_CATALOG 12081 View pg_available_extensions;
    context => BUILT_IN.iter().map(|each| (each, context.catalog.extension(each.name)));
    (each, created) => {
        name: Name = each.name,
        default_version: Text = each.version,
        installed_version: Text = created.map(|created| created.version.clone()),
        comment: Text = each.about,
    }
}
