"""Data sets in their own layouts, turned into manifests of cases: one module a layout.

Read ``common`` (what every source shares), then ``masks`` and ``tables`` for folders of one's own.
``anatomy`` adds lungs and hearts to a manifest; ``json_stream`` reads annotation files of any size.
"""
