"""Notes on each function for docs/functions.md, in the order of the page.

A note is (name, how it is written, what it means, an example); other names are in the function's
record. tests/spark/test_function_notes.py asks Spark for every example.
"""

FUNCTIONS = {
    "Text": [
        ("lower", "lower(text)", "Text in lower case, as in Java's root locale.", "lower('ÀB')"),
        ("upper", "upper(text)", "Text in upper case; ß becomes SS.", "upper('straße')"),
        ("concat", "concat(a, …), a || b", "Texts, or binaries, one after the other; null if any is.", "concat('a', 1)"),
        ("concat_ws", "concat_ws(separator, a, …)", "Texts, and those in arrays, with a separator between them; nulls are left out.", "concat_ws('-', 'a', NULL, array('b', 'c'))"),
        ("initcap", "initcap(text)", "The first letter of each word large, all others small; spaces end words.", "initcap('a-b éC')"),
        ("translate", "translate(text, letters, others)", "Each letter of a list replaced by the one at its place in another; without one it is removed.", "translate('abcb', 'bc', 'x')"),
        ("hex", "hex(x)", "A whole number, or the bytes of a text or binary, in hexadecimal.", "hex(-3)"),
        ("length", "length(text)", "Characters of a text, bytes of a binary.", "length('héé')"),
        ("octet_length", "octet_length(text)", "Bytes of a text in UTF-8.", "octet_length('é')"),
        ("substring", "substring(text, from[, length])", "From position 1 on; from the end if negative.", "substring('abcd', -3, 2)"),
        ("left", "left(text, length)", "The first characters.", "left('abc', 2)"),
        ("right", "right(text, length)", "The last characters.", "right('abc', 2)"),
        ("split_part", "split_part(text, delimiter, n)", "The n-th part, from the end if negative; empty where there is none. 0 is an error.", "split_part('a.b.c', '.', -1)"),
        ("position", "position(part, text[, from])", "Position of the first occurrence of a part, from 1; 0 if there is none.", "position('b', 'abcb', 3)"),
        ("instr", "instr(text, part)", "The same with the text first.", "instr('abc', 'c')"),
        ("trim", "trim([BOTH characters FROM] text)", "Without spaces, or the given characters, at both ends.", "trim(BOTH 'xy' FROM 'yxaxy')"),
        ("btrim", "btrim(text[, characters])", "The same as a function.", "btrim('xxa', 'x')"),
        ("ltrim", "ltrim([characters,] text)", "Without the characters at the start.", "ltrim('x', 'xxa')"),
        ("rtrim", "rtrim([characters,] text)", "Without the characters at the end.", "rtrim('a  ')"),
        ("lpad", "lpad(text, length[, pad])", "Padded or cut to a length, at the start; a binary with zeros, or a binary, stays one.", "lpad('abc', 5, 'xy')"),
        ("rpad", "rpad(text, length[, pad])", "The same at the end.", "rpad('abc', 4, '-')"),
        ("repeat", "repeat(text, count)", "Text several times.", "repeat('ab', 2)"),
        ("replace", "replace(text, part[, by])", "Every part replaced, or removed.", "replace('abc', 'b')"),
        ("reverse", "reverse(text)", "Characters, or the bytes of a binary, in reverse order.", "reverse('abc')"),
        ("startswith", "startswith(text, part)", "Whether a text begins with the part.", "startswith('abc', 'ab')"),
        ("endswith", "endswith(text, part)", "Whether a text ends with the part.", "endswith('abc', 'bc')"),
        ("contains", "contains(text, part)", "Whether a text contains the part.", "contains('abc', 'b')"),
        ("md5", "md5(text)", "The digest of a text's UTF-8 or a binary, in hexadecimal.", "md5('abc')"),
        ("sha1", "sha1(text)", "The same by SHA-1.", "sha1('abc')"),
        ("sha2", "sha2(text, bits)", "The same by SHA-2 of 224, 256, 384 or 512 bits; 0 means 256, other bits give null.", "sha2('abc', 224)"),
        ("crc32", "crc32(text)", "The CRC-32 of the same bytes, bigint.", "crc32('abc')"),
        ("bin", "bin(n)", "The binary digits of a bigint.", "bin(-3)"),
        ("hash", "hash(a, …)", "Spark's Murmur3 hash, int; a null changes nothing.", "hash('abc', 1, NULL)"),
        ("xxhash64", "xxhash64(a, …)", "Spark's XXH64 hash, bigint.", "xxhash64('abc', 1, NULL)"),
    ],
    "Sketches of distinct values": [
        ("hll_sketch_estimate", "hll_sketch_estimate(sketch)", "How many distinct values a sketch is of that `hll_sketch_agg` made, bigint; of lgK 12, unless they are few.", "hll_sketch_estimate(X'0201070C030802082BF2FB06862FF90D')"),
    ],
    "Patterns": [
        ("like", "text LIKE pattern [ESCAPE c]", "% is any text, _ one character, \\ the escape.", "'a_b' LIKE 'a/_%' ESCAPE '/'"),
        ("ilike", "text ILIKE pattern [ESCAPE c]", "The same, with both in lower case.", "'Abc' ILIKE 'aB%'"),
        ("rlike", "text RLIKE pattern", "Whether the pattern is found anywhere; see [regular expressions](#regular-expressions).", "'abc' RLIKE '^a.c$'"),
        ("regexp_extract", "regexp_extract(text, pattern[, group])", "What a group, 1 unless given, holds at the first match; empty without one. The pattern is a constant.", "regexp_extract('a-12', '([a-z])-([0-9]+)', 2)"),
        ("regexp_replace", "regexp_replace(text, pattern, replacement)", "Every match replaced; `$1` is what the first group holds. Pattern and replacement are constants.", "regexp_replace('a-12', '([a-z])-', '$1+')"),
        ("split", "split(text, pattern[, limit])", "The array of parts between matches; at most `limit` of them if that is positive.", "split('a1b2c', '[0-9]')[1]"),
    ],
    "Numbers": [
        ("abs", "abs(x)", "Without its sign; the least integer has none and is an error.", "abs(-1.5)"),
        ("negative", "negative(x), -x", "With the other sign.", "negative(1)"),
        ("positive", "positive(x), +x", "The number itself.", "positive(1)"),
        ("mod", "mod(a, b), a % b", "The remainder, with the sign of a.", "mod(-7, 3)"),
        ("pmod", "pmod(a, b)", "The remainder, with the sign of b.", "pmod(-7, 3)"),
        ("div", "div(a, b), a DIV b", "The whole part of the quotient, bigint.", "-7 DIV 2"),
        ("sign", "sign(x)", "-1, 0 or 1 as double.", "sign(-3)"),
        ("floor", "floor(x[, digits])", "The next whole number below; at decimal digits, a decimal.", "floor(-1.5)"),
        ("ceil", "ceil(x[, digits])", "The next whole number above; at decimal digits, a decimal.", "ceil(1.2D)"),
        ("round", "round(x[, digits])", "Half away from zero, at decimal digits.", "round(12.345, 2)"),
        ("bround", "bround(x[, digits])", "The same, half to the even digit.", "bround(2.5, 0)"),
        ("sqrt", "sqrt(x)", "Square root; NaN below 0.", "sqrt(2.25D)"),
        ("exp", "exp(x)", "e to the power of x.", "exp(0)"),
        ("ln", "ln(x)", "Natural logarithm; null at 0 and below.", "ln(1)"),
        ("log10", "log10(x)", "Logarithm to base 10; null at 0 and below.", "log10(1000)"),
        ("log2", "log2(x)", "Logarithm to base 2; null at 0 and below.", "log2(8)"),
        ("log", "log([base,] x)", "Logarithm to a base, natural unless given; null where x or the base is 0 or below.", "log(2, 8)"),
        ("power", "power(x, y)", "x to the power of y, double.", "power(2, 10)"),
        ("least", "least(a, …)", "The least that is not null.", "least(3, NULL, 2)"),
        ("greatest", "greatest(a, …)", "The greatest that is not null; NaN is above all.", "greatest(3, NULL, 2)"),
        ("try_add", "try_add(a, b)", "a + b; null where that is an error.", "try_add(2147483647, 1)"),
        ("try_subtract", "try_subtract(a, b)", "a - b; null where that is an error.", "try_subtract(5, 3)"),
        ("try_multiply", "try_multiply(a, b)", "a * b; null where that is an error.", "try_multiply(2147483647, 2)"),
        ("try_divide", "try_divide(a, b)", "a / b; null where that is an error.", "try_divide(1, 0)"),
        ("try_mod", "try_mod(a, b)", "a % b; null where that is an error.", "try_mod(7, 4)"),
    ],
    "Conditions": [
        ("if", "if(condition, a, b)", "a where the condition is true, else b.", "if(1 < 2, 'a', 'b')"),
        ("coalesce", "coalesce(a, …)", "The first that is not null.", "coalesce(NULL, 2)"),
        ("nvl", "nvl(a, b)", "The same with two.", "nvl(NULL, 2)"),
        ("nvl2", "nvl2(a, b, c)", "b where a is not null, else c.", "nvl2(NULL, 1, 2)"),
        ("nullif", "nullif(a, b)", "Null where they are equal, else a.", "nullif(5, 5)"),
        ("isnull", "isnull(a), a IS NULL", "Whether it is null.", "isnull(NULL)"),
        ("isnotnull", "isnotnull(a), a IS NOT NULL", "Whether it is not.", "isnotnull(NULL)"),
        ("isnan", "isnan(x)", "Whether it is NaN; false for null.", "isnan(CAST('NaN' AS DOUBLE))"),
        ("equal_null", "equal_null(a, b), a <=> b", "Equality in which null equals null.", "equal_null(NULL, NULL)"),
    ],
    "Dates and times": [
        ("date_trunc", "date_trunc(unit, time)", "Start of the YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, … in the session's zone.", "date_trunc('WEEK', TIMESTAMP '2015-09-12 03:04:05')"),
        ("trunc", "trunc(date, unit)", "Start of the YEAR, QUARTER, MONTH or WEEK as a date.", "trunc(DATE '2015-09-12', 'MONTH')"),
        ("time_bucket", "time_bucket(interval, time[, origin])", "Start of a bucket of that size.", "time_bucket(INTERVAL '15' MINUTE, TIMESTAMP '2015-09-12 03:04:05')"),
        ("year", "year(date)", "The year.", "year(DATE '2015-09-12')"),
        ("quarter", "quarter(date)", "1 to 4.", "quarter(DATE '2015-09-12')"),
        ("month", "month(date)", "1 to 12.", "month(DATE '2015-09-12')"),
        ("day", "day(date)", "1 to 31.", "day(DATE '2015-09-12')"),
        ("dayofweek", "dayofweek(date)", "1 is Sunday.", "dayofweek(DATE '2015-09-12')"),
        ("weekday", "weekday(date)", "0 is Monday.", "weekday(DATE '2015-09-12')"),
        ("dayofyear", "dayofyear(date)", "1 to 366.", "dayofyear(DATE '2015-09-12')"),
        ("weekofyear", "weekofyear(date)", "ISO week, 1 to 53.", "weekofyear(DATE '2021-01-03')"),
        ("hour", "hour(time)", "0 to 23 in the session's zone.", "hour(TIMESTAMP '2015-09-12 03:04:05')"),
        ("minute", "minute(time)", "0 to 59.", "minute(TIMESTAMP '2015-09-12 03:04:05')"),
        ("second", "second(time)", "0 to 59.", "second(TIMESTAMP '2015-09-12 03:04:05')"),
        ("date_part", "date_part(field, time), EXTRACT(field FROM time)", "A field by its name; SECOND has its fraction.", "date_part('SECOND', TIMESTAMP '2015-09-12 03:04:05.5')"),
        ("date_format", "date_format(time, pattern)", "Text by a constant pattern; see [patterns of times](#patterns-of-times).", "date_format(TIMESTAMP '2015-09-12 03:04:05', 'EEE d MMM yyyy, h:mm a')"),
        ("from_unixtime", "from_unixtime(seconds[, pattern])", "The same of seconds since 1970; `yyyy-MM-dd HH:mm:ss` unless given.", "from_unixtime(86400)"),
        ("date_add", "date_add(date, days), date + days", "Days later.", "date_add(DATE '2015-09-12', 30)"),
        ("date_sub", "date_sub(date, days), date - days", "Days earlier.", "date_sub(DATE '2015-09-12', 12)"),
        ("add_months", "add_months(date, months)", "Months later, at most at the month's end.", "add_months(DATE '2015-01-31', 1)"),
        ("last_day", "last_day(date)", "The last day of the month.", "last_day(DATE '2020-02-03')"),
        ("datediff", "datediff(end, start)", "Days between.", "datediff(DATE '2015-09-12', DATE '2015-09-01')"),
        ("timestampdiff", "timestampdiff(unit, start, end)", "Whole units between two times on the session's clock, bigint, from `MICROSECOND` to `YEAR`. Also `date_diff` and `datediff` with a unit.", "timestampdiff(MONTH, TIMESTAMP '2015-01-31 12:00:00', TIMESTAMP '2015-03-01 11:00:00')"),
        ("convert_timezone", "convert_timezone([from,] to, time)", "What the clock of a zone shows, a timestamp_ntz, when that of another, by default the session's, shows a time; zones are constants.", "convert_timezone('Europe/Paris', 'Asia/Tokyo', TIMESTAMP_NTZ '2015-09-12 01:02:03')"),
        ("make_timestamp", "make_timestamp(year, month, day, hour, minute, second[, zone])", "The instant at which a clock shows these, by default that of the session; the zone is a constant.", "make_timestamp(2015, 9, 12, 1, 2, 3.5)"),
        ("make_timestamp_ntz", "make_timestamp_ntz(year, month, day, hour, minute, second)", "What a clock shows, without a zone.", "make_timestamp_ntz(2015, 9, 12, 1, 2, 3.5)"),
        ("make_date", "make_date(year, month, day)", "A date; an error if there is none.", "make_date(2015, 9, 12)"),
        ("unix_timestamp", "unix_timestamp(time)", "Seconds since 1970.", "unix_timestamp(TIMESTAMP '1970-01-02 00:00:00')"),
        ("unix_seconds", "unix_seconds(time)", "The same, rounded down; a timestamp_ntz counts by its own clock.", "unix_seconds(TIMESTAMP '1970-01-02 00:00:00')"),
        ("unix_millis", "unix_millis(time)", "Milliseconds since 1970.", "unix_millis(TIMESTAMP '1970-01-02 00:00:00')"),
        ("unix_micros", "unix_micros(time)", "Microseconds since 1970.", "unix_micros(TIMESTAMP '1970-01-02 00:00:00')"),
        ("timestamp_seconds", "timestamp_seconds(n)", "The timestamp so long after 1970; null for NaN and infinities, an error for a decimal with parts of a microsecond.", "timestamp_seconds(1.5)"),
        ("timestamp_millis", "timestamp_millis(n)", "The same for milliseconds.", "timestamp_millis(1500)"),
        ("timestamp_micros", "timestamp_micros(n)", "The same for microseconds.", "timestamp_micros(1500)"),
    ],
    "Arrays": [
        ("array", "array(a, …)", "Values of one type as an array.", "size(array(1, 2, NULL))"),
        ("array_contains", "array_contains(array, value)", "Whether an item is equal to the value; null if none is and one is null.", "array_contains(split('a,b', ','), 'b')"),
        ("size", "size(array)", "How many items an array has.", "size(split('a,b', ','))"),
        ("get", "get(array, n)", "The item at a position from 0 on; null if there is none.", "get(array(3, 4), 2)"),
        ("element_at", "element_at(array, n)", "The item at a position from 1 on, or from -1 at the end; an error if there is none.", "element_at(array(3, 4), -1)"),
        ("try_element_at", "try_element_at(array, n)", "The same, and null if there is none.", "try_element_at(array(3, 4), 3)"),
    ],
    "Casts": [
        ("to_date", "to_date(x)", "CAST(x AS DATE).", "to_date('2015-9-1')"),
        ("to_timestamp", "to_timestamp(x)", "CAST(x AS TIMESTAMP).", "to_timestamp('2015-09-12 01:02')"),
        ("to_timestamp_ntz", "to_timestamp_ntz(x)", "CAST(x AS TIMESTAMP_NTZ).", "to_timestamp_ntz('2015-09-12 01:02')"),
        ("string", "string(x)", "CAST(x AS STRING).", "string(1.50)"),
        ("binary", "binary(x)", "CAST(x AS BINARY).", "binary('ab')"),
        ("boolean", "boolean(x)", "CAST(x AS BOOLEAN).", "boolean('yes')"),
        ("tinyint", "tinyint(x)", "CAST(x AS TINYINT).", "tinyint('7')"),
        ("smallint", "smallint(x)", "CAST(x AS SMALLINT).", "smallint('7')"),
        ("int", "int(x)", "CAST(x AS INT).", "int(1.9)"),
        ("bigint", "bigint(x)", "CAST(x AS BIGINT).", "bigint(' 7 ')"),
        ("float", "float(x)", "CAST(x AS FLOAT).", "float('1.5')"),
        ("double", "double(x)", "CAST(x AS DOUBLE).", "double('1e3')"),
        ("decimal", "decimal(x)", "CAST(x AS DECIMAL(10,0)).", "decimal('1.5')"),
    ],
}  # fmt: skip

