"""The figures and tables of the documents behind dpcore, recomputed: each published number beside ours.

Each module has ``run(out, *, progress=False)``, which writes figures (PNG and SVG), their data (CSV) and a page
that compares every published number with ours, and returns the files. Figures need matplotlib:
``pip install 'dpcore[plot]'``.
"""
