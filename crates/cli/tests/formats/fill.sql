-- What a fixture holds: every type that is stored, rows older than their table's columns, a
-- transaction of several frames, indexes, roles and grants, before and after a checkpoint.
create table types (
    id int primary key, a smallint, b bigint, c real, d double precision, e numeric,
    f numeric(12, 3), g text not null default 'none', h varchar(20), i char(5), j boolean,
    k date, l timestamp, m timestamptz
);
insert into types values
    (1, 1, 2, 1.5, 2.25, 12345678901234567890.0123456789, 3.14159, 'g', 'h', 'i', true,
     '2024-02-29', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789+02'),
    (2, -32768, -9223372036854775808, -1e-30, 1e300, -0.000000001, -1.5, 'ü – 漢字 🙂', '', '', false,
     '0001-01-01', '1970-01-01', '1970-01-01 00:00:00Z'),
    (3, 32767, 9223372036854775807, 'Infinity', 'NaN', 'NaN', null, e'line\nbreak\t\\', null, null, null,
     'infinity', '-infinity', 'infinity'),
    (4, null, null, null, null, null, null, default, null, null, null, null, null, null);
create table account (id bigint primary key, name text unique, balance numeric not null);
insert into account select n, 'name ' || n::text, n * 1.25 from generate_series(1, 800) as g (n);
create index account_balance on account (balance desc, id);
create table grown (id int primary key, old text, gone int);
insert into grown select n, 'old ' || n::text, n from generate_series(1, 50) as g (n);
alter table grown add column later int default 7;
alter table grown drop column gone;
insert into grown select n, 'new ' || n::text, n from generate_series(51, 80) as g (n);
create role reader login password 'secret';
grant select on account to reader;
create table large (id int primary key, text text not null);
insert into large select n, repeat(n::text, 20000) from generate_series(100000, 100079) as g (n);
checkpoint;
begin;
update account set balance = balance - 1 where id % 7 = 0;
savepoint one;
delete from account where id > 10;
rollback to one;
delete from account where id % 50 = 0;
commit;
begin;
delete from account;
rollback;
update account set name = 'renamed' where id = 13;
alter table grown rename to grown_up;
create table dropped (id int primary key);
insert into dropped values (1);
drop table dropped;
create table late (id text, part int, primary key (part, id));
insert into late select 'id ' || n::text, n % 3 from generate_series(1, 60) as g (n);
insert into large select n, repeat('x', 200000) from generate_series(1, 50) as g (n);
