"""Names and docstrings use the field's nouns, not clauses in their place."""

import ast
import io
import re
import tokenize

import pytest
from test_layers import ROOT, modules, tree_of

# What is avoided, and the field's word in its place.
AVOIDED = {
    r"\btold\b|(?:^|_)told(?:_|$)": "message, summary, report",
    r"(?:^|_)meant(?:_|$)": "matching, affected",
    r"(?:^|_)hits?_(?:segments?|rows?)": "affected",
    r"taken_?back|takes? back": "subtracted",
    r"(?:^|_)stacks(?:_|$)": "combined sources",
    r"nursery": "fork server",
}
WORDS = re.compile("|".join(AVOIDED), re.IGNORECASE)
# The same with the bounds of any word for those of a token: few modules have one to look for.
SOME = re.compile(WORDS.pattern.replace("^", r"\b").replace("$", r"\b"), re.IGNORECASE)
KINDS = (tokenize.NAME, tokenize.COMMENT, tokenize.STRING)


def avoided(path):
    """Yield (line, text) of names, comments and docstrings that say what is avoided."""
    text = path.read_text()
    if not SOME.search(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_text = token.type != tokenize.STRING or '"""' in token.string
        if token.type in KINDS and is_text and (found := WORDS.search(token.string)):
            yield token.start[0], found[0]


def test_modules_use_the_fields_words():
    places = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for _, path in modules()
        for line, text in avoided(path)
    ]
    assert places == []


@pytest.mark.parametrize(
    "text", ["told = 1", "# as it was told", "hit_rows = ()", "meant = 1", "# takes back"]
)
def test_avoided_words_are_found(text, tmp_path):
    (tmp_path / "module.py").write_text(f"{text}\n")
    assert [*avoided(tmp_path / "module.py")]


# A participle that is a whole name lets a reader ask "what?".
_PARTICIPLE = re.compile(
    "_?(asked|done|found|given|gone|kept|known|left|made|one|said|seen|shown|taken|wanted)"
)


def participles(path):
    """Yield (line, name) of classes and functions, and a module, named by a participle alone."""
    if _PARTICIPLE.fullmatch(path.stem):
        yield 1, path.stem
    for node in ast.walk(tree_of(path)):
        named = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if named and _PARTICIPLE.fullmatch(node.name):
            yield node.lineno, node.name


def test_names_have_nouns():
    places = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for _, path in modules()
        for line, name in participles(path)
    ]
    assert places == []


def test_a_participle_alone_is_found(tmp_path):
    module = tmp_path / "kept.py"
    module.write_text("def _found(): ...\ndef found_rows(): ...\n")
    assert [name for _, name in participles(module)] == ["kept", "_found"]
