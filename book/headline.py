"""Write the results of README.md and of the book's first page from what the pages have kept.

    python book/headline.py

`make book` calls it after the pages. It draws the figure as well. Everything between the two
`results` comments is replaced; no result in it is typed.
"""

import io
import json
import math
import pathlib
import re

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from rc_studies.studies import SIDE
from rc_utils import plotting
from rc_utils.correlation import interval_text
from rc_utils.paths import write_atomically
from rc_utils.published import (
    MAIN_NETWORKS,
    authors_results,
    authors_settings,
    kept_results,
    statements,
)
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import campaign_runs, load_runs

ROOT = pathlib.Path(__file__).resolve().parent.parent
CAMPAIGN = "cifar10-small"
COLUMNS, ROWS = 5, 3  # triangles of a wall
START = "<!-- results: written by `python book/headline.py`, not by hand -->"
END = "<!-- end of results -->"
LEAD = (
    "**Mostly. Over learning rates and batch sizes, fewer regions go with a smaller gap "
    "between training and test accuracy, except in narrow VGG19 at gaps near 0.3. Under other "
    "optimisers, accuracy on mixed images tells as much. With more training images, or "
    "flips at large learning rates, the count can mislead.**"
)
ALT = "Count and gap rise together; images and flips mislead."
DETAILS = (
    "Gap over count for the authors' runs and ours; R² of log count and its rivals; share of wrong "
    "pairs for each change of training."
)
CAPTION = (
    "*Top: three networks (full size: test pairs). Bottom: blue supports, orange "
    "refutes, grey neither or unjudged. Bars: 95\u00a0%.*"
)


def bullets(results):
    """Findings that hold, hold with a caveat and fail, as Markdown points with kept numbers."""
    text = {id_: interval_text(r.value, r.low, r.high) for id_, r in results.items()}
    alone = {id_: shown.split(" ")[0] for id_, shown in text.items()}  # without the interval
    theirs = authors_results()["value"]
    data, larger = (load_campaign(name).dataset for name in (CAMPAIGN, "gap-resnet18"))
    networks, size = ("ResNet18", "VGG19"), data["image_size"]
    twins = [alone[f"study/6/only chance differs, measured well, {name}: r"] for name in networks]
    scores = [id_ for id_ in results if re.match(r"study/2/R² of (mixup|\w+-score)", id_)]
    best = max(scores, key=lambda id_: results[id_].value)
    near = [f"study/7/at the paper's gap, {name}: r" for name in networks]
    images = results["study/4/number of images: share of wrong pairs"].value
    of_tests = "study/4/images, test pairs, learning rate {}: wrong"
    small, large = (100 * results[of_tests.format(lr)].value for lr in (0.003, 0.03))
    flip = "study/4/flip, learning rate {}: share of wrong seeds"
    slow, fast = (results[flip.format(lr)] for lr in (0.003, 0.03))
    full = [r for id_, r in results.items() if id_.startswith("study/full-size/")]
    ours, records = ([r for r in full if r.campaign == name] for name in ("full-size", "authors"))
    away = max(abs(a.value - b.value) for a, b in zip(ours, records, strict=True))
    away = math.ceil(100 * away) / 100
    # An interval stands where its value alone would mislead; the pages have all of them.
    return [
        f"**It holds over learning rates and batch sizes.** Count and gap of three narrow networks "
        f"correlate at {text['main/overall']}; the paper prints "
        f"{statements().loc['main/overall', 'value']}, its records "
        f"{theirs['main/overall']:.2f}. Doubling the learning rate changes the count by "
        f"{alone['bias/lr/overall']}.",
        f"**It carries over to other optimisers.** A line fitted on SGD predicts the gap under "
        f"Adam and Adagrad (ResNet18 also mixup, no momentum): R² "
        f"{alone['study/2/other ways to train: R²']} in log count, level with {alone[best]} in a "
        f"mixed-image score; {text['study/2/R² of count']} in count.",
        f"**Less so between seeds.** r is {twins[0]} (ResNet18), {twins[1]} (VGG19); "
        f"{alone['study/full-size: r over seeds, records']} over nine networks in the records.",
        f"**It fails when the data change.** More training images lower the gap, yet raise the "
        f"count between them in {100 * images:.0f}\u00a0% of pairs; between test images in "
        f"{small:.0f}\u00a0% (learning rate 0.003) or {large:.0f}\u00a0% (0.03). "
        f"Found by looking: flips mislead in {fast.value * fast.n:.0f} of {fast.n} seeds at 0.03, "
        f"{slow.value * slow.n:.0f} of {slow.n} at 0.003.",
        "**No theorem backs it.** Few regions on every line bound no gap: "
        "[a counterexample](notebooks/19_counterexample.ipynb).",
        f"**Scale matters.** The narrow networks saw {data['n_train']:,} images of {size} × "
        f"{size}. On {larger['n_train']:,} of {larger['image_size']} × {larger['image_size']}, "
        f"at gaps near 0.3, r is {alone[near[0]]} in ResNet18 but {text[near[1]]} in VGG19; "
        f"batch size / learning rate seems ahead. Over {len(ours)} full-size ResNet18 settings "
        f"our counts are within {away:.2f} of "
        "[the authors'](notebooks/17_papers_records.ipynb).",
    ]


