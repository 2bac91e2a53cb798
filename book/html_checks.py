"""What a built page must not have: something fetched from elsewhere or not kept here, a figure without alt text."""

import html.parser
import pathlib
import re

_FETCHED_LINKS = {
    "stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect", "dns-prefetch", "manifest",
    "apple-touch-icon",
}  # fmt: skip
_SOURCES = ("src", "srcset", "poster", "data", "background")
_EXTERNAL = re.compile(r"^\s*(?:https?:|wss?:|ftp:)?//", re.IGNORECASE)
_FILE_IN_SCRIPT = re.compile(r"https?://[^\s\"'`<>]+?\.(?:m?js|css|woff2?|ttf|wasm|json)\b", re.IGNORECASE)
_URL_IN_STYLE = re.compile(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\s\"')]+)", re.IGNORECASE)
# MathJax fetches the extensions that define these; only its core is kept under extra/.
_NOT_IN_CORE = re.compile(
    r"\\(boldsymbol|bbox|b?cancel|xcancel|colorbox|color|textcolor|enclose|href|bra|ket|unicode|verb)\b"
)


class _Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.problems = []
        self._inside = None

    def handle_starttag(self, tag, attrs):
        attrs = {key: value or "" for key, value in attrs}
        is_math = "math" in attrs.get("class", "").split()
        self._inside = tag if tag in ("script", "style") else "math" if is_math else None
        sources = [attrs[key] for key in _SOURCES if key in attrs]
        if tag == "link" and _FETCHED_LINKS & set(attrs.get("rel", "").lower().split()):
            sources.append(attrs.get("href", ""))
        self.problems += [f"<{tag}> fetches {s}" for s in sources if _EXTERNAL.match(s)]
        self.problems += [f"style fetches {u}" for u in _URL_IN_STYLE.findall(attrs.get("style", ""))]
        if tag == "img" and not _has_alt(attrs):
            self.problems.append(f"image {attrs.get('src', '')[:80]} has no alt text")

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "math":
            self.problems += [
                f"formula uses \\{name}, which MathJax's core lacks" for name in _NOT_IN_CORE.findall(data)
            ]
        pattern = {"script": _FILE_IN_SCRIPT, "style": _URL_IN_STYLE}.get(self._inside)
        if pattern:
            self.problems += [f"<{self._inside}> fetches {url}" for url in pattern.findall(data)]


def _has_alt(attrs):
    # docutils writes the image's address where no text was given; an empty text is right for an ornament.
    alt = attrs.get("alt")
    return alt is not None and (alt == "" or pathlib.PurePosixPath(alt).name != _file_name(attrs.get("src", "")))


def _file_name(address):
    return pathlib.PurePosixPath(address.split("?")[0]).name


def page_problems(text):
    """Problems of one HTML page, as sentences."""
    page = _Page()
    page.feed(text)
    page.close()
    return page.problems


def book_problems(html_dir):
    """Problems of every page and style sheet below `html_dir`, each as `path: sentence`."""
    problems = []
    for path in sorted(pathlib.Path(html_dir).rglob("*")):
        if path.suffix == ".html":
            found = page_problems(path.read_text(encoding="utf8"))
        elif path.suffix == ".css":
            found = [f"style fetches {u}" for u in _URL_IN_STYLE.findall(path.read_text(encoding="utf8"))]
        else:
            continue
        problems += [f"{path.relative_to(html_dir)}: {sentence}" for sentence in found]
    return problems
