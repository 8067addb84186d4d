"""Adding up releases: the privacy loss of a composition, with bounds that hold in floating point.

A `PrivacyLoss` is made from a mechanism by one of the ``from_`` functions, composed with ``a + b`` and
``a * 1000``, and asked for ``delta(epsilon)``, ``epsilon(delta)`` or ``confidence(epsilon)``. Answers are
`Bounds`: the true value lies between ``lower`` and ``upper``, discretisation, truncation and rounding
included.

References
----------
Koskela, Jalko and Honkela (2020), "Computing tight differential privacy guarantees using FFT";
Sommer, Meiser and Mohammadi (2019), "Privacy loss classes"; Doroshenko, Ghazi, Kamath, Kumar and Manurangsi
(2022), "Connect the dots"; Zhu, Dong and Wang (2022), "Optimal accounting of differential privacy via
characteristic function".
"""

from dpcore.accounting._calibrate import Calibration, calibrate
from dpcore.accounting._loss import (
    Bounds,
    Buckets,
    PrivacyLoss,
    compose,
    from_approximate,
    from_discrete_gaussian,
    from_discrete_laplace,
    from_gaussian,
    from_laplace,
    from_pmf,
    from_pure,
    from_randomized_response,
    from_subsampled_gaussian,
)
from dpcore.accounting._plot import plot
from dpcore.accounting._storage import load, save

__all__ = [
    "Bounds",
    "Buckets",
    "Calibration",
    "PrivacyLoss",
    "calibrate",
    "compose",
    "from_approximate",
    "from_discrete_gaussian",
    "from_discrete_laplace",
    "from_gaussian",
    "from_laplace",
    "from_pmf",
    "from_pure",
    "from_randomized_response",
    "from_subsampled_gaussian",
    "load",
    "plot",
    "save",
]
