//! The invariant of TPC-B: money is moved, and every move is written down.
//!
//! Each transaction of `pgbench` adds one amount to an account, a teller and a
//! branch, and a row with that amount to the history:
//!
//! ```text
//! Σ accounts.abalance = Σ tellers.tbalance = Σ branches.bbalance = Σ history.delta
//! ```
//!
//! `pgbench` empties the history when it starts a run and leaves the balances as
//! they are, so what is compared is how far a run has *moved* each sum.
//!
//! Source: TPC Benchmark B, consistency conditions (clause 2.3), as `pgbench`
//! implements them.

use std::fmt;

/// How far a run moved the sums over the four tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Of `pgbench_accounts.abalance`.
    pub accounts: i64,
    /// Of `pgbench_tellers.tbalance`.
    pub tellers: i64,
    /// Of `pgbench_branches.bbalance`.
    pub branches: i64,
    /// Of `pgbench_history.delta`: what the run itself wrote.
    pub history: i64,
}

/// What a run consisted of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// The standard transaction.
    TpcB,
    /// `-N`: tellers and branches are left alone.
    SimpleUpdate,
    /// `-S`: nothing is written.
    SelectOnly,
}

/// Sums that no sequence of whole transactions leads to.
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

/// Whether whole transactions of this script can have moved the sums so.
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
