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
        *(f"\\{letter}" for letter in "dDsSwWhHtnrfae"),
        *("\\x61", "\\x{1F600}", "\\u0061", "\\uD83D\\uDE00", "\\u0130", "\\p{Lower}"),
        *("\\p{Upper}", "\\P{Alpha}", "\\p{Punct}", "\\p{Space}", "\\p{Alnum}", "\\p{Cntrl}"),
        *("\\p{Graph}", "\\p{XDigit}", "\\p{Blank}", "\\p{Print}", "\\P{ASCII}", "\\p{Digit}"),
    ]
)
_REFUSED = st.sampled_from(
    [
        *("\\b", "\\B", "\\G", "\\R", "\\v", "\\X", "\\1", "\\k<n>", "\\0141", "\\cA", "\\p{L}"),
        *("\\pL", "\\p{IsLowercase}", "\\p{javaWhitespace}", "\\uD83D", "[^😀]", "[\\x00-\uffff]"),
        *("(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(?>a|ab)", "a++", "a{1,2}+", "[a[b]]", "[a&&b]"),
        *("(?m)^a", "(?d)a$", "(?iu)k", "(?U)\\w", "(?x) a", "a{1001}", "a{2}{3}", "(?:a$)*", "$a"),
    ]
)
"""What Java takes, and projseg refuses: wholly, or in some patterns."""
_CLASSES = st.builds(
    lambda negation, items: f"[{negation}{''.join(items)}]",
    st.sampled_from(["", "", "^"]),
    st.lists(
        st.one_of(
            _LITERALS,
            _ESCAPES,
            st.sampled_from(
                [
                    "a-z",
                    "A-Z",
                    "a-k",
                    "J-L",
                    "\t-a",
                    "à-ö",
                    "\u03b1-\u03c9",
                    "𐀀-𐑏",
                    "-",
                    "^",
                    "&",
                    "]",
                    "\\]",
                ]
            ),
        ),
        min_size=1,
        max_size=3,
    ),
)
_STARTS = st.sampled_from(["", "", "", "", "^", "\\A"])
_ENDS = st.sampled_from(["", "", "", "$", "$", "\\Z", "\\z", "\\s*$", "[^a]*$"])
_QUANTIFIERS = st.sampled_from(
    ["", "", "", *"?*+", *["{2}", "{1,2}", "{0}", "{2,}", "{0,2}?", "??", "*?", "+?"]]
)
_OPENINGS = st.sampled_from(["(", "(", "(?:", "(?<n>", "(?i:", "(?s:", "(?-i:", "(?i-s:"])
_ATOMS = st.one_of(_LITERALS, _LITERALS, _ESCAPES, _CLASSES, st.just("."))
_REPEATED = st.builds(lambda atom, quantifier: atom + quantifier, _ATOMS, _QUANTIFIERS)


def _joined(parts):
    options = st.lists(parts, min_size=1, max_size=3).map("".join)
    return st.builds(lambda start, body, end: start + body + end, _STARTS, options, _ENDS)


def _nested(inner):
    group = st.builds(
        lambda opening, options, quantifier: f"{opening}{'|'.join(options)}){quantifier}",
        _OPENINGS,
        st.lists(_joined(inner) | inner, min_size=1, max_size=2),
        _QUANTIFIERS,
    )
    return st.one_of(group, _REPEATED)


_PIECES = st.recursive(_REPEATED, _nested, max_leaves=6)
_OPTIONS = st.lists(_joined(_PIECES), min_size=1, max_size=2).map("|".join)
PATTERNS = st.builds(
    lambda flags, body: flags + body, st.sampled_from(["", "", "", "(?i)", "(?s)"]), _OPTIONS
)
"""Patterns, most of which Java and projseg accept."""

OTHER_PATTERNS = st.builds(
    lambda before, part, after: before + part + after, PATTERNS | st.just(""), _REFUSED, PATTERNS
)
"""Patterns that Java accepts, and projseg mostly refuses."""

SCRIBBLES = st.text("ab\\[](){}^$.|?*+-&,:<>=!QEpPLuxdsi12", max_size=8)
"""Texts that Java hardly ever accepts as patterns."""

FIXED = [
    # A final line end, and what ends a line.
    ("a$", ["a", "a\n", "a\r\n", "a\r", "a\x85", "a\u2028", "a\u2029"], ["a\n\n", "ab", "a\x0b"]),
    ("a\\Z", ["a", "a\n"], ["a\n\n"]),
    ("a\\z", ["a"], ["a\n"]),
    ("^a.b$", ["axb", "a\x0bb", "a\U0001f600b"], ["a\nb", "a\rb", "a\x85b", "a\u2028b"]),
    ("(?s)^a.b", ["a\nb", "a\u2028b"], ["ab"]),
    # Sets with a name.
    ("^\\w$", ["a", "Z", "0", "_"], ["\u00e9", "-", "\u0663"]),
    ("^\\d$", ["0"], ["\u0663", "a"]),
    ("^\\h$", [" ", "\t", "\xa0", "\u3000"], ["\n"]),
    ("^\\p{Lower}$", ["a"], ["\u00e9", "A"]),
    ("^(?i)\\p{Lower}$", ["a", "A"], ["\u00e9"]),
    ("^\\p{Punct}$", ["!", "_", "~", "$"], ["a", "\u2014"]),
    # Classes.
    ("^[]a]$", ["]", "a"], ["b"]),
    ("^[a^]$", ["^"], ["b"]),
    ("^[\\d-x]$", ["1", "-", "x"], ["y"]),
    # Case.
    ("^(?i)k$", ["k", "K"], ["\u212a"]),
    ("^(?i)\u00e9$", ["\u00e9"], ["\u00c9"]),
    ("^(?i)[J-L]$", ["k", "K"], ["\u212a", "m"]),
    ("a(?i)b|c", ["aB", "C"], ["AB"]),
    ("a(?i:b)c", ["aBc"], ["aBC"]),
    # The end of several options, and after what may take a line end.
    ("(^|,)a(,|$)", ["a", "b,a", "a,b", "b,a\r\n"], ["ba", "a\nb"]),
    ("a\\s*$|^b$", ["a", "a \r\n", "b\n", "a\n\n"], ["ab", "bb"]),
    ("^[^a]+$", ["\n", "\U0001f600", "b\r\n"], ["a", "", "ab"]),
    # How a pattern is written.
    ("\\Qa.b\\E*", ["a.", "a.bb"], ["ab"]),
    ("\\uD83D\\uDE00", ["\U0001f600"], []),
    ("\\x41\\x{1F600}\\u0042\\t", ["A\U0001f600B\t"], ["A\U0001f600B"]),
    ("a]}", ["a]}"], ["a"]),
    ("", ["", "a"], []),
]
"""(pattern, texts in which Java finds it, texts in which it does not)."""
