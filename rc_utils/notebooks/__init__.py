"""Execute a notebook with other parameters."""

from rc_utils.notebooks.execute import NotebookError, check_parameters, execute_notebook, notebook_parameters

__all__ = ["NotebookError", "check_parameters", "execute_notebook", "notebook_parameters"]
