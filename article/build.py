"""Fill article.typ with results of the README and the records, and typeset it as article.pdf.

    python article/build.py [OUTPUT]

The text holds no number of its own. Results come from the block of README.md that
`book/headline.py` writes, tables from results that pages have kept, settings from the campaigns,
everything else from the committed records.
"""

import argparse
import fnmatch
import json
import pathlib
import re
import tomllib

import matplotlib
import matplotlib.pyplot as plt
import typst

from rc_utils import plotting
from rc_utils.correlation import interval_text
from rc_utils.published import kept_results, scorecard
from rc_utils.sweep.campaign import list_campaigns, load_campaign
from rc_utils.sweep.records import load_evolution, load_runs

ROOT = pathlib.Path(__file__).resolve().parent.parent
HERE = ROOT / "article"
PARTS = HERE / "_build"
CAMPAIGN, FULL_SIZE = "cifar10-small", "cifar10-paper"
# Ids of the main statements; of the biases, only those over all networks.
STATEMENTS = r"main/|bias/.*/overall|motivation/|mixup/|crop-flip/|evolution/trend"
_RESULTS = re.compile(r"<!-- results.*?-->(.*?)<!-- end of results -->", re.DOTALL)
_STUDY = re.compile(r"^###? Study \d+\. (.+?)$(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^- \*\*(.+?)\.\*\* (.+?)(?=^- \*\*|\Z)", re.MULTILINE | re.DOTALL)


def blocks(markdown):
    """Paragraphs, tables and figures of a Markdown text, as article.typ reads them: by "kind"."""
    found = []
    for part in re.split(r"\n\s*\n", markdown.strip()):
        lines = part.strip().splitlines()
        if lines[0].startswith("<"):  # HTML that folds a table in the README
            continue
        if lines[0].startswith("|"):
            header, _, *rows = [line.strip()[1:-1].split("|") for line in lines]
            found.append(table(header, rows))
        elif image := re.fullmatch(r"!\[(.*?)\]\((.*?)\)", part.strip()):
            found.append({"kind": "figure", "caption": image[1], "path": f"/{image[2]}"})
        elif caption := re.fullmatch(r"\*([^*]+)\*", part.strip()):  # of the figure before it
            found[-1]["caption"] += f" {caption[1]}"
        else:
            points = re.split(r"^- ", part.strip(), flags=re.MULTILINE)
            texts = [re.sub(r"[ \n]+", " ", point) for point in points if point]
            found += [{"kind": "text", "pieces": pieces(text)} for text in texts]
    return found


def pieces(text):
    """A line of Markdown as [{"text": ..., "style": "code", "strong" or ""}], links as text."""
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text.strip())
    found = []
    for code, strong, plain in re.findall(r"`([^`]+)`|\*\*(.+?)\*\*|((?:(?!`|\*\*).)+)", text):
        style = "code" if code else "strong" if strong else ""
        shown = code or re.sub(r"(?<![\w-])-(?=\d)", "−", strong or plain)
        found.append({"text": shown, "style": style})
    return found


def table(header, rows):
    """A table for article.typ from Markdown texts."""
    shown = [[pieces(cell) for cell in row] for row in (header, *rows)]
    return {"kind": "table", "header": shown[0], "rows": shown[1:]}


def results_block():
    """Blocks between the two `results` comments of README.md."""
    return blocks(_RESULTS.search((ROOT / "README.md").read_text(encoding="utf-8"))[1])


def settings(name):
    """The settings of a campaign's main experiment, as texts."""
    campaign = load_campaign(name)
    main, dataset = campaign.experiment("main"), campaign.dataset
    # Defaults of the functions where the file is silent: the whole dataset, the published width.
    widths = {options.get("width", 64) for options in campaign.networks.values()}
    seeds = {len(listed) for listed in main.seeds.values()}
    return {
        "Training images": f"{dataset.get('n_train', 50_000):,}",
        "Test images": f"{dataset.get('n_test', 10_000):,}",
        "Image size": f"{dataset.get('image_size', 32)} × {dataset.get('image_size', 32)}",
        "Width of the networks": " or ".join(map(str, sorted(widths))),
        "Epochs": str(campaign.train["epochs"]),
        "Learning rates": ", ".join(map(str, main.grid["lr"])),
        "Batch sizes": ", ".join(map(str, main.grid["batch_size"])),
        "Weight decays": ", ".join(map(str, main.grid["weight_decay"])),
        "Seeds": " or ".join(map(str, sorted(seeds))),
    }


def ledger(name):
    """The committed records of a campaign."""
    path = ROOT / "campaigns" / name / "runs.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def provenance(records):
    """Number, machines, dates and hours of the records, each counted once."""
    # Campaigns share records, but one run may have been trained on two machines.
    records = list({(r["run_id"], r["provenance"]["started"]): r for r in records}.values())
    made = [record["provenance"] for record in records]
    seconds = sum(p["seconds_train"] for p in made)
    seconds += sum(count["seconds"] for record in records for count in record["counts"])
    return {
        "runs": f"{len(records):,}",
        "hours": f"{seconds / 3600:.0f}",
        "hardware": ", ".join(sorted({p["hardware"] for p in made})),
        "torch": ", ".join(sorted({p["versions"]["torch"].split("+")[0] for p in made})),
        "first": min(p["started"] for p in made)[:10],
        "last": max(p["started"] for p in made)[:10],
    }


