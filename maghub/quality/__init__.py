"""How good the vectors of a published folder are, per encoder: ``maghub quality FOLDER``."""

from maghub.quality.measure import quality
from maghub.quality.pages import tables, write_html
from maghub.quality.plots import write_plot
from maghub.quality.report import Alignment, ColumnQuality, EncoderQuality, Neighbours, Retrieval

__all__ = [
    "Alignment",
    "ColumnQuality",
    "EncoderQuality",
    "Neighbours",
    "Retrieval",
    "quality",
    "tables",
    "write_html",
    "write_plot",
]
