"""Input pipelines: sources, stages behind them, and streams of what comes out.

The names come from `actorflow.data.public` when the first of them is asked for, so that a process that
only maps elements imports nothing else.
"""

# ruff: noqa: F405  the names of __all__ come through a star

import sys

TYPE_CHECKING = False

__all__ = ["Capacity", "Pipeline", "StageStats", "Stats", "Stream", "StreamLeft", "arrays", "numbers"]

if TYPE_CHECKING:
    from actorflow.data.public import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            message = f"module 'actorflow.data' has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[__name__])
        from actorflow.data import public

        globals().update({each: getattr(public, each) for each in __all__})
        return globals()[name]

    def __dir__() -> list[str]:
        return [name for name in globals() if name.startswith("__")] + __all__
