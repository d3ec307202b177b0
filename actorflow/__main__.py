"""Lets `python -m actorflow` do what the `actorflow` command does."""

import sys

from actorflow.cli import main

sys.exit(main())