OWN_FUNCTIONS = [
    ("timestamp_floor", "timestamp_floor(time, period[, origin[, zone]])", "Start of an ISO 8601 period, as Druid has it.", "timestamp_floor(TIMESTAMP '2015-09-12 03:04:05', 'PT6H')"),
    ("in_zone", "in_zone(zone, expression)", "The expression, with times read and cut in that zone.", "in_zone('Asia/Kolkata', hour(TIMESTAMP '2015-09-12 03:04:05Z'))"),
    ("text_match", "text_match(text, query)", "Whether a text has the words of a query, whatever their case; see [indexes.md](indexes.md#words). The query is a constant.", "text_match('War and Peace', 'war -\"peace and\" (pea* OR truce)')"),
    ("yearofweek", "yearofweek(date)", "The year of the ISO week; Spark writes EXTRACT(YEAROFWEEK FROM date).", "yearofweek(DATE '2021-01-03')"),
    ("second_with_fraction", "second_with_fraction(time)", "Seconds with microseconds; Spark writes EXTRACT(SECOND FROM time).", "second_with_fraction(TIMESTAMP '2015-09-12 03:04:05.5')"),
]  # fmt: skip
"""Functions that Spark lacks; canonical texts may have them."""

SYNTAX = [
    ("= == <=> != <> < <= > >=", "Text compares by bytes; NaN equals itself and is above all; -0.0 is 0.0.", "CAST('NaN' AS DOUBLE) > 1e308"),
    ("AND OR NOT", "With three values; an operand that may fail is computed only for rows that need it.", "NULL AND FALSE"),
    ("BETWEEN, IN (list), IS [NOT] NULL/TRUE/FALSE, IS [NOT] DISTINCT FROM", "A query inside IN is refused.", "2 BETWEEN 1 AND 3"),
    ("+ - * /", "With Spark's result types; overflow and division by zero are errors.", "7 / 2"),
    ("& | ^ ~", "Bits of whole numbers.", "5 & 6 | 8"),
    ("CASE, CAST(x AS type), x::type", "A cast that loses or cannot read a value is an error.", "CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END"),
    ("TRY_CAST(x AS type)", "The same; null where a cast is an error.", "TRY_CAST('12a' AS INT)"),
    ("array[n]", "The item at a position from 0 on; an error if there is none.", "split('a,b', ',')[1]"),
    ("current_timestamp(), now(), current_date(), curdate(), localtimestamp()", "The instant of the query and its date, the same in all of its texts; refused in projections. `current_date`, `current_timestamp` and `localtimestamp` need no brackets.", None),
    ("time + INTERVAL …, time - INTERVAL …", "Intervals are constants; they are no values of their own.", "DATE '2020-02-29' + INTERVAL 1 YEAR"),
    ("window(time, '1 hour').start", "Tumbling windows, aligned to 1970 in UTC.", None),
    ("struct.field", "A field of a struct column.", None),
]  # fmt: skip

