"""Files that the built book offers for download: notebooks, records as tables, the article."""

import shutil
import zipfile

from rc_utils.sweep.campaign import list_campaigns, load_campaign
from rc_utils.sweep.records import load_runs

COLUMNS = "columns.csv"
"""The dictionary of the columns, beside this file."""
_DATE = (2025, 1, 1, 0, 0, 0)  # the same contents give the same archive


def write(layout, html):
    """Write `downloads/` below the built pages of a book."""
    folder = html / "downloads"
    shutil.rmtree(folder, ignore_errors=True)  # with a PDF of former pages
    folder.mkdir(parents=True)
    notebooks = sorted((layout.root / "notebooks").glob("*.ipynb"))
    _archive(folder / "notebooks.zip", {path.name: path.read_bytes() for path in notebooks})
    records = record_tables(layout.root / "campaigns")
    tables = {f"{name}.csv": text.encode() for name, text in records.items()}
    dictionary = layout.book / COLUMNS
    if dictionary.is_file():
        tables[COLUMNS] = dictionary.read_bytes()
    _archive(folder / "records.zip", tables)
    article = layout.root / "article" / "article.pdf"
    if article.is_file():
        shutil.copy(article, folder)


def record_tables(folder):
    """{campaign: CSV}, one row per run, of the campaigns in `folder` that have records."""
    found = {}
    for campaign in map(load_campaign, list_campaigns()):
        if campaign.folder.parent == folder and len(table := load_runs(campaign)):
            found[campaign.name] = table.to_csv(index=False, lineterminator="\n")
    return found


def _archive(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
