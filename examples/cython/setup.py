"""Builds the example: ``pip install --no-build-isolation .`` where dpcore and Cython are installed."""

from Cython.Build import cythonize
from setuptools import Extension, setup

import dpcore

setup(
    name="noisy-counts",
    version="1.0",
    py_modules=[],
    ext_modules=cythonize(
        [
            Extension(
                "noisy_counts",
                ["noisy_counts.pyx"],
                include_dirs=[dpcore.get_include()],
                library_dirs=[dpcore.get_library_dir()],
                libraries=["dpcore"],  # the static library: nothing to find at run time
                language="c++",
            )
        ]
    ),
)
