"""Checks of maghub.json, README.md and card.md against the contract and against each other."""

from __future__ import annotations

import os
import re
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from datasets import Features
from pydantic import ValidationError

from maghub import layout
from maghub.cards import PARTS, Card, card_problems, read_card, split_front_matter
from maghub.croissant import render_croissant
from maghub.errors import MaghubError
from maghub.picturing import render_picture
from maghub.spec import VECTOR_KINDS, ConfigSpec, FolderSpec, parse_spec
from maghub.validating.opened import DAMAGED, REBUILD, readable_features
from maghub.validating.report import Findings

SPLIT_NAME = re.compile(r"^\w+(\.\w+)*$")
_ALLOWED = {
    "nodes": (*layout.SPLITS, layout.FULL),
    **dict.fromkeys(
        ("negatives", "queries", "qrels", "qa"), (layout.TRAIN, layout.VALIDATION, layout.TEST)
    ),
    "table": None,
}
_TARGETS = {
    "node_splits": layout.NODES,
    "edge_splits": layout.EDGES,
    "negatives": layout.EDGES,
}
RENDER = "build it again, or render the card again"


def load_spec(folder: Path, findings: Findings) -> FolderSpec | None:
    """Read maghub.json; every field that breaks the contract is noted."""
    path = folder / layout.SPEC_FILE
    try:
        return parse_spec(path.read_text(encoding="utf-8"), layout.SPEC_FILE)
    except UnicodeDecodeError as error:
        findings.add(layout.SPEC_FILE, f"is not UTF-8 (byte {error.start})", fix=REBUILD)
    except MaghubError as error:
        if isinstance(cause := error.__context__, ValidationError):
            for item in cause.errors():
                field = ".".join(str(part) for part in item["loc"])
                findings.add(layout.SPEC_FILE, item["msg"], column=field, fix=REBUILD)
        else:
            findings.add(layout.SPEC_FILE, error.what, fix=error.fix)
    except ValueError as error:
        findings.add(layout.SPEC_FILE, f"cannot be read ({error})", fix=REBUILD)
    return None


def check_spec(spec: FolderSpec, findings: Findings) -> None:
    """Config names, split names, shard names and row sums that maghub.json declares."""
    names = Counter(config.name for config in spec.configs)
    for name, count in names.items():
        if count > 1:
            _add(findings, "configs", f"config {name} is declared {count} times")
    if "nodes" in [config.kind for config in spec.configs[1:]] and spec.configs[0].kind != "nodes":
        _add(findings, "configs", "nodes must be listed first, it is the default config")
    for config in spec.configs:
        _check_config(config, findings)
    if not spec.has(layout.NODE_SPLITS) and (spec.default_split or spec.node_splits):
        _missing(findings, layout.NODE_SPLITS, "node split rules are declared")
    if not spec.has(layout.EDGE_SPLITS) and spec.edge_splits:
        _missing(findings, layout.EDGE_SPLITS, "edge split rules are declared")
    if spec.graph is not None:
        if not spec.has(layout.NODES):
            _missing(findings, layout.NODES, "a graph is declared")
        if not spec.has(layout.EDGES) and spec.graph.num_edges:
            _missing(findings, layout.EDGES, f"{spec.graph.num_edges:,} edges are declared")
    _check_links(spec, findings)


def _add(findings: Findings, field: str, what: str) -> None:
    findings.add(layout.SPEC_FILE, what, column=field, fix=REBUILD)


def _missing(findings: Findings, config: str, why: str) -> None:
    what = f"config {config} is missing although {why}"
    findings.add(layout.SPEC_FILE, what, column="configs", fix=REBUILD)


def _check_config(config: ConfigSpec, findings: Findings) -> None:
    """Split names, rows per split and shard names of one config."""
    field = f"configs.{config.name}"
    allowed = _ALLOWED.get(config.kind, (layout.FULL,))
    for split, rows in config.splits.items():
        known = split in allowed if allowed is not None else SPLIT_NAME.match(split)
        if not known or split == "all":
            choice = f"use {' or '.join(allowed)}" if allowed else "use letters, digits and _"
            what = f"unknown split name '{split}'"
            findings.add(layout.SPEC_FILE, what, column=f"{field}.splits", fix=choice)
        files = [entry for entry in config.files if entry.split == split]
        total = sum(entry.rows for entry in files)
        if total != rows:
            _add(findings, field, f"split {split} has {rows:,} rows, its files {total:,}")
        for index, entry in enumerate(files):
            wanted = layout.data_file(config.name, split, index, len(files))
            if entry.path != wanted:
                _add(findings, field, f"file '{entry.path}' must be named {wanted}")
    if set(config.num_bytes) != set(config.splits):
        _add(findings, field, f"num_bytes are of {sorted(config.num_bytes)}, not of its splits")
    if config.rows == 0:
        _add(findings, field, "is empty; an empty config is left out")
    for entry in config.files:
        if entry.split not in config.splits:
            _add(findings, field, f"file '{entry.path}' is of undeclared split '{entry.split}'")


