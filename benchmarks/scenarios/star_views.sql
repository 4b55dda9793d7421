-- The views of `star-views`, and the questions that it asks of TPC-H.

--: view by_customer
SELECT c_mktsegment, n_name, o_orderpriority, p_mfgr, date_trunc('YEAR', o_orderdate) AS y,
  sum(l_extendedprice * (1 - l_discount)) AS revenue, sum(l_quantity) AS q
FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
  JOIN nation ON c_nationkey = n_nationkey JOIN part ON l_partkey = p_partkey
  JOIN supplier ON l_suppkey = s_suppkey
GROUP BY ALL;

--: view by_supplier
SELECT s_nationkey, p_mfgr, c_mktsegment, sum(l_extendedprice * (1 - l_discount)) AS revenue,
  sum(l_quantity) AS q
FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
  JOIN nation ON c_nationkey = n_nationkey JOIN part ON l_partkey = p_partkey
  JOIN supplier ON l_suppkey = s_suppkey
GROUP BY ALL;

--: segments
SELECT c_mktsegment, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
GROUP BY c_mktsegment;

--: priorities
SELECT o_orderpriority, sum(l_quantity) AS q, count(*) AS c
FROM lineitem JOIN orders ON l_orderkey = o_orderkey
GROUP BY o_orderpriority;

--: makers
SELECT p_mfgr, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem JOIN part ON l_partkey = p_partkey
GROUP BY p_mfgr;

--: suppliers
SELECT s_nationkey, sum(l_quantity) AS q
FROM lineitem JOIN supplier ON l_suppkey = s_suppkey
GROUP BY s_nationkey;

--: nations by year
SELECT n_name, date_trunc('YEAR', o_orderdate) AS y,
  sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
  JOIN nation ON c_nationkey = n_nationkey JOIN part ON l_partkey = p_partkey
  JOIN supplier ON l_suppkey = s_suppkey
GROUP BY 1, 2;

--: one segment
SELECT p_mfgr, s_nationkey, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
  JOIN nation ON c_nationkey = n_nationkey JOIN part ON l_partkey = p_partkey
  JOIN supplier ON l_suppkey = s_suppkey
WHERE c_mktsegment = 'BUILDING'
GROUP BY p_mfgr, s_nationkey;

--: one maker
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
  JOIN nation ON c_nationkey = n_nationkey JOIN part ON l_partkey = p_partkey
  JOIN supplier ON l_suppkey = s_suppkey
WHERE p_mfgr = 'Manufacturer#1' AND o_orderpriority <> '1-URGENT'
GROUP BY n_name;

--: total
SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*) AS c
FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
  JOIN nation ON c_nationkey = n_nationkey JOIN part ON l_partkey = p_partkey
  JOIN supplier ON l_suppkey = s_suppkey;
