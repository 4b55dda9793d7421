-- The star-schema benchmark: its five tables out of TPC-H's, and its 13 queries.
-- O'Neil, O'Neil, Chen: Star Schema Benchmark, revision 3 (2009). Its generator is not used; the
-- tables have the columns that the queries read, with values made from TPC-H's rows.

--: table lineorder
SELECT o_orderdate AS lo_day, year(o_orderdate) * 10000 + month(o_orderdate) * 100
    + day(o_orderdate) AS lo_orderdate,
  l_orderkey AS lo_orderkey, o_custkey AS lo_custkey, l_partkey AS lo_partkey,
  l_suppkey AS lo_suppkey, CAST(l_quantity AS int) AS lo_quantity,
  CAST(l_discount * 100 AS int) AS lo_discount,
  CAST(l_extendedprice * 100 AS bigint) AS lo_extendedprice,
  CAST(l_extendedprice * (1 - l_discount) * 100 AS bigint) AS lo_revenue,
  CAST(60 * l_extendedprice / l_quantity AS bigint) AS lo_supplycost
FROM lineitem JOIN orders ON l_orderkey = o_orderkey;

--: table date
SELECT year(day) * 10000 + month(day) * 100 + day(day) AS d_datekey, year(day) AS d_year,
  year(day) * 100 + month(day) AS d_yearmonthnum, date_format(day, 'MMMyyyy') AS d_yearmonth,
  CAST(ceil(dayofyear(day) / 7) AS int) AS d_weeknuminyear
FROM (SELECT explode(sequence(DATE '1992-01-01', DATE '1998-12-31')) AS day);

--: table customer
SELECT c_custkey, c_name, upper(n_name) AS c_nation, r_name AS c_region,
concat(rpad(substring(n_name, 1, 9), 9, ' '), c_custkey % 10) AS c_city FROM customer JOIN nation
ON c_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey;

--: table supplier
SELECT s_suppkey, s_name, upper(n_name) AS s_nation, r_name AS s_region,
concat(rpad(substring(n_name, 1, 9), 9, ' '), s_suppkey % 10) AS s_city FROM supplier JOIN nation
ON s_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey;

--: table part
SELECT p_partkey, concat('MFGR#', substring(p_mfgr, -1, 1)) AS p_mfgr,
  concat('MFGR#', substring(p_brand, 7, 2)) AS p_category,
  concat('MFGR#', substring(p_brand, 7, 2), 1 + p_partkey % 40) AS p_brand1
FROM part;

--: Q1.1
SELECT sum(lo_extendedprice * lo_discount) AS revenue FROM lineorder, date
WHERE lo_orderdate = d_datekey AND d_year = 1993 AND lo_discount BETWEEN 1 AND 3
  AND lo_quantity < 25;

--: Q1.2
SELECT sum(lo_extendedprice * lo_discount) AS revenue FROM lineorder, date
WHERE lo_orderdate = d_datekey AND d_yearmonthnum = 199401 AND lo_discount BETWEEN 4 AND 6
  AND lo_quantity BETWEEN 26 AND 35;

--: Q1.3
SELECT sum(lo_extendedprice * lo_discount) AS revenue FROM lineorder, date
WHERE lo_orderdate = d_datekey AND d_weeknuminyear = 6 AND d_year = 1994
  AND lo_discount BETWEEN 5 AND 7 AND lo_quantity BETWEEN 26 AND 35;

--: Q2.1
SELECT sum(lo_revenue), d_year, p_brand1 FROM lineorder, date, part, supplier
WHERE lo_orderdate = d_datekey AND lo_partkey = p_partkey AND lo_suppkey = s_suppkey
  AND p_category = 'MFGR#12' AND s_region = 'AMERICA'
GROUP BY d_year, p_brand1 ORDER BY d_year, p_brand1;

