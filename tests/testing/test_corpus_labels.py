"""What counts as a label of the corpus, and what is said about those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from xyla import passes
from xyla.passmgr.base import registered
from xyla.testing import corpus_labels
from xyla.testing.data import HloCase, hlo_modules


def _case(stem: str, expect: str, *ran: str) -> HloCase:
    return HloCase(Path(f"{stem}.hlo"), "module", False, expect, ran, "ok")


def test_only_a_passs_own_test_counts() -> None:
    expected = corpus_labels.expected
    assert expected(_case("hlo_dce_test__A", "changed", "HloDCE"), "dce") is True
    assert expected(_case("hlo_dce_test__A", "not_changed+run_compare", "HloDCE"), "dce") is False
    assert expected(_case("hlo_dce_test__A", "unknown", "HloDCE"), "dce") is None
    # Another pass's test that cleans up with it, a test file of two passes, and a test that names none.
    assert expected(_case("call_splitter_test__A", "changed", "HloDCE"), "dce") is None
    assert expected(_case("topk_rewriter_test__A", "changed", "TopkDecomposer"), "topk-rewriter") is None
    assert expected(_case("topk_rewriter_test__A", "changed", "TopkDecomposer"), "topk-decomposer") is True
    assert expected(_case("topk_rewriter_test__A", "changed"), "topk-rewriter") is True
    assert expected(_case("hlo_dce_test__A", "changed", "HloDCE"), "no-such-pass") is None


def test_exceptions_do_not_count() -> None:
    case = _case("algebraic_simplifier_test__SubSubSame", "changed", "AlgebraicSimplifier")
    assert corpus_labels.named(case, "algsimp")
    assert corpus_labels.expected(case, "algsimp") is None


def test_options_are_those_of_the_pass() -> None:
    passes.load_all()
    assert corpus_labels.run_options("dce", "hlo_dce_test__Other") == {}
    assert corpus_labels.run_options("dce", "other_test__RemoveDeadEntryParameters") == {}
    for name, stem in (
        ("scatter-expander", "scatter_expander_test__EliminateSimpleScatters"),
        ("batchnorm-expander", "batchnorm_expander_test__DisabledFlagsAreNoop"),
        ("dce", "hlo_dce_test__RemoveDeadEntryParametersAndLayout"),
    ):
        options = corpus_labels.run_options(name, stem)
        assert options
        registered()[name](**options)


@pytest.mark.usefixtures("shared")
def test_every_exception_is_a_labelled_module() -> None:
    known = {(n, corpus_labels.test_name(c.path.stem)) for c in hlo_modules() for n in corpus_labels.EXCEPTIONS
             if corpus_labels.named(c, n)}  # fmt: skip
    stale = [(n, t) for n, tests in corpus_labels.EXCEPTIONS.items() for t in tests if (n, t) not in known]
    assert not stale
