"""Data sets in their own layouts, turned into manifests of cases: one module a layout.

Read ``common`` (shared by every source), then ``masks`` and ``tables`` (folders and tables of masks).
``anatomy`` adds lungs and hearts to a manifest; ``json_stream`` reads annotation files of any size.
"""
