-- What golden/assess/bank.sql is a dump of: record.sh plays this on a PostgreSQL.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE account (
    id integer PRIMARY KEY,
    owner character varying(40) NOT NULL,
    balance numeric(12,2) DEFAULT 0.00 NOT NULL,
    opened timestamp with time zone DEFAULT now() NOT NULL,
    note text
);
CREATE INDEX account_owner ON account (owner);
CREATE INDEX account_lower ON account (lower(owner));
COMMENT ON TABLE account IS 'What people have; with a semicolon.';
INSERT INTO account VALUES
    (1, 'ada', 100.50, '2026-01-01 12:00:00+00', E'tab\tnewline\nbackslash\\ and ;'),
    (2, 'bob', 0, '2026-01-02 12:00:00+00', NULL),
    (3, 'Zoë', -1, '2026-01-03 12:00:00+00', '\.');
CREATE TABLE ledger (
    id bigserial PRIMARY KEY,
    account integer NOT NULL REFERENCES account (id),
    amount numeric(12,2) CHECK (amount <> 0),
    at date NOT NULL
);
INSERT INTO ledger (account, amount, at) VALUES (1, 5, '2026-01-01'), (2, -5, '2026-01-01');
CREATE TABLE diary (day date PRIMARY KEY, mood mood, text text);
INSERT INTO diary VALUES ('2026-01-01', 'happy', 'new'), ('2026-01-02', 'ok', 'old');
CREATE TABLE counter (id integer GENERATED ALWAYS AS IDENTITY, n integer);
CREATE VIEW rich AS SELECT id, owner FROM account WHERE balance > 1000;
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
begin
    new.note := 'touched; ' || coalesce(new.note, '');
    return new;
end;
$$;
CREATE FUNCTION double(n integer) RETURNS integer LANGUAGE sql
BEGIN ATOMIC
    SELECT CASE WHEN n IS NULL THEN 0 ELSE n * 2 END;
END;
CREATE TRIGGER touched BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION touch();
GRANT SELECT ON account TO PUBLIC;
GRANT SELECT ON rich TO PUBLIC;
