"""Write the results of the README and of the book's first page, and their figure, from the records of a campaign.

    python book/headline.py [CAMPAIGN]

The committed records are taken where the campaign has some, else those made on this machine.

Everything between the two `results` comments of README.md and book/intro.md is replaced; nothing in it is typed.
"""

import argparse
import io
import pathlib
import re

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from rc_utils.correlation import Estimate, average_replicates, interval_text, setting_names
from rc_utils.forests import accuracy_table, committed_forests, forest_runs, results_from_forests
from rc_utils.pages import plotting
from rc_utils.pages.augmentation import matched_settings
from rc_utils.pages.forest_plot import forest_plot
from rc_utils.pages.main_correlation import plain_runs
from rc_utils.pages.scorecard import results_from_campaign
from rc_utils.pages.statistics import league
from rc_utils.paper.verdict import VERDICTS, published, scorecard, verdict
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import find_records, load_runs

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "book" / "_static"
# What the headline's table shows: of the biases, those over all networks.
ROWS = r"main/|bias/.*/overall|motivation/|mixup/|crop-flip/|evolution/trend"
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
START, END = "<!-- results: written by `python book/headline.py`, not by hand -->", "<!-- end of results -->"


def origin_of(campaign):
    """Which records are taken: the committed ones if there are any."""
    return "reference" if (campaign.folder / "runs.jsonl").exists() else "live"


def all_runs(campaign):
    """The runs of all experiments."""
    return load_runs(campaign, origin=origin_of(campaign))


def results_card(campaign):
    """The scorecard's rows with a verdict on a result of the campaign, without those that repeat another."""
    card = scorecard(results_from_campaign(campaign.name, origin=origin_of(campaign)))
    return card[card["counted"]]


