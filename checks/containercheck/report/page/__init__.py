"""Write the HTML report: one static file, with plots and tables of a night (contents)."""
