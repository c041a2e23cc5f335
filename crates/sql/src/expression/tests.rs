//! Expressions bound and evaluated, compared with what PostgreSQL 15 prints.
