"""What ``maghub validate`` cannot see: ``maghub audit FOLDER``."""

from maghub.audit.checks import run
from maghub.audit.foreign import Columns, imported
from maghub.audit.pages import write_html
from maghub.audit.report import Check, Example, Report, Verdict

__all__ = ["Check", "Columns", "Example", "Report", "Verdict", "imported", "run", "write_html"]
