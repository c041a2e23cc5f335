-- pgbench's own read of an account, as a script, for servers that have no tables.
\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
