"""Server of review pages on this machine; each reviewer and the coordinator has a private address with a token.

One process serves one batch. A reviewer sees a part only after closing all blind parts that precede it. The repeated
items of a reader study are served some days after the study. Every answer is on disk before the browser gets its reply.
After a kill, a restarted server has the same addresses and all answers.
"""

from __future__ import annotations

import base64
import datetime
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from chexqa.files.errors import InputError
from chexqa.files.jsonio import read_json, write_json
from chexqa.files.limits import MAX_PICTURE_BYTES
from chexqa.files.opening import read_whole
from chexqa.review.collect.verdicts import Batch, Dealt, load_batch
from chexqa.review.columns import check_name, part_names
from chexqa.review.page.answers import PartAnswers, page_data
from chexqa.review.page.board import board_html
from chexqa.review.page.write_page import PAGE, PAGES, served

TOKENS = "serve.json"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
AGAIN_AFTER = 14  # days from the end of a reader's study until some items are asked again
MAX_BODY = 256 * 2**20
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Part(NamedTuple):
    """Part of a reviewer's work: its folder and its answers."""

    home: Path
    answers: PartAnswers


class Review:
    """Batch whose pages are served from its folder.

    ``again_after`` is the number of days from the end of a reader's study until the repeated items are served.
    """

    def __init__(self, folder: Path, again_after: float = AGAIN_AFTER) -> None:
        self.folder = folder
        self.again_after = datetime.timedelta(days=again_after)
        self.batch: Batch = load_batch(folder)
        self._parts: dict[str, Part] = {}
        if not any(self.parts().values()):
            raise InputError(f"{folder}: contains no review pages; write them with 'chexqa review export --page'.")

    @cached_property
    def tokens(self) -> dict[str, str]:
        """The tokens, keyed by reviewer name; the empty name has the coordinator's token.

        They are stored in the folder and stay the same after a restart.
        """
        path = self.folder / TOKENS
        if path.exists():
            kept = {one["name"]: one["token"] for one in read_json(path, "review_tokens")["tokens"]}
            for name in filter(None, kept):
                check_name(name, str(path))
            return kept
        names = ["", *dict.fromkeys(dealt.reviewer for dealt in self.batch.sheets.values())]
        made = [{"name": name, "token": secrets.token_urlsafe(18)} for name in names]
        write_json(path, {"schema_version": 1, "tokens": made}, "review_tokens")
        path.chmod(0o600)
        return {one["name"]: one["token"] for one in made}

    def parts(self) -> dict[str, list[Part]]:
        """Return each reviewer's existing parts, in the order of work."""
        found: dict[str, list[Part]] = {}
        for dealt in self.batch.sheets.values():
            for home in self._homes(dealt):
                if home.name not in self._parts:
                    self._parts[home.name] = Part(home, PartAnswers(self.folder, page_data(home)))
                found.setdefault(dealt.reviewer, []).append(self._parts[home.name])
        return found

    def _homes(self, dealt: Dealt) -> list[Path]:
        """Return the folders of a sheet's pages; empty while the pages are not written yet, as for a second part."""
        file = next(one["file"] for one in self.batch.about["sheets"] if Path(one["file"]).stem == dealt.name)
        for pages in (self.folder / PAGES, (self.folder / file).parent / PAGES):
            count = len(list(pages.glob(f"{dealt.name}-part-*")))
            names = (
                [dealt.name] if (pages / dealt.name).is_dir() else part_names(dealt.name, count) if count > 1 else []
            )
            if names:
                return [pages / name for name in names if (pages / name / PAGE).is_file()]
        return []

    def open_parts(self, reviewer: str) -> list[Part]:
        """Return the parts that a reviewer can see now.

        These are all parts up to the first blind part that the reviewer has not closed, this part included. Before the
        waiting time of a study is over, parts with repeated items and all parts after them are left out.
        """
        shown: list[Part] = []
        until = self.waits_until(reviewer)
        for part in self.parts().get(reviewer, []):
            if part.answers.is_repeat and until is not None:
                break
            shown.append(part)
            if part.answers.is_blind and not part.answers.locked:
                break
        return shown

    def waits_until(self, reviewer: str) -> datetime.datetime | None:
        """Return the end of a reader's waiting time; ``None`` if the reader is not waiting.

        The parts with repeated items are served only after this time. The waiting time begins when the reader has
        closed all other parts of the study.
        """
        own = [part.answers for part in self.parts().get(reviewer, [])]
        if not any(part.is_repeat for part in own):
            return None
        first = [part.closed for part in own if part.kind == "readers"]
        if None in first:
            return None  # a part of the study itself is still open, and is shown first
        until = max(at for at in first if at is not None) + self.again_after if first else None
        return until if until is not None and until > datetime.datetime.now(datetime.UTC) else None


