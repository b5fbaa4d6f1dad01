"""Renders the README of a published folder from its card and its measured ``maghub.json``."""

from __future__ import annotations

from collections.abc import Mapping

from datasets import DatasetInfo, SplitDict, SplitInfo

from maghub import layout
from maghub.cards import PARTS, Card, dump_yaml
from maghub.picturing import alternative, panels
from maghub.schema import describe, features_from_dict
from maghub.spec import ConfigSpec, EncoderProvenance, FolderSpec

_STEPS = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
_BAR = 30


def size_category(rows: int) -> str:
    """The Hub's name for a number of rows, e.g. ``1K<n<10K``."""
    power = max(len(str(rows)) - 3, 0)
    if power == 0:
        return f"n<{_STEPS[0]}"
    if power >= len(_STEPS):
        return f"n>{_STEPS[-1]}"
    return f"{_STEPS[power - 1]}<n<{_STEPS[power]}"


def table(header: list[str], rows: list[list[object]]) -> str:
    """A Markdown table."""
    lines: list[list[object]] = [[*header], ["---"] * len(header), *rows]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def histogram(header: list[str], counts: Mapping[str, int]) -> str:
    """A Markdown table of counts with a bar each, as long as its share of the largest."""
    longest = max(counts.values(), default=0)
    rows: list[list[object]] = []
    for name, count in counts.items():
        eighths = -(-count * _BAR * 8 // longest) if longest else 0  # what is there is seen
        full, rest = divmod(eighths, 8)
        rows.append([name, f"{count:,}", "█" * full + " ▏▎▍▌▋▊▉"[rest].strip()])
    return table([*header, ""], rows)


def _dataset_info(config: ConfigSpec) -> dict[str, object]:
    """One ``dataset_info`` entry of the Hub's YAML."""
    splits = SplitDict()
    for split, rows in config.splits.items():
        splits.add(SplitInfo(name=split, num_bytes=config.num_bytes[split], num_examples=rows))
    info = DatasetInfo(
        features=features_from_dict(config.features),
        splits=splits,
        config_name=config.name,
        download_size=sum(entry.bytes for entry in config.files),
        dataset_size=sum(config.num_bytes.values()),
    )
    return {"config_name": config.name, **info._to_yaml_dict()}


def _gate(card: Card) -> dict[str, object]:
    """What the Hub asks before it gives access, where the policy of some part is gated."""
    gated = [part for part in PARTS if getattr(card.spec.policy, part) == "gated"]
    if not gated:
        return {}
    licences = "; ".join(f"{part}: {getattr(card.spec.licences, part)}" for part in gated)
    prompt = f"Access is gated because of the {' and '.join(gated)}. Licence of {licences}."
    fields = {"Name": "text", "Affiliation": "text", "Use": "text"}
    terms = "I use the data only as these licences and the cited sources allow"
    return {
        "extra_gated_prompt": prompt,
        "extra_gated_fields": {**fields, terms: "checkbox"},
    }


def hub_metadata(card: Card, spec: FolderSpec) -> dict[str, object]:
    """The YAML front matter the Hub reads: licence, tags, configs and dataset_info."""
    rows = max(config.rows for config in spec.configs)
    whole = ["multimodal-attributed-graph"] if spec.of_kind("nodes") else []
    tags = ["datasets", *whole, "graph", *card.spec.tags]
    configs = []
    for index, config in enumerate(spec.configs):
        files = [
            {"split": split, "path": layout.data_glob(config.name, split)}
            for split in config.splits
        ]
        entry: dict[str, object] = {"config_name": config.name, "data_files": files}
        if index == 0:
            entry["default"] = True
        configs.append(entry)
    return {
        "pretty_name": card.spec.pretty_name,
        "license": card.spec.hub_license,
        "language": list(card.spec.language),
        "task_categories": list(card.spec.task_categories),
        "size_categories": [size_category(rows)],
        "tags": list(dict.fromkeys(tags)),
        **_gate(card),
        "configs": configs,
        "dataset_info": [_dataset_info(config) for config in spec.configs],
    }


def _usage(spec: FolderSpec) -> str:
    first = spec.configs[0]
    variable = first.name if first.kind == "nodes" else "rows"
    lines = [
        "```python",
        "from datasets import load_dataset",
        f'{variable} = load_dataset("maghub/{spec.name}")  # or the path of this folder',
    ]
    if first.target is not None:
        name, target = f'"maghub/{spec.name}"', first.target
        lines.append(f'beside = load_dataset({name}, "{target}")  # what the rows are about')
    if spec.has(layout.EDGES):
        lines.append(f'edges = load_dataset("maghub/{spec.name}", "edges", split="full")')
        lines += ["", "import maghub", f'mag = maghub.load("maghub/{spec.name}")']
        lines.append("mag.edge_index  # int64 [2, E]")
    if spec.of_kind("corpus"):
        lines += ["", "import maghub", f'rag = maghub.load("maghub/{spec.name}")']
        lines.append('rag.queries("test"), rag.corpus, rag.qrels("test"), rag.qa("test")')
    lines.append("```")
    return "\n".join(lines)


def _contents(spec: FolderSpec) -> str:
    rows: list[list[object]] = []
    for config in spec.configs:
        columns = ", ".join(
            f"`{name}` {describe(feature)}"
            for name, feature in features_from_dict(config.features).items()
        )
        splits = ", ".join(f"{split} {count:,}" for split, count in config.splits.items())
        rows.append([f"`{config.name}`", splits, columns])
    return table(["config", "rows per split", "columns"], rows)


def _statistics(card: Card, spec: FolderSpec) -> str:
    graph, stats = spec.graph, spec.statistics
    if graph is None or stats is None:
        return _picture(spec).lstrip()
    facts: list[list[object]] = [
        ["nodes", f"{graph.num_nodes:,}"],
        ["edges as stored", f"{graph.num_edges:,}"],
        [
            f"distinct {'ordered' if graph.directed else 'unordered'} pairs",
            f"{graph.unique_pairs:,}",
        ],
        ["direction", "directed" if graph.directed else "undirected, stored once with src <= dst"],
        ["edge key", ", ".join(graph.key)],
        ["self loops", f"{stats.self_loops:,}"],
        ["edges whose key occurs before", f"{stats.duplicate_edges:,}"],
        ["isolated nodes", f"{stats.isolated_nodes:,}"],
        ["components (largest)", f"{stats.components:,} ({stats.largest_component:,})"],
        ["mean and maximum degree", f"{stats.mean_degree:.2f}, {stats.max_degree:,}"],
        ["edge homophily", "-" if stats.homophily is None else f"{stats.homophily:.3f}"],
        ["nodes with text, with image", f"{stats.with_text:,}, {stats.with_image:,}"],
        ["text length in characters (min, median, p95, max)", _range(stats.text_chars)],
        ["text length in words (min, median, p95, max)", _range(stats.text_words)],
        ["longer image side in pixels (min, median, p95, max)", _range(stats.image_pixels)],
    ]
    facts += [[f"images: {what}", f"{count:,}"] for what, count in spec.images.items()]
    text = table(["measured on the tables as written", ""], facts)
    if stats.classes and stats.unlabelled:
        text += f"\n\n{stats.unlabelled:,} nodes have no label."
    return text + _picture(spec) + _paper(card, spec)


def _picture(spec: FolderSpec) -> str:
    """The picture of the histograms, and its numbers folded away below it."""
    tables = [
        histogram([title.removeprefix("nodes by "), "nodes"], counts)
        for title, counts in panels(spec)
        if spec.statistics is not None
    ]
    text = f"\n\n![{alternative(spec)}]({layout.PICTURE_FILE})"
    if tables:
        inner = "\n\n".join(tables)
        text += f"\n\n<details><summary>the numbers</summary>\n\n{inner}\n\n</details>"
    return text


def _text_lengths(spec: FolderSpec) -> str:
    """Lengths of the texts of tables that are no part of a graph."""
    rows: list[list[object]] = [
        [f"`{column}`", f"{own.texts:,}", _range(own.chars), _range(own.words)]
        for column, own in spec.text_lengths.items()
    ]
    header = ["texts", "not empty", "characters (min, median, p95, max)", "words (likewise)"]
    return table(header, rows) if rows else ""


def _paper(card: Card, spec: FolderSpec) -> str:
    if not card.spec.paper or spec.graph is None or spec.statistics is None:
        return ""
    ours: list[object] = ["this folder", spec.graph.num_nodes, spec.graph.num_edges]
    rows: list[list[object]] = [[*ours, len(spec.statistics.classes) or "-", ""]]
    for paper in card.spec.paper:
        values = [paper.nodes, paper.edges, paper.classes]
        rows.append([paper.source, *("-" if v is None else v for v in values), paper.note or ""])
    return "\n\n" + table(["source", "nodes", "edges", "classes", "note"], rows)


def _range(values: dict[str, int]) -> str:
    return ", ".join(f"{value:,}" for value in values.values()) or "-"


def _splits(card: Card, spec: FolderSpec) -> str:
    rows: list[list[object]] = []
    for rule in (*spec.node_splits, *spec.edge_splits, *spec.query_splits):
        counts = ", ".join(f"{split} {count:,}" for split, count in rule.counts.items())
        default = " (default)" if rule.of == "nodes" and rule.name == spec.default_split else ""
        origin = f"{rule.origin}, seed {rule.seed}" if rule.seed is not None else rule.origin
        rows.append([f"`{rule.name}`{default}", rule.of, counts, rule.description, origin])
    text = table(["rule", "of", "counts", "how", "made by"], rows) if rows else ""
    if spec.negatives:
        negatives: list[list[object]] = [
            [f"`{n.name}`", n.edge_split, n.k, n.description, f"{n.origin}, seed {n.seed}"]
            for n in spec.negatives
        ]
        header = ["negatives", "for edge split", "per positive", "how", "made by"]
        text += "\n\n" + table(header, negatives)
    return text


def _encoders(spec: FolderSpec) -> str:
    rows: list[list[object]] = []
    for enc in spec.encoders:
        dims = ", ".join(f"{modality} {dim}" for modality, dim in enc.dim.items())
        missing = ", ".join(f"{modality} {count:,}" for modality, count in enc.missing.items())
        form = (
            f"{enc.pooling}; {'L2-normalised' if enc.normalized else 'not normalised'}; {enc.dtype}"
        )
        source = f"{enc.model_id} @ {enc.revision} ({enc.library}, {enc.licence})"
        cut = "-" if enc.truncated_texts is None else f"{enc.truncated_texts:,}"
        name, projection = f"`{enc.config}`", enc.projection or "none"
        rows.append([name, source, dims, form, projection, missing, _tokens(enc), cut])
    header = ["config", "model", "width", "pooling, norm, dtype", "projection", "zero rows"]
    header += ["tokens per text", "cut"]
    if not rows:
        return ""
    notes = [f"`{enc.config}`: {enc.note}" for enc in spec.encoders if enc.note]
    means = (
        "tokens per text: mean, median, p95 and maximum before cutting, special tokens included",
        "cut: texts longer than the model reads, of which it saw the beginning",
    )
    return "\n\n".join([table(header, rows), _bullets((*means, *notes))])


def _tokens(encoder: EncoderProvenance) -> str:
    own = encoder.text_tokens
    if own is None:
        return "-"
    most = "" if encoder.max_length is None else f" (reads {encoder.max_length:,})"
    return f"{own.mean:,.1f}, {own.p50:,}, {own.p95:,}, {own.max:,}{most}"


def _counted(spec: FolderSpec) -> str:
    """The notes that count by config and row, ``{config: {row: {column: number}}}``, as tables."""
    tables = []
    for name, by_config in spec.notes.items():
        rows: list[list[object]] = []
        columns: list[str] = []
        for config, counts in by_config.items() if isinstance(by_config, dict) else ():
            if not _are_counts(counts):
                break
            columns = columns or list(next(iter(counts.values())))
            total = [sum(row.get(column, 0) for row in counts.values()) for column in columns]
            rows.append([f"`{config}`", "all", *(f"{value:,}" for value in total)])
            for row, values in counts.items():
                rows.append([f"`{config}`", row, *(f"{values.get(c, 0):,}" for c in columns)])
        if rows:
            tables.append(table(["config", name.replace("_", " "), *columns], rows))
    return "\n\n".join(tables)


def _are_counts(data: object) -> bool:
    """Whether this is ``{row: {column: whole number}}``, not empty."""
    return (
        isinstance(data, dict)
        and bool(data)
        and all(isinstance(row, dict) for row in data.values())
        and all(isinstance(value, int) for row in data.values() for value in row.values())
    )


def _licences(card: Card) -> str:
    rows: list[list[object]] = [
        [part, getattr(card.spec.licences, part), getattr(card.spec.policy, part)] for part in PARTS
    ]
    text = table(["part", "licence", "redistribution"], rows)
    sources: list[list[object]] = [
        [u.name, u.revision, u.licence, u.attribution or "-", u.url or u.get or "-"]
        for u in card.spec.upstream
    ]
    header = ["upstream", "revision", "licence", "attribution", "where"]
    return text + "\n\n" + table(header, sources)


def render_readme(card: Card, spec: FolderSpec) -> str:
    """The README of a published folder; same card and spec, same bytes."""
    declared = "\n".join(
        f"- `{config}.{column}`: {meaning}"
        for config, columns in card.spec.columns.items()
        for column, meaning in columns.items()
    )
    sections = [
        ("Use", _usage(spec)),
        ("Contents", _contents(spec) + ("\n\n" + declared if declared else "")),
        ("Statistics", "\n\n".join(filter(None, [_statistics(card, spec), _text_lengths(spec)]))),
        ("How an edge is made", card.spec.edge_rule or ""),
        ("Splits and negatives", _splits(card, spec)),
        ("Embeddings", _encoders(spec)),
        ("", card.body.strip()),
        ("Counted while building", _counted(spec)),
        ("Quirks and how they are treated", _bullets(card.spec.quirks)),
        ("Differences from the papers", _bullets(card.spec.differences)),
        ("Licence and redistribution", _licences(card)),
        ("Citation", f"```bibtex\n{card.spec.citation.strip()}\n```"),
    ]
    text = "\n\n".join(
        (f"## {title}\n\n" if title else "") + content for title, content in sections if content
    )
    front = dump_yaml(hub_metadata(card, spec))
    head = f"# {card.spec.pretty_name}\n\n{card.spec.summary}"
    return f"---\n{front}---\n\n{head}\n\n{text}\n"


def _bullets(items: tuple[str, ...]) -> str:
    return "\n".join(f"- {item}" for item in items)