def scatter(ax):
    """Plot gap against count for the authors' runs at full size and for ours."""
    theirs, setting = authors_settings("basic"), ["network", "lr", "batch_size"]
    theirs = theirs[theirs["network"].isin(MAIN_NETWORKS)]
    ours = campaign_runs(CAMPAIGN, "main").groupby(setting)[["count", "gap"]].mean()
    look = {"s": 22, "color": plotting.ORANGE, "label": "full size (their records)"}
    ax.scatter(theirs["count"], theirs["gap"], **look)
    again, look = load_runs("full-size"), {"s": 36, "marker": "D", "edgecolor": "black"}
    again = again[again["network"] == "ResNet18"]
    look |= {"color": plotting.BLUE, "label": "full size (ours, ResNet18)", "zorder": 3}
    ax.scatter(again["count_test"], again["gap"], **look)
    look = {"s": 22, "color": plotting.BLUE, "marker": "s", "label": "small (ours)"}
    ax.scatter(ours["count"], ours["gap"], **look)
    ax.set(xlabel="regions on a segment", ylabel="gap", ylim=(0, None))
    ax.set_title("Fewer regions, smaller gap")
    ax.legend(fontsize=10, loc="lower right")


def rivals(ax, results):
    """Plot R² over other ways to train, for the count and its rivals; only R² above 0."""
    start = "study/2/R² of "
    found = {id_.removeprefix(start): r for id_, r in results.items() if id_.startswith(start)}
    rising = sorted(found.items(), key=lambda item: item[1].value)
    found = {name: r for name, r in rising if r.value > 0}
    colours = [plotting.BLUE if name == "log count" else "0.4" for name in found]
    plotting.intervals(ax, found, color=colours)
    words = "R² above 0 under Adam,\nAdagrad (ResNet18 also\nmixup, no momentum)"
    ax.set(xlim=(-0.26, 1), xlabel=words, title="It predicts other training")


def changes(ax, results):
    """Plot the share of wrong pairs for each change of training."""
    found = {id_: r for id_, r in results.items() if id_.endswith(": share of wrong pairs")}
    short = {id_.split("/")[2].split(":")[0].replace(" minimisation", ""): id_ for id_ in found}

    def change(name):
        return name.removeprefix("number of ").split(",")[0]

    # A change that is judged in another way, too, is followed by that.
    changed = [change(name) for name in short]
    names = sorted(short, key=lambda name: changed.index(change(name)))
    short = {name: found[short[name]] for name in reversed(names)}
    sides = {"refutes": plotting.ORANGE, "supports": plotting.BLUE}
    plotting.intervals(ax, short, color=[sides.get(r.detail, "0.4") for r in short.values()])
    ax.axvline(0.5, color="0.3", linestyle="--", linewidth=1)
    words = "share of pairs where the larger\ncount has the smaller gap"
    ax.set(xlim=(-0.04, 1.04), xlabel=words, title="Where it holds and fails")


