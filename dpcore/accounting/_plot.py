"""Plot of delta against epsilon (needs the extra ``plot``: matplotlib)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpcore._validation import non_negative, shown
from dpcore.accounting._loss import PrivacyLoss


def plot(
    losses: PrivacyLoss | Mapping[str, PrivacyLoss],
    *,
    epsilon: ArrayLike | None = None,
    ax: Any = None,
    engine: str = "auto",
) -> Any:
    """Draw the upper bound of delta against epsilon, one line a loss, on a logarithmic axis.

    Parameters
    ----------
    losses : PrivacyLoss or dict of them
        The keys name the lines.
    epsilon : array, optional
        Where to evaluate; by default 200 points from 0 to the epsilon at which the last line meets 1e-12.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.
    engine : {"auto", "spectral", "buckets"}
        See `PrivacyLoss.delta`.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from dpcore import accounting
    >>> axes = accounting.plot({"once": accounting.from_gaussian(sigma=2.0)})
    >>> axes.get_xlabel(), axes.get_yscale()
    ('epsilon', 'log')
    """
    if not isinstance(losses, (PrivacyLoss, Mapping)):
        raise TypeError(f"losses must be a PrivacyLoss or a dict of them, got {shown(losses)}")
    if ax is not None and not hasattr(ax, "set_yscale"):
        raise TypeError(f"ax must be matplotlib axes, got {shown(ax)}")
    named = {"": losses} if isinstance(losses, PrivacyLoss) else dict(losses)
    if not named:
        raise ValueError("losses must not be empty")
    for name, loss in named.items():
        if not isinstance(loss, PrivacyLoss):
            raise TypeError(f"losses[{shown(name)}] must be a PrivacyLoss, got {shown(loss)}")
    if epsilon is None:
        ends = [float(loss.epsilon(1e-12).upper) for loss in named.values()]
        finite = [end for end in ends if np.isfinite(end) and end > 0.0]
        epsilon = np.linspace(0.0, max(finite, default=10.0), 200)
    points = np.atleast_1d(np.asarray(non_negative("epsilon", epsilon), dtype=np.float64))
    if points.ndim != 1:
        raise ValueError(f"epsilon must be one-dimensional, got shape {points.shape}")
    if ax is None:
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("plot needs matplotlib: pip install 'dpcore[plot]'") from error
        # A figure of its own, not pyplot's: no global state, no window.
        ax = Figure().subplots()
    for name, loss in named.items():
        delta = np.asarray(loss.delta(points, engine=engine).upper)
        drawn = np.where(delta > 0.0, delta, np.nan)
        ax.plot(points, drawn, label=name or None)
    ax.set_yscale("log")
    ax.set_xlabel("epsilon")
    ax.set_ylabel("delta")
    if any(named):
        ax.legend()
    return ax
