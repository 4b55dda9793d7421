"""The table of operations of REST: the server has a function of each, and checks what it needs."""

import inspect
import json
import random
import uuid

import pytest
import sqlalchemy as sa
from catalog_principals import Principal
from scale import tries

from projseg.catalog import rest_handlers
from projseg.catalog.store.operations import OPERATIONS, quoted
from projseg.catalog.store.table_metadata import ACTIVE, STAGED

pytest.importorskip("starlette")

SPEC = {"columns": [{"name": "a"}, {"name": "b"}]}
SEEN = {"tableId": "0" * 32, "bindings": {}, "storedSchema": {}, "storedVersion": 1}
PATTERNS = (r".*", r"hr\..*", r"a\.[a-m].*", r"hr\.[^b]*", r"(hr|a)\..*", r"a\..*", r"x.*")
MADE = ("create", "register", "stage", "create_schema", "create_principal")
"""Operations that make what they name."""


def test_the_server_has_a_function_of_each_operation():
    for name in OPERATIONS:
        assert list(inspect.signature(getattr(rest_handlers, name)).parameters) == ["request"]


def test_names_in_an_address_are_quoted():
    assert OPERATIONS["create"].address(("a/b", "ü")) == "/tables/a%2Fb/%C3%BC"


def test_the_first_path_of_an_address_is_the_longer_one():
    """`/staged/{id}/publish` would also be a stage of a table `publish`."""
    assert list(OPERATIONS).index("publish") < list(OPERATIONS).index("stage")


def test_whoever_has_but_a_token_sees_no_definition_and_edits_none():
    free = {name for name, one in OPERATIONS.items() if one.needs == "TOKEN"}
    assert free == {"config", "flush", "schemas", "schema_names", "schema_of"}
    edits = {name for name, one in OPERATIONS.items() if one.method != "GET"} - {"flush"}
    assert {OPERATIONS[name].needs for name in edits} == {"WRITE", "ADMIN"}


class Case:
    """A request of an operation, and what it is about, beside which there is nothing."""

    def __init__(self, own, name, chance):
        self.own, self.name, self.operation = own, name, OPERATIONS[name]
        letter = chance.choice("abmz")
        self.table = (chance.choice(("hr", "a")), f"{letter}{uuid.uuid4().hex}")
        self.target = (chance.choice(("hr", "a")), f"{chance.choice('abmz')}{uuid.uuid4().hex}")
        self.space = self.principal = f"s{uuid.uuid4().hex}"
        self.text = ".".join(self.table)
        forget_definitions(own)
        self.head = own.store.head()
        self.id = self._made()

    def _made(self):
        """Make what the operation is about, and return its id."""
        own, states = self.own, self.operation.states
        if self.operation.needs == "ADMIN":
            if self.name not in MADE:
                own.create_namespace(self.space)
                own.admin.create_principal(self.principal)
            return self.principal
        if STAGED in states:
            return own.definitions.stage(self.table, SPEC).id
        if self.name not in MADE:
            own.create(self.table, SPEC)
            found = own.metadata(self.table).id
            if self.name == "trash" or (states and ACTIVE not in states):
                own.drop(self.table)
            return found
        return None

    def asked(self, who, path, key=None):
        """Return the status and the content of the reply to a principal."""
        space = self.space if self.operation.needs == "ADMIN" else self.table[0]
        parts = {"ns": space, "name": self.table[1], "id": self.id, "view": "tables"}
        for field, value in parts.items():
            path = path.replace(f"/{{{field}}}", quoted(value or ""))
        query = f"?since={self.head}" if self.name == "changes" else ""
        return who.ask(self.operation.method, path + query, self._body(), key)

    def _body(self):
        bodies = {
            "rename": {"source": self.table, "target": self.target},
            "move_column": {"column": "b", "where": "first"},
            "drop_columns": ["b"],
            "hide_columns": {"hide": ["b"]},
            "register": {"location": "/data/x", "spec": SPEC},
            "record": SEEN,
            "create_principal": {"name": f"new{self.principal}"},
            "create_token": {"principal": self.principal},
            "create_grant": {"principal": self.principal, "action": "READ", "pattern": "x"},
        }
        if self.operation.body is None:
            return None
        return bodies.get(self.name, {} if self.operation.needs == "ADMIN" else SPEC)

    def names(self):
        """Return the names on which the operation needs its grant."""
        return [self.text, *([".".join(self.target)] if self.name == "rename" else [])]

    def refusal(self, who):
        """Return the status by which a principal is refused; None if the grant is there."""
        needs, own = self.operation.needs, self.names()
        if who.is_admin or needs in ("TOKEN", "SHOWN"):
            return None
        if needs == "ADMIN":
            return 403
        if (needs == "READ" or self.operation.states) and not who.may("READ", self.text):
            return 404
        return None if all(who.may(needs, text) for text in own) else 403


