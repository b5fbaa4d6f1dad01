"""Finds names of entities in questions: whole words, longest names first, all questions at once.

Words are numbered, names become paths in a trie whose steps are sorted integers, and one position
of every question goes down the trie in one numpy operation per word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maghub.baselines.rag._data import Ints
from maghub.baselines.rag._pairs import Groups
from maghub.baselines.rag._words import asked_text
from maghub.mkg.text import plain

LONGEST = 12
"""Names of more words are not looked for."""


@dataclass(frozen=True)
class Links:
    """Entities that questions name.

    Attributes:
        query, entity: int64 [L] pairs, each once.
        words: int64 [L], how many words the name has.
    """

    query: Ints
    entity: Ints
    words: Ints


class NameLinker:
    """A trie of names.

    Args:
        names: One per entity; several entities may have the same one. Names without a word are
            never found.
    """

    def __init__(self, names: Sequence[str]) -> None:
        tokens, owner = _tokens(names)
        vocabulary = sorted(set(tokens))
        self._number = {word: i for i, word in enumerate(vocabulary)}
        self._size = len(vocabulary) + 1
        ids = np.fromiter((self._number[word] for word in tokens), np.int64, len(tokens))
        length = np.bincount(owner, minlength=len(names))
        start = np.cumsum(length) - length
        alive = np.flatnonzero((length > 0) & (length <= LONGEST))
        self._steps: list[tuple[Ints, Ints]] = []
        state = np.zeros(len(names), np.int64)
        ended: list[tuple[Ints, Ints]] = []
        states = 1
        for depth in range(LONGEST):
            alive = alive[length[alive] > depth]
            if not len(alive):
                break
            keys, at = np.unique(
                state[alive] * self._size + ids[start[alive] + depth], return_inverse=True
            )
            state[alive] = states + at
            self._steps.append((keys, states + np.arange(len(keys))))
            states += len(keys)
            done = alive[length[alive] == depth + 1]
            ended.append((state[done], done))
        finals = np.concatenate([own[0] for own in ended]) if ended else np.zeros(0, np.int64)
        named = np.concatenate([own[1] for own in ended]) if ended else np.zeros(0, np.int64)
        self._names, self._named = Groups(finals, states), named

    def link(self, texts: Sequence[str]) -> Links:
        """Entities whose names stand in each text and in no longer name that stands there too."""
        tokens, owner = _tokens([asked_text(text) for text in texts])
        unknown = self._size - 1
        ids = np.fromiter((self._number.get(word, unknown) for word in tokens), np.int64)
        begin, end, final = self._matches(ids, owner)
        kept = _outermost(begin, end, len(ids))
        begin, end, final = begin[kept], end[kept], final[kept]
        source, place = self._names.expand(np.arange(len(final)), final)
        entity = self._named[place]
        query, words = owner[begin[source]], (end - begin)[source]
        _, first = np.unique(query * (entity.max(initial=0) + 1) + entity, return_index=True)
        return Links(query[first], entity[first], words[first])

    def _matches(self, ids: Ints, owner: Ints) -> tuple[Ints, Ints, Ints]:
        """Begin, end (after the last word) and final state of every name in a run of words."""
        at = np.arange(len(ids))
        state = np.zeros(len(ids), np.int64)
        found: list[tuple[Ints, Ints, Ints]] = []
        for depth, (keys, states) in enumerate(self._steps):
            inside = at + depth < len(ids)
            at, state = at[inside], state[inside]
            inside = owner[at + depth] == owner[at]
            at, state = at[inside], state[inside]
            wanted = state * self._size + ids[at + depth]
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            hit = keys[place] == wanted
            at, state = at[hit], states[place[hit]]
            ends = self._names.sizes(state) > 0
            found.append((at[ends], at[ends] + depth + 1, state[ends]))
        if not found:
            return (np.zeros(0, np.int64),) * 3
        begin, end, final = (np.concatenate(own) for own in zip(*found, strict=True))
        return begin, end, final


def _tokens(texts: Sequence[str]) -> tuple[list[str], Ints]:
    """All words of all texts, and the text each of them stands in."""
    split = [plain(text).split() for text in texts]
    owner = np.repeat(np.arange(len(split)), [len(words) for words in split])
    return [word for words in split for word in words], owner.astype(np.int64)


def _outermost(begin: Ints, end: Ints, size: int) -> Ints:
    """Matches that lie in no other match; begins and ends are places in one run of words."""
    furthest = np.zeros(size + 1, np.int64)
    np.maximum.at(furthest, begin, end)
    before = np.concatenate([[0], np.maximum.accumulate(furthest)[:-1]])
    return np.flatnonzero((end == furthest[begin]) & (before[begin] < end))
