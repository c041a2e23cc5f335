//! Questions of tests whose readers ask no leader.

use std::task::{Context, Poll};

use coeval_txn::{Answered, Error, Question};
use coeval_types::Lsn;

use super::super::Questions;

/// No leader answers.
#[derive(Debug)]
pub(in crate::following) struct Unasked;

impl Questions for Unasked {
    fn ask(&self) -> Question {
        Question(0)
    }

    fn poll(&self, _: Question, _: &mut Context<'_>) -> Poll<Result<Lsn, Error>> {
        Poll::Ready(Err(Error::Stopped("no leader was asked".to_owned())))
    }

    fn answered(&self, _: Question) -> Option<Answered> {
        None
    }

    fn asked(&self) -> u64 {
        0
    }

    fn awaits(&self) -> bool {
        false
    }

    fn learn(&self, _: u64, _: Lsn) {}
}
