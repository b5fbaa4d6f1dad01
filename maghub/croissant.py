"""``croissant.json`` of a published folder: its tables as Croissant 1.1 record sets.

One record set per config, read from the file set of its Parquet shards beside the file; every shard
is also listed as a file object with its SHA-256. Keys that point into another table (``edges.src``
to ``nodes.node_id``) are references. Same card and spec, same bytes: nothing is measured here.

mlcroissant 1.1 keeps what it has read: open a new ``mlcroissant.Dataset`` for each record set.
"""

from __future__ import annotations

import json
import re
from typing import Any

from datasets import ClassLabel, Features, Image, LargeList, List, Value

from maghub import layout
from maghub.cards import PARTS, Card
from maghub.schema import features_from_dict
from maghub.spec import ConfigSpec, FolderSpec

CONFORMS_TO = "http://mlcommons.org/croissant/1.1"
PARQUET = "application/x-parquet"
_TERMS = (
    "arrayShape citeAs column equivalentProperty extract field fileProperty fileObject fileSet "
    "format includes isArray isLiveDataset jsonPath key md5 parentField path recordSet references "
    "regex repeated replace samplingRate separator source subField transform"
)
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}
_TYPES = {"bool": "sc:Boolean", "float16": "cr:Float16", "float32": "cr:Float32"}
_TYPES |= {"float64": "cr:Float64"}
_TYPES |= {f"int{bits}": f"cr:Int{bits}" for bits in (8, 16, 32, 64)}
_TYPES |= {f"uint{bits}": f"cr:UInt{bits}" for bits in (8, 16, 32, 64)}
_SPDX = {
    "apache-2.0": "Apache-2.0",
    "cc-by-4.0": "CC-BY-4.0",
    "cc-by-sa-4.0": "CC-BY-SA-4.0",
    "cc0-1.0": "CC0-1.0",
    "mit": "MIT",
    "odc-by": "ODC-By-1.0",
}


def _licence(card: Card) -> str:
    """A link to the licence where the Hub's name for it has one, else the words of the card."""
    name = card.spec.hub_license
    if name in _SPDX:
        return f"https://spdx.org/licenses/{_SPDX[name]}.html"
    return name if name != "other" else f"other: {_access(card)}"


def _access(card: Card) -> str:
    """Licence and redistribution of every part, in words."""
    licences, policy = card.spec.licences, card.spec.policy
    return "; ".join(f"{p}: {getattr(licences, p)} ({getattr(policy, p)})" for p in PARTS)


def _references(config: ConfigSpec) -> dict[str, str]:
    """Columns of a config that point to a field of another one, as column -> field id."""
    node, edge = f"{layout.NODES}/{layout.NODE_ID}", f"{layout.EDGES}/{layout.EDGE_ID}"
    match config.kind:
        case "edges":
            return {layout.SRC: node, layout.DST: node}
        case "node_splits":
            return {layout.NODE_ID: node}
        case "edge_splits":
            return {layout.EDGE_ID: edge}
        case "negatives":
            return {layout.EDGE_ID: edge, layout.QUERY: node, layout.POSITIVE: node}
        case "qrels" | "qa":
            prefix = (config.target or layout.QUERIES).removesuffix(layout.QUERIES)
            names = {layout.QUERY_ID: layout.QUERIES, layout.CORPUS_ID: layout.CORPUS}
            return {key: f"{prefix}{name}/{layout.ID}" for key, name in names.items()}
        case "corpus" | "queries":
            entity = f"{layout.ENTITIES}/{layout.ID}"
            relation = f"{layout.RELATIONS}/{layout.ID}"
            return {layout.HEAD_ID: entity, layout.TAIL_ID: entity, layout.REL_ID: relation}
        case "embeddings" | "element_embeddings" | "picture_embeddings":
            key = next(iter(config.features))
            return {key: f"{config.target or layout.NODES}/{key}"}
        case _:
            return {}


def _shape(feature: object) -> tuple[list[int], object]:
    """Lengths of nested lists (-1 where they vary) and the type of what they hold."""
    lengths: list[int] = []
    while isinstance(feature, (List, LargeList)):
        lengths.append(getattr(feature, "length", -1))
        feature = feature.feature
    return lengths, feature


def _is_pictures(feature: object) -> bool:
    """Whether this is a list of pictures, which mlcroissant 1.1 describes but cannot read."""
    lengths, inner = _shape(feature)
    return bool(lengths) and isinstance(inner, Image)


def _type(feature: object) -> str:
    if isinstance(feature, Value):
        return _TYPES.get(str(feature.dtype), "sc:Text")
    return "sc:ImageObject" if isinstance(feature, Image) else "cr:Int64"