def _check_links(spec: FolderSpec, findings: Findings) -> None:
    """Targets, negatives and encoders must name configs and rules that exist, and be named."""
    rules = {rule.name for rule in spec.edge_splits}
    negatives = {layout.negatives_config(rule.name): rule for rule in spec.negatives}
    encoders = {encoder.config: encoder for encoder in spec.encoders}
    for config in spec.configs:
        if config.target is not None and not spec.has(config.target):
            _add(findings, f"configs.{config.name}", f"target config {config.target} is missing")
        wanted = _TARGETS.get(config.kind, config.target)
        if config.target != wanted:
            what = f"target is {config.target}, must be {wanted}"
            _add(findings, f"configs.{config.name}", what)
        if config.kind == "negatives" and config.name not in negatives:
            _add(findings, "negatives", f"config {config.name} has no rule")
        if config.kind in VECTOR_KINDS and config.name not in encoders:
            _add(findings, "encoders", f"config {config.name} has no provenance")
    for name, rule in negatives.items():
        if not spec.has(name):
            _missing(findings, name, f"negatives rule {rule.name} is declared")
        if rule.edge_split not in rules:
            _add(findings, f"negatives.{rule.name}", f"unknown edge split '{rule.edge_split}'")
    for name, encoder in encoders.items():
        if not spec.has(name):
            _missing(findings, name, f"encoder {encoder.encoder} is declared")


def check_stray(folder: Path, spec: FolderSpec | None, findings: Findings) -> None:
    """Parquet files that maghub.json does not name: ``datasets`` would load some of them."""
    declared = {entry.path for config in spec.configs for entry in config.files} if spec else set()
    found = []
    for base, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        place = Path(base).relative_to(folder)
        found += [(place / name).as_posix() for name in files if name.endswith(".parquet")]
    for path in sorted(set(found) - declared):
        findings.add(path, f"is not named in {layout.SPEC_FILE}", fix="delete it, or build again")


def check_card(folder: Path, spec: FolderSpec, findings: Findings) -> None:
    """card.md must parse and agree with maghub.json on name, version, policy and columns."""
    file = layout.CARD_SOURCE_FILE
    card = _read_card(folder / file, findings)
    if card is None:
        return
    for field, own, stored in (
        ("name", card.spec.name, spec.name),
        ("version", card.spec.version, spec.dataset_version),
    ):
        if own != stored:
            findings.add(file, f"is '{own}', maghub.json says '{stored}'", column=field, fix=RENDER)
    for part in PARTS:
        own, stored = getattr(card.spec.policy, part), getattr(spec.policy, part)
        if own != stored:
            what = f"is '{own}', maghub.json says '{stored}'"
            findings.add(file, what, column=f"policy.{part}", fix="make both say the same")
    columns = {config.name: list(config.features) for config in spec.configs}
    split_rules = (*spec.node_splits, *spec.edge_splits, *spec.query_splits)
    rules = [rule.name for rule in split_rules]
    for what in card_problems(card, columns, rules):
        findings.add(file, what, fix="declare it in the card")


def _read_card(path: Path, findings: Findings) -> Card | None:
    try:
        return read_card(path)
    except MaghubError as error:
        missing = not path.exists()
        what = "is missing" if missing else error.what
        findings.add(layout.CARD_SOURCE_FILE, what, fix=error.fix or DAMAGED)
    except ValueError as error:
        what = f"front matter cannot be read ({error})"
        findings.add(layout.CARD_SOURCE_FILE, what, fix="correct it")
    return None


def check_rendered(folder: Path, spec: FolderSpec, findings: Findings) -> None:
    """croissant.json and the picture must be what card.md and maghub.json give, where nothing is
    wrong with them.

    Where something is, that is reported alone: the rendered files follow from both.
    """
    texts = {}
    for file in (layout.CROISSANT_FILE, layout.PICTURE_FILE):
        try:
            texts[file] = (folder / file).read_text(encoding="utf-8")
        except FileNotFoundError:
            findings.add(file, "is missing", fix=RENDER)
        except (OSError, ValueError) as error:
            findings.add(file, f"cannot be read ({error})", fix=RENDER)
    if findings.problems():
        return
    card = read_card(folder / layout.CARD_SOURCE_FILE)
    if texts[layout.CROISSANT_FILE] != render_croissant(card, spec):
        what = "is not what card.md and maghub.json give"
        findings.add(layout.CROISSANT_FILE, what, fix=RENDER)
    if texts[layout.PICTURE_FILE] != render_picture(spec):
        findings.add(layout.PICTURE_FILE, "is not what maghub.json gives", fix=RENDER)


