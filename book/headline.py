"""Write the results of the README and of the book's first page, and their figure, from the records of a campaign.

    python book/headline.py

Everything between the two `results` comments of README.md and book/intro.md is replaced; nothing in it is typed.
"""

import io
import pathlib
import re

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from study_results import study_rows, study_table, text_of

from rc_studies import statistics
from rc_utils import plotting
from rc_utils.correlation import Estimate
from rc_utils.forests import accuracy_table, committed_forests, forest_runs, results_from_forests
from rc_utils.pages.main_correlation import plain_runs
from rc_utils.pages.scorecard import results_from_campaign
from rc_utils.plotting import forest_plot
from rc_utils.published import VERDICTS, published, scorecard, verdict
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import find_records, load_runs

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "book" / "_static"
CAMPAIGN = "cifar10-small"
# The words of the first page for an experiment of the paper, and the page that has it.
SUBJECTS = {
    "main": ("count and gap", "03_main_correlation"),
    "bias": ("learning rate and batch size", "04_lr_batch_bias"),
    "motivation": ("measures of the weights", "01_motivation"),
    "evolution": ("during training", "07_training_evolution"),
    "architectures": ("networks, datasets, dimensions", "05_ablations"),
    "optimizers": ("optimisers", "05_ablations"),
    "hyperplanes": ("where segments lie", "05_ablations"),
    "range": ("how far segments reach", "05_ablations"),
    "grid size": ("how fine the grid", "11_beyond_the_grid"),
    "sample size": ("how many segments", "11_beyond_the_grid"),
    "test accuracy": ("test accuracy of the other networks", "14_scorecard"),
    "mixup": ("mixup", "06_augmentation"),
    "crop-flip": ("crop and flip", "06_augmentation"),
}
READING = (
    "*Open diamond: the paper. Dot: ours, with its 95 % interval, coloured by the verdict. n: how many settings it "
    "rests on; in the studies runs, networks, seeds, or settings with a seed. Shaded: what the statement claims, or "
    "what support needs of the value; studies 2 and 5 also need a lead over rivals. In the book each row leads to its "
    "page.*"
)
START, END = "<!-- results: written by `python book/headline.py`, not by hand -->", "<!-- end of results -->"


def committed():
    """The runs of the campaign and our results from them: committed records alone."""
    return load_runs(CAMPAIGN, origin="reference"), results_from_campaign(CAMPAIGN, origin="reference")


def results_card(results):
    """The scorecard's rows with a verdict on one of our results, without those that repeat another."""
    card = scorecard(results)
    return card[card["counted"]]


