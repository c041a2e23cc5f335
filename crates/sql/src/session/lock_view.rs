//! LOCK TABLE of a view: locks the tables that the view reads, also through other views.

use std::sync::Arc;

use coeval_sql_syntax::tree::{Name, Path};
use coeval_txn::{LockWait, TableLock};

use super::Session;
use super::utility::may_lock;
use crate::catalog::{Catalog, Object, PUBLIC, QualifiedName, Relation, Table, View};
use crate::error::Result;
use crate::statement::Statement;

impl Session {
    /// Locks what is beneath a view, if the name is a view's. Who runs the statement needs
    /// privileges on the view, and its owner on what is beneath.
    pub(super) async fn lock_view(
        &mut self,
        statement: &Statement,
        name: &Path,
        mode: TableLock,
        wait: LockWait,
    ) -> Result<bool> {
        let (catalog, _) = self.current_catalog()?;
        let qualified = QualifiedName::new(name)?;
        let Some(Relation::Object(view)) = catalog.named(&qualified) else {
            return Ok(false);
        };
        if view.view().is_none() || !qualified.is_public() {
            return Ok(false);
        }
        let role = self.info.role;
        may_lock(&catalog, "view", (&view.name, &view.owned), role, mode)?;
        let mut beneath = Beneath::default();
        collect(&catalog, &view, role, mode, &mut beneath)?;
        for table in beneath.tables {
            let part = |text: &str| Name {
                text: text.into(),
                at: name.at(),
            };
            let path = Path(vec![part(PUBLIC), part(&table.name)]);
            self.lock_table(statement, &path, mode, wait, false).await?;
        }
        Ok(true)
    }
}

/// What a view reads, as far as it was collected.
#[derive(Default)]
struct Beneath {
    tables: Vec<Arc<Table>>,
    /// OIDs of the views. CREATE OR REPLACE can make views that read each other.
    views: Vec<u32>,
}

/// Adds the tables that a view reads.
fn collect(
    catalog: &Catalog,
    object: &Object,
    role: u32,
    mode: TableLock,
    beneath: &mut Beneath,
) -> Result<()> {
    let Some(view) = object.view() else {
        return Ok(());
    };
    if beneath.views.contains(&object.oid) {
        return Ok(());
    }
    beneath.views.push(object.oid);
    let role = if View::is_invokers(view) {
        role
    } else {
        object.owned.owner
    };
    for each in &view.definition.relations {
        if let Some(table) = catalog.table_by_oid(each.oid) {
            may_lock(catalog, "table", (&table.name, &table.owned), role, mode)?;
            if beneath.tables.iter().all(|known| known.oid != table.oid) {
                beneath.tables.push(Arc::clone(table));
            }
        } else if let Some(inner) = catalog.object_by_oid(each.oid) {
            crate::expression::with_stack(|| collect(catalog, inner, role, mode, beneath))?;
        }
    }
    Ok(())
}
