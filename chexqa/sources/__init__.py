"""Data sets in their own layouts, turned into manifests."""
