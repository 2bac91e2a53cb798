"""Write the headline figure and table of the README and of the book's first page from the records of a campaign.

    python book/headline.py [CAMPAIGN]

The committed records are taken where the campaign has some, else those made on this machine.

Everything between the two `results` comments of README.md and book/intro.md is replaced; nothing in it is typed.
"""

import argparse
import pathlib
import re

import matplotlib
import matplotlib.pyplot as plt

from rc_utils.correlation import average_seeds, interval_text
from rc_utils.pages import plotting
from rc_utils.pages.scorecard import results_from_campaign
from rc_utils.pages.statistics import league
from rc_utils.pages.statistics.cells import cells_of, segment_counts
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


def headline_runs(campaign):
    """Those of its main experiment."""
    runs = load_runs(campaign, origin=origin_of(campaign))
    return runs[runs["experiment"] == "main"]


def results_card(campaign):
    """The scorecard's rows with a result of the campaign, without those that repeat another."""
    card = scorecard(results_from_campaign(campaign.name, origin=origin_of(campaign)))
    return card[card["counted"]]


def table(card):
    """Markdown rows: statement, published, ours with its interval, cells, verdict."""
    card = card[card["id"].str.match(ROWS)]
    lines = ["| claim | published | ours | interval | cells | verdict |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row.claim} ({row.where}) | {row.published} | {row.ours} | {row.interval} | {row.n} | {row.verdict} |"
        for row in card.itertuples()
    ]
    return "\n".join(lines)


def summary(card):
    """Markdown rows: each experiment of the paper, and how many of its statements got which verdict."""
    experiments = card["id"].map(lambda id_: published(id_).experiment)
    counts = card.groupby([experiments, "verdict"]).size().unstack(fill_value=0)
    columns = [verdict for verdict in VERDICTS if verdict in counts]
    lines = [f"| | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for name in sorted(counts.index, key=list(SUBJECTS).index):
        words, page = SUBJECTS[name]
        lines.append(f"| [{words}](notebooks/{page}) | {' | '.join(str(counts.loc[name, c] or '') for c in columns)} |")
    return "\n".join(lines)


def sentence(runs, campaign):
    """What the results rest on and where they were made."""
    records = find_records(runs["run_id"].unique(), campaign.folder / "runs.jsonl", origin_of(campaign))
    machines = sorted({record["provenance"]["hardware"] for record, _ in records.values()})
    cells = average_seeds(runs)
    per_network = ", ".join(f"{name} {count}" for name, count in cells["network"].value_counts(sort=False).items())
    planned = {p.spec.run_id for experiment, _, p in campaign.entries() if experiment.name == "main"}
    seeds = runs.groupby("network")["seed"].nunique()
    return (
        f"Campaign `{campaign.name}` ({campaign.title}): {len(runs)} of {len(planned)} runs, cells: {per_network}, "
        f"{' to '.join(map(str, sorted({seeds.min(), seeds.max()})))} of the paper's 3 seeds; "
        f"{int(runs['interpolates'].sum())} runs interpolate. The setting is smaller than the paper's, and a verdict "
        f"compares numbers, not settings. Computed on {', '.join(machines)}. {campaign.note}"
    ).strip()


def beyond_settings(runs, campaign):
    """What is left of the correlation within networks once a function of the settings alone is taken out."""
    cells = cells_of(runs, segment_counts(campaign.name, runs, origin=origin_of(campaign)))
    within, beyond = league.within(cells, ["network"]), league.beyond_settings(cells)
    texts = (interval_text(found.value, found.low, found.high) for found in (within, beyond))
    return (
        "Within networks count and gap correlate at {}; beyond a parabola in log(batch size / learning rate), which "
        "knows the settings and nothing of a network, at {}."
    ).format(*texts)


def figure(runs):
    """Gap against region count, as a vector graphic with the same bytes for the same runs."""
    matplotlib.use("Agg")
    plotting.use_style()
    plotting.scatter_count_gap(runs)
    plt.savefig(FIGURE, metadata={"Date": None})
    plt.close()


def rewrite(path, picture, parts):
    """Replace what stands between the two comments of a file."""
    alternative = "Generalisation gap against region count, one point a cell"
    block = "\n\n".join([START, f"![{alternative}]({picture})", *parts, END])
    text = path.read_text(encoding="utf-8")
    replaced = re.sub(f"{re.escape(START)}.*{re.escape(END)}", lambda _: block, text, flags=re.S)
    path.write_text(replaced, encoding="utf-8")


def main():
    """Rewrite README.md, the first page and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("campaign", nargs="?", default="cifar10-small")
    campaign = load_campaign(parser.parse_args().campaign)
    runs = headline_runs(campaign)
    figure(runs)
    card = results_card(campaign)
    text = f"{sentence(runs, campaign)}\n\n{beyond_settings(runs, campaign)}"
    rewrite(ROOT / "README.md", FIGURE.relative_to(ROOT), [text, table(card)])
    verdicts = "What held, and what did not, counted over the statements that this campaign can test:"
    first_page = [text, verdicts, summary(card), "The main statements:", table(card)]
    rewrite(ROOT / "book" / "intro.md", FIGURE.relative_to(ROOT / "book"), first_page)


if __name__ == "__main__":
    main()
