"""A web server of one file in memory, with the faults that downloads meet."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """What the server does; tests change it between requests.

    Attributes:
      body: the file.
      etag: its version; empty: none is sent.
      ranges: whether ``Range`` is understood.
      cut_after: bytes of the body after which the connection is closed once; None: never.
      stalls: whether it then keeps silent instead, until ``released``.
      length: whether ``Content-Length`` is sent.
      redirect: where every request is sent instead.
      requests: headers of the requests so far.
    """

    body: bytes
    etag: str = '"one"'
    ranges: bool = True
    cut_after: int | None = None
    stalls: bool = False
    released: threading.Event = field(default_factory=threading.Event)
    length: bool = True
    redirect: str = ""
    status: int = 200
    url: str = ""
    requests: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def serving(served: Served) -> Iterator[Served]:
    """Serve on a free port of this machine; ``served.url`` is the address of the file."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests.append(dict(self.headers))
            if served.redirect:
                self.send_response(302)
                self.send_header("Location", served.redirect)
                self.end_headers()
            elif self.path != "/folder/file.csv":
                self.send_error(404)
            else:
                self.answer()

        def answer(self) -> None:
            start, status = 0, served.status
            asked = self.headers.get("Range")
            if asked and served.ranges and self.headers.get("If-Range", served.etag) == served.etag:
                start, status = int(asked.removeprefix("bytes=").rstrip("-")), 206
            if start >= len(served.body) > 0:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(served.body)}")
                self.end_headers()
                return
            body = served.body[start:]
            self.send_response(status)
            if served.length:
                self.send_header("Content-Length", str(len(body)))
            if status == 206:
                last = len(served.body) - 1
                self.send_header("Content-Range", f"bytes {start}-{last}/{len(served.body)}")
            if served.etag:
                self.send_header("ETag", served.etag)
            self.end_headers()
            sent = body if served.cut_after is None else body[: served.cut_after]
            served.cut_after = None
            self.wfile.write(sent)
            if served.stalls:
                served.released.wait(300)

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *arguments: object) -> None:
            """Say nothing where a client has hung up."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}/folder/file.csv"
    try:
        yield served
    finally:
        served.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
