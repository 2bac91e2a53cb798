"""Write the results of README.md and of the book's first page, and their figure, from what the pages have kept.

    python book/headline.py

`make book` calls it after the pages. Everything between the two `results` comments is replaced; no number
of it is typed.
"""

import io
import pathlib
import re
import tomllib

import matplotlib
import matplotlib.pyplot as plt

from rc_utils import plotting
from rc_utils.correlation import interval_text
from rc_utils.paths import write_atomically
from rc_utils.published import MAIN_NETWORKS, authors_results, authors_settings, kept_results, published
from rc_utils.sweep.records import campaign_runs

ROOT = pathlib.Path(__file__).resolve().parent.parent
CAMPAIGN = "cifar10-small"
START, END = "<!-- results: written by `python book/headline.py`, not by hand -->", "<!-- end of results -->"
LEAD = (
    "**Across training settings, networks with fewer regions do have the smaller gap between training and test "
    "accuracy. Scores of mixed images tell it as well; between twins that differ by chance alone the count says "
    "little; with more training images, or with flips at a large learning rate, it points the wrong way.**"
)
ALT = (
    "Three panels. Count and gap of the authors' full-size networks and of ours rise together. A line fitted on SGD "
    "predicts other ways to train by the region count and by scores of mixed images alike. The larger count has the "
    "smaller gap in nearly all pairs that differ in the number of images, in half of those with flips, in few others."
)
CAPTION = (
    "*Above: count and gap, one dot a network and setting. Left: how well a line fitted on SGD predicts other ways to "
    "train. Right: pairs of networks in which the larger count has the smaller gap, by what differs between them.*"
)


def bullets(results):
    """What holds, holds with a caveat and fails, as Markdown points whose numbers come from kept results."""
    text = {id_: interval_text(r.value, r.low, r.high) for id_, r in results.items()}
    theirs = authors_results()["text"]
    data = tomllib.loads((ROOT / "campaigns" / CAMPAIGN / "campaign.toml").read_text(encoding="utf-8"))["dataset"]
    twins = [text[f"study/1/only chance differs, {network}: r"] for network in ("ResNet18", "VGG19")]
    images, flips = (results[f"study/4/{axis}: share of wrong pairs"].value for axis in ("number of images", "flip"))
    size = data["image_size"]
    return [
        f"**Holds.** Over settings of learning rate and batch size, count and gap of three networks correlate at "
        f"{text['main/overall']}; the paper prints {published('main/overall').shown()}, its records give "
        f"{theirs['main/overall']}. A doubled learning rate changes the count by {text['bias/lr/overall']} regions, "
        f"mixup by {text['mixup/count']}.",
        f"**Holds with a caveat.** A line fitted on SGD predicts other ways to train with "
        f"R² = {text['study/2/other ways to train: R²']}, and from mixup accuracy with "
        f"{text['study/2/R² of mixup accuracy']}. Where only chance differs, r is {twins[0]} and {twins[1]}.",
        f"**Fails.** With more training images there are more regions and the gap is smaller, in {100 * images:.0f} % "
        f"of pairs; with flips the count is wrong in {100 * flips:.0f} %. The output margin, said to say little, "
        f"correlates at {text['motivation/margin']}.",
        "**The theorem that is false.** Few regions do not bound the gap (Theorem 5 of version 1): "
        "[a counterexample](notebooks/19_counterexample.ipynb).",
        f"**At what scale.** Ours: narrow networks on {data['n_train']:,} CIFAR-10 images of {size} x {size} pixels, "
        "on two processor cores. The paper's: full width and 50,000 images; "
        "[its own records](notebooks/17_papers_records.ipynb) say which printed numbers follow.",
    ]


def scatter(ax):
    """Count and gap: the authors' runs at full size, and ours."""
    theirs = authors_settings("basic")
    ours = campaign_runs(CAMPAIGN, "main").groupby(["network", "lr", "batch_size"])[["count", "gap"]].mean()
    theirs = theirs[theirs["network"].isin(MAIN_NETWORKS)]
    ax.scatter(theirs["count"], theirs["gap"], s=22, color=plotting.ORANGE, label="full size (their records)")
    ax.scatter(ours["count"], ours["gap"], s=22, color=plotting.BLUE, marker="s", label="small (ours)")
    ax.set(xlabel="regions on a segment", ylabel="gap", ylim=(0, None), title="Fewer regions, smaller gap")
    ax.legend(fontsize=9, loc="lower right")