def _field(path: str, feature: object, config: ConfigSpec, steps: tuple[str, ...]) -> dict:
    """A field of a record set; a struct becomes a field with sub-fields.

    Args:
        path: Its id.
        feature: Its type.
        config: The table.
        steps: The column, and the way from there into structs.
    """
    lengths, inner = _shape(feature)
    field: dict[str, Any] = {"@type": "cr:Field", "@id": path, "name": steps[-1]}
    if lengths:
        field |= {"isArray": True, "arrayShape": ",".join(map(str, lengths))}
    if isinstance(inner, dict):
        children = inner.items()
        field["subField"] = [_field(f"{path}/{k}", v, config, (*steps, k)) for k, v in children]
        return field
    if isinstance(inner, ClassLabel):
        names = ", ".join(f"{number} {name}" for number, name in enumerate(inner.names))
        field["description"] = f"class label: {names}"
    source: dict[str, Any] = {"fileSet": {"@id": f"{config.name}-files"}}
    source["extract"] = {"column": steps[0]}
    way = (*steps[1:], "bytes") if isinstance(inner, Image) else steps[1:]
    if way:
        source["transform"] = [{"jsonPath": step} for step in way]
    return {**field, "dataType": _type(inner), "source": source}


def _split_field(config: ConfigSpec) -> dict:
    """Which split a row is of, read from the name of its file."""
    names = "|".join(map(re.escape, config.splits))
    # mlcroissant applies it twice where a field has references: a split's name must match too.
    regex = rf"^(?:{config.name}/)?({names})(?:-\d+-of-\d+\.parquet)?$"
    source = {
        "fileSet": {"@id": f"{config.name}-files"},
        "extract": {"fileProperty": "fullpath"},
        "transform": {"regex": regex},
    }
    return {
        "@type": "cr:Field",
        "@id": f"{config.name}/split",
        "name": "split",
        "dataType": "sc:Text",
        "references": {"field": {"@id": f"{config.name}-split-names/name"}},
        "source": source,
    }


def _record_sets(card: Card, config: ConfigSpec, known: set[str]) -> list[dict]:
    """The names of a config's splits, and its rows."""
    names = f"{config.name}-split-names"
    name_field = {"@type": "cr:Field", "@id": f"{names}/name", "name": "name"}
    splits = {
        "@type": "cr:RecordSet",
        "@id": names,
        "name": names,
        "dataType": "cr:Split",
        "key": {"@id": f"{names}/name"},
        "field": [{**name_field, "dataType": "sc:Text"}],
        "data": [{f"{names}/name": split} for split in config.splits],
    }
    features: Features = features_from_dict(config.features)
    references, meanings = _references(config), card.spec.columns.get(config.name, {})
    fields = []
    lists = [column for column, feature in features.items() if _is_pictures(feature)]
    for column, feature in features.items():
        if column in lists:
            continue
        field = _field(f"{config.name}/{column}", feature, config, (column,))
        if column in meanings:
            words = [meanings[column], field.get("description", "")]
            field["description"] = "; ".join(filter(None, words))
        if references.get(column) in known:
            field["references"] = {"field": {"@id": references[column]}}
        fields.append(field)
    rows = {"@type": "cr:RecordSet", "@id": config.name, "name": config.name}
    counts = ", ".join(f"{split} {count:,}" for split, count in config.splits.items())
    rows["description"] = f"{config.kind.replace('_', ' ')}; rows: {counts}"
    if lists:
        rows["description"] += f"; also lists of pictures: {', '.join(lists)}"
    if config.kind in ("nodes", "edges"):
        key = layout.NODE_ID if config.kind == "nodes" else layout.EDGE_ID
        rows["key"] = {"@id": f"{config.name}/{key}"}  # type: ignore[assignment]
    return [splits, {**rows, "field": [*fields, _split_field(config)]}]


def _distribution(config: ConfigSpec) -> list[dict]:
    """Every shard with its checksum, and the set of them that the record set reads."""
    files = [
        {
            "@type": "cr:FileObject",
            "@id": entry.path,
            "name": entry.path,
            "contentUrl": entry.path,
            "contentSize": f"{entry.bytes} B",
            "encodingFormat": PARQUET,
            "sha256": entry.sha256,
        }
        for entry in config.files
    ]
    name = f"{config.name}-files"
    globs = [layout.data_glob(config.name, split) for split in config.splits]
    whole = {"@type": "cr:FileSet", "@id": name, "name": name, "encodingFormat": PARQUET}
    return [*files, {**whole, "includes": globs}]


def croissant(card: Card, spec: FolderSpec) -> dict[str, Any]:
    """The Croissant description of a folder as JSON-LD data."""
    known = {f"{config.name}/{column}" for config in spec.configs for column in config.features}
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": spec.name,
        "alternateName": card.spec.pretty_name,
        "description": card.spec.summary,
        "version": spec.dataset_version,
        "license": _licence(card),
        "conditionsOfAccess": _access(card),
        "citeAs": card.spec.citation.strip(),
        "inLanguage": list(card.spec.language),
        "keywords": list(dict.fromkeys(["graph", *card.spec.tags])),
        "url": f"https://huggingface.co/datasets/maghub/{spec.name}",
        "isBasedOn": [upstream.url or upstream.name for upstream in card.spec.upstream],
        "distribution": [item for config in spec.configs for item in _distribution(config)],
        "recordSet": [
            item for config in spec.configs for item in _record_sets(card, config, known)
        ],
    }


def render_croissant(card: Card, spec: FolderSpec) -> str:
    """The text of ``croissant.json``; same card and spec, same bytes."""
    return json.dumps(croissant(card, spec), indent=2, ensure_ascii=False) + "\n"
