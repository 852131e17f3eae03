"""Readers of data sets: each module turns one layout of files into a manifest of cases.

Read ``case_records`` (shared by every source), then ``masks`` and ``tables`` (folders and tables of masks). ``anatomy``
adds lungs and hearts to a manifest; ``json_stream`` reads annotation files of any size.
"""
