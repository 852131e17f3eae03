"""The command ``review serve``: review pages from a server on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from chexqa.files.say import say


@click.command(epilog="Example: chexqa review serve sheets")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to bind; any other is reachable.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="The port; 0 for a free one."
)
@click.option("--password-file", type=click.Path(path_type=Path), help="A file with a password that is asked for.")
def serve(folder: Path, host: str, port: int, password_file: Path | None) -> None:
    """Serve the pages of DIR (written by 'review export --page') until Ctrl C; every answer is kept in DIR at once."""
    import asyncio
    from contextlib import suppress

    from chexqa.files.errors import InputError
    from chexqa.files.jsonio import read_text
    from chexqa.review.page.serve import LOOPBACK, Review, Server, check_access

    password = None if password_file is None else read_text(password_file, 4096).strip()
    if password_file is not None and not password:
        raise InputError(f"{password_file}: is empty; write the password into it.")
    review = Review(folder)
    check_access(review.batch, host, password)
    if host not in LOOPBACK:
        say(
            f"warning: --host {host} lets every machine that reaches this one ask for these pages. Nothing is "
            "encrypted: names, pictures, answers and the password can be read on the way. Use it in a closed network, "
            "or behind a server of your own that encrypts.",
            err=True,
        )
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(Server(review, password, host), review.tokens, host, port))
    say(f"Stopped. Next: chexqa review import {folder}")


async def _run(server: object, tokens: dict[str, str], host: str, port: int) -> None:
    import asyncio
    import signal

    from aiohttp import web

    from chexqa.files.errors import InputError
    from chexqa.review.page.serve import Server

    assert isinstance(server, Server)
    runner = web.AppRunner(server.app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise InputError(f"--port {port}: cannot be used ({error.strerror}); give another one, or 0.") from None
    bound = runner.addresses[0][1]
    shown = f"[{host}]" if ":" in host else host
    for name, token in tokens.items():
        say(f"{name or 'coordinator'}: http://{shown}:{bound}/{token}/")
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    await runner.cleanup()
