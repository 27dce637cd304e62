"""Long lists of JSON objects, decoded one by one: memory is bounded by the longest object."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, TextIO

from jaxsched.errors import JaxschedError
from jaxsched.files import PathLike
from jaxsched.jobs.columns import describe_value
from jaxsched.traces.text import LONGEST_TEXT, too_long

Fail = Callable[[str], NoReturn]

LONGEST_RECORD = 1 << 24
"""Letters after which a record that does not end is given up."""

_PIECE = 1 << 20  # letters read at a time
_LONGEST_NUMBER = 1 << 10  # letters that are at hand where a number begins
_BLANKS = re.compile(r"[ \t\r\n]*")


def mapping(owner: Mapping[str, Any], name: str, fail: Fail) -> dict[str, Any]:
    """A member that is an object; empty where there is none."""
    found = owner.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        fail(f"{name} is {describe_value(found)}; accepted: an object")
    return found


class JsonRecords:
    """The objects of a JSON list, of which only the unread part of a piece is held.

    Attributes:
      number: of the current record, from 1.
    """

    def __init__(
        self,
        path: PathLike,
        file: TextIO,
        accepted: str,
        *,
        key: str = "",
        longest: int | None = None,
    ) -> None:
        """Begin to read.

        Args:
          path: for messages.
          file: the open file, at its beginning.
          accepted: what messages say is accepted.
          key: of the list, where the file is an object that holds it; empty: the file is the list.
          longest: letters of a record that are read at most; None: ``LONGEST_RECORD``.
        """
        self.number = 0
        self._path, self._file = path, file
        self._accepted, self._key = accepted, key
        self._longest = LONGEST_RECORD if longest is None else longest
        self._text, self._at, self._first_line = "", 0, 1
        self._record_at = 0

    def __iter__(self) -> Iterator[Any]:
        """The values of the list, one after the other."""
        yield from self._members() if self._key else self._list()
        if self._letter():
            self.fail(
                f"the list is followed by {describe_value(self._letter())}; accepted: no more"
            )

    def fail(self, reason: str) -> NoReturn:
        """Refuse the file because of the current record."""
        line = self._first_line + self._text.count("\n", 0, self._record_at)
        where = f"record {self.number}, line {line}" if self.number else f"line {line}"
        raise JaxschedError(f"{self._path}, {where}: {reason}")

    def _members(self) -> Iterator[Any]:
        """The values of the list in an object, whose other members are passed over."""
        self._take("{")
        found = False
        while self._letter() != "}":
            if self._letter() != '"':
                self._take('"')  # says what is there instead
            name = self._value()
            self._take(":")
            if name == self._key and not found:
                found = True
                yield from self._list()
            else:
                self._value()
            if self._letter() != "}":
                self._take(",")
        self._at += 1
        if not found:
            self.fail(f"has no {self._key}; accepted: {self._accepted}")

    def _list(self) -> Iterator[Any]:
        self._take("[")
        if self._letter() == "]":
            self._at += 1
        else:
            yield from self._values()

    def _take(self, letter: str) -> None:
        found = self._letter()
        if found != letter:
            self.fail(f"begins with {describe_value(found)}; accepted: {self._accepted}")
        self._at += 1

    def _values(self) -> Iterator[Any]:
        while True:
            self.number += 1
            letter = self._letter()
            self._record_at = self._at
            if letter != "{":
                self.fail(f"begins with {describe_value(letter)}; accepted: {self._accepted}")
            yield self._decode()
            letter = self._letter()
            if letter not in (",", "]"):
                found = describe_value(letter) if letter else "the end of the file"
                self.fail(f"is followed by {found}; accepted: ',' or ']'")
            self._at += 1
            if letter == "]":
                return

    def _value(self) -> Any:
        """Any value."""
        if self._letter() not in ("{", "[", '"'):  # a part of a number is a number
            while len(self._text) - self._at < _LONGEST_NUMBER and self._more():
                pass
        return self._decode()

    def _decode(self) -> Any:
        while True:
            try:
                record, self._at = _DECODER.raw_decode(self._text, self._at)
                return record
            except json.JSONDecodeError as error:
                if len(self._text) - self._at <= self._longest and self._more():
                    continue  # the piece may have ended within the record
                self.fail(f"is not JSON ({error.msg}); accepted: {self._accepted}")
            except RecursionError:
                self.fail(f"is nested too deeply; accepted: {self._accepted}")
            except ValueError as error:  # of _object
                self.fail(str(error))

    def _letter(self) -> str:
        """The next letter that is not blank; empty at the end of the file."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self._at = blanks.end() if blanks else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Read on, as much as is held, so that a long record is decoded a few times only."""
        piece = self._file.read(max(_PIECE, len(self._text) - self._at))
        self._first_line += self._text.count("\n", 0, self._at)
        self._text = self._text[self._at :] + piece
        self._at = self._record_at = 0
        return bool(piece)


def text_of(record: dict[str, Any], name: str, fail: Fail) -> str:
    """A text of a record, empty where there is none.

    Args:
      record: an object.
      name: of the text.
      fail: called with what is wrong if it is no text of up to ``LONGEST_TEXT`` letters.
    """
    text = record.get(name)
    if text is None:
        return ""
    if not isinstance(text, str):
        fail(f"{name} is {describe_value(text)}; accepted: a text")
    if not text.isascii() and any("\ud800" <= letter < "\ue000" for letter in text):
        fail(f"{name} is {describe_value(text)}, with half of a character; accepted: a text")
    if len(text) > LONGEST_TEXT:
        fail(f"{name} is {describe_value(text)}; {too_long(text)}")
    return text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        name, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"has {describe_value(name)} twice; accepted: each name once")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=float)
