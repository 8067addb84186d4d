"""Makes risk_confidence.json: reference values of the law behind the published Laplace confidence.

T = |X1 - X2| with X1, X2 iid Gamma(k, 1). Two routes, neither of which the library uses:

* the Bessel density of Lemma 9 (Dandekar et al. 2021), 2^(2-k) t^(k-1/2) K_(k-1/2)(t)/(sqrt(2 pi) Gamma(k)), by
  quadrature, for k <= 20;
* the characteristic function (1 + z^2)^-k, P(T <= x) = 2/pi integral_0^inf sin(x z)/z (1 + z^2)^-k dz, for
  larger k.

Both at 40 working digits; 25 are written. At k = 20 both routes are compared. Inputs are the doubles nearest to
the decimals shown. Run: python make_risk_confidence.py (mpmath, a minute).
"""

import json
import pathlib

import mpmath as mp

mp.mp.dps = 40


def bessel(x, k):
    c = mp.power(2, 2 - k) / (mp.sqrt(2 * mp.pi) * mp.gamma(k))
    points = [mp.mpf(x) * i / 8 for i in range(9)]
    return mp.quad(lambda t: mp.power(t, k - mp.mpf(1) / 2) * mp.besselk(k - mp.mpf(1) / 2, t) * c, points)


def fourier(x, k):
    # The integrand is below 1e-45 of its largest value beyond this.
    end = mp.sqrt(mp.expm1(mp.mpf(110) / k))
    pieces = max(24, int(4 * x * end / mp.pi) + 1)
    points = [end * i / pieces for i in range(pieces + 1)]
    f = lambda z: (mp.sin(x * z) / z if z else x) * mp.exp(-k * mp.log1p(z * z))  # noqa: E731
    return 2 / mp.pi * mp.quad(f, points)


def main():
    rows = []
    below, above = 12.0, 12.000000000000002  # the two sides of the series limit
    for k in (1, 2, 3, 5, 20):
        for x in (0.001, 0.1, 0.5, 0.5000000000000001, 1.0, 1.5, 1.6, 4.0, 4.1, below, above, 30.0):
            rows.append((x, k, bessel(mp.mpf(x), k)))
    assert abs(bessel(mp.mpf(3), 20) / fourier(mp.mpf(3), 20) - 1) < mp.mpf(10) ** -30
    for k in (50, 64, 65, 66, 1000, 100_000):
        for x in (0.001, 0.5, 4.0, below, above, 50.0, 400.0, 1500.0):
            if x * x < 200 * k:  # beyond, the value is 1 to double precision
                rows.append((x, k, fourier(mp.mpf(x), k)))
    table = [{"x": repr(x), "k": k, "cdf": mp.nstr(value, 25)} for x, k, value in rows]
    path = pathlib.Path(__file__).with_suffix("").with_name("risk_confidence.json")
    path.write_text(json.dumps({"note": "see make_risk_confidence.py", "rows": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
