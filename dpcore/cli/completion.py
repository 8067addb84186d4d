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

SUMMARY = "print a completion script for bash, zsh or fish"

_BASH = """\
# bash completion for dpcore; made by `dpcore completion bash`
_dpcore() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} path="" word words=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$path $word" in
{paths}
        esac
    done
    case "$path" in
{words}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [[ $current != -* ]]; then COMPREPLY+=($(compgen -f -- "$current")); fi
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
    if arguments.json:
        print_json({" ".join(("dpcore", *path)): sorted(words) for path, words in tree.items()})
    else:
        print({"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell](tree), end="")
    return 0


_Tree = dict[tuple[str, ...], dict[str, str]]


def _tree(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> _Tree:
    """For each command the words that may follow it, with their help."""
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
        elif action.choices:
            words |= dict.fromkeys(map(str, action.choices), "")
    return found


def _cases(tree: _Tree) -> str:
    """Shell lines that follow the words typed so far from command to command."""
    lines = []
    for path in tree:
        if path:
            before = "".join(f" {word}" for word in path[:-1])
            lines.append(f'            "{before} {path[-1]}") path="{before} {path[-1]}" ;;')
    return "\n".join(lines)


def _key(path: tuple[str, ...]) -> str:
    return "".join(f" {word}" for word in path)


def _bash(tree: _Tree) -> str:
    words = "\n".join(
        f'        "{_key(path)}") words="{" ".join(sorted(found))}" ;;' for path, found in tree.items()
    )
    return _BASH.format(paths=_cases(tree), words=words)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _zsh(tree: _Tree) -> str:
    lines = []
    for path, found in tree.items():
        entries = (f"{name}:{help_}" if help_ else name for name, help_ in sorted(found.items()))
        lines.append(f'        "{_key(path)}") words_=({" ".join(map(_quoted, entries))}) ;;')
    return _ZSH.format(paths=_cases(tree).replace("path=", "path_="), words="\n".join(lines))


def _fish(tree: _Tree) -> str:
    lines = ["# fish completion for dpcore; made by `dpcore completion fish`", "complete -c dpcore -e"]
    for path, found in tree.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in path)
        deeper = [word for word in found if (*path, word) in tree]
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
            lines.append(f"complete -c dpcore -n {_quoted(seen)} {kind} -d {_quoted(help_)}")
    return "\n".join(lines) + "\n"
