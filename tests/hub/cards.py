"""What the Hub says of the YAML of a dataset card: errors (the commit is refused) and warnings.

From its documentation: the metadata of dataset cards (hub-docs, datasetcard.md), the licence names
(docs/hub/repositories-licenses.md), gated fields (docs/hub/datasets-gated.md), manual configuration
(docs/hub/datasets-manual-configuration.md) and the regular expression that the client shares with
it. The real endpoint knows more; nothing here is laxer than those pages.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

import yaml
from huggingface_hub.repocard import REGEX_YAML_BLOCK
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

_LICENCES = """
apache-2.0 mit openrail bigscience-openrail-m creativeml-openrail-m bigscience-bloom-rail-1.0
bigcode-openrail-m afl-3.0 artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear
c-uda cc cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0
cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 wtfpl
ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0 lgpl lgpl-2.1
lgpl-3.0 isc lppl-1.3c ms-pl mpl-2.0 odc-by odbl openrail++ osl-3.0 postgresql ofl-1.1 ncsa
unlicense zlib pddl lgpl-lr deepfloyd-if-license llama2 gemma unknown other
"""
_TASKS = """
text-classification token-classification table-question-answering question-answering
zero-shot-classification translation summarization feature-extraction text-generation fill-mask
sentence-similarity text-to-speech text-to-audio automatic-speech-recognition audio-to-audio
audio-classification voice-activity-detection depth-estimation image-classification
object-detection image-segmentation text-to-image image-to-text image-to-image image-to-video
unconditional-image-generation video-classification reinforcement-learning robotics
tabular-classification tabular-regression tabular-to-text table-to-text multiple-choice
text-retrieval time-series-forecasting text-to-video image-text-to-text
visual-question-answering document-question-answering zero-shot-image-classification graph-ml
mask-generation zero-shot-object-detection text-to-3d image-to-3d image-feature-extraction other
visual-document-retrieval any-to-any video-text-to-text
"""
_STEPS = "1K 10K 100K 1M 10M 100M 1B 10B 100B 1T"
LICENCES, TASKS = set(_LICENCES.split()), set(_TASKS.split())
SIZES = {f"{low}<n<{high}" for low, high in pairwise(_STEPS.split())} | {"n<1K", "n>1T"}
GATED = {"text", "checkbox", "date_picker", "country", "ip_location"}
Text = Annotated[str, Field(min_length=1, strict=True)]


def _one_of(names: set[str], what: str) -> AfterValidator:
    def check(value: str) -> str:
        if value not in names:
            raise ValueError(f"'{value}' is no {what}")
        return value

    return AfterValidator(check)


_listed = BeforeValidator(lambda value: [value] if isinstance(value, str | dict) else value)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _DataFile(_Strict):
    split: Annotated[str, Field(pattern=r"^\w+(\.\w+)*$")]
    path: Text | list[Text]


class _Config(_Strict):
    config_name: Annotated[str, Field(pattern=r"^[^<>:/\\|?*]+$")]
    data_files: list[_DataFile]
    default: bool = False


class _Split(_Strict):
    name: Text
    num_bytes: int
    num_examples: int


class _Info(_Strict):
    config_name: Text | None = None
    features: list[dict[str, Any]]
    splits: list[_Split]
    download_size: int
    dataset_size: int


class _Card(BaseModel):
    """Fields that the Hub knows; others are allowed."""

    model_config = ConfigDict(extra="allow", strict=True)

    license: Annotated[Text, _one_of(LICENCES, "licence that the Hub knows")] | None = None
    language: Annotated[
        list[Annotated[str, Field(pattern=r"^[a-z]{2,3}$|^multilingual$|^code$")]], _listed
    ] = []
    pretty_name: Text | None = None
    tags: list[Text] = []
    task_categories: list[Text] = []
    size_categories: list[Annotated[str, _one_of(SIZES, "size category")]] = []
    configs: list[_Config] = []
    dataset_info: Annotated[list[_Info], _listed] = []
    extra_gated_prompt: Text | None = None
    extra_gated_fields: dict[Text, Annotated[str, _one_of(GATED, "kind of gated field")]] = {}

    @model_validator(mode="after")
    def _agree(self) -> _Card:
        names = [config.config_name for config in self.configs]
        if len(names) != len(set(names)):
            raise ValueError("configs have a name twice")
        if sum(config.default for config in self.configs) > 1:
            raise ValueError("two configs are the default")
        about = {info.config_name for info in self.dataset_info} - {None}
        if len(self.dataset_info) > 1 and len(about) < len(self.dataset_info):
            raise ValueError("dataset_info lacks a config_name or has one twice")
        if names and not about <= set(names):
            raise ValueError("dataset_info is about a config that is not there")
        return self


def findings(content: str) -> tuple[list[str], list[str]]:
    """Errors and warnings for the text of a README."""
    found = REGEX_YAML_BLOCK.search(content)
    if found is None:
        return [], ["empty or missing yaml metadata in repo card"]
    try:
        data = yaml.safe_load(found.group(2))
    except yaml.YAMLError as error:
        return [f"metadata is not YAML: {error}"], []
    if not isinstance(data, dict):
        return ["metadata is not a mapping"], []
    try:
        card = _Card.model_validate(data)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc'])) or 'card'}: {e['msg']}" for e in error.errors()]
        return lines, []
    unknown = [task for task in card.task_categories if task not in TASKS]
    return [], [f"task_categories: '{task}' is not in the official list" for task in unknown]