def walls():
    """Return an SVG of the triangles of two networks that differ in lr alone, and its caption."""
    path = ROOT / "campaigns" / "study-axes" / "triangles.json"
    drawn = json.loads(path.read_text(encoding="utf-8"))
    runs = campaign_runs("study-axes", "base").query("seed == 0").sort_values("lr")
    networks = [drawn["networks"][run_id] for run_id in runs["run_id"]]
    side, height, parts, words = SIDE, SIDE * 0.75**0.5, [], []
    for wall, (lr, network) in enumerate(zip(runs["lr"], networks, strict=True)):
        for place, triangle in enumerate(network["triangles"][: COLUMNS * ROWS]):
            row, column = divmod(place, COLUMNS)
            down = (row + column) % 2
            x, y = wall * 3.3 * side + column * side / 2, (row + down) * height
            parts.append(f'<g transform="translate({x:.0f} {y:.0f}) scale(1 {1 - down * 2})">')
            for label, path in triangle["paths"].items():
                parts.append(f'<path fill="{plotting.CLASS_COLOURS[int(label)]}" d="{path}"/>')
            parts.append("</g>")
        words.append(f"{np.mean(network['counts']):.2f} at {lr:g}")
    caption = (
        f"*The same {COLUMNS * ROWS} triangles, narrow ResNet18, two learning rates: regions "
        f"{words[0]} (left), {words[1]}, means of {len(network['counts'])}.*"
    )
    look = 'stroke="#111" stroke-width="2.5" stroke-linejoin="round" fill-rule="evenodd"'
    size = f"-4 -4 {6.3 * side + 8:.0f} {ROWS * height + 8:.0f}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="rc-walls" viewBox="{size}" role="img"'
    told = f'aria-label="{caption.strip("*")}"'
    return f"{head} {told}><g {look}>{''.join(parts)}</g></svg>\n", caption


def figure(results):
    """The figure of README and first page as SVG, with the same bytes for the same results."""
    matplotlib.use("Agg")
    plotting.use_style()
    parts = plt.figure(figsize=(4.6, 9.6)).subfigures(3, 1, height_ratios=(4, 5, 4.2))
    scatter(parts[0].subplots())
    rivals(parts[1].subplots(), results)
    changes(parts[2].subplots(), results)
    graphic = io.StringIO()
    plt.savefig(graphic, format="svg", metadata={"Date": None})
    plt.close()
    return graphic.getvalue()


def blocks(results):
    """Results for README.md and for book/intro.md, whose links are relative to book/."""
    points = "\n".join(f"- {point}" for point in bullets(results))
    readme = [LEAD, f"![{ALT}](book/_static/headline.svg)", CAPTION, points]
    intro = ["```{raw} html\n:file: _static/walls.svg\n```", walls()[1]]
    intro += [f"```{{image}} _static/headline.svg\n:alt: {ALT} {DETAILS}\n```", CAPTION]
    intro += [points.replace("](notebooks/", "](../notebooks/")]
    return "\n\n".join([START, *readme, END]), "\n\n".join([START, *intro, END])


def main():
    """Rewrite README.md, the first page and its figures, once every page has kept results."""
    results = {result.id: result for result in kept_results()}
    try:
        found = blocks(results)
    except KeyError as error:
        print(f"  README and first page stay as they are: no page has kept {error}")
        return
    lead = re.compile(r"^\*\*.+?\*\*$", re.DOTALL | re.MULTILINE)
    between = re.compile(f"{re.escape(START)}.*{re.escape(END)}", re.DOTALL)
    for path, block in zip((ROOT / "README.md", ROOT / "book" / "intro.md"), found, strict=True):
        text = path.read_text(encoding="utf-8")
        replaced = between.sub(lambda _, block=block: block, text)
        replaced = lead.sub(lambda _: LEAD, replaced, count=1)
        if replaced != text:
            write_atomically(path, replaced.encode())
    write_atomically(ROOT / "book" / "_static" / "walls.svg", walls()[0].encode())
    drawn = figure(results)
    path = ROOT / "book" / "_static" / "headline.svg"
    if not path.is_file() or not same_figure(drawn, path.read_text(encoding="utf-8")):
        write_atomically(path, drawn.encode())


def same_figure(one, other):
    """Whether two SVGs agree in text, colours and, to half a point, positions: machines differ."""
    texts = [re.findall(r">([^<>]+)</text>|(#[0-9a-f]{6})", svg) for svg in (one, other)]
    places = [" ".join(re.findall(r' (?:d|x|y)="([^"]*)"', svg)) for svg in (one, other)]
    paths = [re.findall(r"-?\d+(?:\.\d+)?", place) for place in places]
    if texts[0] != texts[1] or len(paths[0]) != len(paths[1]):
        return False
    return all(abs(float(a) - float(b)) < 0.5 for a, b in zip(*paths, strict=True))


if __name__ == "__main__":
    main()
