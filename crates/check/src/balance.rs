//! Checks the consistency condition of TPC-B: every amount is added to all three balances
//! and recorded in the history table.
//!
//! Each transaction of `pgbench` adds one amount to an account, a teller and a
//! branch, and a row with that amount to the history:
//!
//! ```text
//! Σ accounts.abalance = Σ tellers.tbalance = Σ branches.bbalance = Σ history.delta
//! ```
//!
//! `pgbench` empties the history table when it starts a run and leaves the balances
//! unchanged, so the judge compares how far a run has *moved* each sum.
//!
//! Source: TPC Benchmark B, consistency conditions (clause 2.3), as `pgbench`
//! implements them.

use std::fmt;

/// The change of each sum over the four tables during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Change of the sum of `pgbench_accounts.abalance`.
    pub accounts: i64,
    /// Change of the sum of `pgbench_tellers.tbalance`.
    pub tellers: i64,
    /// Change of the sum of `pgbench_branches.bbalance`.
    pub branches: i64,
    /// Sum of `pgbench_history.delta`: the amounts that the run itself recorded.
    pub history: i64,
}

/// The `pgbench` script that a run executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// The standard transaction, similar to TPC-B.
    TpcB,
    /// `-N`: the transaction does not update tellers and branches.
    SimpleUpdate,
    /// `-S`: the transaction only reads.
    SelectOnly,
}

/// Violation: no sequence of complete transactions produces these sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn(pub Moved);

impl fmt::Display for Torn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Moved {
            accounts,
            tellers,
            branches,
            history,
        } = self.0;
        write!(
            formatter,
            "accounts moved by {accounts}, tellers by {tellers}, branches by {branches}; \
             the history says {history}"
        )
    }
}

impl std::error::Error for Torn {}

/// Checks whether complete transactions of this script can have moved the sums like this.
pub fn judge(moved: Moved, script: Script) -> Result<(), Torn> {
    let expected = match script {
        Script::TpcB => Moved {
            accounts: moved.history,
            tellers: moved.history,
            branches: moved.history,
            history: moved.history,
        },
        Script::SimpleUpdate => Moved {
            accounts: moved.history,
            history: moved.history,
            ..Moved::default()
        },
        Script::SelectOnly => Moved::default(),
    };
    if moved == expected {
        Ok(())
    } else {
        Err(Torn(moved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(accounts: i64, tellers: i64, branches: i64, history: i64) -> Moved {
        Moved {
            accounts,
            tellers,
            branches,
            history,
        }
    }

    #[test]
    fn whole_transactions_pass() {
        assert_eq!(judge(moved(5, 5, 5, 5), Script::TpcB), Ok(()));
        assert_eq!(judge(moved(5, 0, 0, 5), Script::SimpleUpdate), Ok(()));
        assert_eq!(judge(moved(0, 0, 0, 0), Script::SelectOnly), Ok(()));
    }

    #[test]
    fn each_sum_that_is_off_is_seen() {
        let off = [(4, 5, 5, 5), (5, 4, 5, 5), (5, 5, 4, 5), (5, 5, 5, 4)];
        for (accounts, tellers, branches, history) in off {
            let torn = moved(accounts, tellers, branches, history);
            assert_eq!(judge(torn, Script::TpcB), Err(Torn(torn)));
        }
        assert!(judge(moved(5, 1, 1, 5), Script::SimpleUpdate).is_err());
        assert!(judge(moved(5, 0, 0, 4), Script::SimpleUpdate).is_err());
        assert!(judge(moved(1, 0, 0, 0), Script::SelectOnly).is_err());
    }
}
