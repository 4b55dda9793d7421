"""What a principal may do depends on the stored name, and never on the spelling asked for."""

import contextlib
import random
import unicodedata
from urllib.parse import unquote

import pytest
import sqlalchemy as sa
from catalog_principals import SPACES, Principal, empty_trash
from scale import tries

from projseg.catalog.store.operations import quoted
from projseg.catalog.store.table_metadata import Name, check_new_name
from projseg.errors import InvalidInputError

pytest.importorskip("starlette")

LETTERS = "aAbBzZ_0.-ßẞıİσΣςéÉǅＡａﬁĿ "
PATTERNS = (
    r".*", r"hr\..*", r"[^b]*", r".*\.[^bB].*", r"(hr|a)\.[a-z].*", r"a\.b\..*", r"a%2Eb\..*",
    r"[a-z]+\..*", r"[A-Z].*", r".*[A-Z].*", r".*s.*", r"(?:hr|HR2)\.(?:a|A|b).*", r"ß\..*",
    r".*\.[^.]*", r"[^ß]*", r".{4,9}", r"Sales\.[a-zß]*", r"sales\..*", r"(?i)sales\..*",
)  # fmt: skip
KINDS = (("READ", None), ("WRITE", None), ("EXTERNAL", "inline"), ("EXTERNAL", None))
INLINE = {"type": "inline", "properties": {"format": "json", "data": "{}"}}
TABLE = {"columns": [{"name": "a"}, {"name": "b"}]}


def drawn_name(chance):
    """A name that may be given."""
    while True:
        text = "".join(chance.choices(LETTERS, k=chance.randint(1, 7)))
        with contextlib.suppress(InvalidInputError):
            return check_new_name(unicodedata.normalize("NFC", text))


def spellings(chance, name):
    """The spellings that the catalog takes for a name."""
    one = "".join(chance.choice((c, c.upper(), c.lower(), c.swapcase())) for c in name)
    found = {name, name.upper(), name.lower(), name.title(), name.casefold(), one}
    found = {unicodedata.normalize("NFC", text) for text in found}
    return sorted(text for text in found if text.casefold() == name.casefold())


def principals(chance, own, ask, count):
    """Principals with drawn grants, and an admin."""
    made = []
    for number in range(count):
        name = f"p{number}"
        own.admin.create_principal(name)
        kinds = chance.choices(KINDS, k=chance.randint(1, 3))
        grants = [(action, chance.choice(PATTERNS), kind) for action, kind in kinds]
        for grant in grants:
            own.admin.grant(name, *grant)
        made.append(Principal(ask, own.admin.create_token(name)[1], grants))
    own.admin.create_principal("root", admin=True)
    return made, Principal(ask, own.admin.create_token("root")[1], [])


