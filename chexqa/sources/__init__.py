"""Readers of data sets: each module turns one layout of files into a manifest of cases.

Read ``case_records`` first, which all sources share, then ``masks`` and ``tables`` (folders and tables of masks).
``pictures`` says which picture a name stands for; ``anatomy`` finds the masks of lungs and heart.
"""