def rivals(ax, results):
    """R² over other ways to train, of the count and of those rivals that predict anything."""
    found = {id_.removeprefix("study/2/R² of "): r for id_, r in results.items() if id_.startswith("study/2/R² of ")}
    found = dict(sorted(found.items(), key=lambda item: item[1].value))
    for row, (name, r) in enumerate((name, r) for name, r in found.items() if r.value > 0):
        colour = plotting.BLUE if name == "log count" else "0.5"
        ax.plot([r.low, r.high], [row, row], color=colour)
        ax.plot(r.value, row, "o", color=colour)
        ax.annotate(
            name, (-0.03, row), xycoords=("axes fraction", "data"), ha="right", va="center", fontsize=9, color=colour
        )
    ax.set(yticks=[], xlim=(-0.2, 1), xlabel="R²", title="Rivals do as well")


def name_row(ax, row, name, colour):
    """Write the name of a row beside the axes, in its colour."""
    place = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "center"}
    ax.annotate(name, (-0.03, row), fontsize=9, color=colour, **place)


def changes(ax, results):
    """The share of wrong pairs by what is changed."""
    ending = ": share of wrong pairs"
    found = [(id_.split("/")[2].removesuffix(ending), r) for id_, r in results.items() if id_.endswith(ending)]
    for row, (axis, r) in enumerate(reversed(found)):
        colour = plotting.ORANGE if r.low > 0.5 else plotting.BLUE if r.high < 0.5 else "0.5"
        ax.plot([100 * r.low, 100 * r.high], [row, row], color=colour)
        ax.plot(100 * r.value, row, "o", color=colour)
        axis = axis.replace("sharpness-aware minimisation", "sharpness-aware")
        ax.annotate(
            axis, (-0.03, row), xycoords=("axes fraction", "data"), ha="right", va="center", fontsize=9, color=colour
        )
    ax.axvline(50, color="0.3", linestyle="--", linewidth=1)
    ax.set(yticks=[], xlim=(-4, 104), xlabel="wrong pairs, %", title="Where it fails")


def figure(results):
    """The figure of README and first page as SVG, with the same bytes for the same results."""
    matplotlib.use("Agg")
    plotting.use_style()
    _, axes = plt.subplot_mosaic([["scatter", "scatter"], ["rivals", "changes"]], figsize=(6.6, 6.4))
    scatter(axes["scatter"])
    rivals(axes["rivals"], results)
    changes(axes["changes"], results)
    graphic = io.StringIO()
    plt.savefig(graphic, format="svg", metadata={"Date": None})
    plt.close()
    return graphic.getvalue()


def blocks(results):
    """What stands between the comments: of README.md, and of book/intro.md, whose links start in book/."""
    points = "\n".join(f"- {point}" for point in bullets(results))
    readme = [LEAD, f"![{ALT}](book/_static/headline.svg)", CAPTION, points]
    intro = [f"```{{image}} _static/headline.svg\n:alt: {ALT}\n```", CAPTION, points.replace(".ipynb)", ")")]
    return "\n\n".join([START, *readme, END]), "\n\n".join([START, *intro, END])


def main():
    """Rewrite README.md, the first page and the figure; nothing where a page has no results yet."""
    results = {result.id: result for result in kept_results()}
    try:
        found = blocks(results)
    except KeyError as error:
        print(f"  README and first page stay as they are: no page has kept {error}")
        return
    for path, block in zip((ROOT / "README.md", ROOT / "book" / "intro.md"), found, strict=True):
        text = path.read_text(encoding="utf-8")
        replaced = re.sub(f"{re.escape(START)}.*{re.escape(END)}", lambda _, block=block: block, text, flags=re.S)
        if replaced != text:
            write_atomically(path, replaced.encode())
    drawn = figure(results)
    path = ROOT / "book" / "_static" / "headline.svg"
    if not path.is_file() or not same_figure(drawn, path.read_text(encoding="utf-8")):
        write_atomically(path, drawn.encode())


def same_figure(one, other):
    """Whether two SVGs have the same texts and, to half a point, places: machines differ in the last digits."""
    texts = [re.findall(r">([^<>]+)</text>", svg) for svg in (one, other)]
    paths = [re.findall(r"-?\d+\.\d+", " ".join(re.findall(r' (?:d|x|y)="([^"]*)"', svg))) for svg in (one, other)]
    if texts[0] != texts[1] or len(paths[0]) != len(paths[1]):
        return False
    return all(abs(float(a) - float(b)) < 0.5 for a, b in zip(*paths, strict=True))


if __name__ == "__main__":
    main()
