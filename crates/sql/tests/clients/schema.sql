create table pgbench_history(tid int,bid int,aid    int,delta int,mtime timestamp,filler char(22));
create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) with (fillfactor=100);
create table pgbench_accounts(aid    int not null,bid int,abalance int,filler char(84)) with (fillfactor=100);
create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor=100);
alter table pgbench_branches add primary key (bid);
alter table pgbench_tellers add primary key (tid);
alter table pgbench_accounts add primary key (aid);
create table orders(
  customer integer not null,
  number bigint not null,
  placed timestamptz default now(),
  code varchar(12) unique,
  kind char(3) not null default 'std',
  price numeric(12,2) not null default 0,
  weight numeric,
  note text default 'none',
  day date,
  moment timestamp(3),
  done boolean default false,
  small smallint default 7 not null,
  primary key (customer, number)
);
create index orders_placed on orders (placed desc, code);
create unique index orders_note on orders (note);
create table "Odd Name"("Some Column" int, b real, c double precision);
