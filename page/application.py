"""The page as an ASGI application: each view is a record, printed as HTML or as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from copy import copy
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qs, quote, urlencode

import anyio
import jinja2
import msgspec
import pyarrow as pa
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from projseg import __version__
from projseg.catalog.places import Places
from projseg.doors.exported_files import FileFormat, write_stream
from projseg.doors.plain_values import plain_value
from projseg.errors import InvalidInputError, PermissionDeniedError, ProjsegError
from projseg.memory.door import through
from projseg.page import details
from projseg.page.answers import (
    TEXT_COLUMN,
    Answer,
    Answers,
    TooManyQueriesError,
    plain_rows,
    waited,
)
from projseg.page.changes import change_record, changed_text
from projseg.page.drawing import drawing, zoom_links
from projseg.page.queries_view import QueriesRecord, queries_record
from projseg.page.query_view import answer_record, cell_text, query_record
from projseg.page.security import BODY_BYTES_MAX, Guard, shown_text, steerless_text
from projseg.page.statements import box_statement, check_names
from projseg.page.table_view import all_times, table_record
from projseg.page.tables_view import tables_record
from projseg.page.timeline import open_window

LOGGER: Final = logging.getLogger("projseg.page")
_HERE: Final = Path(__file__).parent
_NOT_FOUND: Final = (
    "PROJSEG_UNKNOWN_TABLE",
    "PROJSEG_UNKNOWN_VERSION",
    "PROJSEG_UNKNOWN_TAG",
    "PROJSEG_NOT_A_TABLE",
)
_STATUS: Final = {
    "running": 202, "done": 200, "failed": 400, "cancelled": 200, "timeout": 504,
}  # fmt: skip
_MEDIA: Final = {
    "arrow": "application/vnd.apache.arrow.file",
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
}
_ASSETS: Final = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_VIEWS: Final = ("projections", "columns", "segments", "history", "queries", "query")
_SINCE: Final = "30 days"
_CHANGE_SECONDS: Final = 24 * 3600.0
_WAIT_SECONDS: Final = 1.0
_NONE: Final = "\N{EN DASH}"
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_Handler: TypeAlias = Callable[[Request], Response]


class PageSettings(NamedTuple):
    """How a page is reached, and what its queries may take.

    Parameters
    ----------
    token : str
        The secret of those who may ask.
    port, host
        Where it is reached.
    timeout : float
        Most seconds of a query.
    max_rows : int
        Most rows of an answer that are kept.
    log : str or None
        A query log whose queries are shown.
    allow_changes : bool
        Whether projections, indexes, views and segments may be changed; rows never are.
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
            Route("/", page.tables),
            Route("/index.json", page.tables),
            Route("/queries", page.queries),
            Route("/queries.json", page.queries),
            Route("/assets/{file}", page.asset),
            Route("/favicon.ico", page.icon),
            Route("/t/{name}", page.table),
            Route("/t/{name}/query", page.ask, methods=["POST"]),
            Route("/t/{name}/change", page.change, methods=["GET", "HEAD"]),
            Route("/t/{name}/change.json", page.change, methods=["GET", "HEAD"]),
            Route("/t/{name}/change", page.make_change, methods=["POST"]),
            Route("/t/{name}/advice", page.advise, methods=["POST"]),
            Route("/t/{name}/answers/{id}/cancel", page.cancel, methods=["POST"]),
            Route("/t/{name}/answers/{id}", page.answer),
            Route("/t/{name}/segments/{file:path}", page.segment),
            Route("/t/{name}/{view}", page.view),
        ],
        exception_handlers={HTTPException: page.refuse},  # type: ignore[dict-item]
        lifespan=life,
    )
    return Guard(made, settings.token, settings.port, settings.host)