AGGREGATES = {
    "count": "Rows (`count(*)`), or rows in which no argument is null.",
    "count_if": "Rows in which the condition is true.",
    "sum": "The sum; whole numbers and decimals are kept exact, and only a total that does not fit is an error.",
    "avg": "The mean.",
    "try_sum": "The sum, null where the total does not fit.",
    "try_avg": "The mean, null where it does not fit.",
    "min": "The least value in Spark's order.",
    "max": "The greatest value in Spark's order.",
    "var_pop": "Variance of the population.",
    "var_samp": "Variance of a sample; null for one row.",
    "stddev_pop": "Standard deviation of the population.",
    "stddev_samp": "Standard deviation of a sample; null for one row.",
    "first": "The value of the earliest row by the table's time column.",
    "last": "The value of the latest row by the table's time column.",
    "min_by": "`min_by(x, y)`: x where y is least.",
    "max_by": "`max_by(x, y)`: x where y is greatest.",
    "bool_and": "Whether all are true.",
    "bool_or": "Whether any is true.",
    "bit_and": "Bits that all have.",
    "bit_or": "Bits that any has.",
    "bit_xor": "Bits that an odd number of values have.",
    "hll_sketch_agg": "`hll_sketch_agg(x[, lgK])`: a sketch of distinct values that Spark's `hll_sketch_estimate` and `hll_union_agg` read.",
    "approx_count_distinct": "`approx_count_distinct(x[, error])`: the estimate of the sketch of lgK 12, about 1.6 % off. A relative standard error from 0.0173 to 0.39 may be asked for, and is kept to by the same sketch.",
    "theta_sketch_agg": "`theta_sketch_agg(x[, lgK])`: a theta sketch of distinct values.",
    "kll_sketch_agg_bigint": "`kll_sketch_agg_bigint(x[, k])`: a sketch of quantiles that Spark's `kll_sketch_get_quantile_bigint` and `kll_merge_agg_bigint` read; k is 200 unless given.",
    "kll_sketch_agg_float": "The same of floats.",
    "kll_sketch_agg_double": "The same of doubles.",
    "approx_percentile": "`approx_percentile(x, p[, accuracy])`: the least value that a share p, from 0 to 1, of all values is at most as great as; for `array(p, …)` an array. It is wrong by at most one in `accuracy` ranks, by default 10,000; see [quantiles](#quantiles).",
    "percentile": "`percentile(x, p)`, `percentile_cont(p) WITHIN GROUP (ORDER BY x)`: exactly, between the two values next to the place p (n - 1); for `array(p, …)` an array. From base rows, or from x as a grouping column with a stored count.",
    "percentile_disc": "`percentile_disc(p) WITHIN GROUP (ORDER BY x)`: the least value that a share p of all is at most as great as, exactly.",
    "median": "`percentile(x, 0.5)`.",
    "any_value": "The least value, so that the answer is the same from rows and from projections.",
    "collect_set": "The distinct values as an array, ascending.",
    "collect_list": "All values as an array, ascending, NaN last: the same array from every source. Of x as a grouping column with a stored count, or of base rows. With DISTINCT it is `collect_set`.",
    "listagg": "`listagg(x[, separator])`: all values as one text, ascending as texts, with a constant between them; null of none. Of x as a grouping column with a stored count, or of base rows. With DISTINCT each once.",
    "listagg_distinct": "`listagg(DISTINCT x[, separator])`: the distinct values.",
    "covar_pop": "`covar_pop(x, y)`: covariance of the population; rows in which one is null do not count. From base rows.",
    "covar_samp": "The same of a sample.",
    "corr": "`corr(x, y)`: Pearson's correlation; null where one is everywhere the same. From base rows.",
    "skewness": "The third moment in standard deviations. From base rows.",
    "kurtosis": "The fourth moment in standard deviations, less 3. From base rows.",
    "mode": "`mode(x)`, `mode() WITHIN GROUP (ORDER BY x)`: the most frequent value, of several the least. Of x as a grouping column with a stored count, or of base rows.",
    "count_distinct": "`count(DISTINCT x)`: how many distinct values, exactly; a projection stores the values of each group. `count(DISTINCT x, y, …)`: how many distinct combinations without a null; no projection stores these, but one that groups by all of them answers.",
    "sum_distinct": "`sum(DISTINCT x)`: the sum of distinct values.",
    "avg_distinct": "`avg(DISTINCT x)`: the mean of distinct values.",
}  # fmt: skip

