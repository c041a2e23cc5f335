//! What a plan depends on besides the catalog: numbers of rows and statistics. A plan that the
//! tables have outgrown is made anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use coeval_types::StorageId;

use super::database::Database;

/// What a plan was chosen by.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    /// Numbers of rows; none if the plan does not depend on any.
    rows: Arc<[(StorageId, u64)]>,
    /// Number of ANALYZE statements before.
    analyzed: u64,
}

/// Number of rows up to which any plan of a table is good enough.
const FEW_ROWS: u64 = 500;

/// Factor by which a table may grow or shrink before a plan that depends on its number of
/// rows is made anew.
const GROWTH: u64 = 4;

impl Counted {
    /// What a plan was chosen by that is made now.
    pub(super) fn new(rows: BTreeMap<StorageId, u64>, database: &Database) -> Self {
        Self {
            rows: rows.into_iter().collect(),
            analyzed: database.around.statistics.analyzed(),
        }
    }

    /// Whether the tables have about as many rows as when the plan was made, and were not
    /// analyzed since.
    pub(super) fn holds(&self, database: &Database) -> bool {
        if self.rows.is_empty() {
            return true;
        }
        let engine = &database.engine;
        let analyzed = database.around.statistics.analyzed();
        analyzed == self.analyzed
            && self.rows.iter().all(|(storage, then)| {
                let now = engine.estimated_rows(*storage);
                let (less, more) = (now.min(*then), now.max(*then));
                more <= FEW_ROWS || more / GROWTH <= less
            })
    }
}
