"""Slow, obvious twins of `kernels.select`, `kernels.gather` and `aggregation.filter_rows`."""


def rows_with_allowed_id(ids, allowed):
    """The positions of the ids that are allowed."""
    return [row for row, one in enumerate(ids) if allowed[one]]


def gather_text(texts, ids):
    """The texts of the ids, one after the other."""
    return b"".join(texts[one] for one in ids)


def text_key(text, start):
    """Return eight bytes of a text from `start`, padded with zeros, as a signed number."""
    return int.from_bytes(text[start : start + 8].ljust(8, b"\0"), "big") - (1 << 63)


def distinct_texts(texts):
    """How many different texts there are."""
    return len(set(texts))


def like(text, pattern):
    """Whether a text matches a pattern of characters, -1 for any one, -2 for any number."""
    if not pattern:
        return not text
    if pattern[0] == -2:
        return any(like(text[start:], pattern[1:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in (-1, text[0]) and like(text[1:], pattern[1:])