DIFFERENCES = [
    ("functions", "A name that is not on this page is refused with `PROJSEG_UNSUPPORTED_FUNCTION`; so are subqueries, window functions (`OVER`) and what has no fixed value, such as `rand()`, or `now()` in a projection."),
    ("casts of arguments", "are those of `CAST`, so `hour(0)`, `NOT 1` and `date_add(d, 3L)` have values; Spark refuses them."),
    ("errors beside nulls", "are errors: an argument that cannot be cast is one even where another argument is null. Spark may not look at it."),
    ("years outside 1 to 9999", "are refused, in texts and in what functions give; Spark goes on, and wraps around at the ends of its types."),
    ("binaries that are not UTF-8", "are no texts: `CAST` to string, and functions of texts, refuse them. Spark keeps the bytes, or writes � for them."),
    ("zones in texts of times", "are those of `tzdata`, so that Java's `PST` and the like are not known."),
    ("texts of a time alone", "such as `'03:04'` or `'T03:04'`, are no timestamps; Spark puts them on the day of the query."),
    ("the last digits", "of `exp`, `ln`, `log`, `log2`, `log10` and `power` may differ; the extension leaves these to Spark."),
    ("`window(time, …).start`", "of a null time is null; Spark drops the row."),
    ("`unix_timestamp`", "of a text takes what `CAST` to timestamp takes; Spark's takes `yyyy-MM-dd HH:mm:ss` alone."),
    ("`DIV` of decimals", "is an error where the quotient passes bigint; Spark's wraps around."),
    ("`array[n]`", "of a bigint beyond int is an error; Spark's wraps around."),
    ("`least`, `greatest`", "take no arrays, maps or structs."),
    ("`date - date`", "is refused; write `datediff`."),
    ("`to_date`, `to_timestamp`, `unix_timestamp`", "take no format."),
    ("`from_unixtime`", "is an error outside the years 1 to 9999; Spark's wraps around."),
    ("`regexp_extract`, `regexp_replace`, `split`, `date_format`", "take constant patterns, `regexp_replace` a constant replacement, no position and no pattern that may match the empty text."),
    ("`listagg`", "is ordered by the values, which `WITHIN GROUP (ORDER BY x)` asks of Spark's, too; other orders are refused."),
    ("`x AT TIME ZONE 'zone'`", "is no SQL of Spark's: of a timestamp it is what the zone's clock shows, a timestamp_ntz, and of that the instant."),
    ("`make_timestamp`, `make_timestamp_ntz`", "are an error for seconds outside 0 to 60; Spark's wrap around for the least integers."),
    ("`concat_ws`", "takes arrays of strings only."),
    ("`try_add`, `try_subtract`, `try_multiply`, `try_divide`, `try_mod`", "take numbers; write `TRY_CAST` around a text."),
    ("`lpad`, `rpad`, `repeat`", "make no text longer than 1,048,576 characters."),
    ("`lower`, `upper`, `ILIKE`", "map letters by the version of Unicode of the running Python, Spark by that of its JVM."),
    ("`sum`", "of whole numbers and decimals is an error only if the total does not fit. Spark's may overflow on the way; so `try_sum` and `try_avg` may be null in Spark and a number here."),
    ("`sum`, `avg` of doubles", "depend on the order of addition in their last digits, in Spark as here."),
    ("variances, deviations", "of n values are right to about n u from rows and (n + 4 k) u from projections, where u is 2^-53 and k the root of 1 + (mean / deviation)²: 15 digits and, at a mean a million times the deviation, 9. Spark's one pass gives n k u."),
    ("the negative and `abs` of a decimal", "are exact; Spark rounds them to 34 digits."),
    ("`NULL / d`", "of a decimal is a decimal; Spark takes both for doubles."),
    ("the zeros of doubles", "are told apart in expressions; `min`, `max` and groups give 0.0 for both."),
    ("text of floats and doubles", "is the shortest, as Java writes it from version 19 on; before, Java writes some with more digits."),
    ("casts to timestamps", "outside the years 1 to 9999 are refused; Spark's wrap around."),
    ("`first`, `last`", "go by the table's time column. Spark's take whichever row comes first."),
    ("`approx_count_distinct`", "is a DataSketches HLL of lgK 12 (1.6 %), so that projections can serve it; Spark's is HyperLogLog++ (5 %). The estimates differ."),
    ("`percentile`, `median`", "may differ in the last digit where they lie between two values. They take no frequencies and no DISTINCT, and decimals of at most 18 digits; WITHIN GROUP orders ascending. Projections do not store them."),
    ("`any_value`", "is the least value, so that every source gives the same; Spark's is whichever comes first, and may be null."),
    ("`collect_set`, `collect_list`", "are ordered by the values, and know one zero and one NaN; Spark's order is not stated, and its lists tell zeros apart. `RESPECT NULLS` is refused."),
    ("`mode`", "is the least of several values, as Spark's `mode(x, true)`; Spark's `mode(x)` returns any of them."),
    ("`approx_percentile`", "keeps to the same error as Spark's, and may return other values within it; beside NaN, Spark's merging of several tasks does not. Decimals have at most 18 digits."),
    ("`kll_sketch_get_*`", "are left to Spark, which reads the sketches of `kll_sketch_agg_*`."),
    ("KLL sketches", "of more than k values keep the middle of equal blocks of them; Spark's keep values drawn at random, and are less exact. Both leave out NaN."),
    ("ties under LIMIT", "have an order: groups by the grouping columns as they are asked, rows by time and then as they are stored. A limit alone keeps the first groups, or the earliest rows. Spark's have none."),
    ("expressions", "are at most 100,000 characters long and 100 deep: operands within operands, or terms in a chain such as `a + b + …`. Chains of `AND`, `OR` and `||` count once."),
]  # fmt: skip

