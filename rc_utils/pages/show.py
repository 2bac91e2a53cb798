"""What the notebooks share: the runs of a campaign, and tables with a sentence beside them."""

import html
import re

import pandas as pd
from IPython.display import HTML

from rc_utils import sweep
from rc_utils.correlation import Estimate, finished, interval_text, setting_names
from rc_utils.forests import committed_forests, forest_runs, results_from_forests
from rc_utils.pages.scorecard import results_from_campaign
from rc_utils.published import kept_results, scorecard
from rc_utils.sweep.campaign import read_campaign, reference_campaigns
from rc_utils.sweep.records import INTERPOLATES, counted, data_sha256, find_records, load_runs

HEADS = {"cell": "setting", "lr": "learning rate", "std_error": "standard error", "n_train": "training images"}
SMALL = 100  # runs that a page trains itself where there is not one record


def campaign_runs(name, experiment=None, *, device="cpu", num_samples=0):
    """The table of runs of a campaign (see `load_runs`), of one experiment if it is named.

    A campaign of at most `SMALL` runs without any record is swept first, on `device`. num_samples: count only the first
    so many simplices of each run; 0 takes all. Raises ValueError for an unknown campaign or experiment, a larger
    campaign without a record, an experiment without one, and where no run could be made or all of them diverged.
    """
    campaign = read_campaign(name)
    table = load_runs(campaign, num_samples=num_samples or None)
    if table.empty:
        if (number := len(campaign.runs())) > SMALL:
            raise ValueError(
                f"campaign {name!r} has no record yet and asks for {number:,} runs: "
                f"`python -m rc_utils.sweep {name} --plan` says what they cost, and without --plan it trains them"
            )
        outcomes = sweep.sweep(name, device=device)
        table = load_runs(campaign, num_samples=num_samples or None)
        failed = next((outcome.error for outcome in outcomes if outcome.status == "failed"), "no run was finished")
        if table.empty:
            reason = failed.partition("settings: ")[0].strip().splitlines()[-1]
            raise ValueError(f"no run of campaign {name!r} could be made: {reason}")
    table = counted(table, campaign)
    if experiment:
        campaign.restricted([experiment])
        table = table[table["experiment"] == experiment].reset_index(drop=True)
        if table.empty:
            raise ValueError(
                f"experiment {experiment!r} of campaign {name!r} has no record yet: "
                f"`python -m rc_utils.sweep {name} --experiment {experiment}` trains it"
            )
    if len(table) and finished(table).empty:
        raise ValueError(f"all {len(table)} runs of campaign {name!r} diverged; give it smaller learning rates")
    return table


def describe_runs(name, table, num_samples=0):
    """One paragraph of Markdown: what the runs of a page are, where they were made, and the campaign's note.

    num_samples: the first so many simplices of each run are what the page counts; 0 for all.
    """
    campaign = read_campaign(name)
    planned = len({p.spec.run_id for e, _, p in campaign.entries() if e.name in set(table["experiment"])})
    records = find_records(table["run_id"].unique(), campaign.folder / "runs.jsonl")
    machines = sorted({record["provenance"]["hardware"] for record, _ in records.values()})
    origin = {"live": "made on the machine that built this book", "reference": "committed with the book"}
    distinct = table.drop_duplicates("run_id")
    diverged = int((distinct["status"] != "ok").sum())
    networks, seeds = table["network"].unique(), table.groupby("network")["seed"].nunique()
    number = f"{seeds.min()} to {seeds.max()}" if seeds.min() < seeds.max() else f"{seeds.max()}"
    text = (
        f"Campaign `{name}`: {table['run_id'].nunique()} of {planned} runs, "
        f"{len(networks)} network{'s' if len(networks) > 1 else ''} ({', '.join(networks)}), "
        f"{setting_names(table).nunique()} settings, {number} seed{'s' if seeds.max() > 1 else ''}, "
        f"{_data_text(campaign)}; "
        f"{' and '.join(origin[o] for o in sorted(table['origin'].unique()))} ({', '.join(machines)}). "
        f"{int(distinct['interpolates'].sum())} runs interpolate (training accuracy at least {INTERPOLATES}), "
        f"{diverged} diverged. Region counts: {_count_text(campaign, records, num_samples)}."
    )
    hashes = {data_sha256(record) for record, _ in records.values()}
    mixed = " **These runs are not all on the same data**: the fingerprints in their records differ."
    return f"{text} {campaign.note}".strip() + (mixed if len(hashes) > 1 else "")


