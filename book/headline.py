"""Write the results of the README and of the book's first page, and their figure, from the records of a campaign.

    python book/headline.py [CAMPAIGN]

The committed records are taken where the campaign has some, else those made on this machine.

Everything between the two `results` comments of README.md and book/intro.md is replaced; nothing in it is typed.
"""

import argparse
import pathlib
import re

import matplotlib
import matplotlib.pyplot as plt

from rc_utils.correlation import average_replicates, interval_text, setting_names
from rc_utils.forests import accuracy_table, committed_forests, forest_runs
from rc_utils.pages import plotting
from rc_utils.pages.augmentation import matched_settings
from rc_utils.pages.main_correlation import plain_runs
from rc_utils.pages.scorecard import results_from_campaign
from rc_utils.pages.statistics import league
from rc_utils.paper.verdict import VERDICTS, published, scorecard
from rc_utils.sweep.campaign import load_campaign
from rc_utils.sweep.records import find_records, load_runs

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURE = ROOT / "book" / "_static" / "headline.svg"
# What the headline's table shows: of the biases, those over all networks.
ROWS = r"main/|bias/.*/overall|motivation/|mixup/|crop-flip/|evolution/trend"
# The words of the first page for an experiment of the paper, and the page that has it.
SUBJECTS = {
    "main": ("count and gap", "reference_03_main_correlation"),
    "bias": ("learning rate and batch size", "reference_04_lr_batch_bias"),
    "motivation": ("measures of the weights", "reference_01_motivation"),
    "evolution": ("during training", "reference_07_training_evolution"),
    "architectures": ("networks, datasets, dimensions", "reference_05_ablations"),
    "optimizers": ("optimisers", "reference_05_ablations"),
    "hyperplanes": ("where segments lie", "reference_05_ablations"),
    "range": ("how far segments reach", "reference_05_ablations"),
    "grid size": ("how fine the grid", "reference_11_beyond_the_grid"),
    "sample size": ("how many segments", "reference_11_beyond_the_grid"),
    "test accuracy": ("test accuracy of the other networks", "14_scorecard"),
    "mixup": ("mixup", "reference_06_augmentation"),
    "crop-flip": ("crop and flip", "reference_06_augmentation"),
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
        f"{len(held)} of page 13."
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


def figure(runs):
    """Gap against region count, as a vector graphic with the same bytes for the same runs."""
    matplotlib.use("Agg")
    plotting.use_style()
    plotting.scatter_count_gap(runs)
    plt.savefig(FIGURE, metadata={"Date": None})
    plt.close()


def parts(runs, campaign):
    """What README and first page share, as paragraphs and tables, above the verdicts."""
    return [
        sentence(runs, campaign),
        "Correlation with the generalisation gap, over settings, with 95 % intervals:",
        predictors(runs, campaign),
        against_the_settings(runs, campaign),
        at_one_setting(runs),
        logarithm(runs),
        augmented(runs),
        "Decision trees and random forests on the same images. A count that follows the gap because it follows how "
        "much is fitted is no measure of quality:",
        forests(),
        f"How the grid was chosen. {campaign.choice.strip()}",
        "Settings that were made, by network and optimiser:",
        made(runs),
    ]


def rewrite(path, picture, blocks):
    """Replace what stands between the two comments of a file."""
    alternative = "Generalisation gap against region count, one point a network and setting"
    block = "\n\n".join([START, f"![{alternative}]({picture})", *blocks, END])
    text = path.read_text(encoding="utf-8")
    replaced = re.sub(f"{re.escape(START)}.*{re.escape(END)}", lambda _: block, text, flags=re.S)
    path.write_text(replaced, encoding="utf-8")


def main():
    """Rewrite README.md, the first page and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("campaign", nargs="?", default="cifar10-small")
    campaign = load_campaign(parser.parse_args().campaign)
    runs = all_runs(campaign)
    figure(runs[runs["experiment"] == "main"])
    card, shared = results_card(campaign), parts(runs, campaign)
    statements = "The main statements of the paper, and the verdict on each:"
    rewrite(ROOT / "README.md", FIGURE.relative_to(ROOT), [*shared, statements, table(card)])
    verdicts = "What held, and what did not, counted over the statements that this campaign can test:"
    first_page = [*shared, verdicts, summary(card), statements, table(card)]
    rewrite(ROOT / "book" / "intro.md", FIGURE.relative_to(ROOT / "book"), first_page)


if __name__ == "__main__":
    main()
