"""The page as an ASGI application: each view is a record, printed as HTML or as JSON."""

from __future__ import annotations

import gzip
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from copy import copy
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

import anyio
import msgspec
import pyarrow as pa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from projseg import __version__
from projseg.catalog.places import Places
from projseg.errors import (
    InvalidInputError,
    PermissionDeniedError,
    ProjsegError,
    QueryTimeoutError,
    http_status,
)
from projseg.memory.deadline import Deadline, under
from projseg.memory.door import through
from projseg.page import details
from projseg.page.advice_view import (
    BUDGET,
    AdviceRecord,
    advice_record,
    check_action,
    compute_advice,
)
from projseg.page.answers import TEXT_COLUMN, Answer, Answers, Asked, TooManyQueriesError, waited
from projseg.page.changes import ChangeForm, ChangeRecord, change_record, changed_text
from projseg.page.columns_view import columns_record
from projseg.page.printing import HERE, MEDIA, download, environment, json_response, quoted
from projseg.page.queries_view import QueriesRecord, queries_record
from projseg.page.query_view import answer_record, query_record
from projseg.page.security import BODY_BYTES_MAX, Guard
from projseg.page.statements import box_statement, check_names
from projseg.page.table_view import source_of, table_record
from projseg.page.tables_view import tables_record
from projseg.page.timeline import open_window
from projseg.table.table_version import TableVersion

LOGGER: Final = logging.getLogger("projseg.page")
_HTTP_STATUS: Final = {
    "PROJSEG_UNKNOWN_VERSION": 404,
    "PROJSEG_LIMIT_EXCEEDED": 500,
    "PROJSEG_BAD_TOKEN": 403,
}
"""Of errors that say here what is stored, or may be read, and not what a request has."""
_STATUS: Final = {"running": 202, "failed": 400, "timeout": 504}
_ASSETS: Final = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_SINCE: Final = "30 days"
_CHANGE_SECONDS: Final = 24 * 3600.0
_WAIT_SECONDS: Final = 1.0
_VIEW_SECONDS: Final = 5
_GZIP_LEVEL: Final = 3


class PageSettings(NamedTuple):
    """How a page is reached, and what its queries may take.

    `token` is the secret of those who may ask; `timeout` is in seconds of a query, and an answer
    keeps at most `max_rows`. With `allow_changes`, projections, indexes, views and segments may be
    changed; rows never are.
    """

    token: str
    port: int = 8642
    host: str = "127.0.0.1"
    timeout: float = 30
    max_rows: int = 100_000
    log: str | None = None
    allow_changes: bool = False


def application(places: Places, settings: PageSettings) -> ASGIApp:
    """Return the page over tables, for whoever has the token."""
    page = _Page(places, settings)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            page.answers.close()

    made = Starlette(
        routes=[
            Route("/", page.all_tables),
            Route("/index.json", page.all_tables),
            Route("/queries", page.all_tables),
            Route("/queries.json", page.all_tables),
            Route("/assets/{file}", page.asset),
            Route("/favicon.ico", page.asset),
            Route("/t/{name}", page.view),
            Route("/t/{name}/query", page.ask, methods=["POST"]),
            Route("/t/{name}/advice", page.advise, methods=["POST"]),
            Route("/t/{name}/change", page.make_change, methods=["POST"]),
            Route("/t/{name}/answers/{id}/cancel", page.cancel, methods=["POST"]),
            Route("/t/{name}/answers/{id}", page.answer),
            Route("/t/{name}/segments/{file:path}", page.view),
            Route("/t/{name}/{view}", page.view),
        ],
        exception_handlers={HTTPException: page.refuse},  # type: ignore[dict-item]
        lifespan=life,
    )
    return Guard(made, settings.token, settings.port, settings.host)


class _Shown(NamedTuple):
    """The request for a view: a table at a version, the address's query, and a segment."""

    name: str
    version: TableVersion
    query: Mapping[str, str]
    file: str

    @property
    def window(self) -> tuple[str | None, str | None]:
        """Return the window in the address."""
        return self.query.get("from") or None, self.query.get("to") or None


