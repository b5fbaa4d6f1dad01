"""The one line of an error."""

import pytest

from maghub.errors import MaghubError


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        ("check the path", "Check the path"),
        ("pass --overwrite", "Pass --overwrite"),
        ("maghub encode toy --encoder x", "maghub encode toy --encoder x"),
        ("maghub: what it is", "Maghub: what it is"),
        ("--set ranked=10", "--set ranked=10"),
        ("-k 5", "-k 5"),
        ("pip install 'maghub[pyg]'", "pip install 'maghub[pyg]'"),
        ("éclairs help", "Éclairs help"),
    ],
)
def test_a_fix_begins_with_a_capital_unless_it_is_typed(fix: str, said: str) -> None:
    error = MaghubError("is  no\nfolder", where="toy", fix=fix)
    assert error.line() == str(error) == f"toy: is no folder. {said}"


@pytest.mark.parametrize("fix", [None, ""])
def test_without_a_fix_the_line_ends_with_what_was_wrong(fix: str | None) -> None:
    assert MaghubError("there is none", fix=fix).line() == "there is none"