--: Q2.2
SELECT sum(lo_revenue), d_year, p_brand1 FROM lineorder, date, part, supplier
WHERE lo_orderdate = d_datekey AND lo_partkey = p_partkey AND lo_suppkey = s_suppkey
  AND p_brand1 BETWEEN 'MFGR#2221' AND 'MFGR#2228' AND s_region = 'ASIA'
GROUP BY d_year, p_brand1 ORDER BY d_year, p_brand1;

--: Q2.3
SELECT sum(lo_revenue), d_year, p_brand1 FROM lineorder, date, part, supplier
WHERE lo_orderdate = d_datekey AND lo_partkey = p_partkey AND lo_suppkey = s_suppkey
  AND p_brand1 = 'MFGR#2221' AND s_region = 'EUROPE'
GROUP BY d_year, p_brand1 ORDER BY d_year, p_brand1;

--: Q3.1
SELECT c_nation, s_nation, d_year, sum(lo_revenue) AS revenue
FROM customer, lineorder, supplier, date
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey
  AND c_region = 'ASIA' AND s_region = 'ASIA' AND d_year BETWEEN 1992 AND 1997
GROUP BY c_nation, s_nation, d_year ORDER BY d_year ASC, revenue DESC;

--: Q3.2
SELECT c_city, s_city, d_year, sum(lo_revenue) AS revenue
FROM customer, lineorder, supplier, date
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey
  AND c_nation = 'UNITED STATES' AND s_nation = 'UNITED STATES' AND d_year BETWEEN 1992 AND 1997
GROUP BY c_city, s_city, d_year ORDER BY d_year ASC, revenue DESC;

--: Q3.3
SELECT c_city, s_city, d_year, sum(lo_revenue) AS revenue
FROM customer, lineorder, supplier, date
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey
  AND (c_city = 'UNITED KI1' OR c_city = 'UNITED KI5')
  AND (s_city = 'UNITED KI1' OR s_city = 'UNITED KI5') AND d_year BETWEEN 1992 AND 1997
GROUP BY c_city, s_city, d_year ORDER BY d_year ASC, revenue DESC;

--: Q3.4
SELECT c_city, s_city, d_year, sum(lo_revenue) AS revenue
FROM customer, lineorder, supplier, date
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey
  AND (c_city = 'UNITED KI1' OR c_city = 'UNITED KI5')
  AND (s_city = 'UNITED KI1' OR s_city = 'UNITED KI5') AND d_yearmonth = 'Dec1997'
GROUP BY c_city, s_city, d_year ORDER BY d_year ASC, revenue DESC;

--: Q4.1
SELECT d_year, c_nation, sum(lo_revenue - lo_supplycost) AS profit
FROM date, customer, supplier, part, lineorder
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey
  AND lo_orderdate = d_datekey AND c_region = 'AMERICA' AND s_region = 'AMERICA'
  AND (p_mfgr = 'MFGR#1' OR p_mfgr = 'MFGR#2')
GROUP BY d_year, c_nation ORDER BY d_year, c_nation;

--: Q4.2
SELECT d_year, s_nation, p_category, sum(lo_revenue - lo_supplycost) AS profit
FROM date, customer, supplier, part, lineorder
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey
  AND lo_orderdate = d_datekey AND c_region = 'AMERICA' AND s_region = 'AMERICA'
  AND (d_year = 1997 OR d_year = 1998) AND (p_mfgr = 'MFGR#1' OR p_mfgr = 'MFGR#2')
GROUP BY d_year, s_nation, p_category ORDER BY d_year, s_nation, p_category;

--: Q4.3
SELECT d_year, s_city, p_brand1, sum(lo_revenue - lo_supplycost) AS profit
FROM date, customer, supplier, part, lineorder
WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey
  AND lo_orderdate = d_datekey AND c_region = 'AMERICA' AND s_nation = 'UNITED STATES'
  AND (d_year = 1997 OR d_year = 1998) AND p_category = 'MFGR#14'
GROUP BY d_year, s_city, p_brand1 ORDER BY d_year, s_city, p_brand1;