class _Page:
    """The views of a page."""

    def __init__(self, places: Places, settings: PageSettings) -> None:
        self._places, self._settings = places, settings
        self.answers = Answers(settings.timeout, settings.max_rows)
        self._templates = environment(may_change=settings.allow_changes)

    def all_tables(self, request: Request) -> Response:
        """Show what there is of all tables: the tables, or their queries."""
        query = request.query_params

        def view_shown() -> Response:
            if request.url.path.startswith("/queries"):
                found = self._queries(query, None, None)
                return self._printed(request, "queries", found, title="Queries")
            tables = tables_record(
                self._places, query.get("search", ""), _number(query.get("page"))
            )
            return self._printed(request, "tables", tables, title="Tables")

        return self._safely(request, view_shown)

    def view(self, request: Request) -> Response:
        """Show a table, or one view of it."""
        path = request.path_params
        view = path.get("view", "segment" if "file" in path else "table").removesuffix(".json")

        made = self._views().get(view)
        if made is None:
            return self._error(request, 404, "PROJSEG_BAD_ARGUMENT", f"there is no view '{view}'")

        def view_shown() -> Response:
            name, query = path["name"], request.query_params
            if view == "table" and name.endswith(".json") and name not in self._places.names():
                name = name.removesuffix(".json")
                request.scope["is_json"] = True
            asked = query.get("version")
            version = self._places.version(name, asked)
            newest = self._places.table(name).version if asked else version.version
            file = path.get("file", "").removesuffix(".json")
            with under(Deadline(_VIEW_SECONDS, _too_long)):
                found = made(_Shown(name, version, query, file))
            title = name if view == "table" else f"{name}: {view}"
            return self._printed(
                request, view, found, title=title, newest=newest, source=source_of(version)
            )

        return self._safely(request, view_shown)

    def _views(self) -> Mapping[str, Callable[[_Shown], msgspec.Struct]]:
        """Return the function that makes the record of each view."""
        settings = self._settings
        return {
            "table": lambda one: table_record(one.name, one.version, *one.window),
            "projections": lambda one: details.projections_record(
                one.name, one.version, settings.log
            ),
            "columns": lambda one: columns_record(one.name, one.version),
            "segments": lambda one: details.segments_record(
                one.name, one.version, open_window(*one.window), one.query.get("sort", "time"),
                _number(one.query.get("page")), one.window,
            ),
            "segment": lambda one: details.segment_record(one.name, one.version, one.file),
            "history": lambda one: details.history_record(one.name, one.version),
            "queries": lambda one: self._queries(
                one.query, one.name, one.version.properties.table_id
            ),
            "query": lambda one: query_record(
                one.name, one.version, one.query.get("sql", ""), settings.timeout
            ),
            "advice": lambda one: self._advice(
                one.name, one.version.version, one.query.get("answer")
            ),
            "change": lambda one: self._change(one.name, one.query)[1],
        }  # fmt: skip

    def _queries(
        self, query: Mapping[str, str], name: str | None, table_id: str | None
    ) -> QueriesRecord:
        since, sort = query.get("since") or _SINCE, query.get("sort", "time")
        return queries_record(name, table_id, self._log(), since, sort)

    def _log(self) -> str:
        if self._settings.log is None:
            raise InvalidInputError(
                "PROJSEG_BAD_LOG",
                "the page was started without a query log; start it with --log FOLDER, and what "
                "asks with PROJSEG_QUERY_LOG=FOLDER",
            )
        return self._settings.log

    def _advice(self, name: str, version: int, id_: str | None) -> AdviceRecord:
        found = self.answers.get(id_, name) if id_ else self.answers.latest_advice(name)
        if found is not None:
            waited(found, _WAIT_SECONDS if id_ else 0)
        return advice_record(name, version, self._log(), found)

    def _change(self, name: str, given: Mapping[str, str]) -> tuple[ChangeForm, ChangeRecord]:
        """Return the change in a request, and a preview of it."""
        if not self._settings.allow_changes:
            raise PermissionDeniedError(
                "PROJSEG_PERMISSION_DENIED",
                "the page was started to read; start it with --allow-changes, or use the shell",
            )
        what = given.get("what", "")
        answer = self.answers.get(what, name)
        form = ChangeForm(
            given.get("change", ""),
            what,
            given.get("sql", ""),
            None if answer is None else answer.advice,
        )
        return form, change_record(name, copy(self._places.table(name)), form)

    async def ask(self, request: Request) -> Response:
        """Begin to answer a statement, and lead to where its answer will be."""
        return await self._with_form(request, self._begin_statement)

    async def make_change(self, request: Request) -> Response:
        """Begin a change, and redirect to the page that reports its result."""
        return await self._with_form(request, self._begin_change)

    async def advise(self, request: Request) -> Response:
        """Begin to find out what a table should store, and lead to where that will be."""
        return await self._with_form(request, self._begin_advice)

    async def _with_form(
        self, request: Request, begin: Callable[[str, Mapping[str, str]], Answer]
    ) -> Response:
        try:
            body = await request.body()
        except ClientDisconnect:  # also where it is longer than a body may be
            return self._error(
                request, 413, "PROJSEG_LIMIT_EXCEEDED", f"a body has at most {BODY_BYTES_MAX} bytes"
            )
        form = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
        given = {name: values[-1] for name, values in form.items()}
        given.setdefault("version", request.query_params.get("version", ""))

        def led() -> Response:
            try:
                return _led(begin(request.path_params["name"], given))
            except TooManyQueriesError:
                return self._error(
                    request, 429, "PROJSEG_BAD_ARGUMENT",
                    "two queries run and sixteen wait; ask again when some are answered",
                )  # fmt: skip

        return await anyio.to_thread.run_sync(self._safely, request, led)

    def _begin_change(self, name: str, given: Mapping[str, str]) -> Answer:
        form, _ = self._change(name, given)
        table = copy(self._places.table(name))  # which moves with its commit

        def work(answer: Answer) -> pa.Table:
            return pa.table({TEXT_COLUMN: [changed_text(table, form, answer.note_progress)]})

        return self.answers.begin(Asked(name, seconds=_CHANGE_SECONDS), work)

    def _begin_advice(self, name: str, given: Mapping[str, str]) -> Answer:
        table, log, seconds = self._places.table(name), self._log(), self._settings.timeout
        budget, action = given.get("budget") or BUDGET, check_action(given.get("action", "advise"))

        def work(answer: Answer) -> pa.Table:
            return compute_advice(table, log, budget, action, seconds, answer)

        return self.answers.begin(Asked(name, seconds=seconds * 2, budget=budget), work)

    def _begin_statement(self, name: str, given: Mapping[str, str]) -> Answer:
        asked_version = given["version"] or None
        table = self._places.version(name, asked_version)
        action, seconds = given.get("action", "run"), _seconds(given.get("timeout"))
        prefix, sql = box_statement(given.get("sql", ""), action)
        check_names(sql, name, self._places.names())
        what_if = given.get("what_if", "").strip()
        asked = Asked(name, sql, seconds, prefix, asked_version=asked_version)

        def work(_: Answer) -> pa.Table:
            found = table.explain(sql, what_if=[{"name": "what_if", "sql": what_if}])
            return pa.table({TEXT_COLUMN: [str(found)]})

        if action == "explain" and what_if:
            return self.answers.begin(asked._replace(version=str(table.version)), work)
        return self.answers.ask(asked, table)

    def answer(self, request: Request) -> Response:
        """Show an answer, or how far it is."""
        id_, _, ending = request.path_params["id"].partition(".")
        found = self.answers.get(id_, request.path_params["name"])
        if found is None:
            return self._error(
                request, 404, "PROJSEG_BAD_ARGUMENT",
                "this answer is kept no longer; ask the statement again",
            )  # fmt: skip
        waited(found, _WAIT_SECONDS)

        def view_shown() -> Response:
            if ending in MEDIA:
                if found.rows is None:
                    raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "there are no rows to download")
                return download(found.asked.table, found.rows, ending)
            record, title = answer_record(found, self._places), f"{found.asked.table}: answer"
            return self._printed(
                request, "answer", record, title=title, view="query",
                answer_id=found.id, asked_version=found.asked.asked_version,
            )  # fmt: skip

        return self._safely(request, view_shown)

    def cancel(self, request: Request) -> Response:
        """End the work for an answer."""
        name, id_ = request.path_params["name"], request.path_params["id"]
        found = self.answers.get(id_, name)
        if found is None:
            return RedirectResponse(f"/t/{quoted(name)}/answers/{quoted(id_)}", 303)
        self.answers.cancel(found)
        return _led(found)

    def asset(self, request: Request) -> Response:
        """Return a file of the page's own; browsers ask for the icon by themselves."""
        name = request.path_params.get("file", "icon.svg")
        if name not in _ASSETS:
            return self._error(request, 404, "PROJSEG_BAD_ARGUMENT", "there is no such file")
        content = (HERE / "assets" / name).read_bytes()
        return Response(content, headers={"Content-Type": _ASSETS[name]})

    async def refuse(self, request: Request, error: HTTPException) -> Response:
        """Answer what is none of the routes."""
        return self._error(
            request, error.status_code, "PROJSEG_BAD_ARGUMENT", "there is no such page"
        )

    def _safely(self, request: Request, answer: Callable[[], Response]) -> Response:
        try:
            with through("page"):
                return answer()
        except ProjsegError as error:
            status = _HTTP_STATUS.get(error.code) or http_status(error)
            return self._error(request, status, error.code, error.message)
        except Exception:
            LOGGER.exception("a request failed")
            return self._error(
                request, 500, "PROJSEG_INTERNAL", "this cannot be shown; the page's log says why"
            )

    def _error(self, request: Request, status: int, code: str, message: str) -> Response:
        found = {"code": code, "message": message, "status": status}
        if _is_json(request):
            return json_response({"error": found}, status)
        return self._html("error", status, title="Not shown", error=found, name=None)

    def _printed(
        self, request: Request, template: str, record: msgspec.Struct, **more: Any
    ) -> Response:
        status = _STATUS.get(getattr(record, "state", None) or "", 200)
        headers = {"Retry-After": "1"} if status == 202 else {}
        if _is_json(request):
            return json_response(record, status, headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return self._html(
            template, status, headers, record=record, query=dict(request.query_params),
            name=getattr(record, "name", None), **({"view": template} | more),
        )  # fmt: skip

    def _html(
        self, template: str, status: int, headers: Mapping[str, str] | None = None, **values: Any
    ) -> Response:
        found = self._templates.get_template(f"{template}.html")
        content = found.render({"release": __version__, "source": None} | values).encode()
        if headers and "Content-Encoding" in headers:  # no secret is in it
            content = gzip.compress(content, _GZIP_LEVEL, mtime=0)
        return Response(content, status, dict(headers or {}), "text/html")


def _too_long() -> ProjsegError:
    return QueryTimeoutError(
        "PROJSEG_QUERY_TIMEOUT",
        f"so many segments take more than {_VIEW_SECONDS} seconds; narrow the window of segments "
        "and timeline, or ask the shell",
    )


def _led(answer: Answer) -> Response:
    """Return a redirect to the place of an answer."""
    base = f"/t/{quoted(answer.asked.table)}"
    place = f"advice?answer={answer.id}" if answer.asked.budget else f"answers/{answer.id}"
    return RedirectResponse(f"{base}/{place}", 303)


def _is_json(request: Request) -> bool:
    path = request.url.path
    # `/t/NAME.json` may be a table of that name; who opens it knows.
    is_of_table = path.startswith("/t/") and len(path.split("/")) <= 3
    return bool(request.scope.get("is_json")) or (path.endswith(".json") and not is_of_table)


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else 1


def _seconds(text: str | None) -> float | None:
    try:
        found = float(text) if text else None
    except ValueError:
        found = -1.0
    if found is not None and not 0 < found < 1e6:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"timeout is {text!r}; give seconds above 0"
        )
    return found
