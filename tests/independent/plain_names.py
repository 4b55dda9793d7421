"""Definition hashes, names of states and long names, from SPEC.md 4.9, 4.10, 7.1 and 7.4 alone."""

import json
import re
import unicodedata

import xxhash

STATES = {
    "count": ["count"],
    "sum": ["sum"],
    "avg": ["sum", "count"],
    "try_sum": ["sum"],
    "try_avg": ["sum", "count"],
    "min": ["min"],
    "bool_and": ["min"],
    "max": ["max"],
    "bool_or": ["max"],
    "min_by": ["min_by"],
    "first": ["min_by"],
    "max_by": ["max_by"],
    "last": ["max_by"],
    "hll_sketch_agg": ["hll"],
    "approx_count_distinct": ["hll"],
    "theta_sketch_agg": ["theta"],
}
STATES |= {name: [name] for name in ("bit_and", "bit_or", "bit_xor")}
STATES |= {f"{name}_{of}": ["moments"] for name in ("var", "stddev") for of in ("pop", "samp")}
PARTS = {
    "count": ["count"],
    "sum": ["sum"],
    "min": ["value"],
    "max": ["value"],
    "min_by": ["value", "time"],
    "max_by": ["value", "time"],
    "moments": ["count", "mean", "squares"],
    "distinct": ["values"],
    "hll": ["sketch"],
    "theta": ["sketch"],
}
PARTS |= {name: ["bits"] for name in ("bit_and", "bit_or", "bit_xor")}


def outside(text):
    """(position, character, depth of parentheses) of each character outside quotes."""
    quote, depth, at = None, 0, 0
    while at < len(text):
        character = text[at]
        if quote:
            at += character == "\\" and quote == "'"
            quote = None if character == quote else quote
        elif character in "'`":
            quote = character
        else:
            depth += (character == "(") - (character == ")")
            yield at, character, depth
        at += 1


def quoted(column):
    """A column's canonical text, except for names that are words of SQL (7.3)."""
    plain = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", column)
    return column if plain else f"`{column.replace('`', '``')}`"


def states_of(aggregate, time_column):
    """The names of the states of an aggregate's canonical text, without their parts."""
    opened = aggregate.index("(")
    closed = next(at for at, c, depth in outside(aggregate) if c == ")" and depth == 0)
    function, filtered = aggregate[:opened], aggregate[closed + 1 :]
    arguments = aggregate[opened + 1 : closed]
    if arguments.startswith("DISTINCT "):
        return [f"distinct({arguments.removeprefix('DISTINCT ')}){filtered}"]
    if function in ("first", "last"):
        arguments += f", {quoted(time_column)}"
    if function == "approx_count_distinct":
        arguments += ", 12"
    return [f"{state}({arguments}){filtered}" for state in STATES[function]]


def conjuncts(condition):
    """The operands of a canonical text's outermost AND, or the whole text without one."""
    cuts = [
        at
        for at, _, depth in outside(condition)
        if depth == 0 and condition[at:].startswith(" AND ")
    ]
    pieces = [
        condition[start:end]
        for start, end in zip([0, *(at + 5 for at in cuts)], [*cuts, None], strict=True)
    ]
    return [piece[1:-1] if cuts and piece[0] == "(" else piece for piece in pieces]


def definition_hash(definition):
    """The hash (4.10) of a definition's text."""
    parsed = json.loads(definition)
    conditions = sorted(conjuncts(parsed["filter"])) if parsed["filter"] else []
    if "orderBy" in parsed:
        columns = sorted(text for _, text in parsed["columns"])
        content = [columns, [], conditions, parsed["timeColumn"], parsed["orderBy"]]
    else:
        time = parsed["timeColumn"]
        states = {s for _, text in parsed["aggregators"] for s in states_of(text, time)}
        content = [[text for _, text in parsed["groupBy"]], sorted(states), conditions, time]
    content += [parsed["timeZones"]] if "timeZones" in parsed else []
    written = json.dumps(content, ensure_ascii=False, separators=(", ", ": "))
    return xxhash.xxh3_128_hexdigest(written.encode())


def stored_name(text):
    """The name that a canonical text gives a column (7.4)."""
    control = any(unicodedata.category(character) == "Cc" for character in text)
    if len(text.encode()) <= 255 and not control and unicodedata.is_normalized("NFC", text):
        return text
    kept = "".join(character for character in text[:48] if "!" <= character <= "~")
    return f"{kept}#{xxhash.xxh3_128_hexdigest(text.encode())}"


def columns_of(definition):
    """(role, stored name, content) of each column of a projection, in order (4.4).

    The content is the canonical text of a grouping column, or (state, part).
    """
    parsed = json.loads(definition)
    if "orderBy" in parsed:
        columns = [("grouping", stored_name(text), text) for _, text in parsed["columns"]]
        return [*columns, ("state", "row number", None)]
    states = [s for _, text in parsed["aggregators"] for s in states_of(text, parsed["timeColumn"])]
    return [("grouping", stored_name(text), text) for _, text in parsed["groupBy"]] + [
        ("state", stored_name(f"{state}.{part}"), (state, part))
        for state in dict.fromkeys(states)
        for part in PARTS[state[: state.index("(")]]
    ]
