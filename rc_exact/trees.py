"""Breakpoints of trees and forests on a segment: the thresholds that it crosses."""

import numpy as np

from rc_utils.validation import require


def is_tree_model(model):
    """Whether `model` is scikit-learn's own decision tree, random forest or extra trees."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    # A subclass may predict otherwise.
    return type(model) in (DecisionTreeClassifier, RandomForestClassifier, ExtraTreesClassifier)


def tree_pieces(model, x0, x1, tolerance):
    """Pieces of the segment from x0 to x1, (F,) float64, on which a tree or forest is constant.

    A tree compares x_f(alpha) = (1 - alpha) x0_f + alpha x1_f with a threshold; only nodes that the
    segment reaches count. scikit-learn rounds x to float32 before it compares; the alphas allow for
    that (`rounding_thresholds`).

    Returns (alphas (P + 1,), labels (P,)): the ends of the pieces, and the index in
    `model.classes_` predicted at the middle of each. Pieces not wider than `tolerance` are dropped,
    and between crossings of two features those not wider than the rounding of x at both ends: they
    arise where several features cross at one place.

    Raises ValueError if the model is not fitted, has several outputs or does not take F features.
    """
    fitted = hasattr(model, "n_features_in_")
    require(fitted, f"the {type(model).__name__} is not fitted; call fit first")
    outputs, features = model.n_outputs_, model.n_features_in_
    require(outputs == 1, f"the model predicts {outputs} outputs; expected one label")
    x0, x1 = x0.reshape(-1), x1.reshape(-1)
    require(len(x0) == features, f"x0 has {len(x0)} features; the model takes {features}")
    trees = [estimator.tree_ for estimator in getattr(model, "estimators_", [model])]
    found = np.concatenate([_crossings(tree, x0, x1) for tree in trees])
    ends = np.array([[0.0, 0.0, -1.0], [1.0, 0.0, -1.0]])
    found = np.vstack([ends[:1], found[np.argsort(found[:, 0], kind="stable")], ends[1:]])
    alphas, rounding, features = found.T
    # Thresholds of one feature, and the ends, are as far apart as x rounded to float32 says.
    uncertain = (features[1:] != features[:-1]) & (features[1:] >= 0) & (features[:-1] >= 0)
    is_wide = np.diff(alphas) > tolerance + uncertain * (rounding[:-1] + rounding[1:])
    is_wide[np.diff(alphas).argmax()] = True
    alphas = alphas[np.append(is_wide, True)]
    alphas[0] = 0.0
    middle = ((alphas[:-1] + alphas[1:]) / 2)[:, None]
    predicted = model.predict((1 - middle) * x0 + middle * x1)
    return alphas, np.searchsorted(model.classes_, predicted)


def _crossings(tree, x0, x1):
    """(K, 3): alphas in (0, 1) where the path changes, their rounding errors and features."""
    features, thresholds = tree.feature, rounding_thresholds(tree.threshold)
    rounding = np.spacing(np.abs(tree.threshold).astype(np.float32)) / 2
    # Read once: every access to an attribute of a Tree makes a new array.
    left, right = tree.children_left, tree.children_right
    found, waiting = [], [(0, 0.0, 1.0)]
    while waiting:
        node, low, high = waiting.pop()
        if left[node] < 0:
            continue
        start, step = x0[features[node]], x1[features[node]] - x0[features[node]]
        below, above = left[node], right[node]
        if step == 0:
            waiting.append((below if start <= thresholds[node] else above, low, high))
            continue
        at = (thresholds[node] - start) / step
        first, second = (below, above) if step > 0 else (above, below)
        if at > low:
            waiting.append((first, low, min(at, high)))
        if at < high:
            waiting.append((second, max(at, low), high))
        if low < at < high:
            found.append((at, rounding[node] / abs(step), features[node]))
    return np.array(found).reshape(-1, 3)


def rounding_thresholds(thresholds):
    """Thresholds for x in float64 that split as `thresholds` split x rounded to float32.

    x <= the result if and only if float32(x) <= the threshold, up to ties in rounding. The result
    is halfway between the greatest float32 that is at most the threshold and the next float32.
    """
    nearest = thresholds.astype(np.float32)
    below = np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    above = np.nextafter(below, np.float32(np.inf))
    return (below.astype(np.float64) + above.astype(np.float64)) / 2
