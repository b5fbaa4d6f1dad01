"""Result records as tables and pictures: ``maghub report RESULTS...``."""

from maghub.reporting.latex import to_latex
from maghub.reporting.model import Block, Measure, Note, PaperNumber, Report, Row, Statistic
from maghub.reporting.page import to_html
from maghub.reporting.paper import paper_numbers
from maghub.reporting.summary import summarise
from maghub.reporting.text import to_markdown

__all__ = [
    "Block",
    "Measure",
    "Note",
    "PaperNumber",
    "Report",
    "Row",
    "Statistic",
    "paper_numbers",
    "summarise",
    "to_html",
    "to_latex",
    "to_markdown",
]
