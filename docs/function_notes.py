"""Notes on each function for docs/functions.md, in the order of the page.

A note is (name, how it is written, what it means, an example); other names are in the function's
record. tests/spark/test_function_notes.py asks Spark for every example.
"""

FUNCTIONS = {
    "Text": [
        ("lower", "lower(text)", "Text in lower case, as in Java's root locale.", "lower('ÀB')"),
        ("upper", "upper(text)", "Text in upper case; ß becomes SS.", "upper('straße')"),
        ("concat", "concat(a, …), a || b", "Texts, or binaries, one after the other; null if any is.", "concat('a', 1)"),
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
        ("lpad", "lpad(text, length[, pad])", "Padded or cut to a length, at the start.", "lpad('abc', 5, 'xy')"),
        ("rpad", "rpad(text, length[, pad])", "The same at the end.", "rpad('abc', 4, '-')"),
        ("repeat", "repeat(text, count)", "Text several times.", "repeat('ab', 2)"),
        ("replace", "replace(text, part[, by])", "Every part replaced, or removed.", "replace('abc', 'b')"),
        ("reverse", "reverse(text)", "Characters in reverse order.", "reverse('abc')"),
        ("startswith", "startswith(text, part)", "Whether a text begins with the part.", "startswith('abc', 'ab')"),
        ("endswith", "endswith(text, part)", "Whether a text ends with the part.", "endswith('abc', 'bc')"),
        ("contains", "contains(text, part)", "Whether a text contains the part.", "contains('abc', 'b')"),
    ],
    "Patterns": [
        ("like", "text LIKE pattern [ESCAPE c]", "% is any text, _ one character, \\ the escape.", "'a_b' LIKE 'a/_%' ESCAPE '/'"),
        ("ilike", "text ILIKE pattern [ESCAPE c]", "The same, with both in lower case.", "'Abc' ILIKE 'aB%'"),
        ("rlike", "text RLIKE pattern", "Whether the pattern is found anywhere; see [regular expressions](#regular-expressions).", "'abc' RLIKE '^a.c$'"),
    ],
    "Numbers": [
        ("abs", "abs(x)", "Without its sign; the least integer has none and is an error.", "abs(-1.5)"),
        ("negative", "negative(x), -x", "With the other sign.", "negative(1)"),
        ("positive", "positive(x), +x", "The number itself.", "positive(1)"),
        ("mod", "mod(a, b), a % b", "The remainder, with the sign of a.", "mod(-7, 3)"),
        ("pmod", "pmod(a, b)", "The remainder, with the sign of b.", "pmod(-7, 3)"),
        ("div", "div(a, b), a DIV b", "The whole part of the quotient, bigint.", "-7 DIV 2"),
        ("sign", "sign(x)", "-1, 0 or 1 as double.", "sign(-3)"),
        ("floor", "floor(x)", "The next whole number below.", "floor(-1.5)"),
        ("ceil", "ceil(x)", "The next whole number above.", "ceil(1.2D)"),
        ("round", "round(x[, digits])", "Half away from zero, at decimal digits.", "round(12.345, 2)"),
        ("sqrt", "sqrt(x)", "Square root; NaN below 0.", "sqrt(2.25D)"),
        ("exp", "exp(x)", "e to the power of x.", "exp(0)"),
        ("ln", "ln(x)", "Natural logarithm; null at 0 and below.", "ln(1)"),
        ("log10", "log10(x)", "Logarithm to base 10; null at 0 and below.", "log10(1000)"),
        ("log2", "log2(x)", "Logarithm to base 2; null at 0 and below.", "log2(8)"),
        ("power", "power(x, y)", "x to the power of y, double.", "power(2, 10)"),
        ("least", "least(a, …)", "The least that is not null.", "least(3, NULL, 2)"),
        ("greatest", "greatest(a, …)", "The greatest that is not null; NaN is above all.", "greatest(3, NULL, 2)"),
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
        ("date_add", "date_add(date, days), date + days", "Days later.", "date_add(DATE '2015-09-12', 30)"),
        ("date_sub", "date_sub(date, days), date - days", "Days earlier.", "date_sub(DATE '2015-09-12', 12)"),
        ("add_months", "add_months(date, months)", "Months later, at most at the month's end.", "add_months(DATE '2015-01-31', 1)"),
        ("last_day", "last_day(date)", "The last day of the month.", "last_day(DATE '2020-02-03')"),
        ("datediff", "datediff(end, start)", "Days between.", "datediff(DATE '2015-09-12', DATE '2015-09-01')"),
        ("make_date", "make_date(year, month, day)", "A date; an error if there is none.", "make_date(2015, 9, 12)"),
        ("unix_timestamp", "unix_timestamp(time)", "Seconds since 1970.", "unix_timestamp(TIMESTAMP '1970-01-02 00:00:00')"),
        ("unix_seconds", "unix_seconds(time)", "The same, for a timestamp.", "unix_seconds(TIMESTAMP '1970-01-02 00:00:00')"),
        ("unix_millis", "unix_millis(time)", "Milliseconds since 1970.", "unix_millis(TIMESTAMP '1970-01-02 00:00:00')"),
        ("unix_micros", "unix_micros(time)", "Microseconds since 1970.", "unix_micros(TIMESTAMP '1970-01-02 00:00:00')"),
        ("timestamp_seconds", "timestamp_seconds(n)", "The timestamp so long after 1970.", "timestamp_seconds(1.5)"),
        ("timestamp_millis", "timestamp_millis(n)", "The same for milliseconds.", "timestamp_millis(1500)"),
        ("timestamp_micros", "timestamp_micros(n)", "The same for microseconds.", "timestamp_micros(1500)"),
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
    ("time + INTERVAL …, time - INTERVAL …", "Intervals are constants; they are no values of their own.", "DATE '2020-02-29' + INTERVAL 1 YEAR"),
    ("window(time, '1 hour').start", "Tumbling windows, aligned to 1970 in UTC.", None),
    ("struct.field", "A field of a struct column.", None),
]  # fmt: skip

AGGREGATES = {
    "count": "Rows (`count(*)`), or rows in which no argument is null.",
    "count_if": "Rows in which the condition is true.",
    "sum": "The sum; whole numbers and decimals are kept exact, and only a total that does not fit is an error.",
    "avg": "The mean.",
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
    "approx_count_distinct": "The estimate of the sketch of lgK 12, about 1.6 % off.",
    "theta_sketch_agg": "`theta_sketch_agg(x[, lgK])`: a theta sketch of distinct values.",
    "count_distinct": "`count(DISTINCT x)`: how many distinct values, exactly.",
    "sum_distinct": "`sum(DISTINCT x)`: the sum of distinct values.",
    "avg_distinct": "`avg(DISTINCT x)`: the mean of distinct values.",
}  # fmt: skip

DIFFERENCES = [
    ("functions", "A name that is not on this page is refused with `PROJSEG_UNSUPPORTED_FUNCTION`; so are `TRY_CAST`, subqueries, window functions (`OVER`) and what has no fixed value, such as `rand()` and `now()`."),
    ("`date - date`", "is refused; write `datediff`."),
    ("`to_date`, `to_timestamp`, `unix_timestamp`", "take no format."),
    ("`lpad`, `rpad`, `repeat`", "make no text longer than 1,048,576 characters."),
    ("`lower`, `upper`, `ILIKE`", "map letters by the version of Unicode of the running Python, Spark by that of its JVM."),
    ("`sum`", "of whole numbers and decimals is an error only if the total does not fit. Spark's may overflow on the way."),
    ("`sum`, `avg` of doubles", "depend on the order of addition in their last digits, in Spark as here."),
    ("variances, deviations", "of n values are right to about n u from rows and (n + 4 k) u from projections, where u is 2^-53 and k the root of 1 + (mean / deviation)²: 15 digits and, at a mean a million times the deviation, 9. Spark's one pass gives n k u."),
    ("the zeros of doubles", "are told apart in expressions; `min`, `max` and groups give 0.0 for both."),
    ("text of floats and doubles", "is the shortest, as Java writes it from version 19 on; before, Java writes some with more digits."),
    ("casts to timestamps", "outside the years 1 to 9999 are refused; Spark's wrap around."),
    ("`first`, `last`", "go by the table's time column. Spark's take whichever row comes first."),
    ("`approx_count_distinct`", "is a DataSketches HLL of lgK 12 (1.6 %), so that projections can serve it; Spark's is HyperLogLog++ (5 %). The estimates differ."),
    ("ties under LIMIT", "have an order: groups by the grouping columns as they are asked, rows by time and then as they are stored. A limit alone keeps the first groups, or the earliest rows. Spark's have none."),
    ("expressions", "are at most 100,000 characters long and 100 deep: operands within operands, or terms in a chain such as `a + b + …`. Chains of `AND`, `OR` and `||` count once."),
]  # fmt: skip

REGEX_HEAD = """\
RLIKE reads patterns of `java.util.regex`, as Spark does, and finds what Java 17 finds. Where RE2
is proved to find the same, RE2 is asked, in time that grows with the text. The rest is asked of an
exact matcher, far slower, once for each distinct text in which RE2 does not rule a match out:

| the pattern has | the exact matcher is asked about |
|---|---|
| `$`, `\\Z` | texts that end with a line end |
| `^` or `$` under the flag `m` | texts with other line ends than `\\n`, empty ones, those that end with `\\n` |
| `\\b`, `\\B` | texts with characters beyond ASCII |
| look-around, back references, atomic groups, possessive quantifiers, counts beyond 1,000 | all texts |
| nothing of these | no text |

A search with look-around, back references, atomic groups or possessive quantifiers that takes more
than 200,000 steps over one text is given up with `PROJSEG_EVALUATION_TOO_LONG`. Other searches
never take more steps than the text's length times the pattern's. A pattern that Java refuses is
refused; so are these:
"""

REGEX_DIFFERENCES = [
    ("the flags `x` and `c`", "refused", "(?x)a b"),
    ("scripts, blocks and tables of Unicode that Python lacks: `\\p{IsGreek}`, `\\p{InGreek}`, `\\p{IsAlphabetic}`, `\\p{IsIdeographic}`, `\\p{IsEmoji}`, `\\p{javaMirrored}`, …", "refused", "\\p{IsGreek}"),
    ("`\\w`, `\\W`, `\\b`, `\\B`, `\\p{Alpha}`, `\\p{Alnum}` under the flag `U`", "refused", "(?U)\\w"),
    ("`\\X`, `\\b{g}`, `\\N{name}`", "refused", "\\X"),
    ("half of a surrogate pair", "refused", "\\uD83D"),
    ("`&&` with an empty side, or beside a single `&`", "refused", "[a&&]"),
    ("a look-behind without a limit, or with a repeated group", "refused", "(?<=a+)b"),
    ("a back reference to a group inside a repetition, look-around or atomic group", "refused", "(a)*\\1"),
    ("a repetition of what may be empty, inside an atomic group or possessive repetition", "refused", "(?>(?:a?)*)"),
    ("more than 20,000 parts, each as often as it is repeated, where RE2 does not serve", "refused", "(?:a{1000}){1000}"),
    ("groups nested deeper than 100", "refused", "(" * 101 + ")" * 101),
    ("`\\b` and `\\B` beyond ASCII", "as in Java 17: letters and digits of all scripts are of words. Java 19 and later take ASCII letters, digits and `_` only", None),
    ("named sets and `(?iu)` over characters that came with Unicode 14 and later", "by the version of the running Python, not of the JVM", None),
    ("patterns for which Java runs out of stack or time", "answered", "^(a+)+$"),
]  # fmt: skip
"""(what, how it differs, a pattern that shows it)."""