class Case:
    """A drawn name of a drawn caller, and what its grants say of it."""

    def __init__(self, chance, own, root, who):
        self.own, self.root, self.who = own, root, who
        self.space, self.name = chance.choice(SPACES), drawn_name(chance)
        self.kind = chance.choice(("table", "inline"))
        self.spec = TABLE if self.kind == "table" else INLINE
        self.target = ("a", f"x{chance.random()}")
        stored = Name(self.space, self.name)
        self.text, self.folded = stored.text, stored.folded_name.text
        self.may_read, self.may_write = who.may("READ", self.text), who.may("WRITE", self.text)

    def may_make(self, text):
        """Whether a definition of its kind may be made, or changed, under a name."""
        is_external = self.kind != "table"
        may_write = self.who.may("WRITE", text)
        return may_write and (not is_external or self.who.may("EXTERNAL", text, self.kind))

    def makes(self, place, other):
        """A name that is not there is judged in one spelling, and readable by who made it."""
        status, _ = self.who.ask("POST", f"/tables{place}", self.spec)
        assert status == (201 if self.may_make(self.folded) else 403)
        if status == 201:
            assert self.who.ask("GET", f"/tables{other}")[0] == 200
            assert self.who.ask("DELETE", f"/tables{other}")[0] == 204
        status, _ = self.who.ask("DELETE", f"/tables{place}?ifExists=true")
        assert status == (204 if self.who.may("WRITE", self.folded) else 403)
        assert self.who.ask("GET", f"/tables{place}")[0] == 404

    def reads(self, place):
        _, space, name = place.split("/")
        for path in (
            f"/tables{place}",
            f"/tables{place}/history",
            f"/schemas/{space}/tables/{name}",
        ):
            assert self.who.ask("GET", path)[0] == (200 if self.may_read else 404)

    def lists(self, place):
        names = self.who.ask("GET", "/list/tables/names")[1]["names"]
        assert names == ([f"{self.space}.{self.name}"] if self.may_read else [])
        found = self.who.ask("GET", "/information_schema/tables")[1]["rows"]
        assert [row["table_name"] for row in found] == ([self.name] if self.may_read else [])

    def merges(self, place):
        expected = 200 if self.may_make(self.text) else 403
        assert self.who.ask("PUT", f"/tables{place}", {})[0] == expected
        assert self.who.ask("POST", f"/tables{place}?action=IfNew", self.spec)[0] == expected

    def hides(self, place):
        asked = self.who.ask("POST", f"/tables{place}/hideColumns", {"hide": ["q"]})
        is_table = self.kind == "table"
        assert asked[0] == ((200 if is_table else 400) if self.may_make(self.text) else 403)

    def renames(self, place):
        source = [unquote(part) for part in place.split("/")[1:]]
        body = {"source": source, "target": self.target}
        status, _ = self.who.ask("POST", "/tables/rename", body)
        is_granted = self.may_make(self.text) and self.may_make(".".join(self.target))
        assert status == (200 if is_granted else 403)
        if status == 200:
            back = {"source": self.target, "target": [self.space, self.name]}
            assert self.root.ask("POST", "/tables/rename", back)[0] == 200

    def replaces(self, place):
        """A table that another is staged for is replaced if both may be written."""
        status, found = self.who.ask("POST", f"/staged{place}", TABLE)
        assert status == (201 if self.may_write else 403)
        if status == 201:
            id_ = found["definition"]
            refused = self.who.ask("POST", f"/staged/{id_}/publish")
            assert refused[0] == 409
            assert self.who.ask("DELETE", f"/staged/{id_}")[0] == 204

    def drops(self, place):
        status, _ = self.who.ask("DELETE", f"/tables{place}")
        assert status == (204 if self.may_write else 403)
        if status == 204:
            waiting = [one["id"] for one in self.root.ask("GET", "/trash")[1]["items"]]
            status, _ = self.who.ask("POST", f"/trash/{waiting[0]}/undrop")
            assert status == (200 if self.may_make(self.text) else 403)
            if status == 403:
                assert self.root.ask("POST", f"/trash/{waiting[0]}/undrop")[0] == 200

    VERBS = (reads, lists, merges, hides, renames, replaces, drops)


def test_what_may_be_done_does_not_depend_on_the_spelling(house_served):
    own, ask = house_served
    chance = random.Random(3701)
    callers, root = principals(chance, own, ask, 40)
    for number in range(tries(100)):
        case = Case(chance, own, root, chance.choice(callers))
        pairs = [
            (s, n) for s in spellings(chance, case.space) for n in spellings(chance, case.name)
        ]
        some = [quoted(*pair) for pair in chance.sample(pairs, min(2, len(pairs)))]
        shown = (number, case.who.grants, case.text, some)
        try:
            for place in some:
                case.makes(place, chance.choice(some))
            empty_trash(own)
            head = root.ask("GET", "/config")[1]["head"]
            whole = f"/tables{quoted(case.space, case.name)}"
            assert root.ask("POST", whole, case.spec)[0] == 201
            for place in some:
                for verb in chance.sample(Case.VERBS, 3):
                    verb(case, place)
            sent = {
                one["name"] for one in case.who.ask("GET", f"/changes?since={head}")[1]["changes"]
            }
            assert (case.text in sent) == case.may_read
            assert root.ask("DELETE", whole)[0] == 204
        except AssertionError as error:
            raise AssertionError(f"{shown}: {error}") from error
        empty_trash(own)


