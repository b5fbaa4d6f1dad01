"""What is measured of the vectors of one encoder."""

from __future__ import annotations

from maghub.spec import Model


class Histogram(Model):
    """Counts between edges (one edge more than counts)."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


class Neighbours(Model):
    """Whether the nearest other rows (cosine) carry the same label.

    Attributes:
        k: Neighbours per row.
        rows: Labelled rows with a vector, each compared with all others.
        agreement: Mean share of a row's neighbours that have its label.
        chance: The same for random neighbours.
        accuracy: Share of rows whose label the majority of neighbours has (the smaller class
            number where votes are equal).
        majority: Share of rows that have the most frequent label.
    """

    k: int
    rows: int
    agreement: float
    chance: float
    accuracy: float
    majority: float


class Retrieval(Model):
    """Finding a row's other modality among all; ties count as the mean of best and worst rank."""

    recall_at_1: float
    mrr: float


class Alignment(Model):
    """Text and image of one row against those of different rows, where one encoder has both.

    Attributes:
        pairs: Rows with both.
        paired: Mean cosine of a row's text and image.
        shuffled: Mean cosine of a row's text and another row's image.
        text_to_image: Finding the image of a text among all images.
        image_to_text: The other way round.
        paired_histogram: Cosines of the pairs.
        shuffled_histogram: Cosines of the shuffled pairs.
    """

    pairs: int
    paired: float
    shuffled: float
    text_to_image: Retrieval
    image_to_text: Retrieval
    paired_histogram: Histogram
    shuffled_histogram: Histogram


class ColumnQuality(Model):
    """The vectors of one modality.

    Attributes:
        modality: ``text`` or ``image``.
        width: Numbers per vector.
        rows: All rows.
        without: Rows that are declared to have no vector.
        zeros: Rows that are all zero although they are declared to have a vector.
        measured: Rows with a vector that the figures below are taken from.
        sampled: Whether these are a seeded sample of them.
        norms: Least, 5th, 50th and 95th percentile, greatest and mean length of a vector.
        norm_histogram: The lengths.
        duplicates: Measured rows that equal an earlier measured row.
        largest_group: Most rows that are equal to each other.
        effective_rank: exp of the entropy of the singular values of the centred matrix (Roy and
            Vetterli, 2007); at most the width.
        spectrum: Singular values of the centred matrix, greatest first, as shares of their sum.
        neighbours: Label agreement, where the dataset has labels.
    """

    modality: str
    width: int
    rows: int
    without: int
    zeros: int
    measured: int
    sampled: bool
    norms: dict[str, float]
    norm_histogram: Histogram
    duplicates: int
    largest_group: int
    effective_rank: float
    spectrum: tuple[float, ...]
    neighbours: Neighbours | None = None


class EncoderQuality(Model):
    """The vectors of one embedding config."""

    dataset: str
    encoder: str
    config: str
    seed: int
    sample_rows: int
    columns: tuple[ColumnQuality, ...]
    alignment: Alignment | None = None
