\set half :records / 2
\set next :half + 1
\set a random(1, :records)
\set b random(1, :records)
\set c random(1, :records)
\set d random(1, :half)
\set e random(:next, :records)
BEGIN;
SELECT field FROM ycsb WHERE id = :a;
SELECT field FROM ycsb WHERE id = :b;
SELECT field FROM ycsb WHERE id = :c;
UPDATE ycsb SET n = n + 1, field = repeat('y', 100) WHERE id = :d;
UPDATE ycsb SET n = n + 1, field = repeat('z', 100) WHERE id = :e;
COMMIT;
