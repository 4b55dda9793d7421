"""What functions of texts give for one row, in Python's own words."""

import base64
import re
from string import hexdigits


def substring(text, position, length):
    """The characters from a position on: 0 and 1 are the first, -1 is the last."""
    start = position - 1 if position > 0 else position + len(text) if position < 0 else 0
    return text[max(start, 0) : max(start + length, 0)]


def trimmed(text, letters, sides):
    """A text without letters at its ends: 1 is the left side, 2 the right one."""
    text = text.lstrip(letters) if sides & 1 else text
    return text.rstrip(letters) if sides & 2 else text


def split_part(text, delimiter, index):
    """The part at an index from 1, from the end if negative; empty if there is none."""
    parts = text.split(delimiter) if delimiter else [text]
    position = index - 1 if index > 0 else len(parts) + index
    return parts[position] if 0 <= position < len(parts) else ""


def position(text, part, start):
    """Where a part stands from a character on, counted from 1; 0 for nowhere."""
    if start < 1:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


def holds(text, part, place):
    """Whether a part stands at the start (0), at the end (1) or anywhere (2)."""
    return (text.startswith, text.endswith, text.__contains__)[place](part)


def first_code(text):
    """The code point of the first character, 0 of the empty text."""
    return ord(text[0]) if text else 0


def replaced(text, searched, instead):
    """A text with another in place of what is searched for; the empty text is found nowhere."""
    return text.replace(searched, instead) if searched else text


def _runs(text, bounds, is_run):
    """Where the members of a set stand, or the runs of them, as (start, end)."""
    within = [sum(bound <= ord(letter) for bound in bounds) % 2 == 1 for letter in text]
    places = [(at, at + 1) for at, is_member in enumerate(within) if is_member]
    if not is_run:
        return places
    starts = [at for at, _ in places if at == 0 or not within[at - 1]]
    ends = [end for _, end in places if end == len(text) or not within[end]]
    return [*zip(starts, ends, strict=True)]


def replaced_runs(text, bounds, instead, is_run):
    """A text with another in place of each member of a set, or of each run of them."""
    for start, end in reversed(_runs(text, bounds, is_run)):
        text = text[:start] + instead + text[end:]
    return text


def split_runs(text, bounds, limit, is_run):
    """The parts between members of a set, or between runs of them: at most `limit`, if above 0."""
    parts, begin = [], 0
    for start, end in _runs(text, bounds, is_run):
        if len(parts) == limit - 1:
            break
        parts.append(text[begin:start])
        begin = end
    return [*parts, text[begin:]]


def translated(text, letters, instead):
    """A text with each letter replaced by the one at its place, or left out."""
    table = {}
    for place, letter in enumerate(letters):
        table.setdefault(ord(letter), instead[place : place + 1])
    return text.translate(table)


def padded(text, length, pad, is_left):
    """A text of so many characters: cut, or with a pad that is repeated beside it."""
    length = max(length, 0)
    missing = max(length - len(text), 0)
    padding = (pad * (missing // len(pad) + 1))[:missing] if pad else pad
    return (padding + text if is_left else text + padding)[:length]


def cased(text, first, others):
    """A text with the first letter of each word in a case, others in another; spaces end words."""
    return " ".join(_cased_word(word, first, others) for word in text.split(" "))


def _cased_word(word, first, others):
    """Letters in lower case depend on those beside them."""
    head, rest = word[:1], getattr(word, others)()
    return getattr(head, first)() + rest[len(getattr(head, others)()) :]


def in_base64(content):
    """Lines of 76 letters, as MIME has them."""
    text = base64.b64encode(content)
    return b"\r\n".join(text[at : at + 76] for at in range(0, len(text), 76))


def from_hex(text):
    """The bytes of hexadecimal digits, of which the first may be one alone; else None."""
    if not all(letter in hexdigits for letter in text):
        return None
    return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")


def like(text, pattern):
    """Whether a text matches a LIKE pattern; None if a backslash stands where none may."""
    places, parts = iter(pattern), []
    for letter in places:
        escaped = next(places, "") if letter == "\\" else None
        if escaped is not None and escaped not in ("%", "_", "\\"):
            return None
        parts.append((escaped or letter, escaped is not None))
    return _is_like(text, parts)


def _is_like(text, parts):
    reached = {0}
    for letter, is_escaped in parts:
        if letter == "%" and not is_escaped:
            reached = set(range(min(reached), len(text) + 1)) if reached else reached
        else:
            is_any = letter == "_" and not is_escaped
            reached = {
                at + 1 for at in reached if at < len(text) and (is_any or text[at] == letter)
            }
    return len(text) in reached


_LINE_END = "[\n\r\x85\u2028\u2029]"


def rlike(text, pattern):
    """Whether a text holds a match of a pattern that Java and Python read the same, but . and $."""

    def without_dot(found):
        return f"[^{_LINE_END[1:]}" if found[0] == "." else found[0]

    is_to_end = pattern.endswith("$") and not re.search(r"(?<!\\)(\\\\)*\\\$$", pattern)
    body = pattern[:-1] if is_to_end else pattern
    body = re.sub(r"\\.|\[[^]]*\]|\.", without_dot, body, flags=re.DOTALL)
    end = rf"(?!(?<=\r)\n)(?:\r\n|{_LINE_END})?\Z" if is_to_end else ""
    return re.search(body + end, text, re.ASCII) is not None
