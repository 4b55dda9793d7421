"""Slow, obvious twins of the encoding kernels, in Python integers and lists."""

import itertools


def page_statistics(values):
    """(minimum, maximum, run count, least and greatest difference modulo 2**64)."""
    pairs = list(itertools.pairwise(values))
    deltas = [(b - a + 2**63) % 2**64 - 2**63 for a, b in pairs]
    return (
        min(values),
        max(values),
        1 + sum(a != b for a, b in pairs),
        min(deltas, default=2**63 - 1),
        max(deltas, default=-(2**63)),
    )


def pack_bits(values, width):
    """Pack values as a matrix of 32 (or 64) rows, each column a stream of `width`-bit values."""
    bits = 32 if width <= 32 else 64
    lanes = -(-len(values) // bits)
    words = [0] * (lanes * width)
    for position, value in enumerate(values):
        row, lane = divmod(position, lanes)
        for bit in range(width):
            word, place = divmod(row * width + bit, bits)
            words[word * lanes + lane] |= (value >> bit & 1) << place
    return words


def unpack_bits(words, width, count):
    """The values that `pack_bits` packed."""
    bits = 32 if width <= 32 else 64
    lanes = -(-count // bits)
    values = []
    for position in range(count):
        row, lane = divmod(position, lanes)
        stream = sum(words[k * lanes + lane] << (bits * k) for k in range(width))
        values.append(stream >> (row * width) & (2**width - 1))
    return values


def expand_runs(ends, values):
    """The rows of runs, given each run's end and value."""
    expanded = []
    for end, value in zip(ends, values, strict=True):
        expanded += [value] * (end - len(expanded))
    return expanded


def accumulate(values, bits):
    """Running sums modulo 2**bits."""
    sums, total = [], 0
    for value in values:
        total = (total + value) % 2**bits
        sums.append(total)
    return sums


def first_disorder(texts):
    """The first position whose text is not less than the next one, or -1."""
    pairs = itertools.pairwise(texts)
    return next((i for i, (left, right) in enumerate(pairs) if left >= right), -1)


def shared_prefixes(texts):
    """How many leading bytes each text shares with the one before, at most 255."""
    found = [0] * len(texts)
    for i in range(1, len(texts)):
        while (
            found[i] < min(len(texts[i - 1]), len(texts[i]), 255)
            and texts[i - 1][found[i]] == texts[i][found[i]]
        ):
            found[i] += 1
    return found


def suffixes(texts, prefixes):
    """The texts without their shared prefixes, one after the other."""
    return b"".join(text[shared:] for text, shared in zip(texts, prefixes, strict=True))


def expand_prefixes(prefixes, rests):
    """The texts, from their shared prefixes and the rest of each."""
    texts = []
    for shared, rest in zip(prefixes, rests, strict=True):
        texts.append((texts[-1][:shared] if texts else b"") + rest)
    return texts
