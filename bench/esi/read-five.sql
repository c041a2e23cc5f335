\set a random(1, :records)
\set b random(1, :records)
\set c random(1, :records)
\set d random(1, :records)
\set e random(1, :records)
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT field FROM ycsb WHERE id = :a;
SELECT field FROM ycsb WHERE id = :b;
SELECT field FROM ycsb WHERE id = :c;
SELECT field FROM ycsb WHERE id = :d;
SELECT field FROM ycsb WHERE id = :e;
COMMIT;