def all_results(name="", *, num_samples=0, seed=0):
    """Our results for the scorecard: of every campaign with records, of trees and forests, and those that other pages
    have kept; or of one campaign alone. A campaign all of whose runs belong to one before it repeats it."""
    results, seen = [], set()
    for campaign in [read_campaign(name)] if name else reference_campaigns():
        made = set(find_records(campaign.runs(), campaign.folder / "runs.jsonl"))
        if made and made <= seen:
            continue
        seen |= made
        results += results_from_campaign(campaign.name, num_samples=num_samples or None, seed=seed)
    if name:
        return results
    for dataset in [{"name": "digits"}, *committed_forests()]:
        results += results_from_forests(forest_runs(dataset), seed=seed)
    return results + kept_results()


def show_table(frame, *, kind="rc-table"):
    """A table as HTML: as wide as the page allows, and on a phone a list of entries a row; `kind` names its style.

    Columns with names such as `batch_size` are headed "batch size"; `lr` and `std_error` are written out. What all
    estimates of a column are over is said in its head.
    """
    frame = _units_in_heads(frame)
    frame = frame.rename(
        columns=lambda name: HEADS.get(str(name), re.sub(r"(?<=[a-z0-9])_(?=[a-z0-9])", " ", str(name)))
    )
    head, body = frame.to_html(index=False, border=0, na_rep="").split("<tbody>")
    labels = [html.escape(" ".join(name) if isinstance(name, tuple) else str(name)) for name in frame.columns]
    rows = body.split("<tr>")
    for number, row in enumerate(rows):
        cells = row.split("<td>")
        labelled = [f'<td data-label="{label}">{cell}' for label, cell in zip(labels, cells[1:], strict=False)]
        rows[number] = "".join([cells[0], *labelled])
    return HTML(f'<div class="{kind}">{head}<tbody>{"<tr>".join(rows)}</div>')


def _units_in_heads(frame):
    """The table with the number and the unit of its estimates in the head of a column, where they are all the same."""
    frame, heads = frame.copy(), {}
    for name, column in frame.items():
        is_estimate = [isinstance(value, Estimate) for value in column]
        over = {f" ({value.n} {value.unit})" for value in column[is_estimate]}
        if len(over) == 1:
            unit = over.pop()
            heads[name] = f"{name}{unit}"
            frame[name] = column.where(~pd.Series(is_estimate, column.index), column.astype(str).str.removesuffix(unit))
    return frame.rename(columns=heads)


def show_correlations(table, columns="method"):
    """A `correlation_table` for reading, intervals behind the values: a column for each value of the column `columns`,
    a row for each network and, where `columns` is another, each method."""
    rows = ["network", *(["method"] if columns != "method" else []), "n", "n_units"]
    text = [interval_text(*row) for row in table[["value", "low", "high"]].to_numpy()]
    wide = table.assign(text=text).pivot_table(index=rows, columns=columns, values="text", aggfunc="first", sort=False)
    wide = wide.reset_index().rename(columns={"n": "rows", "n_units": "settings"})
    wide.columns.name = None
    return show_table(wide.rename(columns=str.capitalize))


def show_beside(reference, live=(), prefix=""):
    """Statements with the paper's number, ours from committed records with its verdict, and what this machine made.

    reference, live: lists of `Result`; prefix: of the ids to show. The last column says nothing of the paper's claim.
    """
    card = scorecard(reference)
    card = card[(card["campaign"] != "") & card["id"].str.startswith(prefix)]
    shown = pd.DataFrame({"Statement": card["claim"] + " (" + card["where"] + ")", "Paper": card["published"]})
    shown["CIFAR-10"], shown["Less the paper"], shown["n"] = card["ours"], card["difference"], card["n"]
    shown["Verdict"] = card["verdict"]
    if live:
        here = {result.id: interval_text(result.value, result.low, result.high) for result in live}
        shown["Your machine"] = [here.get(id_, "") for id_ in card["id"]]
    return show_table(shown.loc[:, (shown != "").any()], kind="rc-table rc-card")


def _data_text(campaign):
    data = campaign.dataset
    parts = [f"{data[k]} {text}" for k, text in (("n_train", "training"), ("n_test", "test")) if k in data]
    size = f" at {data['image_size']} x {data['image_size']}" if "image_size" in data else ""
    return f"dataset {data['name']}" + (f", {' and '.join(parts)} images{size}" if parts else size)


def _count_text(campaign, records, num_samples):
    entries = [
        c for record, _ in records.values() for c in record["counts"] if c["settings"] == campaign.counts.get("main")
    ]
    if not entries:
        return "none"
    numbers = sorted({len(entry["counts"]) for entry in entries})
    evaluations = sum(entry["num_evaluations"] for entry in entries)
    first = f"the first {num_samples} of " if 0 < num_samples < numbers[0] else ""
    return f"{first}{' or '.join(map(str, numbers))} segments a run, {evaluations:,} evaluations in all"