def markdown(header, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def summary(card):
    """Markdown rows: each experiment of the paper, and how many of its statements got which verdict."""
    experiments = card["id"].map(lambda id_: published(id_).experiment)
    counts = card.groupby([experiments, "verdict"]).size().unstack(fill_value=0)
    columns = [verdict for verdict in VERDICTS if verdict in counts]
    rows = []
    for name in sorted(counts.index, key=list(SUBJECTS).index):
        words, page = SUBJECTS[name]
        rows.append([f"[{words}](notebooks/{page})", *(str(counts.loc[name, c] or "") for c in columns)])
    return markdown(["", *columns], rows)


def sentence(runs, campaign):
    """What the results rest on and where they were made."""
    main = runs[runs["experiment"] == "main"]
    records = find_records(main["run_id"].unique(), campaign.folder / "runs.jsonl", "reference")
    machines = sorted({record["provenance"]["hardware"] for record, _ in records.values()})
    return (
        f"{campaign.title}. {runs['run_id'].nunique()} of {len(campaign.runs())} planned runs were made. The main "
        f"experiment has {len(main)} runs of the paper's three networks, of which {int(main['interpolates'].sum())} "
        f"fit their training images. They have {spread(main['num_parameters'] / 1e6)} million parameters, test "
        f"accuracies of {spread(main['test_accuracy'])} and gaps of {spread(main['gap'])}. A verdict compares numbers, "
        f"not settings. Computed on {', '.join(machines)}. {campaign.note}"
    ).strip()


def spread(values):
    """The least and the greatest of some values, in words."""
    return f"{values.min():.2f} to {values.max():.2f}"


def predictors(runs, campaign):
    """Markdown: count, log count and batch size over learning rate beside each other, network by network."""
    main = statistics.settings_of(runs[runs["experiment"] == "main"])
    plain = statistics.settings_of(plain_runs(runs, campaign))
    three, nine, every = (statistics.networks_table(table) for table in (main, plain, statistics.every_setting(runs)))
    together = ("all together", "all, within network")
    rows = [_predictor_row(r["network"], r) for r in nine.to_dict("records") if r["network"] not in together]
    for found, words in (
        (three, "the paper's three"),
        (nine, "all of these"),
        (every, "all networks and ways to train"),
    ):
        by_name = {r["network"]: r for r in found.to_dict("records")}
        rows.append(_predictor_row(f"{words} together", by_name["all together"]))
        rows.append(_predictor_row(f"{words}, within network", by_name["all, within network"]))
    return markdown(["networks", "networks x settings", "count", "log count", "batch size / learning rate"], rows)


def _predictor_row(words, found):
    """Texts of a row of `networks_table`."""
    return [words, str(found["rows"]), *(text_of(found[name]) for name in ("count", "log_count", "ratio"))]


def at_one_setting(runs):
    """The correlation where only the seed differs."""
    found, number = statistics.seeds_alone(runs[runs["experiment"] == "main"])
    return f"{text_of(found)} over {number} means in the first records, each of a network, setting and seed"


def augmented(runs):
    """What crop and flip do to the count, and why that says little."""
    without, with_ = statistics.matched_settings(runs, "crop-flip")
    more = int((with_["count"] > without["count"]).sum())
    accuracy = with_["train_accuracy"]
    return (
        f"Random crop and flip raise the count at {more} of {len(with_)} settings; with them the networks do not fit "
        f"their images (training accuracy {accuracy.min():.2f} to {accuracy.max():.2f})."
    )


def forests():
    """Markdown: the count of trees and forests against the gap and against test accuracy."""
    rows = []
    for kind in accuracy_table(forest_runs(committed_forests()[0])).to_dict("records"):
        for words, ending in (("all", ""), ("those that interpolate", "_fitted")):
            found = [text_of(kind[f"{column}{ending}"]) for column in ("gap", "test_accuracy")]
            rows.append([f"{kind['kind']}, {words}", str(kind[f"n{ending}"]), *found])
    return markdown(["models", "number", "count and gap", "count and test accuracy"], rows)


# The rows of the two forest plots: heading, and the statements below it by their ids and short names.
CORRELATIONS = {
    "Fewer regions, smaller gap": {
        "main/overall": "three networks together",
        "main/ResNet18": "ResNet18",
        "main/SENet18": "SENet18",
        "main/EfficientNetB0": "EfficientNetB0",
        "architectures/ResNet34/CIFAR-10": "ResNet34",
        "architectures/VGG19/CIFAR-10": "VGG19",
        "architectures/MobileNetV2/CIFAR-10": "MobileNetV2",
        "architectures/ShuffleNetV2/CIFAR-10": "ShuffleNetV2",
        "architectures/RegNetX_200MF/CIFAR-10": "RegNetX_200MF",
        "architectures/SimpleDLA/CIFAR-10": "SimpleDLA",
    },
    "With other training": {
        "mixup/correlation": "mixup",
        "crop-flip/correlation": "crop and flip",
        "optimizers/ResNet18/Adam": "Adam, ResNet18",
        "optimizers/ResNet18/Adagrad": "Adagrad, ResNet18",
    },
    "Without networks": {
        "trees/decision-tree": "decision trees",
        "trees/random-forest": "random forests",
    },
    "Measures of the weights, said to be low": {
        "motivation/distance": "distance from initialisation",
        "motivation/margin": "output margin",
    },
}
CHANGES = {
    "Claimed to lower the count": {
        "bias/lr/overall": "doubled learning rate",
        "mixup/count": "mixup",
        "crop-flip/count": "crop and flip",
    },
    "Claimed to raise it": {"bias/batch-size/overall": "doubled batch"},
}
# Name of a figure: its statements, the label of its axis, its limits, what a reader who does not see it is told.
FIGURES = {
    "headline": (
        CORRELATIONS,
        "correlation with the gap, or what the heading says",
        (-1.06, 1.06),
        "Forest plot of correlations with the generalisation gap: the paper's value, ours with its interval, a verdict",
    ),
    "changes": (
        CHANGES,
        "change of the mean number of regions on a segment",
        None,
        "Forest plot of changes of the region count under learning rate, batch size, mixup, crop and flip",
    ),
}


def forest_rows(groups, results):
    """The rows of a forest plot (see `forest_plot`) for those statements of `groups` that have a result."""
    found = {result.id: result for result in results}
    rows = []
    for group, statements in groups.items():
        for id_, label in statements.items():
            if id_ not in found:
                continue
            entry, result = published(id_), found[id_]
            row = {"group": group, "label": label}
            row["estimate"] = Estimate(result.value, result.low, result.high, result.n)
            row["verdict"] = verdict(entry, result.value, result.low, result.high).label
            row["published"] = np.nan if entry.value is None else entry.value
            row["claimed"] = entry.claimed()
            row["url"] = f"notebooks/{entry.page}.html"
            rows.append(row)
    return pd.DataFrame(rows)


def figures(results):
    """The forest plots, as vector graphics with the same bytes for the same results."""
    matplotlib.use("Agg")
    plotting.use_style()
    for name, (groups, xlabel, limits, words) in FIGURES.items():
        rows = forest_rows(groups, results)
        if name == "headline":
            rows = pd.concat([study_rows(), rows], ignore_index=True)
        forest_plot(rows, xlabel=xlabel, limits=limits)
        graphic = io.StringIO()
        plt.savefig(graphic, format="svg", metadata={"Date": None})
        plt.close()
        # The first page has them inline, so that their labels are links.
        opened = f'<svg role="group" aria-label="{words}" style="max-width: 100%; height: auto" '
        text = opened + graphic.getvalue().partition("<svg ")[2]
        (FOLDER / f"{name}.svg").write_text(text, encoding="utf-8")


def bullets(runs, campaign, card):
    """What held, as points in Markdown for the first page: the sentences are written, their numbers filled in."""
    ours, verdicts = card.set_index("id")["ours"], card.set_index("id")["verdict"]
    main = statistics.networks_table(statistics.settings_of(runs[runs["experiment"] == "main"])).set_index("network")
    every = statistics.networks_table(statistics.settings_of(plain_runs(runs, campaign))).set_index("network")
    within = main.loc["all, within network"]
    tree = accuracy_table(forest_runs(committed_forests()[0])).set_index("kind")
    undecided = int((card["verdict"] == "inconclusive").sum())
    points = [
        f"**What holds.** Over nine settings of learning rate and batch size, count and gap of the paper's three "
        f"networks correlate at {ours['main/overall']}; the paper has {published('main/overall').shown()}. A doubled "
        f"learning rate changes the count by {ours['bias/lr/overall']}, mixup by {ours['mixup/count']}.",
        f"**What holds with a caveat.** Batch size over learning rate, which needs no network, is level with the "
        f"count within networks: {text_of(within['ratio'])} against {text_of(within['count'])}. Where only the seed "
        f"differs this quotient can say nothing; there the count has {at_one_setting(runs)}; in "
        f"study 1 it has less. A doubled batch size changes the count by {ours['bias/batch-size/overall']} "
        f"(*{verdicts['bias/batch-size/overall']}*). "
        f"All nine networks together correlate at {text_of(every.loc['all together', 'count'])}.",
        f"**What does not hold.** The output margin, said to say little, correlates at {ours['motivation/margin']} "
        f"for ResNet18. The count of random forests follows their gap ({text_of(tree.loc['RandomForest', 'gap'])}) and "
        f"rises with their test accuracy too ({text_of(tree.loc['RandomForest', 'test_accuracy'])}): it does not mark "
        f"the better forest. "
        f"{augmented(runs)}",
        f"**What is open.** Of {len(card)} statements that these records can test, {undecided} are inconclusive.",
        f"**At what scale.** {sentence(runs, campaign)}",
    ]
    return "\n".join(f"- {point}" for point in points)


def put_to_the_test():
    """The blocks that come first: what the five studies are, what the words mean, the table of what was found."""
    words = (
        "**Put to the test.** The claim: fewer regions, smaller gap (training minus test accuracy). Each of five "
        "studies could refute it, by a [protocol](protocol.md) that was written before their runs. One supports it, "
        "three are inconclusive, and one splits by what is changed: more training images give more regions and a "
        "smaller gap. The count and scores of mixed images are not told apart. "
        "[The count under test](notebooks/18_under_test) has all of it."
    )
    terms = (
        "*Log count*: natural logarithm of the mean number of regions on segments between training images. *Rival*: "
        "another measure of the same network, compared without its sign. *Gi-score, Pal-score, mixup accuracy*: how "
        "often mixtures of two images get the label of the nearer one, summed up in three ways. *To fit*: a training "
        "accuracy of at least 0.99."
    )
    return [words, terms, markdown(["study", "result, and what support needs", "decision"], study_table())]


def rewrite(path, blocks):
    """Replace what stands between the two comments of a file."""
    block = "\n\n".join([START, *blocks, END])
    text = path.read_text(encoding="utf-8")
    replaced = re.sub(f"{re.escape(START)}.*{re.escape(END)}", lambda _: block, text, flags=re.S)
    path.write_text(replaced, encoding="utf-8")


def readme(tested, points, networks):
    """The blocks of the README, from `put_to_the_test`, `bullets` and `predictors`."""
    pictures = [f"![{words}](book/_static/{name}.svg)" for name, (*_, words) in FIGURES.items()]
    title = "Correlation with the generalisation gap, over settings, with 95 % intervals:"
    words = tested[0].replace("](protocol.md)", "](book/protocol.md)").replace("18_under_test)", "18_under_test.ipynb)")
    return [words, pictures[0], READING, *tested[1:], points, pictures[1], title, networks]


def first_page(tested, points, networks, campaign, card):
    """The blocks of the book's first page, from `put_to_the_test`, `bullets` and `predictors`."""
    inline = [f"```{{raw}} html\n:file: _static/{name}.svg\n```" for name in FIGURES]
    tabs = {
        "By network": networks,
        "Trees and forests": forests(),
        "Verdicts by subject": summary(card),
        "How the grid was chosen": campaign.choice.strip(),
    }
    items = [f"::::{{tab-item}} {title}\n\n{text}\n\n::::" for title, text in tabs.items()]
    return [
        tested[0],
        inline[0],
        READING,
        *tested[1:],
        points,
        inline[1],
        "\n\n".join(["::::::{dropdown} The numbers", ":::::{tab-set}", *items, ":::::", "::::::"]),
    ]


def main():
    """Rewrite README.md, the first page and the figures."""
    campaign = load_campaign(CAMPAIGN)
    runs, results = committed()
    card = results_card(results)
    figures(results + results_from_forests(forest_runs(committed_forests()[0])))
    tested, points, networks = put_to_the_test(), bullets(runs, campaign, card), predictors(runs, campaign)
    rewrite(ROOT / "README.md", readme(tested, points, networks))
    rewrite(ROOT / "book" / "intro.md", first_page(tested, points, networks, campaign, card))


if __name__ == "__main__":
    main()
