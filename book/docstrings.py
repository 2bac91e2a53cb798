"""Sphinx extension of the reference pages: plain text of docstrings as reStructuredText.

A name in `backticks` and a "value" are code, every other sign stands for itself, and a list of
parameters without a heading gets one, so that sphinx.ext.napoleon reads it.
"""

import re

_CODE = re.compile(r"""(`[^`]+`|"[^"\s]+")""")
_MARKUP = re.compile(r"[\\*|]|_(?!\w)")
_PARAMETER = re.compile(r"[a-z_]+(?:, [a-z_]+)*: ")


def setup(app):
    """Called by Sphinx; napoleon reads the result, at the default priority of 500."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True, "version": "1"}


def _process(app, what, name, obj, options, lines):
    lines[:] = as_restructured_text(lines)


def as_restructured_text(lines):
    """The lines of a docstring, parameters under a heading and markup escaped."""
    return [_escape(line) for line in _with_heading(lines)]


def _escape(line):
    if line.lstrip().startswith(">>>"):
        return line
    parts = _CODE.split(line)
    parts[0::2] = [_MARKUP.sub(r"\\\g<0>", text) for text in parts[0::2]]
    # Code must not touch the word after it; a backslash with a space parts them and is not shown.
    gaps = ["\\ " if text[:1].isalnum() else "" for text in parts[2::2]]
    codes = [code.strip("`") for code in parts[1::2]]
    parts[1::2] = [f"``{code}``{gap}" for code, gap in zip(codes, gaps, strict=True)]
    return "".join(parts)


def _with_heading(lines):
    """The lines with "Args:" before the first paragraph "name, name: text", then indented."""
    if any(line.strip() in ("Args:", "Attributes:") for line in lines):
        return lines
    start = next((i for i, line in enumerate(lines) if _starts(lines, i)), None)
    if start is None:
        return lines
    stop = next((i for i in range(start, len(lines)) if _ends(lines[i])), len(lines))
    block = [
        f"    {line}" if _PARAMETER.match(line) else f"        {line.strip()}"
        for line in lines[start:stop]
    ]
    return [*lines[:start], "Args:", *block, "", *lines[stop:]]


def _starts(lines, i):
    return i > 0 and not lines[i - 1].strip() and _PARAMETER.match(lines[i]) is not None


def _ends(line):
    return not line.strip() or line[0].isupper()