def forget_definitions(own):
    """Forget all definitions, of which lists would need pages."""
    gone = sa.text("DELETE FROM definitions WHERE tenant = :tenant")
    tenant = {"tenant": own.store.tenant}
    own.store.database.edit(lambda connection: connection.execute(gone, tenant), lambda _: True)


def principals(own, ask, chance, count):
    """Principals with a drawn grant each, one with none, and an admin."""
    made = []
    for number in range(count):
        own.admin.create_principal(f"p{number}", admin=number == 1)
        grants = [(chance.choice(("READ", "WRITE", "ADMIN")), chance.choice(PATTERNS), None)]
        grants = grants if number > 1 else []
        for grant in grants:
            own.admin.grant(f"p{number}", *grant)
        made.append(Principal(ask, own.admin.create_token(f"p{number}")[1], grants))
        made[-1].is_admin = number == 1
    return made


def test_each_operation_is_refused_without_its_grant_and_done_with_it(house_served):
    own, ask = house_served
    chance = random.Random(11)
    callers = principals(own, ask, chance, 12)
    for name, operation in OPERATIONS.items():
        met = set()
        for who in (*callers[:2], *chance.choices(callers, k=tries(60))):
            for path in operation.paths:
                met.add(check_grant(Case(own, name, chance), who, path))
        assert met == ({True} if operation.needs == "TOKEN" else {True, False}), name
        status, _ = Principal(ask, "none.none", []).ask(
            operation.method, operation.address(("x", "y"))
        )
        assert status == 401, name


def check_grant(case, who, path):
    """Whether a principal was answered, as its grants say."""
    head, refusal = case.own.store.head(), case.refusal(who)
    status, content = case.asked(who, path)
    shown = (path, who.grants, case.names(), status, content)
    if refusal is not None:
        assert (status, case.own.store.head()) == (refusal, head), shown
        return False
    assert status in case.operation.statuses, shown
    if case.operation.needs != "SHOWN":
        return True
    is_shown = case.table[1] in json.dumps(content)
    assert is_shown == (who.is_admin or who.may("READ", case.text)), shown
    return is_shown


def test_a_request_with_a_key_is_done_once_where_its_reply_is_kept(house_served):
    own, ask = house_served
    root = principals(own, ask, random.Random(3), 2)[1]
    edits = [(name, one) for name, one in OPERATIONS.items() if one.method != "GET"]
    for name, operation in edits:
        for path in operation.paths:
            case, key = Case(own, name, random.Random(path)), uuid.uuid4().hex
            first = case.asked(root, path, key.encode())
            assert first[0] in operation.statuses, (path, first)
            head = own.store.head()
            again = case.asked(root, path, key.encode())
            kept = sa.text("SELECT count(*) FROM replies WHERE key = :key")
            with own.store.database.reading() as connection:
                count = connection.execute(kept, {"key": key}).scalar_one()
            assert count == operation.keeps_reply, path
            if operation.keeps_reply:
                assert (again, own.store.head()) == (first, head), path
