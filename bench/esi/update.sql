\set id random(1, :records)
UPDATE ycsb SET n = n + 1, field = repeat('y', 100) WHERE id = :id;
