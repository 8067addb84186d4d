"""Every command and every block of code in the documentation is run, here or where this file says.

The Python in it runs in test_package.py, as doctests; the examples of all help texts run in tools/smoke_test.py.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from dpcore._predicate import Predicate
from dpcore.cli import _mechanisms

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The programs on the page on embedding are compiled and run by test_embedding.py.
PAGES = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.name != "embedding.md")]
BIN = pathlib.Path(sys.executable).parent
# Commands that a test of the installed package cannot run, or that take too long, and where they run instead.
ELSEWHERE = {
    r"python3 -m venv": ".ci/run, as written",
    r"(.*bin/)?pip install": ".ci/run and tools/build_wheels.py install every extra that is named here",
    r"mkdocs ": ".ci/run",
    r"python bench/": "needs peers; run by hand, its output is on the page",
    r"python tools/assure.py": "runs the parts of this suite and what needs peers or clang",
    r"dpcore reproduce privacy-at-risk": "test_reproduce_risk.py",
    r"dpcore reproduce partial-knowledge": "test_partial_knowledge_release.py",
    r"dpcore reproduce all": "the tests of each source",
}


def blocks(page):
    """Language and text of each fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands(page):
    shell = (text for language, text in blocks(page) if language == "bash")
    lines = (line.strip() for text in shell for line in text.replace("\\\n", " ").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_no_block_escapes(page):
    """A block is Python with prompts (a doctest), a shell command, or one of the kinds tested below."""
    for language, text in blocks(page):
        assert language in {"python", "pycon", "bash", "toml", "text"}, text
        if language in {"python", "pycon"}:
            assert ">>> " in text, f"not run by anything: {text}"


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda p: p.name)
def test_commands_run_as_written(page, tmp_path):
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    for command in commands(page):
        if any(re.match(pattern, command) for pattern in ELSEWHERE):
            continue
        assert command.startswith("dpcore "), f"say in ELSEWHERE where this runs: {command}"
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, env=environment
        )
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout
        assert all(len(line) <= 80 or "/" in line for line in done.stdout.splitlines()), command


def test_the_conditions_and_programmes_on_the_page_are_read(tmp_path):
    page = ROOT / "docs" / "command_line.md"
    pairs = [text for language, text in blocks(page) if text.startswith("p,q\n")]
    conditions = [text for language, text in blocks(page) if language == "text" and text not in pairs]
    programmes = [text for language, text in blocks(page) if language == "toml"]
    assert conditions
    assert programmes
    for line in "".join(conditions).splitlines():
        assert Predicate(line).columns
    (pair,) = pairs
    (tmp_path / "pair.csv").write_text(pair)
    for text in programmes:
        file = tmp_path / "programme.toml"
        file.write_text(text)
        assert _mechanisms.loss(_mechanisms.parse([str(file)])).epsilon(1e-6).upper > 0


def test_the_smoke_test_passes_here_too():
    """What CI runs on a wheel without checkout or compiler, among it every example of every help text."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "smoke_test.py")], capture_output=True, text=True, cwd="/"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(": fine\n")


def test_every_page_is_in_the_navigation_and_every_picture_is_there():
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        assert str(page.relative_to(ROOT / "docs")) in site, page
        for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / picture).is_file(), picture
