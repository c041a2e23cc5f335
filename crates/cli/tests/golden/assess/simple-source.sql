-- What golden/assess/simple.sql is a dump of: record.sh plays this on a PostgreSQL.
-- Nothing in it but what Coeval has.
CREATE TABLE customer (
    id integer PRIMARY KEY,
    name character varying(40) NOT NULL,
    "E-Mail" text UNIQUE,
    balance numeric(12,2) DEFAULT 0.00 NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    born date,
    is_active boolean DEFAULT true NOT NULL
);
CREATE TABLE purchase (
    customer integer NOT NULL,
    number bigint NOT NULL,
    price double precision,
    at timestamp without time zone,
    code character(4) DEFAULT 'none'::bpchar,
    PRIMARY KEY (customer, number)
);
CREATE TABLE empty (a smallint, b real);
CREATE UNIQUE INDEX customer_name ON customer (name, born DESC);
CREATE INDEX purchase_at ON purchase (at DESC NULLS LAST, price);
ALTER TABLE purchase ADD CONSTRAINT one_price UNIQUE (price, at);
INSERT INTO customer VALUES
    (1, 'ada', 'ada@example.org', 100.50, '2026-01-01 12:00:00+00', '1815-12-10', true),
    (2, 'bob', NULL, 0, '2026-01-02 12:00:00.5+00', NULL, false),
    (3, 'Zoë', E'tab\tline\nback\\slash', -1, '2026-01-03 12:00:00+00', '2000-02-29', true),
    (4, '\.', '', 9999999999.99, '1999-12-31 23:59:59+00', '0044-03-15 BC', true);
INSERT INTO purchase VALUES
    (1, 1, 0.1, '2026-01-01 12:00:00', 'ab'),
    (1, 2, 'Infinity', NULL, NULL),
    (2, 9007199254740993, 'NaN', '2026-01-01 00:00:00.123456', 'none');
GRANT SELECT ON customer TO PUBLIC;
