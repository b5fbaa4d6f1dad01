"""CLeGR: compositional language-graph reasoning on synthetic subway maps and computer networks.

``generate`` makes question sets, ``scorer`` scores predictions, ``audit`` re-derives the answers
of a published set, ``draw`` maps a graph, ``pyg`` loads it for torch_geometric.
"""
