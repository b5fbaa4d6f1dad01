"""Annotations of Flickr30k Entities: boxes, phrases, and what is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from mutants import check_survives

from maghub.builders._entities import read_annotations
from maghub.errors import MaghubError

XML = "<annotation><size><width>9</width><height>9</height></size>{}</annotation>"
BOX = (
    "<object><name>1</name><bndbox><xmin>{}</xmin><ymin>1</ymin><xmax>{}</xmax><ymax>9</ymax>"
    "</bndbox></object>"
)


def annotated(folder: Path, xml: str, text: str = "a\nb\nc\nd\ne\n") -> Path:
    path = folder / "annotations.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("__MACOSX/Annotations/._7.xml", b"\0\1")
        archive.writestr("__MACOSX/Annotations/7.xml", b"\0\1")
        archive.writestr("Annotations/7.xml", xml)
        archive.writestr("Sentences/7.txt", text)
        archive.writestr("Sentences/8.txt", "of a picture without captions")
    return path


def test_annotation_quirks(tmp_path: Path) -> None:
    boxes = BOX.format(1, 9) + BOX.format(0, 9) + BOX.format(2, 10)
    found = read_annotations(annotated(tmp_path, XML.format(boxes)), ["7"])
    assert found.chains[0][1].boxes == [(0, 0, 8, 8), (-1, 0, 8, 8), (1, 0, 9, 8)]
    assert (found.outside, found.foreign) == (2, 1)
    assert found.sentences[0] == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("xml", "text", "words"),
    [
        ("<annotation>", "", "7.xml: not an annotation (no element found"),
        (XML.format(BOX.format("x", 9)), "", "7.xml: not an annotation (xmin is 'x')"),
        ("<annotation/>", "", "7.xml: not an annotation (size/width is '')"),
        (XML.format("<object><name>q</name></object>"), "", "7.xml: not an annotation (invalid"),
        ('<!DOCTYPE a [<!ENTITY x "y">]>' + XML, "", "7.xml: not a plain annotation"),
        (XML, "a\nb\n", "7.txt: has 2 lines, expected 5"),
        (XML, "a [/EN#1/people b\nb\nc\nd\ne\n", "7.txt, row 1: broken markup"),
    ],
)
def test_bad_annotations_give_one_line(tmp_path: Path, xml: str, text: str, words: str) -> None:
    path = annotated(tmp_path, xml, text or "a\nb\nc\nd\ne\n")
    with pytest.raises(MaghubError) as caught:
        read_annotations(path, ["7"])
    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)


def test_annotations_of_other_pictures_or_truncated(tmp_path: Path) -> None:
    path = annotated(tmp_path, XML)
    with pytest.raises(MaghubError, match="holds no annotation of these pictures"):
        read_annotations(path, ["9"])
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(MaghubError, match=r"annotations\.zip: a damaged zip file"):
        read_annotations(path, ["7"])


@pytest.mark.parametrize("kind", ["Annotations", "Sentences"])
def test_mutated_annotations(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "annotations"
    original = {"Annotations": XML.format(BOX.format(1, 9) * 3), "Sentences": "[/EN#1/a b] c\n" * 5}
    for name, suffix in (("Annotations", "xml"), ("Sentences", "txt")):
        (folder / name).mkdir(parents=True)
        (folder / name / f"7.{suffix}").write_text(original[name])
    path = next((folder / kind).iterdir())
    check_survives(lambda _: read_annotations(folder, ["7"]), path.read_bytes(), path, count=300)
