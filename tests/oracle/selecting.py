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


def extreme_text(texts, group_ids, group, *, is_min):
    """Return the first row of a group's smallest or largest text; -1 if it has none."""
    rows = [row for row, text in enumerate(texts) if text is not None and group_ids[row] == group]
    best = (min if is_min else max)((texts[row] for row in rows), default=None)
    return next((row for row in rows if texts[row] == best), -1)


def distinct_texts(texts):
    """How many different texts there are."""
    return len(set(texts))


def text_hash(text):
    """The hash of a text, eight bytes at a time, the last eight at its end."""

    def mixed(word):
        word = word * 0x9E3779B97F4A7C15 % 2**64
        word = (word ^ word >> 32) * 0x9E3779B97F4A7C15 % 2**64
        return word ^ word >> 29

    hashed = mixed(len(text) + 1)
    if len(text) < 8:
        return mixed(hashed ^ int.from_bytes(text, "big"))
    for start in range(0, len(text) - 8, 8):
        word = int.from_bytes(text[start : start + 8], "little")
        hashed = (hashed ^ word) * 0x9E3779B97F4A7C15 % 2**64
        hashed ^= hashed >> 32
    return mixed(hashed ^ int.from_bytes(text[-8:], "little"))


def like(text, pattern):
    """Whether a text matches a pattern of characters, -1 for any one, -2 for any number."""
    if not pattern:
        return not text
    if pattern[0] == -2:
        return any(like(text[start:], pattern[1:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in (-1, text[0]) and like(text[1:], pattern[1:])
