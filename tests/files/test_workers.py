"""Work in the background: the results of one process, whichever process computes them."""

from __future__ import annotations

import pytest
from worker_tasks import die_elsewhere, refuse, square, who

from chexqa.files.errors import InputError
from chexqa.files.workers import Background

SQUARES = [{"square": value * value} for value in range(9)]


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_tasks(workers: int) -> None:
    with Background(workers) as background:
        assert list(background.start(square, range(9))) == SQUARES


def test_what_a_killed_worker_had_begun_is_done_by_this_process() -> None:
    with Background(2) as background:
        assert list(background.start(die_elsewhere, range(9))) == SQUARES
        assert list(background.start(square, range(9))) == SQUARES  # without a worker


def test_this_process_works_while_it_waits() -> None:
    with Background(2) as background:
        assert len({result["worker"] for result in background.start(who, range(9))}) == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_task_is_raised_where_its_result_is_used(workers: int) -> None:
    with Background(workers) as background, pytest.raises(InputError, match="0 is not wanted"):
        next(background.start(refuse, range(3)))