class _Page:
    """The views of a page."""

    def __init__(self, places: Places, settings: PageSettings) -> None:
        self._places, self._settings = places, settings
        self.answers = Answers(settings.timeout, settings.max_rows)
        self._templates = _environment()
        self._templates.globals["may_change"] = settings.allow_changes

    def tables(self, request: Request) -> Response:
        """Show all tables."""
        query = request.query_params

        def view_shown() -> Response:
            found = tables_record(self._places, query.get("search", ""), _number(query.get("page")))
            return self._printed(request, "tables.html", found, title="Tables")

        return self._safely(request, view_shown)

    def table(self, request: Request) -> Response:
        """Show one table."""

        def view_shown() -> Response:
            name, newest, version = self._version(request, "name")
            query = request.query_params
            start, end = query.get("from"), query.get("to")
            found = table_record(name, version, newest, start, end)
            return self._printed(
                request,
                "table.html",
                found,
                title=name,
                drawing=drawing(found.timeline),
                zoom=zoom_links(found.timeline, all_times(version.snapshot)),
            )

        return self._safely(request, view_shown)

    def view(self, request: Request) -> Response:
        """Show a part of what a table is."""
        view = request.path_params["view"].removesuffix(".json")
        if view not in _VIEWS:
            return self._error(request, 404, "PROJSEG_BAD_ARGUMENT", f"there is no view '{view}'")

        def view_shown() -> Response:
            name, newest, version = self._version(request)
            query, title = request.query_params, f"{name}: {view}"
            found: Any
            if view == "segments":
                asked = query.get("from") or None, query.get("to") or None
                found = details.segments_record(
                    name, version, open_window(*asked), query.get("sort", "time"),
                    _number(query.get("page")), asked,
                )  # fmt: skip
            elif view == "queries":
                found = self._queries(request, name, version.properties.table_id)
            elif view == "projections":
                found = details.projections_record(name, version, self._settings.log)
            elif view == "query":
                found = query_record(name, version, query.get("sql", ""), self._settings.timeout)
            else:
                found = getattr(details, f"{view}_record")(name, version)
            return self._printed(request, f"{view}.html", found, title=title, newest=newest)

        return self._safely(request, view_shown)

    def queries(self, request: Request) -> Response:
        """Show the queries of all tables."""

        def view_shown() -> Response:
            found = self._queries(request, None, None)
            return self._printed(request, "queries.html", found, title="Queries")

        return self._safely(request, view_shown)

    def _queries(self, request: Request, name: str | None, table_id: str | None) -> QueriesRecord:
        if self._settings.log is None:
            raise InvalidInputError(
                "PROJSEG_BAD_LOG",
                "the page was started without a query log; start it with --log FOLDER, and what "
                "asks with PROJSEG_QUERY_LOG=FOLDER",
            )
        query = request.query_params
        since, sort = query.get("since") or _SINCE, query.get("sort", "time")
        return queries_record(name, table_id, self._settings.log, since, sort)

    def segment(self, request: Request) -> Response:
        """Show what is in a segment."""

        def view_shown() -> Response:
            name, newest, version = self._version(request)
            file = request.path_params["file"].removesuffix(".json")
            found = details.segment_record(name, version, file)
            return self._printed(
                request, "segment.html", found, title=f"{name}: segment", newest=newest
            )

        return self._safely(request, view_shown)

    async def ask(self, request: Request) -> Response:
        """Begin to answer a statement, and lead to where its answer will be."""
        return await self._with_form(request, self._statement)

    def change(self, request: Request) -> Response:
        """Show what a change would do."""

        def view_shown() -> Response:
            self._check_changes()
            name, query = request.path_params["name"], request.query_params
            table = copy(self._places.table(name))
            found = change_record(
                name, table, query.get("change", ""), query.get("what", ""), query.get("sql", "")
            )
            return self._printed(request, "change.html", found, title=f"{name}: change")

        return self._safely(request, view_shown)

    async def make_change(self, request: Request) -> Response:
        """Begin a change, and lead to where it says what it did."""
        return await self._with_form(request, self._change)

    def _change(self, name: str, given: Mapping[str, str]) -> Answer:
        self._check_changes()
        table = copy(self._places.table(name))  # which moves with its commit
        asked = given.get("change", ""), given.get("what", ""), given.get("sql", "")
        change_record(name, table, *asked)

        def work() -> pa.Table:
            return pa.table({TEXT_COLUMN: [changed_text(table, *asked)]})

        return self.answers.begin(name, "", work, _CHANGE_SECONDS)

    def _check_changes(self) -> None:
        if not self._settings.allow_changes:
            raise PermissionDeniedError(
                "PROJSEG_PERMISSION_DENIED",
                "the page was started to read; start it with --allow-changes, or use the shell",
            )

    async def advise(self, request: Request) -> Response:
        """Begin to find out what a table should store, and lead to where that will be."""
        return await self._with_form(request, self._advice)

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
        return await anyio.to_thread.run_sync(self._begin, request, given, begin)

    def _begin(
        self,
        request: Request,
        given: Mapping[str, str],
        begin: Callable[[str, Mapping[str, str]], Answer],
    ) -> Response:
        def led() -> Response:
            name = request.path_params["name"]
            try:
                answer = begin(name, given)
            except TooManyQueriesError:
                return self._error(
                    request, 429, "PROJSEG_BAD_ARGUMENT",
                    "two queries run and sixteen wait; ask again when some are answered",
                )  # fmt: skip
            return RedirectResponse(f"/t/{_quoted(name)}/answers/{answer.id}", 303)

        return self._safely(request, led)

    def _advice(self, name: str, given: Mapping[str, str]) -> Answer:
        table, log = self._places.table(name), self._settings.log
        if log is None:
            raise InvalidInputError("PROJSEG_BAD_LOG", "there is no query log to advise from")
        # Imported here: it is not what most visits need.
        from projseg.advisor.advise import advise

        seconds = self._settings.timeout
        budget = given.get("budget", "10%")

        def work() -> pa.Table:
            found = advise(table, log, budget=budget, seconds=seconds)
            text = "\n".join([str(found), "", found.sql()]).rstrip()
            return pa.table({TEXT_COLUMN: [text]})

        return self.answers.begin(name, "", work, seconds * 2)

    def _statement(self, name: str, given: Mapping[str, str]) -> Answer:
        asked = given["version"] or None
        table = self._places.version(name, asked)
        action, seconds = given.get("action", "run"), _seconds(given.get("timeout"))
        prefix, sql = box_statement(given.get("sql", ""), action)
        check_names(sql, name, self._places.names())
        what_if = given.get("what_if", "").strip()

        def work() -> pa.Table:
            found = table.explain(sql, what_if=[{"name": "what_if", "sql": what_if}])
            return pa.table({TEXT_COLUMN: [str(found)]})

        if action == "explain" and what_if:
            answer = self.answers.begin(name, sql, work, seconds, prefix, str(table.version))
        else:
            answer = self.answers.ask(name, table, sql, seconds, prefix)
        answer.asked_version = asked
        return answer

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
            if ending in _MEDIA:
                return _download(found, ending)
            record = answer_record(found, self._places)
            status = _STATUS[found.state]
            headers = {"Retry-After": "1"} if status == 202 else {}
            title = f"{found.table}: answer"
            return self._printed(
                request, "answer.html", record, status, headers, title=title,
                view="query", answer_id=found.id, asked_version=found.asked_version,
            )  # fmt: skip

        return self._safely(request, view_shown)

    def cancel(self, request: Request) -> Response:
        """End the work for an answer."""
        name, id_ = request.path_params["name"], request.path_params["id"]
        found = self.answers.get(id_, name)
        if found is not None:
            self.answers.cancel(found)
        return RedirectResponse(f"/t/{_quoted(name)}/answers/{_quoted(id_)}", 303)

    def asset(self, request: Request) -> Response:
        """Return a file of the page's own."""
        name = request.path_params["file"]
        if name not in _ASSETS:
            return self._error(request, 404, "PROJSEG_BAD_ARGUMENT", "there is no such file")
        content = (_HERE / "assets" / name).read_bytes()
        return Response(content, headers={"Content-Type": _ASSETS[name]})

    def icon(self, _: Request) -> Response:
        """Return the icon, which browsers ask for by themselves."""
        content = (_HERE / "assets" / "icon.svg").read_bytes()
        return Response(content, headers={"Content-Type": _ASSETS["icon.svg"]})

    async def refuse(self, request: Request, error: HTTPException) -> Response:
        """Answer what is none of the routes."""
        return self._error(
            request, error.status_code, "PROJSEG_BAD_ARGUMENT", "there is no such page"
        )

    def _version(self, request: Request, key: str = "") -> tuple[str, int, Any]:
        """Return the name that is asked for, its newest version's number, and the version."""
        name = request.path_params["name"]
        if key and name.endswith(".json") and name not in self._places.names():
            name = name.removesuffix(".json")
            request.scope["is_json"] = True
        version = self._places.version(name, request.query_params.get("version"))
        asked = request.query_params.get("version")
        newest = self._places.table(name).version if asked else version.version
        return name, newest, version

    def _safely(self, request: Request, answer: Callable[[], Response]) -> Response:
        try:
            with through("page"):
                return answer()
        except ProjsegError as error:
            status = 404 if error.code in _NOT_FOUND else 500
            if status == 500 and isinstance(error, ValueError):
                status = 400
            elif isinstance(error, PermissionDeniedError):
                status = 403
            return self._error(request, status, error.code, error.message)
        except Exception:
            LOGGER.exception("a request failed")
            return self._error(
                request, 500, "PROJSEG_INTERNAL", "this cannot be shown; the page's log says why"
            )

    def _error(self, request: Request, status: int, code: str, message: str) -> Response:
        found = {"code": code, "message": message, "status": status}
        if _is_json(request):
            return _json({"error": found}, status)
        return self._html("error.html", status, title="Not shown", error=found, name=None)

    def _printed(
        self,
        request: Request,
        template: str,
        record: msgspec.Struct,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Response:
        if _is_json(request):
            return _json(record, status, headers)
        query = dict(request.query_params)
        return self._html(
            template, status, headers, record=record, query=query,
            name=getattr(record, "name", None), path=request.url.path,
            **({"view": template.removesuffix(".html")} | more),
        )  # fmt: skip

    def _html(
        self, template: str, status: int, headers: Mapping[str, str] | None = None, **values: Any
    ) -> Response:
        text = self._templates.get_template(template).render(release=__version__, **values)
        return Response(text, status, dict(headers or {}), "text/html")


def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": _number_text,
        "bytes": _bytes_text,
        "share": lambda value: _NONE if value is None else f"{value:.1%}",
        "quoted": _quoted,
        "cell": cell_text,
        "typed": escape,  # in a hidden field, to be sent again
        "editable": lambda value: escape(steerless_text(str(value))),
        "query": lambda values: urlencode({k: v for k, v in values.items() if v}),
    }
    return made


