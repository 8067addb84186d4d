"""Runs a script with this folder, and not the checkout, on the path: python -P start.py SCRIPT ..."""

import pathlib
import runpy
import sys

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here))
sys.argv = sys.argv[1:]
runpy.run_path(str(here / sys.argv[0]), run_name="__main__")
