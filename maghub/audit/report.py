"""What an audit says: one verdict per check, a number, and the first examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from maghub.spec import Model

Verdict = Literal["ok", "warn", "fail", "skipped"]
_ORDER: tuple[Verdict, ...] = ("skipped", "ok", "warn", "fail")


class Example(Model):
    """One finding: the node ids (or edge ids) it is about, and a line for people."""

    of: Literal["nodes", "edges", "rows"] = "nodes"
    ids: tuple[int, ...]
    text: str


class Check(Model):
    """One check.

    ``count`` of ``total`` things have the defect; ``value`` is the number the verdict rests on, and
    ``rule`` says how. ``examples`` are the first findings.
    """

    name: str
    verdict: Verdict
    value: float | None = None
    count: int = 0
    total: int = 0
    summary: str
    rule: str
    examples: tuple[Example, ...] = ()


class Report(Model):
    """All checks of one dataset."""

    dataset: str
    seed: int
    node_split: str | None
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all."""
        return worst([check.verdict for check in self.checks])

    def check(self, name: str) -> Check:
        """The check of that name."""
        return next(check for check in self.checks if check.name == name)


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The most serious of some verdicts."""
    return max(verdicts, key=_ORDER.index, default="skipped")


def skipped(name: str, why: str) -> Check:
    """A check that does not apply to this dataset."""
    return Check(name=name, verdict="skipped", summary=why, rule="")


def by_share(
    name: str,
    count: int,
    total: int,
    what: str,
    fail_at: float,
    examples: Sequence[Example] = (),
) -> Check:
    """A check that warns of any finding, and fails from a share of the total on."""
    share = count / total if total else 0.0
    verdict: Verdict = "ok" if not count else "fail" if share >= fail_at else "warn"
    return Check(
        name=name,
        verdict=verdict,
        value=round(share, 6),
        count=count,
        total=total,
        summary=f"{count:,} of {total:,} {what}",
        rule=f"warn: any; fail: {fail_at:.1%} or more",
        examples=tuple(examples),
    )