def studies():
    """The studies of book/protocol.md: title, question, number of runs asked for and recorded."""
    text = (ROOT / "book" / "protocol.md").read_text(encoding="utf-8")
    # The protocol names the campaigns in the order of its studies: `study-seeds`, `twins-*`.
    patterns = dict.fromkeys(re.findall(r"`((?:study|twins|gap)-[\w*]+)`", text))
    rows = []
    for pattern, (title, body) in zip(patterns, _STUDY.findall(text), strict=True):
        items = dict(_ITEM.findall(body))
        names = fnmatch.filter(list_campaigns(), pattern)
        asked = {run_id for name in names for run_id in load_campaign(name).runs()}
        recorded = {record["run_id"] for name in names for record in ledger(name)} & asked
        row = {"title": title, "question": " ".join(items["Question"].split()), "asked": len(asked)}
        rows.append(row | {"recorded": len(recorded), "complete": len(recorded) == len(asked)})
    return rows


def main_statements():
    """Rows of the scorecard that are judged and about a main statement."""
    card = scorecard(kept_results())
    return card[card["counted"] & card["id"].str.match(STATEMENTS)]


def contradicted():
    """Texts, as `pieces` has them, of the main statements that our results contradict."""
    found = []
    for row in main_statements().query("verdict == 'contradicts'").itertuples():
        why = row.why.removesuffix(f" ({row.detail})")
        found.append(pieces(f"{row.claim} ({row.where}): ours is {row.ours}, and {why}."))
    return found


def statements():
    """Table of the main statements: printed, the authors' records, ours with interval, verdict."""
    heads = ["statement", "printed", "their records", "ours", "settings", "verdict"]
    rows = []
    for row in main_statements().itertuples():
        found = row.published, row.authors, row.ours, str(row.n), row.verdict
        rows.append([f"{row.claim} ({row.where})", *found])
    return table(heads, rows)


def decisions():
    """Table of the deciding number of each study of the protocol, as its page has kept it."""
    rows = []
    for r in kept_results():
        if re.match(r"study/\d", r.id) and r.detail:
            name = r.id.removeprefix("study/").replace("/", ". ", 1)
            rows.append([name, interval_text(r.value, r.low, r.high), str(r.n), r.detail])
    return table(["study: what decides", "found", "units", "verdict"], rows)


def groups(runs):
    """Rows of the appendix: mean over the runs of each network, learning rate and batch size."""
    keys, columns = ["network", "lr", "batch_size"], ["train_accuracy", "test_accuracy", "gap"]
    grouped = runs.groupby(keys, sort=False)
    sizes, rows = grouped.size(), []
    for (network, lr, batch_size), mean in grouped[[*columns, "count"]].mean().iterrows():
        values = [*(f"{mean[column]:.3f}" for column in columns), f"{mean['count']:.2f}"]
        size = str(sizes[network, lr, batch_size])
        rows.append([network, f"{lr:g}", f"{batch_size:g}", size, *values])
    return rows


def draw(runs, evolution):
    """Draw the figures that the README lacks, as SVG files in `PARTS`."""
    matplotlib.use("Agg")
    plotting.use_style()
    plotting.lr_batch_panels(runs)
    _save("settings.svg")
    points = evolution[evolution["experiment"] == "main"]
    epochs = points.groupby(["lr", "epoch"])[["count_evolution", "gap"]].mean()
    axes = plt.subplots(1, 2, figsize=(8, 3.2), sharex=True)[1]
    looks = [(plotting.BLUE, "o"), (plotting.ORANGE, "s"), (plotting.GREEN, "^")]
    for (lr, rows), (colour, marker) in zip(epochs.groupby(level="lr"), looks, strict=True):
        for ax, column in zip(axes, rows.columns, strict=True):
            line = rows.droplevel("lr")[column]
            ax.plot(line.index, line, color=colour, marker=marker, label=f"learning rate {lr:g}")
    for ax, text in zip(axes, ("region count", "generalisation gap"), strict=True):
        ax.set(xlabel="epoch", ylabel=text)
    axes[0].legend(loc="best")
    _save("evolution.svg")


def _save(name):
    plt.savefig(PARTS / name, metadata={"Date": None})
    plt.close()


def data():
    """All numbers, tables and texts that article.typ shows; draws its figures as well."""
    runs = load_runs(CAMPAIGN, origin="reference")
    main = runs[(runs["experiment"] == "main") & (runs["status"] == "ok")]
    PARTS.mkdir(exist_ok=True)
    draw(main, load_evolution(CAMPAIGN, origin="reference"))
    ours, theirs = settings(CAMPAIGN), settings(FULL_SIZE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "version": project["version"],
        "results": [*results_block(), statements(), decisions()],
        "settings": [[key, theirs[key], ours[key]] for key in ours],
        "segments": f"{load_campaign(CAMPAIGN).counts['main']['num_samples']:,}",
        "made": provenance([record for name in list_campaigns() for record in ledger(name)]),
        "studies": studies(),
        "contradicted": contradicted(),
        "groups": groups(main),
        "networks": list(main["network"].unique()),
    }


def write(path):
    """Write the PDF at `path`. Raises ValueError unless pages have kept what its tables show."""
    if not statements()["rows"] or not decisions()["rows"]:
        raise ValueError("pages have not kept their results: call `make book` first")
    contents = json.dumps(data(), ensure_ascii=False, indent=1)
    (PARTS / "data.json").write_text(contents, encoding="utf-8")
    fonts = pathlib.Path(matplotlib.get_data_path()) / "fonts" / "ttf"  # those of the figures
    places = {"output": str(path), "root": str(ROOT), "font_paths": [str(fonts)]}
    typst.compile(str(HERE / "article.typ"), **places)


def main(argv=None):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", nargs="?", type=pathlib.Path, default=HERE / "article.pdf")
    path = parser.parse_args(argv).output
    write(path)
    print(path)


if __name__ == "__main__":
    main()
