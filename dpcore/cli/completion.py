"""Print a script that completes commands and options in your shell.

examples:
  source <(dpcore completion bash)
  dpcore completion zsh > ~/.zfunc/_dpcore
  dpcore completion fish > ~/.config/fish/completions/dpcore.fish
"""

from __future__ import annotations

import argparse
from typing import Any

from dpcore.cli._output import print_json
from dpcore.cli.reproduce import NAMES

SUMMARY = "print a completion script for bash, zsh or fish"

_BASH = """\
# bash completion for dpcore; made by `dpcore completion bash`
_dpcore() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} path="" word words="" files=yes
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$path $word" in
{paths}
        esac
    done
    case "$path" in
{words}
    esac
    case "$path $before" in
{values}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [[ $files && $current != -* ]]; then COMPREPLY+=($(compgen -f -- "$current")); fi
}}
complete -o filenames -F _dpcore dpcore
"""
_ZSH = """\
#compdef dpcore
# zsh completion for dpcore; made by `dpcore completion zsh`
_dpcore() {{
    local path_="" word
    local -a words_
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case "$path_ $word" in
{paths}
        esac
    done
    case "$path_" in
{words}
    esac
    case "$path_ ${{words[CURRENT-1]}}" in
{values}
    esac
    _describe 'dpcore' words_
    _files
}}
if [ "$funcstack[1]" = "_dpcore" ]; then _dpcore "$@"; else compdef _dpcore dpcore; fi
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell")
    parser.add_argument("--json", action="store_true", help="print the words as one JSON object instead")
    parser.add_argument("--quiet", action="store_true", help="no difference here")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out."""
    from dpcore.cli import build_parser

    tree = _tree(build_parser())
    tree[("reproduce",)] |= dict.fromkeys((*NAMES, "all"), "source")
    tree[("release",)]["example:hospital"] = "invented data"
    if arguments.json:
        print_json({" ".join(("dpcore", *path)): sorted(words) for path, words in tree.items()})
    else:
        print({"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell](tree), end="")
    return 0


_Tree = dict[tuple[str, ...], dict[str, str]]


def _tree(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> _Tree:
    """For each command the words that may follow it, with their help; and for each option its few values."""
    words: dict[str, str] = {}
    found: _Tree = {path: words}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps: dict[str, Any] = {choice.dest: choice.help for choice in action._choices_actions}
            for name, sub in action.choices.items():
                words[name] = str(helps.get(name, ""))
                found |= _tree(sub, (*path, name))
        elif action.option_strings:
            for option in action.option_strings:
                words[option] = str(action.help or "")
                if action.choices:
                    deeper = (*path, option)
                    found[deeper] = dict.fromkeys(map(str, action.choices), "")
        elif action.choices:
            words |= dict.fromkeys(map(str, action.choices), "")
    return found


def _cases(tree: _Tree) -> str:
    """Shell lines that follow the words typed so far from command to command."""
    lines = []
    for path in tree:
        if path and not _is_option(path):
            before = "".join(f" {word}" for word in path[:-1])
            lines.append(f'            "{before} {path[-1]}") path="{before} {path[-1]}" ;;')
    return "\n".join(lines)


def _is_option(path: tuple[str, ...]) -> bool:
    return bool(path) and path[-1].startswith("-")


def _key(path: tuple[str, ...]) -> str:
    return "".join(f" {word}" for word in path)


def _bash(tree: _Tree) -> str:
    def lines(options: bool) -> str:
        alone = " files=" if options else ""
        return "\n".join(
            f'        "{_key(path)}") words="{" ".join(sorted(found))}"{alone} ;;'
            for path, found in tree.items()
            if _is_option(path) == options
        )

    return _BASH.format(paths=_cases(tree), words=lines(False), values=lines(True))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _zsh(tree: _Tree) -> str:
    def lines(options: bool) -> str:
        out = []
        for path, found in tree.items():
            if _is_option(path) == options:
                names = {name.replace(":", "\\:"): help_ for name, help_ in sorted(found.items())}
                entries = (f"{name}:{help_}" if help_ else name for name, help_ in names.items())
                out.append(f'        "{_key(path)}") words_=({" ".join(map(_quoted, entries))}) ;;')
        return "\n".join(out)

    paths = _cases(tree).replace("path=", "path_=")
    return _ZSH.format(paths=paths, words=lines(False), values=lines(True))


def _fish(tree: _Tree) -> str:
    lines = ["# fish completion for dpcore; made by `dpcore completion fish`", "complete -c dpcore -e"]
    for path, found in tree.items():
        if _is_option(path):
            continue
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in path)
        deeper = [word for word in found if (*path, word) in tree and not word.startswith("-")]
        if deeper:
            none = f"not __fish_seen_subcommand_from {' '.join(deeper)}"
            seen = f"{seen}; and {none}" if seen else none
        for name, help_ in sorted(found.items()):
            kind = (
                f"-l {name[2:]}"
                if name.startswith("--")
                else f"-s {name[1:]}"
                if name.startswith("-")
                else f"-a {name}"
            )
            if values := tree.get((*path, name)) if name.startswith("--") else None:
                kind += f" -x -a {_quoted(' '.join(values))}"
            lines.append(f"complete -c dpcore -n {_quoted(seen)} {kind} -d {_quoted(help_)}")
    return "\n".join(lines) + "\n"
