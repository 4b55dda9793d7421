"""Two clients of one catalog against a dictionary: versions, ABA, merges, moves, the trash."""

import uuid

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from scale import tries

from projseg.errors import CatalogConflictError, ProjsegError

NAMES = st.sampled_from(["t", "u", "T"])
COLUMNS = st.sampled_from(["a", "b", "c", "d"])
CLIENTS = st.integers(0, 1)


class TwoClients(RuleBasedStateMachine):
    doors = None

    def __init__(self):
        super().__init__()
        self.doors.tenant = uuid.uuid4().hex
        self.clients = [self.doors.open() for _ in range(2)]
        self.model = {}  # folded name -> (name, columns, hidden)
        self.trash = {}  # folded name -> list of what was dropped, the newest last
        self.seen = [{}, {}]  # of each client: folded name -> version that it read
        self.versions = {}
        self.head = 0

    def teardown(self):
        for client in self.clients:
            client.close()

    def expect(self, action, error=None):
        """Do something; its version is above all others if it changed anything."""
        if error is not None:
            with pytest.raises(ProjsegError, match=error):
                action()
            return None
        version = action()
        self.head = max(self.head, version if isinstance(version, int) else 0)
        return version

    def put(self, key, name, columns, hidden, version):
        before = self.model.get(key)
        changed = before is None or before[1:] != (columns, hidden)
        if changed:
            assert version not in self.versions.values()
            assert version > max(self.versions.values(), default=0)
        else:
            assert version == self.versions[key]
        self.model[key] = (before[0] if before else name, columns, hidden)
        self.versions[key] = version

    @rule(who=CLIENTS, name=NAMES, columns=st.lists(COLUMNS, unique=True), force=st.booleans())
    def create(self, who, name, columns, force):
        key, spec = name.casefold(), {"columns": [{"name": column} for column in columns]}
        exists = key in self.model
        action = "force" if force else "new"
        error = "PROJSEG_TABLE_EXISTS" if exists and not force else None
        version = self.expect(lambda: self.clients[who].create(name, spec, action), error)
        if version is not None:
            self.put(key, name, tuple(columns), (), version)

    @rule(who=CLIENTS, name=NAMES)
    def read(self, who, name):
        key = name.casefold()
        if key not in self.model:
            self.expect(lambda: self.clients[who].spec(name), "PROJSEG_UNKNOWN_TABLE")
            return
        self.seen[who][key] = self.clients[who].metadata(name).version

    @rule(who=CLIENTS, name=NAMES, column=COLUMNS)
    def replace_what_was_read(self, who, name, column):
        key = name.casefold()
        seen, spec = self.seen[who].get(key), {"columns": [{"name": column}]}
        if seen is None or key not in self.model:
            return
        if seen != self.versions[key]:
            with pytest.raises(CatalogConflictError):
                self.clients[who].create(name, spec, "replace", version=seen)
            return
        version = self.clients[who].create(name, spec, "replace", version=seen)
        self.put(key, name, (column,), (), version)

    @rule(who=CLIENTS, name=NAMES, column=COLUMNS, hidden=COLUMNS)
    def merge(self, who, name, column, hidden):
        key = name.casefold()
        part = {"columns": [{"name": column}], "properties": {"hiddenColumns": [hidden]}}
        if key not in self.model:
            self.expect(lambda: self.clients[who].merge(name, part), "PROJSEG_UNKNOWN_TABLE")
            return
        _, columns, gone = self.model[key]
        columns = columns if column in columns else (*columns, column)
        gone = gone if hidden in gone else (*gone, hidden)
        self.put(key, name, columns, gone, self.clients[who].merge(name, part))

    @rule(
        who=CLIENTS,
        name=NAMES,
        column=COLUMNS,
        anchor=COLUMNS,
        where=st.sampled_from(["before", "last"]),
    )
    def move(self, who, name, column, anchor, where):
        key = name.casefold()
        client = self.clients[who]
        if key not in self.model:
            return
        _, columns, hidden = self.model[key]
        missing = column not in columns or (where == "before" and anchor not in columns)
        version = self.expect(
            lambda: client.move_column(name, column, where, anchor),
            "PROJSEG_UNKNOWN_COLUMN" if missing else None,
        )
        if missing:
            return
        rest = [one for one in columns if one != column]
        if where == "last":
            rest.append(column)
        elif column == anchor:
            rest = list(columns)
        else:
            rest.insert(rest.index(anchor), column)
        self.put(key, name, tuple(rest), hidden, version)

    @rule(who=CLIENTS, name=NAMES, column=COLUMNS)
    def drop_column(self, who, name, column):
        key = name.casefold()
        if key not in self.model or column not in self.model[key][1]:
            return
        _, columns, hidden = self.model[key]
        version = self.clients[who].drop_columns(name, [column.upper()])
        self.put(key, name, tuple(one for one in columns if one != column), hidden, version)

    @rule(who=CLIENTS, name=NAMES)
    def drop(self, who, name):
        key = name.casefold()
        if key not in self.model:
            self.expect(lambda: self.clients[who].drop(name), "PROJSEG_UNKNOWN_TABLE")
            return
        self.clients[who].drop(name)
        self.trash.setdefault(key, []).append(self.model.pop(key))
        self.versions.pop(key)
        self.seen = [{k: v for k, v in seen.items() if k != key} for seen in self.seen]

    @rule(who=CLIENTS, name=NAMES)
    def undrop(self, who, name):
        key = name.casefold()
        waiting = self.trash.get(key)
        error = None if waiting else "PROJSEG_UNKNOWN_TABLE"
        if waiting and key in self.model:
            error = "PROJSEG_TABLE_EXISTS"
        version = self.expect(lambda: self.clients[who].undrop(name), error)
        if version is not None:
            self.model[key] = waiting.pop()
            self.versions[key] = version

    @rule(who=CLIENTS, old=NAMES, new=st.sampled_from(["t", "u", "v"]))
    def rename(self, who, old, new):
        old_key, new_key = old.casefold(), new.casefold()
        if old_key not in self.model:
            return
        taken = new_key in self.model and new_key != old_key
        version = self.expect(
            lambda: self.clients[who].rename(old, new), "PROJSEG_TABLE_EXISTS" if taken else None
        )
        if taken:
            return
        _, columns, hidden = self.model.pop(old_key)
        self.model[new_key] = (new, columns, hidden)
        self.versions.pop(old_key)
        self.versions[new_key] = version
        self.seen = [{k: v for k, v in seen.items() if k != old_key} for seen in self.seen]

    @invariant()
    def both_see_the_dictionary(self):
        for client in self.clients:
            found = {
                one.name.casefold(): (
                    one.name,
                    tuple(column.name for column in one.spec.columns),
                    tuple(one.spec.layout.hidden_columns or ()),
                )
                for one in client.tables()
            }
            assert found == self.model


def test_two_clients(doors):
    from hypothesis.stateful import run_state_machine_as_test

    lives, steps = (6, 20) if doors.kind == "sqlite" else (2, 12)
    run_state_machine_as_test(
        type("TwoClientsOfOne", (TwoClients,), {"doors": doors}),
        settings=settings(max_examples=tries(lives), stateful_step_count=steps, deadline=None),
    )
