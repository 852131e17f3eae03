"""Drawing of paths: quotas are maxima, short pools are split, and the order of a manifest is of no account."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import perception

from chexqa.generators.pipeline.case_paths import Candidate, draw_lesion_free, draw_paths, split
from chexqa.generators.pipeline.recipe import PerceptionRecipe, Quotas


def recipe(lesion_free: int, revision_free: int, revision_required: int, *findings: str) -> PerceptionRecipe:
    quotas = Quotas(lesion_free, revision_free, revision_required)
    return replace(perception(), findings=findings or ("edema",), quotas=quotas)


def pool(present: int, absent: int, finding: str = "edema", flagged: int = 0) -> list[Candidate]:
    rows = [Candidate(f"{finding} p{n}", finding, True, f"{finding} image p{n}", n < flagged) for n in range(present)]
    return rows + [Candidate(f"{finding} a{n}", finding, False, f"{finding} image a{n}") for n in range(absent)]


def counts(paths: dict[str, str]) -> dict[str, int]:
    return dict(Counter(paths.values()))


def test_a_large_pool_meets_every_quota_and_no_more() -> None:
    draw = draw_paths(pool(50, 50), recipe(10, 11, 12), 1)
    assert counts(draw.paths) == {"lesion_free": 10, "revision_free": 11, "revision_required": 12}
    assert draw.shortfall == ()
    assert draw.unused == {}


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, (0, 0)), (1, (1, 0)), (2, (1, 1)), (3, (2, 1)), (7, (4, 3)), (199, (100, 99)), (200, (100, 100))],
)
def test_a_short_pool_is_halved_with_revision_required_first(size: int, expected: tuple[int, int]) -> None:
    assert split(size, 100, 100) == expected


@pytest.mark.parametrize(
    ("size", "required", "free", "expected"),
    [
        (3, 20, 10, (2, 1)),
        (4, 20, 10, (3, 1)),
        (5, 10, 20, (2, 3)),
        (1, 1, 100, (1, 0)),
        (9, 0, 5, (0, 5)),
        (3, 0, 5, (0, 3)),
        (3, 5, 0, (3, 0)),
        (9, 0, 0, (0, 0)),
    ],
)
def test_a_short_pool_is_split_in_the_proportion_of_the_quotas(
    size: int, required: int, free: int, expected: tuple[int, int]
) -> None:
    assert split(size, required, free) == expected


@settings(max_examples=200, deadline=None, derandomize=True)
@given(size=st.integers(0, 40), required=st.integers(0, 20), free=st.integers(0, 20))
def test_every_split_uses_the_whole_pool_within_the_quotas(size: int, required: int, free: int) -> None:
    first, second = split(size, required, free)
    assert 0 <= first <= required
    assert 0 <= second <= free
    assert first + second == min(size, required + free)
    if required and free and size < required + free:
        assert abs(first - size * required / (required + free)) < 1
        assert first * (required + free) >= size * required


def test_what_was_not_met_is_reported_by_finding_and_path() -> None:
    draw = draw_paths(pool(3, 1) + pool(0, 5, "effusion"), recipe(4, 2, 2, "edema", "effusion"), 1)
    rows = {(row["finding"], row["path"]): (row["quota"], row["made"]) for row in draw.shortfall}
    assert rows == {
        ("edema", "lesion_free"): (4, 1),
        ("edema", "revision_free"): (2, 1),
        ("effusion", "lesion_free"): (4, 0),
        ("effusion", "revision_free"): (2, 0),
        ("effusion", "revision_required"): (2, 0),
    }


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_cases_is_of_no_account(seed: int) -> None:
    rows = pool(20, 20) + pool(9, 9, "effusion", flagged=4)
    shuffled = [rows[index] for index in np.random.default_rng(seed).permutation(len(rows))]
    numbers = recipe(5, 6, 7, "edema", "effusion")
    assert draw_paths(shuffled, numbers, seed) == draw_paths(rows, numbers, seed)


def test_another_seed_draws_other_cases() -> None:
    rows = pool(40, 40)
    draws = {tuple(sorted(draw_paths(rows, recipe(5, 5, 5), seed).paths.items())) for seed in range(4)}
    assert len(draws) == 4


def test_one_finding_is_drawn_alike_whatever_the_others_are() -> None:
    rows = pool(20, 20)
    alone = draw_paths(rows, recipe(5, 5, 5, "edema"), 3).paths
    beside = draw_paths(rows + pool(20, 20, "effusion"), recipe(5, 5, 5, "effusion", "edema"), 3).paths
    assert alone.items() <= beside.items()


def radiographs_of(drawn: dict[str, list[Candidate]]) -> Counter[str]:
    return Counter(row.image_key for rows in drawn.values() for row in rows)


def normals(count: int, *findings: str) -> dict[str, list[Candidate]]:
    """The same normal radiographs as lesion-free cases of every finding."""
    return {name: [Candidate(f"{name} {n}", name, False, f"normal {n}") for n in range(count)] for name in findings}


def test_no_normal_radiograph_serves_twice_while_there_are_others() -> None:
    drawn = draw_lesion_free(normals(12, *"abcd"), dict.fromkeys("abcd", 3))
    assert {name: len(rows) for name, rows in drawn.items()} == dict.fromkeys("abcd", 3)
    assert set(radiographs_of(drawn).values()) == {1}


def test_a_pool_that_is_used_up_serves_again_evenly() -> None:
    drawn = draw_lesion_free(normals(5, *"abc"), dict.fromkeys("abc", 4))
    assert all(len({row.image_key for row in rows}) == 4 for rows in drawn.values())
    assert sorted(radiographs_of(drawn).values()) == [2, 2, 2, 3, 3]


def test_a_finding_with_a_choice_leaves_the_others_what_only_they_can_take() -> None:
    pools = normals(3, "a") | {"b": [Candidate("b 0", "b", False, "normal 0")]}
    pools |= {"c": [Candidate(f"c {n}", "c", False, f"normal {n}") for n in (0, 1)]}
    assert set(radiographs_of(draw_lesion_free(pools, dict.fromkeys("abc", 1))).values()) == {1}


def test_a_radiograph_that_shows_another_finding_of_the_benchmark_comes_last() -> None:
    drawn = draw_lesion_free(normals(3, "a"), {"a": 2}, ["normal 0", "normal 0"])
    assert "normal 0" not in radiographs_of(drawn)


@given(st.lists(st.sets(st.integers(0, 7), min_size=1), min_size=1, max_size=4), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_as_many_radiographs_serve_as_any_assignment_allows(pools: list[set[int]], each: int) -> None:
    rows = {str(k): [Candidate(f"{k} {n}", str(k), False, str(n)) for n in pool] for k, pool in enumerate(pools)}
    wanted = {name: min(each, len(pool)) for name, pool in rows.items()}
    drawn = draw_lesion_free(rows, wanted)
    assert {name: len({row.image_key for row in own}) for name, own in drawn.items()} == wanted
    # Hall: no set of findings can use more radiographs than it has, whatever the others do.
    names = list(rows)
    most = min(
        len({row.image_key for name in chosen for row in rows[name]})
        + sum(wanted[name] for name in names if name not in chosen)
        for size in range(len(names) + 1) for chosen in itertools.combinations(names, size)
    )  # fmt: skip
    assert len(radiographs_of(drawn)) == most


def test_a_radiograph_is_on_one_path_of_a_finding_and_the_others_say_why_not() -> None:
    rows = [
        Candidate("mask one", "edema", True, "same"),
        Candidate("mask two", "edema", True, "same"),
        Candidate("normal twin", "edema", False, "same"),
        Candidate("other", "edema", False, "other"),
    ]
    for seed in range(6):
        draw = draw_paths(rows, recipe(5, 5, 5), seed)
        assert len(draw.paths) == 2
        assert draw.paths["other"] == "lesion_free"
        assert "normal twin" in draw.unused
        assert set(draw.unused) | set(draw.paths) == {row.source_case_id for row in rows}
        assert all("same radiograph" in reason for reason in draw.unused.values())


def test_a_radiograph_whose_own_case_cannot_be_used_is_not_without_the_finding() -> None:
    rows = [*pool(2, 1), Candidate("copy", "edema", False, "seen elsewhere")]
    draw = draw_paths(rows, recipe(2, 1, 1), 1, {("edema", "seen elsewhere"), ("opacity", "edema image a0")})
    assert draw.paths.get("edema a0") == "lesion_free", "it has another finding alone"
    assert draw.unused == {"copy": "another case lists the same radiograph with edema"}


def test_a_radiograph_may_be_on_a_path_of_each_of_two_findings() -> None:
    rows = [Candidate("a", "edema", True, "same"), Candidate("b", "effusion", True, "same")]
    assert set(draw_paths(rows, recipe(1, 1, 1, "edema", "effusion"), 0).paths) == {"a", "b"}


def test_doubtful_cases_come_in_only_where_the_others_do_not_meet_the_quotas() -> None:
    rows = pool(20, 0, flagged=8)
    for seed in range(5):
        taken = draw_paths(rows, recipe(0, 6, 6), seed).paths
        assert not {f"edema p{n}" for n in range(8)} & set(taken)
    assert len({f"edema p{n}" for n in range(8)} & set(draw_paths(rows, recipe(0, 8, 8), 0).paths)) == 4


def test_doubtful_cases_are_on_either_path() -> None:
    rows = pool(20, 0, flagged=10)
    paths = Counter(
        path
        for seed in range(20)
        for case, path in draw_paths(rows, recipe(0, 10, 10), seed).paths.items()
        if int(case.split("p")[1]) < 10
    )
    assert min(paths.values()) > 70


def test_a_finding_the_recipe_does_not_ask_about_gives_no_path() -> None:
    assert draw_paths(pool(5, 5, "pneumothorax"), recipe(5, 5, 5), 0).paths == {}


@pytest.mark.parametrize(("present", "absent", "made"), [(0, 9, 0), (1, 9, 1), (3, 9, 2), (4, 1, 1), (200, 300, 100)])
def test_lesion_free_cases_keep_the_quotas_proportion(present: int, absent: int, made: int) -> None:
    draw = draw_paths(pool(present, absent), recipe(100, 100, 100), 1)
    assert list(draw.paths.values()).count("lesion_free") == made


def test_a_recipe_of_lesion_free_cases_alone_takes_them() -> None:
    assert list(draw_paths(pool(0, 5), recipe(4, 0, 0), 1).paths.values()) == ["lesion_free"] * 4
