"""The report's page: plots, the methods paragraph, the gallery of items, and ``index.html`` that holds them."""
