"""Writes hypergeometric.json: ln Pr[X = k] at 25 digits for tests/test_distributions.py.

Run ``python tests/data/make_hypergeometric.py`` (needs mpmath only): the nine log-factorials of Lemma 5.1 of the
thesis, added up with 60 digits.
"""

import json
import pathlib

import mpmath as mp

mp.mp.dps = 60
CASES = [
    *[(10**4, 5000, 5000, k) for k in (2000, 2400, 2500, 2610, 3200)],
    *[(10**6, 300_000, 500_000, k) for k in (148_000, 149_900, 150_000, 151_234)],
    *[(10**9, 5 * 10**8, 10**6, k) for k in (495_000, 500_000, 503_210)],
    *[(20, 7, 12, k) for k in (0, 3, 7)],
    (100, 100, 40, 40),
]


def log_choose(n: int, k: int) -> mp.mpf:
    """ln C(n, k)"""
    return mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)


rows = []
for n, c, d, k in CASES:
    value = log_choose(c, k) + log_choose(n - c, d - k) - log_choose(n, d)
    rows.append({"n": n, "c": c, "d": d, "k": k, "logpmf": mp.nstr(mp.chop(value, 1e-50), 25)})
lines = ",\n".join(json.dumps(row) for row in rows)
pathlib.Path(__file__).with_name("hypergeometric.json").write_text(f'{{"rows": [\n{lines}\n]}}\n')