TIME_ZONES = """\
The installed package `tzdata` gives the rules of time zones for reading, writing and flooring local
times; the machine's own database is not used. So an answer depends on the release of that package
alone. Other builds of the same database, such as Java's and that of some systems, keep more of the
years before 1970: local times before 1970 may differ from Spark's.

A projection whose values depend on a zone stores a hash of that zone's rules. If `tzdata` has other
rules of the zone, which is rare in a new release, the projection is not used or built
(`TIME_ZONE_RULES`), and base rows answer by the current rules. A projection declared by an earlier
release stores no hash, and is always used.
"""

QUANTILES = """\
A projection that declares `approx_percentile(x, p, accuracy)` stores a KLL sketch of k = accuracy *
5 / 4 for each group, and so does `kll_sketch_agg_*(x, k)`. It serves every percentage of x, and every
accuracy up to that of its sketch. A group of n values stores each value in 8 bytes, all of them up to
k, and then between k / 2 and k of them: at the default accuracy 100 KB, so an accuracy of 1,000 or less
suits projections. No rank is wrong by more than n / accuracy, for every mixture of base rows and stored
sketches; from base rows alone the error is a fifth of that. A merge of written sketches would add to
the error. So Spark does not merge percentiles of its tasks: it reads them as final answers.
"""