def _printable(value: Any) -> Any:
    """Return what a template prints of a value: no character of it steers the reader's eyes."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return ""
    return shown_text(str(value))


def _number_text(value: float | None) -> str:
    return _NONE if value is None else f"{value:,}"


def _bytes_text(value: float | None) -> str:
    if value is None:
        return _NONE
    unit = 0
    while abs(value) >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:,.0f} {_UNITS[0]}" if unit == 0 else f"{value:,.1f} {_UNITS[unit]}"


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _is_json(request: Request) -> bool:
    is_of_view = request.url.path.endswith(".json") and not request.url.path.startswith("/t/")
    parts = request.url.path.split("/")
    is_below = request.url.path.endswith(".json") and len(parts) > 3
    return bool(request.scope.get("is_json")) or is_of_view or is_below


def _json(content: Any, status: int, headers: Mapping[str, str] | None = None) -> Response:
    encoded = msgspec.json.encode(content, enc_hook=str)
    return Response(encoded, status, dict(headers or {}), "application/json")


def _download(answer: Answer, kind: FileFormat) -> Response:
    if answer.rows is None:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "there are no rows to download")
    sink, rows = io.BytesIO(), answer.rows
    if kind == "jsonl":
        names = rows.column_names
        lines = (dict(zip(names, row, strict=True)) for row in plain_rows(rows, rows.num_rows))
        sink.write(msgspec.json.Encoder().encode_lines(lines))
    else:
        write_stream((_with_texts(rows) if kind == "csv" else rows).to_reader(), sink, kind)
    name = quote(f"{answer.table}.{kind}", safe="")
    headers = {
        "Content-Type": _MEDIA[kind],
        "Content-Disposition": f"attachment; filename=\"answer.{kind}\"; filename*=UTF-8''{name}",
    }
    return Response(sink.getvalue(), headers=headers)


def _with_texts(rows: pa.Table) -> pa.Table:
    """Return rows with the texts of values that CSV has no form for, as the shell prints them."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_binary(field.type) or pa.types.is_nested(field.type):
            values = [plain_value(one) for one in rows[place].to_pylist(maps_as_pydicts="lossy")]
            texts = [
                one if one is None or isinstance(one, str) else json.dumps(one, ensure_ascii=False)
                for one in values
            ]
            rows = rows.set_column(place, field.name, pa.array(texts, pa.string()))
    return rows


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
