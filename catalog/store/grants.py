"""Grants: what a principal may do with a definition, judged by the name that is stored.

Names have no case, and a pattern has: so a definition that is there is judged by its own spelling,
however it was asked for, and a name that is not there in one spelling for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from projseg.algebra.expressions.patterns import read_pattern
from projseg.catalog.external.allowed_places import check_location
from projseg.catalog.store.table_metadata import Name, TableMetadata
from projseg.errors import InvalidInputError, PermissionDeniedError, ProjsegError

if TYPE_CHECKING:
    from projseg.algebra.expressions.patterns.java_regex import JavaRegex

ACTIONS: Final = ("READ", "WRITE", "EXTERNAL", "ADMIN")
GRANTS_MAX: Final = 100
"""Grants of a principal, each of which may be tried for each name."""
PATTERN_CHARACTERS_MAX: Final = 500
PATTERN_PARTS_MAX: Final = 1000
"""Parts of a pattern, each as often as it is repeated: RE2's time for a name grows with them."""


class Grant(NamedTuple):
    """An action on all definitions whose text a pattern matches."""

    action: str
    pattern: str
    external_type: str | None = None

    def gives(self, action: str, external_type: str | None) -> bool:
        """Whether it is for an action, of some definitions."""
        if self.action == "ADMIN" or (self.action, action) == ("WRITE", "READ"):
            return True
        is_of_type = external_type is None or self.external_type in (None, external_type)
        return self.action == action and is_of_type


@lru_cache(4096)
def grant_pattern(pattern: str) -> JavaRegex:
    """Return what finds the names that a pattern matches, in time linear in their length."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise _bad_pattern(pattern, f"has more than {PATTERN_CHARACTERS_MAX} characters")
    try:
        read_pattern(pattern)  # alone first: a bracket must not close the group around it
        found = read_pattern(rf"\A(?:{pattern})\z")
    except ProjsegError as error:
        raise _bad_pattern(pattern, f"is refused: {error.message}") from error
    if found.size > PATTERN_PARTS_MAX:
        raise _bad_pattern(pattern, f"has more than {PATTERN_PARTS_MAX} parts when repeated")
    return found


def pattern_problem(pattern: str) -> str | None:
    """Return why a stored pattern matches nothing; None if it may match."""
    try:
        grant_pattern(pattern)
    except InvalidInputError as error:
        return error.message
    return None


@dataclass(frozen=True)
class Caller:
    """The sender of a request, and their rights: an admin may do everything in the tenant.

    Grants are as admins wrote them, and last changed at the tenant's version `since`; one whose
    pattern is refused gives nothing. Managed tables of the tenant are in the warehouse, registered
    ones below the roots.
    """

    tenant: str
    principal: str
    is_admin: bool
    since: int
    grants: tuple[Grant, ...]
    warehouse: str | None
    roots: tuple[str, ...]

    def allowed(
        self, action: str, texts: Sequence[str], external_type: str | None = None
    ) -> list[bool]:
        """Return whether an action is granted on each of the names that texts are of."""
        if self.is_admin or not texts:
            return [True] * len(texts)
        found, asked = [False] * len(texts), pa.array(texts, pa.string())
        for grant in self.grants:
            if grant.gives(action, external_type):
                found = [
                    one or more for one, more in zip(found, _matched(grant, asked), strict=True)
                ]
        return found

    def may(self, action: str, name: Name, external_type: str | None = None) -> bool:
        """Whether an action is granted on a definition of this very spelling."""
        return self.allowed(action, [name.text], external_type)[0]

    def require(self, action: str, name: Name, external_type: str | None = None) -> None:
        """Refuse what is not granted on a definition of this very spelling."""
        if self.may(action, name, external_type):
            return
        unusable = [grant.pattern for grant in self.grants if pattern_problem(grant.pattern)]
        hint = (
            f"; the grant with pattern '{unusable[0][:80]}' gives nothing, since the pattern is "
            "refused: an admin grants another instead"
            if unusable
            else ""
        )
        raise PermissionDeniedError(
            "PROJSEG_PERMISSION_DENIED",
            f"no grant gives '{self.principal}' {action} on '{name.text}'{hint}",
        )

    def require_place(self, found: TableMetadata) -> None:
        """Refuse a definition that may not stay as it is: of files or a place not granted."""
        if found.type != "table":
            self.require("EXTERNAL", found.full_name, found.type)
        elif not found.managed:
            check_location(str(found.location), self.roots)

    def new_name(self, name: Name, type: str) -> Name:
        """Return a new name in the spelling that its definition gets; its namespace is as stored.

        Whether it is granted does not depend on the spelling that is asked for: the folded one
        decides. The name is kept as written where that is granted too, and else is folded, as
        whoever made the definition could not read it.
        """
        needed = [("WRITE", None), *([("EXTERNAL", type)] if type != "table" else [])]
        for action, external_type in needed:
            self.require(action, name.folded_name, external_type)
        is_kept = all(self.may(action, name, kind) for action, kind in needed)
        return name if is_kept else name.folded_name


def _matched(grant: Grant, texts: pa.Array) -> Iterable[bool]:
    try:
        return grant_pattern(grant.pattern).search(texts).to_pylist()  # type: ignore[no-any-return]
    except ProjsegError:  # stored by an earlier release, which took it
        return [False] * len(texts)


def _bad_pattern(pattern: str, problem: str) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_BAD_ARGUMENT",
        f"pattern '{pattern[:80]}' {problem}; name what is granted, as r'(sales|hr)\\..*' does: "
        "what a pattern leaves out is not granted",
    )
