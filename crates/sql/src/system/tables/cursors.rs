//! The system table of the session's cursors, `pg_cursors`.

use crate::Value;
use crate::system::table::system_table;

system_table! {
    /// The cursors that DECLARE has made in this session.
    PG_CURSORS = PG_CATALOG 12067 View pg_cursors;
    context => context.session.cursors.iter();
    each => {
        name: Text = &each.name,
        statement: Text = &*each.statement,
        is_holdable: Bool = each.is_holdable,
        is_binary: Bool = each.is_binary,
        is_scrollable: Bool = each.is_scrollable,
        creation_time: TimestampTz = Value::TimestampTz(each.created),
    }
}
