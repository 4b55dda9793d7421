"""Regular expressions as Java's `java.util.regex.Pattern`, and so Spark's RLIKE, means them."""
