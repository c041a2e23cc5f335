-- Indexes of foreign keys, as an application has them.
create index supplier_nation on supplier (s_nationkey);
create index partsupp_supplier on partsupp (ps_suppkey);
create index customer_nation on customer (c_nationkey);
create index orders_customer on orders (o_custkey);
create index lineitem_part on lineitem (l_partkey, l_suppkey);
create index lineitem_supplier on lineitem (l_suppkey);
analyze;