TIME_PATTERNS = """\
`date_format` and `from_unixtime` read patterns as Java's `DateTimeFormatter` does in American
English. A letter is repeated as listed; other text is in single quotes, and `''` is one quote.

| letters | written |
|---|---|
| `G` to `GGGG` | the era, AD |
| `y`, `yy`, `yyy` to `yyyyyy` | the year; `yy` its last two digits |
| `Q` to `QQQQ`, `q` | the quarter: 1, 01, Q1, 1st quarter |
| `M` to `MMMM`, `L` | the month: 9, 09, Sep, September |
| `d`, `dd`; `D` to `DDD` | the day of the month; of the year |
| `E` to `EEEE` | the weekday: Sat, Saturday |
| `a` | AM, PM |
| `H`, `k`, `K`, `h`, each once or twice | the hour of 0 to 23, 1 to 24, 0 to 11, 1 to 12 |
| `m`, `s`, each once or twice | minute, second |
| `S` to `SSSSSSSSS` | digits of the second's fraction, cut |
| `X` to `XXXXX`, `x`; `Z`, `ZZ`, `ZZZ`, `ZZZZZ` | the offset from UTC |

All other letters, and `[ ] { } #` outside quotes, are refused. A projection that stores a floor of
time at least as fine as the finest letter serves these texts.
"""

