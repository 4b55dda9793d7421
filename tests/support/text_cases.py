"""Texts, queries of text_match and conditions on texts, drawn for tests of words."""

from hypothesis import strategies as st
from oracle import words as oracle

LETTERS = "abAB1_ -'%\\\u0307\u0130\u212a\u017fkKiIςΣß中カ\u0345"
TEXTS = st.text(st.sampled_from(LETTERS), max_size=9)
_PLAIN = st.sampled_from(["a", "ab", "AB", "b1", "kk", "中", "aΣ", "iK", "ba", "bab"])


def _joined(parts):
    return st.tuples(parts, st.sampled_from(["AND", "OR", " "]), parts)


QUERIES = st.recursive(
    st.tuples(st.just("words"), st.lists(_PLAIN, min_size=1, max_size=3))
    | st.tuples(st.just("pattern"), st.sampled_from(["a*", "*b", "b*b", "*a*", "k*"])),
    lambda parts: _joined(parts) | st.tuples(st.sampled_from(["NOT", "-"]), parts),
    max_leaves=5,
)
"""Trees of queries."""


def written(tree):
    """A query's text, with a bracket around every part."""
    if tree[0] == "words":
        return '"' + " ".join(tree[1]) + '"' if len(tree[1]) > 1 else tree[1][0]
    if tree[0] == "pattern":
        return tree[1]
    if len(tree) == 2:
        return f"{tree[0]}{' ' if tree[0] == 'NOT' else ''}({written(tree[1])})"
    return f"({written(tree[0])}) {tree[1]} ({written(tree[2])})"


def matches(text, tree):
    """Whether a text matches a tree, by its words as a list."""
    found = oracle.words(text)
    if tree[0] == "words":
        wanted = [word for part in tree[1] for word in oracle.words(part)]
        return any(found[at : at + len(wanted)] == wanted for at in range(len(found)))
    if tree[0] == "pattern":
        first, *others = tree[1].split("*")
        return any(_is_like(word, first, others) for word in found)
    if len(tree) == 2:
        return not matches(text, tree[1])
    combine = any if tree[1] == "OR" else all
    return combine([matches(text, tree[0]), matches(text, tree[2])])


def _is_like(word, first, others):
    """Whether a word begins with `first`, and has each other part behind the one before it."""
    if not word.startswith(first):
        return False
    rest = word[len(first) :]
    if len(others) == 1:
        return rest.endswith(others[0])
    at = rest.find(others[0])
    return at >= 0 and _is_like(rest[at + len(others[0]) :], "", others[1:])


def quoted(text):
    """A text as a literal of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def conditions(column):
    """Conditions on a column of texts, as SQL."""
    pieces = st.sampled_from(["%", "_", "\\%", "\\_", "\\\\", *"abABkKi ßΣ"])
    patterns = st.lists(pieces, max_size=8).map("".join)
    like = st.tuples(st.sampled_from(["LIKE", "ILIKE", "NOT LIKE"]), patterns).map(
        lambda given: f"{column} {given[0]} {quoted(given[1])}"
    )
    escaped = patterns.filter(lambda text: "\\" not in text).map(
        lambda text: f"{column} LIKE {quoted('!_' + text + '!!%')} ESCAPE '!'"
    )
    called = st.tuples(
        st.sampled_from(["contains", "startswith", "endswith"]),
        st.sampled_from([column, f"lower({column})"]),
        st.text(st.sampled_from("abABkKiΣ"), max_size=4),
    ).map(lambda given: f"{given[0]}({given[1]}, {quoted(given[2])})")
    equal = TEXTS.map(lambda text: f"{column} = {quoted(text)}")
    matched = QUERIES.map(lambda tree: f"text_match({column}, {quoted(written(tree))})")
    return st.one_of(like, escaped, called, equal, matched)
