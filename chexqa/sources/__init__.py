"""Readers of data sets: each module turns one layout of files into a manifest of cases.

Read ``case_records`` first, which all sources share, then ``masks`` and ``tables`` (folders and tables of masks).
``anatomy`` finds the masks of lungs and heart; ``json_stream`` reads annotation files of any size.
"""
