"""Tests on servers of others, which ``make test-servers`` installs; elsewhere they are not collected."""

from __future__ import annotations

import os

# Not a skip, since CHEXQA_NO_SKIP forbids these. The variable names the environment that holds the servers.
collect_ignore_glob = [] if os.environ.get("CHEXQA_TEST_SERVERS") else ["test_*.py"]
