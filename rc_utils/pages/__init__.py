"""What the pages of the book need beyond their cells: one module a notebook, named like it."""
