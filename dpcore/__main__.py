"""``python -m dpcore``: the command line, and ``--cmakedir`` for build systems."""

from __future__ import annotations

import sys

from dpcore.cli import main

if __name__ == "__main__":
    sys.exit(main())
