"""MkDocs hook: the page `commands.md` gets the help text of every verb."""

import argparse
import os

from mohamjax.cli.entry import make_parser

os.environ["COLUMNS"] = "120"  # width of the texts


def on_page_markdown(markdown, page, config, files):
    """Puts the help texts into the page of the command line."""
    return markdown.replace("<!-- help -->", help_texts()) if page.file.src_uri == "commands.md" else markdown


def help_texts() -> str:
    """A section for every verb, and for each of several below one (`evaluate designs`)."""
    return "\n".join(
        f"## {verb.prog.removeprefix('mohamjax ')}\n\n```text\n{verb.format_help()}```\n"
        for verb in _verbs(make_parser())
    )


def _verbs(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parsers below a parser that have options of their own."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        return [parser]
    return [verb for action in below for one in dict.fromkeys(action.choices.values()) for verb in _verbs(one)]