def check_readme(folder: Path, spec: FolderSpec, findings: Findings) -> None:
    """The YAML that ``datasets`` and the Hub read must say what maghub.json says."""
    try:
        text = (folder / layout.CARD_FILE).read_text(encoding="utf-8")
        front, _, _ = split_front_matter(text, layout.CARD_FILE)
    except FileNotFoundError:
        findings.add(layout.CARD_FILE, "is missing", fix=RENDER)
        return
    except MaghubError as error:
        findings.add(layout.CARD_FILE, error.what, fix=error.fix or RENDER)
        return
    except (OSError, ValueError) as error:
        findings.add(layout.CARD_FILE, f"cannot be read ({error})", fix=RENDER)
        return
    for field in ("configs", "dataset_info"):
        entries = _named(front.get(field))
        if entries is None:
            what = "is not a list of entries with a config_name each"
            findings.add(layout.CARD_FILE, what, column=field, fix=RENDER)
            continue
        for name in sorted(set(entries) - {config.name for config in spec.configs}):
            _readme(findings, field, f"config {name} is not in maghub.json")
        for config in spec.configs:
            if config.name not in entries:
                _readme(findings, field, f"config {config.name} is missing")
            elif field == "configs":
                _check_data_files(config, entries[config.name], findings)
            else:
                _check_info(config, entries[config.name], findings)


def _readme(findings: Findings, field: str, what: str) -> None:
    findings.add(layout.CARD_FILE, what, column=field, fix=RENDER)


def _named(entries: Any) -> dict[str, dict[str, Any]] | None:
    """Entries by config name, or None where they are not such a list."""
    if isinstance(entries, dict):
        entries = [entries]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return None
    named = {entry.get("config_name"): entry for entry in entries}
    return named if all(isinstance(name, str) for name in named) else None  # type: ignore[return-value]


def _check_data_files(config: ConfigSpec, entry: dict[str, Any], findings: Findings) -> None:
    """The patterns of each split must match exactly the files of that split."""
    files = entry.get("data_files")
    if not isinstance(files, list) or not all(
        isinstance(file, dict) and isinstance(file.get("path"), str) for file in files
    ):
        what = f"data_files of config {config.name} is not a list of split and path"
        _readme(findings, "configs", what)
        return
    matched = {
        (file.get("split"), item.path)
        for file in files
        for item in config.files
        if isinstance(file.get("split"), str) and fnmatchcase(item.path, file["path"])
    }
    wanted = {(item.split, item.path) for item in config.files}
    for split, path in sorted(wanted - matched):
        what = f"config {config.name}: no pattern of split {split} finds {path}"
        _readme(findings, "configs", what)
    for split, path in sorted(matched - wanted):
        what = f"config {config.name}: split {split} finds {path}, which is another split"
        _readme(findings, "configs", what)
    for file in files:
        if not any(fnmatchcase(item.path, file["path"]) for item in config.files):
            _readme(findings, "configs", f"config {config.name}: {file['path']} finds no file")


def _check_info(config: ConfigSpec, entry: dict[str, Any], findings: Findings) -> None:
    """Column types and rows per split of one config."""
    field = "dataset_info"
    splits = entry.get("splits")
    items = splits if isinstance(splits, list) else []
    found = {item.get("name"): item.get("num_examples") for item in items if isinstance(item, dict)}
    if found != config.splits:
        what = f"config {config.name}: rows per split are {found}, maghub.json says {config.splits}"
        _readme(findings, field, what)
    wanted = readable_features(config.features)
    if wanted is None:
        return
    own = _yaml_features(entry.get("features"))
    if own is None:
        _readme(findings, field, f"config {config.name}: features cannot be read")
        return
    for name in dict.fromkeys([*wanted, *own]):
        if own.get(name) != wanted.get(name):
            where = "missing in maghub.json" if name not in wanted else "not as in maghub.json"
            where = "missing" if name not in own else where
            _readme(findings, f"{field}.{config.name}.{name}", f"column is {where}")


def _yaml_features(data: Any) -> Features | None:
    try:
        return Features._from_yaml_list(data)
    except Exception:  # datasets raises many types for a malformed description
        return None
