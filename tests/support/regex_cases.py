"""Patterns of Java's regular expressions, and texts on which engines disagree about them."""

from hypothesis import strategies as st

CHARACTERS = (
    *"ab1_ -kKsSiI\t\n\r\x0b\x85\xa0\u2028\u0301",
    *"\u212a\u0131\u0130\u00df\u1e9e\u017f\u00e9\u00c5\u212b\u03a3\u03c3\u03c2\u00b5\u0663\u4e2d",
    *"\U0001d400\U0001f600\U00010400\U00010428",
)
TEXTS = st.one_of(
    st.text("abkK1_ \n\r", max_size=6),
    st.text(CHARACTERS, max_size=5),
    st.builds("".join, st.lists(st.sampled_from([*CHARACTERS, "\r\n", "ab", "aa"]), max_size=5)),
)
_LITERALS = st.sampled_from([*CHARACTERS, *"aaabb", "ab", "sß", "\\.", "\\-", "\\Qa.b\\E"]).map(
    lambda c: c if len(c) > 1 else "\\_" if c == "_" else c
)
_ESCAPES = st.sampled_from(
    [
        *(f"\\{letter}" for letter in "dDsSwWhHvVRtnrfae"),
        *("\\x61", "\\x{1F600}", "\\u0061", "\\uD83D\\uDE00", "\\0141", "\\cA", "\\u0130"),
        *("\\p{Lower}", "\\p{Upper}", "\\P{Alpha}", "\\p{Punct}", "\\p{Space}", "\\p{L}", "\\pL"),
        *("\\p{Lu}", "\\p{IsL}", "\\p{Nd}", "\\PM", "\\p{IsLowercase}", "\\p{IsWhite_Space}"),
        *("\\p{gc=Ll}", "\\p{javaWhitespace}", "\\p{javaUpperCase}", "\\p{IsPunctuation}"),
        *("\\p{Alnum}", "\\p{Cntrl}", "\\p{Graph}", "\\p{XDigit}", "\\p{IsDigit}", "\\p{Lt}"),
    ]
)
_ANCHORS = st.sampled_from(["^", "$", "\\A", "\\Z", "\\z", "\\b", "\\B", "\\G", "$", "^"])
_CLASS_ITEMS = st.one_of(
    _LITERALS,
    _ESCAPES,
    st.sampled_from(
        ["a-z", "A-Z", "a-k", "J-L", "\t-a", "à-ö", "\u03b1-\u03c9", "𐀀-𐑏", "-", "^", "]", "\\]"]
    ),
)
_CLASSES = st.recursive(
    st.builds(
        lambda negation, items: f"[{negation}{''.join(items)}]",
        st.sampled_from(["", "", "^"]),
        st.lists(_CLASS_ITEMS, min_size=1, max_size=3),
    ),
    lambda inner: st.builds(
        lambda negation, first, joint, second: f"[{negation}{first}{joint}{second}]",
        st.sampled_from(["", "^"]),
        st.one_of(inner, _CLASS_ITEMS),
        st.sampled_from(["", "&&"]),
        st.one_of(inner, _CLASS_ITEMS),
    ),
    max_leaves=3,
)
_ATOMS = st.one_of(_LITERALS, _LITERALS, _ESCAPES, _CLASSES, _ANCHORS, st.just("."))
_QUANTIFIERS = st.sampled_from(
    ["", "", "", *"?*+", *["{2}", "{1,2}", "{0}", "{2,}", "{1,2}+", "{0,2}?"]]
) | (st.sampled_from(["??", "*?", "+?", "?+", "*+", "++"]))
_OPENINGS = st.sampled_from(
    [*["(", "(", "(?:", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?<n>"]]
    + [f"(?{flags}:" for flags in ("i", "iu", "s", "m", "d", "U", "md", "-i", "i-s")]
)


def _joined(parts):
    return st.lists(parts, min_size=1, max_size=3).map("".join)


def _nested(inner):
    group = st.builds(
        lambda opening, options, quantifier: f"{opening}{'|'.join(options)}){quantifier}",
        _OPENINGS,
        st.lists(_joined(inner), min_size=1, max_size=2),
        _QUANTIFIERS,
    )
    repeated = st.builds(lambda a, q: a + q, _ATOMS, _QUANTIFIERS)
    return st.one_of(group, group, repeated, st.sampled_from(["\\1", "\\2", "\\k<n>", "\\11"]))


_PIECES = st.recursive(st.builds(lambda a, q: a + q, _ATOMS, _QUANTIFIERS), _nested, max_leaves=6)
_FLAGS = st.sampled_from(["", "", "", "(?i)", "(?iu)", "(?m)", "(?s)", "(?d)", "(?md)", "(?U)"])
PATTERNS = st.builds(lambda flags, body: flags + body, _FLAGS, _joined(_PIECES))
"""Patterns, most of which Java accepts."""

SCRIBBLES = st.text("ab\\[](){}^$.|?*+-&,:<>=!QEpPLuxdsi12", max_size=8)
"""Texts that Java hardly ever accepts as patterns."""

FIXED = [
    # A final line end, and what ends a line.
    ("a$", ["a", "a\n", "a\r\n", "a\r", "a\x85", "a\u2028", "a\u2029"], ["a\n\n", "ab", "a\x0b"]),
    ("\\r$", ["\r", "a\r\r"], ["\r\n"]),
    ("a\\Z", ["a", "a\n"], ["a\n\n"]),
    ("a\\z", ["a"], ["a\n"]),
    ("a$\\n", ["a\n"], ["a", "a\n\n"]),
    ("(?d)a$", ["a", "a\n"], ["a\r", "a\r\n", "a\u2028"]),
    ("^a.b$", ["axb", "a\x0bb", "a\U0001f600b"], ["a\nb", "a\rb", "a\x85b", "a\u2028b"]),
    ("(?s)^a.b", ["a\nb", "a\u2028b"], ["ab"]),
    ("(?d)^a.b", ["a\rb", "a\u2028b"], ["a\nb"]),
    ("(?m)^b", ["b", "a\nb", "a\rb", "a\u2029b", "a\r\nb"], ["ab"]),
    ("(?m)^$", ["a\n\nb"], ["", "a\n", "a\r\nb"]),
    ("(?m)a$", ["a", "a\nb", "a\r\nb", "a\x85b"], ["ab"]),
    ("(?md)a$", ["a\nb"], ["a\rb"]),
    ("a\\Rb", ["a\nb", "a\r\nb", "a\u2028b", "a\x0bb"], ["a\n\rb", "ab"]),
    # Sets with a name.
    ("^\\s$", [*" \t\n\x0b\f\r"], ["\x85", "\xa0", "\u2028", "a"]),
    ("^\\w$", ["a", "Z", "0", "_"], ["\u00e9", "-", "\u0663"]),
    ("^\\d$", ["0"], ["\u0663", "a"]),
    ("^(?U)\\d$", ["0", "\u0663"], ["a"]),
    ("^\\h$", [" ", "\t", "\xa0", "\u3000"], ["\n"]),
    ("^\\v$", ["\n", "\x0b", "\u2028"], [" "]),
    ("^\\p{Lower}$", ["a"], ["\u00e9", "A"]),
    ("^(?i)\\p{Lower}$", ["a", "A"], ["\u00e9"]),
    ("^\\p{Punct}$", ["!", "_", "~", "$"], ["a", "\u2014"]),
    ("^\\p{L}$", ["a", "\u00e9", "\u4e2d", "\U0001d400"], ["1", "\u0301"]),
    ("^\\p{IsWhite_Space}$", ["\x85", "\xa0", " "], ["a", "\u200b"]),
    ("^\\p{javaWhitespace}$", [" ", "\x1c"], ["\x85", "\xa0"]),
    # Classes.
    ("^[a-z&&[^aeiou]]$", ["b"], ["a", "B"]),
    ("^[a-c[x-z]]$", ["a", "y"], ["d"]),
    ("^[^a-c&&[b-d]]$", ["a", "d", "e"], ["b", "c"]),
    ("^[]a]$", ["]", "a"], ["b"]),
    ("^[a^]$", ["^"], ["b"]),
    ("^[\\d-x]$", ["1", "-", "x"], ["y"]),
    ("^[^a]$", ["\n", "\U0001f600"], ["a", ""]),
    # Case.
    ("^(?i)k$", ["k", "K"], ["\u212a"]),
    ("^(?iu)k$", ["k", "K", "\u212a"], []),
    ("^(?i)\u00e9$", ["\u00e9"], ["\u00c9"]),
    ("^(?iu)\u00e9$", ["\u00e9", "\u00c9"], []),
    ("^(?iu)i$", ["i", "I", "\u0131", "\u0130"], []),
    ("^(?iu)\u00df$", ["\u00df"], ["\u1e9e", "ss"]),
    ("^(?iu)a\u00df$", ["a\u00df", "A\u1e9e"], ["ass"]),
    ("^(?i)[J-L]$", ["k", "K"], ["\u212a", "m"]),
    ("^(?iu)[J-L]$", ["k"], ["\u212a", "m"]),
    ("^(?iu)[j-l]$", ["K", "\u212a"], ["m"]),
    ("^(?iu)\U00010400$", ["\U00010400", "\U00010428"], []),
    ("a(?i)b|c", ["aB", "C"], ["AB"]),
    ("a(?i:b)c", ["aBc"], ["aBC"]),
    # Words.
    ("\\bfoo\\b", ["foo", "a foo!", "\u2014foo\u2014"], ["foos", "_foo", "\u00e9foo", "foo1"]),
    ("a\\b", ["a", "a-"], ["ab", "a\u00e9", "a\u0301"]),
    ("a\\B", ["a\u0301\u0301", "ab"], ["a", "a "]),
    ("\\B\u0301\\b", ["a\u0301\u0301 "], ["\u0301", " \u0301"]),
    ("\\B", ["", "ab", " ", "\U0001f600"], ["a"]),
    # What RE2 lacks.
    ("^(?=.*\\d)(?=.*[a-z]).{3,}$", ["a1b", "1bc\n"], ["abc", "a1"]),
    ("foo(?!bar)", ["foo", "foobaz"], ["foobar"]),
    ("(?<=a|bc)x", ["ax", "bcx"], ["cx", "x"]),
    ("(?<!a)x", ["x", "bx"], ["ax"]),
    ("(a|b)\\1", ["aa", "bb"], ["ab"]),
    ("(?i)(a)\\1", ["aA"], ["ab"]),
    ("(?<n>.)\\k<n>", ["xx", "\U0001f600\U0001f600"], ["xy"]),
    ("(a)\\11", ["aa1"], ["aa"]),
    ("(?>a|ab)c", ["ac"], ["abc"]),
    ("a*+a", [], ["aaa"]),
    ("^(?:a|ab){2}+c", ["aac"], ["abac"]),
    # How a pattern is written.
    ("\\Qa.b\\E*", ["a.", "a.bb"], ["ab"]),
    ("\\x41\\x{1F600}\\u0042\\0103\\cA\\t", ["A\U0001f600BC\x01\t"], []),
    ("\\uD83D\\uDE00", ["\U0001f600"], []),
    ("a]}", ["a]}"], ["a"]),
    ("x{2}{3}", ["xx"], ["x"]),
    ("a{1001}", ["a" * 1001], ["a" * 1000]),
    ("", ["", "a"], []),
]
"""(pattern, texts in which Java finds it, texts in which it does not)."""
