"""Question sets: one fact asked in two splits in other words, graphs in two splits, what a guesser
knows.

Two questions ask one fact when they say the same of graphs with the same contents, or fill the same
slots (template and arguments, or the known parts of a triplet), whatever their words.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from maghub import layout
from maghub.audit.question_sets import TYPE, QuestionSet, question_configs
from maghub.audit.report import Check, Example, Verdict, by_share, skipped
from maghub.audit.subject import Ints, Keys, TextRows
from maghub.audit.texts import EXACT, NEAR, compare_texts
from maghub.mag import MAG

FACT, GRAPHS = "one fact asked in two splits", "graphs in two splits"
ANSWERS, GUESS = "one question, two answers", "answers known from the template"
NO_WORDS = "its questions are ids, not texts"
FACT_FAIL, GRAPH_FAIL, ANSWER_FAIL = 0.05, 0.01, 0.05
GUESS_WARN, GUESS_FAIL, SURE = 0.5, 0.95, 0.95


def check_questions(mag: MAG, seed: int, limit: int) -> list[Check]:
    """All checks of all question sets."""
    checks = []
    for config in question_configs(mag):
        own = QuestionSet(mag, config)
        checks += _texts(own, seed, limit)
        checks += [
            _facts(own, limit),
            _graphs(own, limit),
            _answers(own, limit),
            _guess(own, limit),
        ]
    return checks


def _texts(own: QuestionSet, seed: int, limit: int) -> list[Check]:
    """Equal and nearly equal questions, where they are not about graphs of their own."""
    suffix = f": {own.name}"
    if own.graphs is not None or not own.worded:
        why = "the same words are about another graph" if own.worded else NO_WORDS
        return [skipped(name + suffix, why) for name in (EXACT, NEAR)]
    # Of a question about a picture the words alone say little.
    texts = ["" if named else text for text, named in zip(own.texts, own.pictures, strict=True)]
    codes = own.codes.astype(np.int8)
    return compare_texts(TextRows(own.mag, seed, limit, texts, codes), suffix)


def _shared(keys: Keys, codes: Ints) -> Ints:
    """For each row the first row of another split with its key (training first), or -1."""
    order = np.lexsort((codes, keys))
    starts = np.flatnonzero(np.r_[True, keys[order][1:] != keys[order][:-1]])
    sizes = np.diff(np.r_[starts, len(order)])
    first, last = np.repeat(order[starts], sizes), np.repeat(order[starts + sizes - 1], sizes)
    twin = np.where(codes[first] != codes[order], first, last)
    found = np.full(len(keys), -1, np.int64)
    found[order] = np.where(codes[twin] != codes[order], twin, -1)
    return found


def _facts(own: QuestionSet, limit: int) -> Check:
    name, used = f"{FACT}: {own.name}", own.codes < 3
    twins = np.full(len(own), -1, np.int64)
    rows = np.flatnonzero(used)
    for keys in (own.wording if own.worded else None, own.slots):
        if keys is not None:
            found = _shared(keys[rows], own.codes[rows])
            new = (found >= 0) & (twins[rows] < 0)
            twins[rows[new]] = rows[found[new]]
    bad = own.held_out & (twins >= 0)
    texts, rows = own.texts, np.flatnonzero(bad)[:limit]
    examples = [
        _example(own, (row, twin), f"{_quoted(texts[row])} ~ {_quoted(texts[twin])}")
        for row, twin in zip(rows.tolist(), twins[rows].tolist(), strict=True)
    ]
    what = "held-out questions ask what a question of another split asks"
    return by_share(name, int(bad.sum()), int(own.held_out.sum()), what, FACT_FAIL, examples)


def _graphs(own: QuestionSet, limit: int) -> Check:
    name = f"{GRAPHS}: {own.name}"
    if own.graphs is None:
        return skipped(name, "its questions have no graphs of their own")
    ids = np.asarray(own.columns[layout.GRAPH_ID], object)
    used = np.flatnonzero(own.codes < 3)
    twins = _shared(own.graphs[used], own.codes[used])
    held = own.held_out[used]
    rows, places = np.unique(ids[used][held].astype(str), return_index=True)
    bad = twins[held][places] >= 0
    examples = [
        Example(of="rows", ids=(int(used[held][place]),), text=f"{graph}: its contents are in "
                f"{_split(own, int(used[twins[held][place]]))} too")
        for graph, place in zip(rows[bad][:limit], places[bad][:limit], strict=True)
    ]  # fmt: skip
    what = "held-out graphs have the contents of a graph of another split"
    return by_share(name, int(bad.sum()), len(rows), what, GRAPH_FAIL, examples)


def _answers(own: QuestionSet, limit: int) -> Check:
    name, answers = f"{ANSWERS}: {own.name}", own.answers
    if answers is None or not own.worded:
        return skipped(name, "it has no answers" if answers is None else NO_WORDS)
    _, group = np.unique(own.wording, return_inverse=True)
    _, said = np.unique(np.asarray(answers, object).astype(str), return_inverse=True)
    pairs = np.unique(np.stack([group, said]), axis=1)[0]
    several = np.bincount(pairs, minlength=group.max(initial=0) + 1) > 1
    bad = several[group]
    firsts = np.flatnonzero(bad)[np.unique(group[bad], return_index=True)[1]]
    examples = [
        _example(own, (row,), f"{_quoted(own.texts[row])} has several answers, one is "
                 f"{_quoted(answers[row], 30)}")
        for row in np.sort(firsts)[:limit].tolist()
    ]  # fmt: skip
    what = "questions say what another says of the same graph, and have another answer"
    return by_share(name, int(bad.sum()), len(own), what, ANSWER_FAIL, examples)


def _guess(own: QuestionSet, limit: int) -> Check:
    name, answers = f"{GUESS}: {own.name}", own.answers
    if answers is None:
        return skipped(name, "it has no answers")
    templates = own.columns.get(TYPE) or [""] * len(own)
    train: dict[str, Counter[str]] = defaultdict(Counter)
    held: dict[str, list[str]] = defaultdict(list)
    for template, answer, code in zip(templates, answers, own.codes.tolist(), strict=True):
        if code == 0:
            train[template][answer] += 1
        elif code < 3:
            held[template].append(answer)
    right, total, sure = 0, sum(map(len, held.values())), []
    for template, found in sorted(held.items()):
        best = train[template].most_common(1)[0][0] if train[template] else None
        hits = sum(answer == best for answer in found)
        right += hits
        if hits >= SURE * len(found) and len(found) > 1:
            text = f"{template or 'all'}: {hits:,} of {len(found):,} are {_quoted(str(best), 30)}"
            sure.append(text)
    share = right / total if total else 0.0
    verdict: Verdict = "ok"
    if share >= GUESS_FAIL:
        verdict = "fail"
    elif share >= GUESS_WARN or sure:
        verdict = "warn"
    summary = f"the commonest training answer of a template is right in {share:.1%} of held-out"
    return Check(
        name=name,
        verdict=verdict,
        value=round(share, 6),
        count=len(sure),
        total=len(held),
        summary=f"{summary} questions; {len(sure)} of {len(held)} templates have one answer only",
        rule=f"warn: {GUESS_WARN:.0%} or more right, or a template with one answer for "
        f"{SURE:.0%}; fail: {GUESS_FAIL:.0%} or more right",
        examples=tuple(Example(of="rows", ids=(), text=text) for text in sure[:limit]),
    )


def _split(own: QuestionSet, row: int) -> str:
    names = list(own.config.splits)
    bounds = np.cumsum(list(own.config.splits.values()))
    return names[int(np.searchsorted(bounds, row, side="right"))]


def _example(own: QuestionSet, rows: tuple[int, ...], text: str) -> Example:
    sides = " and ".join(f"{row} ({_split(own, row)})" for row in rows)
    return Example(of="rows", ids=rows, text=f"{own.name} {sides}: {text}")


def _quoted(text: str, length: int = 80) -> str:
    line = " ".join(text.split("\n\n")[0].split())
    return f"'{line[:length]}{'...' if len(line) > length else ''}'"