def markdown(header, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def text_of(estimate):
    """An `Estimate` as the tables show it."""
    return interval_text(estimate.value, estimate.low, estimate.high)


def table(card):
    """Markdown rows: statement, published, ours with its interval, settings, verdict."""
    header = ["statement", "published", "ours", "ours less published", "settings", "verdict"]
    rows = [
        [f"{row.claim} ({row.where})", row.published, row.ours, row.difference, str(row.n), row.verdict]
        for row in card[card["id"].str.match(ROWS)].itertuples()
    ]
    return markdown(header, rows)


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
    records = find_records(main["run_id"].unique(), campaign.folder / "runs.jsonl", origin_of(campaign))
    machines = sorted({record["provenance"]["hardware"] for record, _ in records.values()})
    rows = average_replicates(main)
    return (
        f"Campaign `{campaign.name}` ({campaign.title}): {rows['setting'].nunique()} settings of learning rate and "
        f"batch size, {len(rows)} with {rows['network'].nunique()} networks. Each is the mean of "
        f"{rows['num_runs'].min()} to {rows['num_runs'].max()} runs that differ in weight decay, which does nothing "
        f"here, and in the seed; {int(main['interpolates'].sum())} of {len(main)} runs interpolate. Of the "
        f"{len(campaign.runs())} runs that the campaign plans, {runs['run_id'].nunique()} were made. The setting is "
        "smaller than the paper's, and a verdict compares numbers, not settings. Computed on "
        f"{', '.join(machines)}. {campaign.note}"
    ).strip()


def predictors(runs, campaign):
    """Markdown: count, log count and batch size over learning rate beside each other, network by network."""
    main = league.settings_of(runs[runs["experiment"] == "main"])
    every = league.settings_of(plain_runs(runs, campaign))
    three, nine = league.networks_table(main), league.networks_table(every)
    together = ("all together", "all, within network")
    rows = [_predictor_row(r["network"], r) for r in nine.to_dict("records") if r["network"] not in together]
    for found, words in ((three, "the paper's three"), (nine, "all of these")):
        by_name = {r["network"]: r for r in found.to_dict("records")}
        rows.append(_predictor_row(f"{words} together", by_name["all together"]))
        rows.append(_predictor_row(f"{words}, within network", by_name["all, within network"]))
    return markdown(["networks", "networks x settings", "count", "log count", "batch size / learning rate"], rows)


def _predictor_row(words, found):
    """Texts of a row of `networks_table`."""
    return [words, str(found["rows"]), *(text_of(found[name]) for name in ("count", "log_count", "ratio"))]


def against_the_settings(runs, campaign):
    """The networks for which batch size over learning rate goes with a smaller gap, and their count."""
    found = league.networks_table(league.settings_of(plain_runs(runs, campaign))).to_dict("records")
    odd = [r for r in found if r["ratio"].value < 0]
    texts = [
        f"{r['network']}, where batch size over learning rate goes the other way ({text_of(r['ratio'])}), the count "
        f"still has {text_of(r['count'])}"
        for r in odd
    ]
    return f"For {'; for '.join(texts)}." if texts else "No network has a correlation of the other sign."


def at_one_setting(runs):
    """What is left of the correlation where only the seed differs, and what smooth functions of the settings leave."""
    main = runs[runs["experiment"] == "main"]
    found, number = league.seeds_alone(main)
    held = league.held_fixed(main)
    held = held[(held["runs"] == "all") & held["fixed"].str.startswith("a ")]
    return (
        f"At one setting of one network, between the means of its seeds, count and gap correlate at {text_of(found)} "
        f"({number} means): there no function of the settings can help. What is left beyond a smooth function of the "
        f"settings depends on the function: {held['value'].min():.2f} to {held['value'].max():.2f} for the "
        f"{len(held)} that were tried."
    )


def logarithm(runs):
    """Count and log count over every setting that interpolates, whatever the optimiser or augmentation."""
    rows = league.every_setting(runs)
    found = league.networks_table(rows).set_index("network")
    within, together = found.loc["all, within network"], found.loc["all together"]
    return (
        f"Over all {len(rows)} networks and settings that interpolate, with other optimisers and augmentations, the "
        f"logarithm of the count does better than the count: {text_of(within['log_count'])} against "
        f"{text_of(within['count'])} within networks, {text_of(together['log_count'])} against "
        f"{text_of(together['count'])} together."
    )


def augmented(runs):
    """The differences of the count under crop and flip, one a setting."""
    without, with_ = matched_settings(runs, "crop-flip")
    differences = sorted(with_["count"] - without["count"])
    accuracy = with_["train_accuracy"]
    return (
        f"Random crop and flip change the count of the {len(differences)} settings by "
        f"{', '.join(f'{d:+.2f}' for d in differences)}. These networks do not fit their images: their training "
        f"accuracy is {accuracy.min():.2f} to {accuracy.max():.2f}, so their gap and count say little of "
        "generalisation."
    )


def forests():
    """Markdown: the count of trees and forests against the gap and against test accuracy."""
    rows = []
    for kind in accuracy_table(forest_runs(committed_forests()[0])).to_dict("records"):
        for words, ending in (("all", ""), ("those that interpolate", "_fitted")):
            found = [text_of(kind[f"{column}{ending}"]) for column in ("gap", "test_accuracy")]
            rows.append([f"{kind['kind']}, {words}", str(kind[f"n{ending}"]), *found])
    return markdown(["models", "number", "count and gap", "count and test accuracy"], rows)


def made(runs):
    """Markdown: how many settings each network has with each optimiser, without augmentation."""
    plain = runs[runs["experiment"].isin(["main", "architectures", "adam", "adagrad"])]
    plain = plain.assign(setting=setting_names(plain))
    counts = plain.groupby(["network", "optimizer"], sort=False)["setting"].nunique().unstack(fill_value=0)
    rows = [[str(network), *map(str, numbers)] for network, numbers in counts.iterrows()]
    return markdown(["settings made", *map(str, counts.columns)], rows)


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
        "correlation with the generalisation gap",
        (-1.02, 1.02),
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
        forest_plot(forest_rows(groups, results), xlabel=xlabel, limits=limits)
        graphic = io.StringIO()
        plt.savefig(graphic, format="svg", metadata={"Date": None})
        plt.close()
        # The first page has them inline, so that their labels are links.
        opened = f'<svg role="group" aria-label="{words}" style="max-width: 100%; height: auto" '
        text = opened + graphic.getvalue().partition("<svg ")[2]
        (FOLDER / f"{name}.svg").write_text(text, encoding="utf-8")


def bullets(runs, campaign, card, protocol):
    """What held, as five points in Markdown: the sentences are written, their numbers filled in."""
    ours = card.set_index("id")["ours"]
    main = league.networks_table(league.settings_of(runs[runs["experiment"] == "main"])).set_index("network")
    every = league.networks_table(league.settings_of(plain_runs(runs, campaign))).set_index("network")
    within = main.loc["all, within network"]
    tree = accuracy_table(forest_runs(committed_forests()[0])).set_index("kind")
    undecided = int((card["verdict"] == "inconclusive").sum())
    printed = published("main/overall").shown()
    points = [
        f"**What holds.** Over nine settings of learning rate and batch size, count and gap of the paper's three "
        f"networks correlate at {ours['main/overall']}; the paper has {printed}. A doubled learning rate changes the "
        f"count by {ours['bias/lr/overall']}, mixup by {ours['mixup/count']}.",
        f"**What holds with a caveat.** Batch size over learning rate, which needs no network, does as well as the "
        f"count: {text_of(within['ratio'])} against {text_of(within['count'])} within networks. "
        f"{against_the_settings(runs, campaign)} {at_one_setting(runs)} {logarithm(runs)}",
        f"**What does not hold.** All nine networks together correlate at "
        f"{text_of(every.loc['all together', 'count'])}. "
        f"The output margin, said to say little, correlates at {ours['motivation/margin']}. For random forests more "
        f"regions go with a *higher* test accuracy ({text_of(tree.loc['RandomForest', 'test_accuracy'])}). "
        f"{augmented(runs)}",
        f"**What is open.** Of {len(card)} statements that these records can test, {undecided} are inconclusive. Five "
        f"studies give the count a chance to fail: at one setting, under treatments that move it, beside rivals. Their "
        f"[protocol]({protocol}) was written before their runs.",
        f"**At what scale.** {sentence(runs, campaign)}",
    ]
    return "\n".join(f"- {point}" for point in points)


def rewrite(path, blocks):
    """Replace what stands between the two comments of a file."""
    block = "\n\n".join([START, *blocks, END])
    text = path.read_text(encoding="utf-8")
    replaced = re.sub(f"{re.escape(START)}.*{re.escape(END)}", lambda _: block, text, flags=re.S)
    path.write_text(replaced, encoding="utf-8")


def drawer(title, *blocks):
    """A drawer of the book around blocks of Markdown."""
    return "\n\n".join([f":::{{dropdown}} {title}", *blocks, ":::"])


def readme(runs, campaign, card):
    """The blocks of the README."""
    pictures = [f"![{words}](book/_static/{name}.svg)" for name, (*_, words) in FIGURES.items()]
    title = "Correlation with the generalisation gap, over settings, with 95 % intervals:"
    points = bullets(runs, campaign, card, "book/protocol.md")
    folded = {
        "Trees and forests, against test accuracy too": forests(),
        "Settings that were made, by network and optimiser": made(runs),
        "How the grid was chosen": campaign.choice.strip(),
    }
    details = [f"<details><summary>{words}</summary>\n\n{text}\n\n</details>" for words, text in folded.items()]
    return [pictures[0], points, pictures[1], title, predictors(runs, campaign), *details]


def first_page(runs, campaign, card):
    """The blocks of the book's first page."""
    inline = [f"```{{raw}} html\n:file: _static/{name}.svg\n```" for name in FIGURES]
    return [
        bullets(runs, campaign, card, "protocol.md"),
        *inline,
        "*Open diamond: the paper. Dot: ours, with its 95 % interval and the number of settings, coloured by the "
        "verdict. Shaded: what the statement claims. Each row leads to its page.*",
        drawer("Correlation with the gap, network by network", predictors(runs, campaign)),
        drawer("Trees and forests, against test accuracy too", forests()),
        drawer("Verdicts by subject", summary(card)),
        drawer("The main statements of the paper, and the verdict on each", table(card)),
        drawer("Settings that were made, by network and optimiser", made(runs)),
        drawer("How the grid was chosen", campaign.choice.strip()),
    ]


def main():
    """Rewrite README.md, the first page and the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("campaign", nargs="?", default="cifar10-small")
    campaign = load_campaign(parser.parse_args().campaign)
    runs, card = all_runs(campaign), results_card(campaign)
    results = results_from_campaign(campaign.name, origin=origin_of(campaign))
    figures(results + results_from_forests(forest_runs(committed_forests()[0])))
    rewrite(ROOT / "README.md", readme(runs, campaign, card))
    rewrite(ROOT / "book" / "intro.md", first_page(runs, campaign, card))


if __name__ == "__main__":
    main()
