"""Retrieval and generation over benchmarks made from knowledge graphs (MKG-RAG-Bench).

A retriever is one small file in ``retrievers/`` and one entry point in ``maghub.retrievers``; it is
given texts, vectors and pictures of questions and the triplets they may find, never the gold ids.
The tasks ``kg-retrieval``, ``kg-generation``, ``kg-efficiency`` and ``kg-training`` run it::

    maghub run rag-text --dataset FOLDER --setting S2
    maghub run rag-graph --dataset FOLDER --task kg-generation --set generator=extractive
"""
