select * from types order by id;
select * from account order by id;
select id, balance from account where balance < 100 order by balance desc, id;
select * from grown_up order by id;
select id, part from late order by part, id;
select id, length(text), substr(text, 1, 12) from large order by id;
select rolname, rolcanlogin from pg_roles where rolname = 'reader';
select has_table_privilege('reader', 'account', 'SELECT'), has_table_privilege('reader', 'late', 'SELECT');