def unseen():
    """The characters that nobody sees, by Unicode's categories and its list of ignorable ones."""
    ranges = (
        (0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065),
        (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8),
        (0xE0000, 0xE0FFF), (0x2800, 0x2800),
    )  # fmt: skip
    found = {chr(code) for first, last in ranges for code in range(first, last + 1)}
    every = map(chr, range(0x110000))
    return found | {c for c in every if unicodedata.category(c) in ("Cf", "Zl", "Zp", "Zs")} - {" "}


def test_names_that_nobody_can_tell_apart_are_not_given(house):
    house.create("pay day", TABLE)
    for letter in unseen():
        name = unicodedata.normalize("NFC", f"pay{letter}day")
        with pytest.raises(InvalidInputError, match="PROJSEG_BAD_NAME"):
            check_new_name(name)
    for name in ("pay day ", " pay day", "pay  day", "pay\u200bday", "pay\u202eday"):
        for give in (
            lambda name: house.create(name, TABLE),
            lambda name: house.rename("pay day", name),
            house.create_namespace,
            house.admin.create_principal,
            house.admin.create_tenant,
        ):
            with pytest.raises(InvalidInputError, match="PROJSEG_BAD_NAME"):
                give(name)
    assert [one.name for one in house.tables()] == ["pay day"]
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_TABLE"):
        house.spec("pay\u200bday")  # one of an earlier release is found, and can be renamed


def test_no_two_names_have_one_text(house, tmp_path):
    for space in ("a", "a.b"):
        house.create_namespace(space)
    pair = ("a", "b.c"), ("a.b", "c")
    assert len({Name(*one).text for one in pair}) == 2
    for one in pair:
        house.create(one, TABLE)
    assert house.export(tmp_path / "out") == len(list((tmp_path / "out").iterdir())) == 2
    assert set(house.changes()["name"].to_pylist()[-2:]) == {"a.b.c", "a%2Eb.c"}


def test_patterns_that_need_more_than_linear_time_are_not_granted(house):
    house.admin.create_principal("eve")
    for pattern in (
        r"(?!hr\.).*", r"(?<=a)b", r"(a)\1", r"a++", "(", "a)|(b", r"(?:a{1,40}){1,40}", "a" * 501,
        r"((a{30}){30}){30}", None, 5,
    ):  # fmt: skip
        with pytest.raises(InvalidInputError, match="PROJSEG_BAD_ARGUMENT"):
            house.admin.grant("eve", "WRITE", pattern)
    for pattern in (r"(a|a)*!", r"(.*a){60}b", r"(?:a|b|c)*d"):
        house.admin.grant("eve", "WRITE", pattern)
    for _ in range(97):
        house.admin.grant("eve", "READ", "x")
    with pytest.raises(InvalidInputError, match="100 grants"):
        house.admin.grant("eve", "READ", "x")


def test_a_stored_pattern_that_is_refused_gives_nothing_and_says_so(house_served):
    own, ask = house_served
    own.admin.create_principal("eve")
    eve = Principal(ask, own.admin.create_token("eve")[1], [])
    own.admin.grant("eve", "READ", r"sales\..*")
    row = sa.text(
        "INSERT INTO grants (id, tenant, principal, action, pattern) "
        "VALUES ('g', :tenant, 'eve', 'WRITE', :pattern)"
    )
    given = {"tenant": own.store.tenant, "pattern": r"(?!hr\.).*"}
    own.store.database.edit(lambda connection: connection.execute(row, given), lambda _: True)
    own.create(("hr", "boss"), TABLE)
    own.create(("Sales", "t"), TABLE)
    assert eve.ask("GET", "/tables/hr/boss")[0] == 404
    status, found = eve.ask("PUT", "/tables/sales/t", {})
    assert (status, found["error"]["code"]) == (403, "PROJSEG_PERMISSION_DENIED")
    assert "(?!hr" in found["error"]["message"]
    problems = [one["problem"] for one in own.admin.grants("eve") if one["id"] == "g"]
    assert "look-ahead" in problems[0]
    assert [one["problem"] for one in own.admin.grants("eve") if one["id"] != "g"] == [None]
