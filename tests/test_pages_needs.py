"""What a statement that was not tested needs."""

import pytest

from rc_utils.pages.needs import needed
from rc_utils.paper.verdict import scorecard


@pytest.mark.parametrize(
    ("id_", "text"),
    [
        ("architectures/VGG19/CIFAR-100", "cifar100-paper, VGG19: 81 runs, "),
        ("architectures/VGG19/d=3", "cifar10-paper, VGG19: 81 runs, "),
        ("architectures/SimpleDLA/ImageNet", "hours on a GPU; the images of ImageNet"),
        ("optimizers/SENet18/Adam", "cifar10-paper, SENet18: 81 runs, "),
        ("optimizers/SENet18/SGD", "cifar10-paper, SENet18: 81 runs, "),
        ("evolution/count/20", "cifar10-paper, ResNet18: 81 runs, "),
        ("test-accuracy/VGG19", "; cifar10-small tests it on a CPU"),
        ("sample-size/500", "a ResNet18 of cifar10-paper, 0.9 hours on a GPU, and page 02"),
        ("range/[-1, 2]/count", "and page 02"),
        ("range/[-1, 2]/correlation", "cifar10-paper, ResNet18: 81 runs, "),
        ("range/trend", "cifar10-small tests it on a CPU"),
        ("main/overall", "cifar10-paper, 3 networks: 243 runs, "),
        ("trees/overall", "python -m rc_utils.forests cifar10"),
        ("safran/example-1", "its page"),
    ],
)
def test_the_campaign_in_the_papers_setting_is_named(id_, text):
    assert text in needed(id_)


def test_no_smaller_campaign_is_named_that_does_not_ask_for_it():
    assert needed("optimizers/SENet18/Adam").endswith("; cifar10-small tests it on a CPU")
    for id_ in ("architectures/SENet18/CIFAR-100", "evolution/count/20", "sample-size/500"):
        assert "cifar10-small" not in needed(id_)


def test_a_campaign_that_is_not_there_is_named_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("RC_CAMPAIGNS", str(tmp_path))
    assert needed("main/overall") == "cifar10-paper, which is not among the campaigns here"


def test_every_statement_has_a_need():
    assert all(needed(id_) for id_ in scorecard()["id"])


def test_an_unknown_statement_is_named():
    with pytest.raises(ValueError, match="did you mean 'main/overall'"):
        needed("main/overal")
