"""How unequal classes are, and whether held-out classes train at all."""

from __future__ import annotations

import numpy as np

from maghub import layout
from maghub.audit.report import Check, Example, Verdict, skipped
from maghub.audit.subject import Subject

BALANCE = "label balance"
WARN_SHARE, FAIL_SHARE, WARN_RATIO = 0.5, 0.95, 100
_RULE = (
    f"warn: one class has over {WARN_SHARE:.0%}, or {WARN_RATIO} times as many as another, or a "
    f"held-out class never trains; fail: {FAIL_SHARE:.0%} or more in one class"
)


def check_labels(subject: Subject) -> list[Check]:
    """Share of the greatest class, and classes that are rare or absent from training."""
    if layout.LABEL not in subject.nodes.features:
        return [skipped(BALANCE, "nodes have no labels")]
    labels, names = subject.mag.labels, subject.mag.label_names
    known = labels >= 0
    counts = np.bincount(labels[known], minlength=len(names))
    if not counts.sum():
        return [skipped(BALANCE, "no node has a label")]
    trained = np.bincount(labels[known & (subject.codes == 0)], minlength=len(names))
    tested = np.bincount(labels[known & subject.held_out], minlength=len(names))
    unseen = np.flatnonzero((trained == 0) & (tested > 0) & bool(trained.sum())).tolist()
    share = float(counts.max() / counts.sum())
    ratio = float(counts.max() / counts[counts > 0].min())
    verdict: Verdict = "ok"
    if share >= FAIL_SHARE:
        verdict = "fail"
    elif share > WARN_SHARE or ratio >= WARN_RATIO or len(unseen):
        verdict = "warn"
    summary = f"the greatest class, {names[int(counts.argmax())]}, has {share:.1%} of the labels"
    summary += f" and {ratio:,.0f} times as many as the least; {len(unseen)} classes never train"
    order = np.argsort(-counts, kind="stable")
    ends = (int(order[0]), int(order[-1]))
    chosen = [*unseen, *(c for c in ends if c not in unseen)]
    examples = [
        Example(of="rows", ids=(c,), text=f"{names[c]}: {counts[c]:,}, {trained[c]:,} train")
        for c in chosen[: subject.limit]
    ]
    return [
        Check(
            name=BALANCE,
            verdict=verdict,
            value=round(share, 6),
            count=len(unseen),
            total=len(names),
            summary=summary,
            rule=_RULE,
            examples=tuple(examples),
        )
    ]
