"""Input pipelines: sources, stages behind them, and streams of what comes out.

The names come from `actorflow.data.public`, all at once, when the first of them is asked for: the
processes of a map import their own part of this package and nothing of the runtime.
"""

# ruff: noqa: F405  the names of __all__ come through a star

import sys

TYPE_CHECKING = False  # type checkers know the name

__all__ = [
    "Capacity", "Pipeline", "StageStats", "Stats", "Stream", "StreamLeft", "arrays", "concatenate", "csv",
    "generator", "idx", "interleave", "npy", "npz", "numbers", "queue", "records", "text_lines", "tfrecord",
    "zip",
]  # fmt: skip

if TYPE_CHECKING:
    from actorflow.data.public import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            from actorflow.runtime.name_hints import missing

            raise missing(sys.modules[__name__], name, __all__)
        from actorflow.data import public

        # All at once: whoever asks for one name has loaded the others' modules with it.
        globals().update((public_name, vars(public)[public_name]) for public_name in __all__)
        return globals()[name]

    def __dir__() -> list[str]:
        return [name for name in globals() if name.startswith("__")] + __all__
