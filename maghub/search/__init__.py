"""Nearest neighbours with FAISS: over any matrix, and over the vectors of a published folder.

    index = Index.build(mag.features("all-minilm-l6-v2", "text"))
    scores, ids = index.search(queries, k=10)

``knn_graph`` makes edges of neighbours, ``build_index`` and ``open_index`` keep an index in a
folder, ``find`` (also ``maghub.find``) searches a folder by a text or a picture.
"""

from maghub.search.approximate import Options
from maghub.search.folders import build_index, open_index
from maghub.search.graphs import knn_graph
from maghub.search.index import Index
from maghub.search.queries import Hit, find

__all__ = ["Hit", "Index", "Options", "build_index", "find", "knn_graph", "open_index"]
