"""A service that ranks passages: service.py ENGINE.vn PIECES.txt PORT

POST /rank {"query": "…", "passages": ["…", …]} gives {"scores": […], "order": […]}. It runs what was
verified only: an engine without a certificate, or a size outside of it, is an error.
"""
import http.server
import json
import queue
import sys

import vernier
from pieces import WordPieces

SESSIONS = 2  # that run at the same time; each answers one request
MOST_ROWS = 12  # in one run


class Ranker:
    def __init__(self, engine, pieces):
        engine = vernier.Engine(engine)  # weights are in memory once
        self.pieces = WordPieces(pieces)
        self.free = queue.SimpleQueue()
        for _ in range(SESSIONS):
            self.free.put(vernier.Session(engine, require_certificate=True, canary=True))

    def scores(self, query, passages):
        session = self.free.get()
        try:
            found = []
            for first in range(0, len(passages), MOST_ROWS):
                rows = self.pieces.rows(query, passages[first:first + MOST_ROWS])
                found += session.run(rows)["logits"][:, 0].tolist()
            return found
        finally:
            self.free.put(session)


class Handler(http.server.BaseHTTPRequestHandler):
    ranker = None

    def do_POST(self):
        try:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            scores = self.ranker.scores(str(request["query"]),
                                        [str(passage) for passage in request["passages"]])
            order = sorted(range(len(scores)), key=lambda row: -scores[row])
            self.answer(200, {"scores": scores, "order": order})
        except vernier.Error as error:
            self.answer(422 if error.code in ("input", "check_failed") else 500,
                        {"error": str(error)})
        except (KeyError, TypeError, ValueError) as error:
            self.answer(400, {"error": f"expected a query and passages: {error!r}"})

    def answer(self, status, fields):
        text = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def main():
    engine, pieces, port = sys.argv[1:]
    Handler.ranker = Ranker(engine, pieces)
    with http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
