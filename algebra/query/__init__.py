"""A query bound to a table: what is asked, in which order, with which flags."""
