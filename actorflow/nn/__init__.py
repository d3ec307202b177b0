"""Layers, and functions of networks: `af.nn`. Variables are made once, ops built at each call.

A layer is given its sizes and initialisers when it is made, and makes its variables then, in the
current graph, under its name. Called, it builds ops; all its calls share the variables.
`layer.variables` lists them in order. Where training differs from evaluation, the call says which:
`layer(x, training=True)`. Initialisers are in `af.init`. The functions of networks, such as `af.nn.relu`,
stand beside the layers.
"""

from __future__ import annotations

import sys

from actorflow.nn.attention import MultiHeadAttention
from actorflow.nn.beam import beam_search
from actorflow.nn.cells import Cell, GRUCell, LSTMCell, RNNCell
from actorflow.nn.conv import Conv
from actorflow.nn.decoding import Decoded, greedy, sample
from actorflow.nn.dense import Dense
from actorflow.nn.embedding import Embedding
from actorflow.nn.functional import apply
from actorflow.nn.layer import Layer
from actorflow.nn.normalisation import BatchNorm, GroupNorm, LayerNorm, RMSNorm
from actorflow.nn.ops import *  # noqa: F403
from actorflow.nn.ops import __all__ as _verbs
from actorflow.nn.recurrent import bidirectional, rnn
from actorflow.nn.sequential import Sequential
from actorflow.nn.stacked import stack_cells
from actorflow.nn.stateless import Dropout, Flatten
from actorflow.runtime.name_hints import missing

__all__ = [
    "BatchNorm",
    "Cell",
    "Conv",
    "Decoded",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
    "GroupNorm",
    "LSTMCell",
    "Layer",
    "LayerNorm",
    "MultiHeadAttention",
    "RMSNorm",
    "RNNCell",
    "Sequential",
    "apply",
    "beam_search",
    "bidirectional",
    "greedy",
    "rnn",
    "sample",
    "stack_cells",
]
__all__ += _verbs

for _file in ("attention", "conv", "dense", "embedding", "layer", "ops", "sequential"):
    del globals()[
        _file
    ]  # the files of classes: `af.nn.dense(3, 4)` would call a module, and say no more than that


def __getattr__(name: str) -> object:
    raise missing(sys.modules[__name__], name, __all__)
