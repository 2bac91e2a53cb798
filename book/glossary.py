"""Sphinx extension: a link to a term of the glossary shows its definition as a tooltip."""

from docutils import nodes


def setup(app):
    """Called by Sphinx."""
    app.connect("doctree-resolved", _add_tooltips)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_tooltips(app, doctree, docname):
    for word in doctree.findall(nodes.inline):
        if "std-term" in word["classes"] and isinstance(word.parent, nodes.reference):
            label = word.parent.get("refid") or word.parent["refuri"].partition("#")[2]
            word.parent["reftitle"] = _definition(app, label)


def _definition(app, label):
    """The text below the term of the glossary with this label."""
    pages = {page for page, found in app.env.domaindata["std"]["terms"].values() if found == label}
    for item in app.env.get_doctree(pages.pop()).findall(nodes.definition_list_item):
        if any(label in name["ids"] for name in item.findall(nodes.term)):
            return next(item.findall(nodes.definition)).astext().replace("\n", " ")
    raise ValueError(f"the glossary has no term {label}")