REGEX_HEAD = """\
RLIKE, `regexp_extract`, `regexp_replace` and `split` read patterns of `java.util.regex`, as Spark
does. RE2 runs them, in time proportional to the text. So only syntax with the same meaning in both is
supported; the rest is refused by name, and the extension leaves it to Spark. The supported syntax:

| syntax | |
|---|---|
| characters | `a`, `\\.`, `\\Qa.b\\E`, `\\t \\n \\r \\f \\a \\e`, `\\xhh`, `\\x{h…}`, `\\uhhhh` |
| sets | `.`, `[abc]`, `[^a-z]`, `\\d \\D \\s \\S \\w \\W \\h \\H`, and with `\\p` and `\\P`: `ASCII Alnum Alpha Blank Cntrl Digit Graph Lower Print Punct Space Upper XDigit` |
| repetitions | `* + ? {n} {n,} {n,m}`, each also with `?`, up to 1,000 times |
| groups | `(…)`, `(?:…)`, `(?<name>…)`, `\\|` |
| conditions | `^`, `\\A`, `\\z`; `$` and `\\Z` at the end of the pattern or of an option |
| flags | `(?i)`, `(?s)`, `(?-i)`, `(?i:…)` |

Patterns that Java refuses are refused. These patterns are valid in Java and differ here:
"""

