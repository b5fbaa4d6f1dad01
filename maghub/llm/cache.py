"""Answers on disk, by content: what was paid for once is never asked again, whatever happens."""

from __future__ import annotations

import json
import sqlite3
import threading
from dataclasses import asdict
from pathlib import Path

from maghub.errors import MaghubError
from maghub.llm.messages import Answer

_TABLE = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, model TEXT, answer TEXT)"
BUSY_SECONDS = 60.0


class AnswerCache:
    """A SQLite file of answers, safe for many threads and several processes.

    ``put`` returns once the answer is on the disk (write-ahead log, full synchronisation), so a
    kill at any time loses nothing that was put. Keys hold no request text and no credentials.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Open or make the file; None keeps answers in memory for as long as this object lives.

        Raises:
            MaghubError: The file is no such cache, or cannot be made.
        """
        self.path = path
        self._lock = threading.Lock()
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            name = ":memory:" if path is None else str(path)
            self._db = sqlite3.connect(
                name, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute(_TABLE)
        except (sqlite3.Error, OSError) as error:
            raise MaghubError(
                f"is no cache of answers and cannot be made one ({error})",
                where=path,
                fix="name another file with --cache",
            ) from None

    def get(self, key: str) -> Answer | None:
        """The answer to the request with this key, if it is known."""
        with self._lock:
            row = self._do("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        try:
            return None if row is None else Answer.read(json.loads(row[0]))
        except (TypeError, ValueError, RecursionError):
            return None  # of another version, or changed by hand: ask again

    def put(self, key: str, answer: Answer) -> None:
        """Keep an answer; durable when this returns."""
        text = json.dumps(asdict(answer), ensure_ascii=False)
        with self._lock:
            self._do("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (key, answer.model, text))

    def __len__(self) -> int:
        with self._lock:
            return int(self._do("SELECT count(*) FROM answers", ()).fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def _do(self, statement: str, values: tuple[str, ...]) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise MaghubError(
                f"the cache of answers cannot be read or written ({error})",
                where=self.path,
                fix="free some disk space, or name another file with --cache",
            ) from None
