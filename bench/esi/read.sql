\set id random(1, :records)
SELECT field FROM ycsb WHERE id = :id;