REGEX_DIFFERENCES = [
    ("look-ahead and look-behind", "refused", "foo(?!bar)"),
    ("back references", "refused", "(a)\\1"),
    ("atomic groups and possessive quantifiers", "refused", "a*+b"),
    ("`\\b`, `\\B`, which Java 17 and Java 19 tell apart differently", "refused", "\\bfoo"),
    ("`\\G`, `\\R`, `\\X`, `\\v`, `\\N{name}`, `\\0n`, `\\cx`", "refused", "a\\R"),
    ("the flags `m`, `d`, `u`, `U`, `x` and `c`", "refused", "(?m)^a"),
    ("other properties, which depend on the version of Unicode", "refused", "\\p{Lu}"),
    ("classes within classes, and `&&`", "refused", "[a-z&&[^b]]"),
    ("a set of some characters beyond U+FFFF, or half of a surrogate pair", "refused", "[^😀]"),
    ("`$` or `\\Z` before other parts or in a repetition; `^`, `\\A`, `\\z` in a repetition of what may be empty", "refused", "a$\\n"),
    ("`$` or `\\Z` after one character of a set that has `\\r`; `[^a]+$` and `\\s*$` are read", "refused", "[^a]$"),
    ("a count beyond 1,000, after a quantifier, or with nothing to repeat", "refused", "a{1001}"),
    ("groups nested deeper than 100, and patterns that are too large for RE2", "refused", "(?:a{1000}){1000}"),
    ("`regexp_extract`, `regexp_replace`, `split`: a repetition of what may be empty; a group in a repetition, or one with `$` in it; the match if `$` is within an option or group", "refused there", None),
    ("`regexp_replace`, `split`: a pattern that may match the empty text, but `split(text, '')`", "refused there", None),
    ("`split`: `^`, `$`, `\\A`, `\\Z`, `\\z`", "refused there", None),
    ("more than a second of processor time for 64 KiB of text", "an error (`PROJSEG_EVALUATION_TOO_LONG`); only counted repetitions inside each other take so long, as in `((a{1,9}){1,9}){1,9}c`", None),
    ("patterns for which Java runs out of stack or time", "answered", "^(a+)+$"),
]  # fmt: skip
"""(what, how it differs, a pattern that shows it)."""