class Server:
    """Request handlers of one review; unless ``password`` is ``None``, it is required in addition to the token."""

    def __init__(self, review: Review, password: str | None, host: str) -> None:
        self._review = review
        self._password = password
        self._host = host
        self._names = {token: name for name, token in review.tokens.items()}

    def app(self) -> web.Application:
        """Return the web application to run."""
        app = web.Application(client_max_size=MAX_BODY, middlewares=[self._guard])
        app.on_response_prepare.append(self._forbid)
        app.router.add_get("/favicon.ico", self._icon)
        app.router.add_get("/{token}/", self._start)
        app.router.add_get("/{token}/{page}/", self._page)
        app.router.add_get("/{token}/{page}/pictures/{name}", self._picture)
        app.router.add_get("/{token}/{page}/source/{name}", self._picture)
        app.router.add_get("/{token}/{page}/rows", self._rows)
        app.router.add_post("/{token}/{page}/rows", self._take)
        app.router.add_post("/{token}/{page}/lock", self._close)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests to other host names, with a wrong password, or sent by other pages."""
        name = (request.url.host or "").lower()
        if self._host in LOOPBACK and name not in LOOPBACK:
            raise web.HTTPForbidden(text="This server answers only requests to its own name.")
        if self._password is not None and not self._is_known(request.headers.get("Authorization", "")):
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": 'Basic realm="review", charset="UTF-8"'})
        if request.method == "POST" and request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            raise web.HTTPForbidden(text="Answers are accepted only from the page itself.")
        return await handler(request)

    async def _forbid(self, _: web.Request, response: web.StreamResponse) -> None:
        """Forbid caching and referrers of a reply; errors are replies, too."""
        response.headers["Cache-Control"] = "no-store"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["X-Content-Type-Options"] = "nosniff"

    def _is_known(self, header: str) -> bool:
        assert self._password is not None
        try:
            given = base64.b64decode(header.removeprefix("Basic "), validate=True).decode().partition(":")[2]
        except ValueError:
            return False
        return hmac.compare_digest(given.encode(), self._password.encode())

    def _name(self, request: web.Request) -> str:
        """Return the name of the reviewer whose address was requested; the name is empty for the coordinator."""
        given = request.match_info["token"].encode()
        for token, name in self._names.items():
            if hmac.compare_digest(given, token.encode()):
                return name
        raise web.HTTPNotFound(text="There is no review at this address.")

    def _part(self, request: web.Request) -> Part:
        name = self._name(request)
        part = next((one for one in self._review.open_parts(name) if one.home.name == request.match_info["page"]), None)
        if part is None:
            raise web.HTTPForbidden(text="This part is not open yet; first close the previous part.")
        return part

    async def _icon(self, _: web.Request) -> web.StreamResponse:
        """Return an empty response to a browser's request for an icon, since the site has none."""
        return web.Response(status=204)

    async def _start(self, request: web.Request) -> web.StreamResponse:
        name = self._name(request)
        if not name:
            parts = {who: [part.answers for part in own] for who, own in self._review.parts().items()}
            shown = {part.home.name for who in parts for part in self._review.open_parts(who)}
            html = board_html(self._review.batch, self._review.folder, parts, shown)
            headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"}
            return web.Response(text=html, content_type="text/html", headers=headers)
        parts_open = self._review.open_parts(name)
        if not parts_open:
            raise web.HTTPNotFound(text="There are no questions for you yet.")
        until = self._review.waits_until(name)
        if until is not None and all(part.answers.locked for part in parts_open):
            return web.Response(
                text=f"Thank you. This address asks some of the questions again from {until:%d %B %Y} on."
            )
        raise web.HTTPFound(f"/{request.match_info['token']}/{parts_open[-1].home.name}/")

    async def _page(self, request: web.Request) -> web.StreamResponse:
        home = self._part(request).home
        return web.Response(text=served(home), content_type="text/html")

    async def _picture(self, request: web.Request) -> web.StreamResponse:
        home, name = self._part(request).home, request.match_info["name"]
        folder = home / request.path.split("/")[3]
        path = folder / name
        if path.parent != folder or name.startswith(".") or not path.is_file():
            raise web.HTTPNotFound(text="There is no such picture.")
        kinds = {".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp", ".js": "text/javascript"}
        data = read_whole(path, MAX_PICTURE_BYTES, home)
        return web.Response(body=data, content_type=kinds.get(path.suffix, "application/octet-stream"))

    async def _rows(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=self._part(request).answers.to_page(), content_type="application/json")

    async def _take(self, request: web.Request) -> web.StreamResponse:
        answers = self._part(request).answers
        try:
            sent = await request.json()
            if not isinstance(sent, list):
                raise InputError("the rows are not a list")
            answers.take(sent)
        except (InputError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"Not kept: {error}") from None
        return web.json_response({"locked": answers.locked})

    async def _close(self, request: web.Request) -> web.StreamResponse:
        answers = self._part(request).answers
        if not answers.is_blind:
            raise web.HTTPBadRequest(text="Only blind parts can be closed.")
        try:
            sent = json.loads(await request.text() or "{}")
            answers.close(sent.get("about") if isinstance(sent, dict) else None)
        except (InputError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"Not closed: {error}") from None
        return web.json_response({"locked": True})


def check_access(batch: Batch, host: str, password: str | None) -> None:
    """Raise ``InputError`` if a password is needed and missing.

    A password is needed if the radiographs are credentialed, or if other computers can reach the address ``host``.
    """
    if batch.about["credentialed"] and not password:
        raise InputError(
            f"{batch.path}: these radiographs come under a data use agreement; set a password with --password-file, "
            "and tell reviewers the password separately from the address."
        )
    if host not in LOOPBACK and not password:
        raise InputError(
            f"--host {host}: other computers can reach this address, so a password is needed; set it with "
            "--password-file."
        )
