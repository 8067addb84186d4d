"""Makes accounting_sweep.json: delta of random compositions, from definitions that share nothing with the library.

Run ``python make_accounting_sweep.py > accounting_sweep.json`` (mpmath; about a minute). Parameters are doubles,
read exactly. Methods, all at 80 digits or more:

- laplace: M(z)^k expanded by the binomial theorem; each term inverted by its residues (exact, the cancellation is
  absorbed by the digits);
- randomized_response, approximate, pmf, discrete_laplace: plain sums over all outcomes;
- gaussian: the analytic formula; discrete_gaussian: plain sum over the exact law of the sum of the noises;
- mixed: randomised response and Gaussian, the Gaussian formula averaged over the binomial.

The other tables here (laplace_composed, randomized_response_composed, subsampled_gaussian) come from 60-digit
contour integrals and exact sums made outside the project.
"""

import json
import random

import mpmath as mp

mp.mp.dps = 80
mpf = mp.mpf
E = mp.e


def payoff(x):
    """E of (1 - e^-x)+ for a loss x above epsilon."""
    return 1 - E ** (-x) if x > 0 else mpf(0)


def laplace(e0, k, eps):
    e0, eps = mpf(e0), mpf(eps)
    with mp.workdps(80 + 2 * k):
        total = mpf(0)
        for j in range(k + 1):
            x = e0 * (k - 2 * j) - eps
            if x <= 0:
                break
            # residue at z = -1/2, w = z + 1/2: [w^(k-1)] (1/2 + w)^a (w - 1/2)^b e^{wx} / 2^k e^{-x/2}
            a, b = k - j - 1, j - 1
            half = mpf(1) / 2

            def power(base, sign, n):  # (base + sign... w)^n as a series in w
                out = [mpf(0)] * k
                term = mpf(base) ** n
                for i in range(k):
                    out[i] = term
                    term = term * (n - i) / (i + 1) / base
                return out

            first, second = power(half, 1, a), power(-half, 1, b)
            expo = [x**i / mp.factorial(i) for i in range(k)]
            prod = [mp.fsum(first[i] * second[n - i] for i in range(n + 1)) for n in range(k)]
            value = mp.fsum(prod[i] * expo[k - 1 - i] for i in range(k)) / mpf(2) ** k * E ** (-x / 2)
            if j == 0:
                value += 1
            if j == k:
                value -= E ** (-x)
            total += mp.binomial(k, j) * E ** (-e0 * j) * value
        return total


def binomial_losses(e0, k):
    e0 = mpf(e0)
    p = 1 / (1 + E**-e0)
    return [((2 * j - k) * e0, mp.binomial(k, j) * p**j * (1 - p) ** (k - j)) for j in range(k + 1)]


def randomized_response(e0, k, eps):
    return mp.fsum(m * payoff(l - mpf(eps)) for l, m in binomial_losses(e0, k))


def approximate(e0, d, k, eps):
    keep = (1 - mpf(d)) ** k
    return 1 - keep + keep * randomized_response(e0, k, eps)


def gaussian_at(eps, rho):
    """E (1 - e^{eps - L})+ for L ~ Normal(rho, 2 rho), any real eps."""
    s = mp.sqrt(2 * rho)
    return mp.ncdf((rho - eps) / s) - E**eps * mp.ncdf((-rho - eps) / s)


def gaussian(sigma, k, eps):
    return gaussian_at(mpf(eps), k / (2 * mpf(sigma) ** 2))


def mixed(e0, k, sigma, n, eps):
    rho = n / (2 * mpf(sigma) ** 2)
    return mp.fsum(m * gaussian_at(mpf(eps) - l, rho) for l, m in binomial_losses(e0, k))


def lattice_power(masses, k):
    out = {0: mpf(1)}
    for _ in range(k):
        new = {}
        for a, x in out.items():
            for b, y in masses.items():
                new[a + b] = new.get(a + b, mpf(0)) + x * y
        out = new
    return out


def discrete_laplace(scale, shift, k, eps):
    e = 1 / mpf(scale)
    point = mp.tanh(e / 2)
    masses = {0: 1 / (1 + E**-e), shift: E ** (-e * shift) / (1 + E**-e)}
    for x in range(1, shift):
        masses[x] = point * E ** (-e * x)
    return mp.fsum(m * payoff(e * (k * shift - 2 * n) - mpf(eps)) for n, m in lattice_power(masses, k).items())


def discrete_gaussian(sigma, shift, k, eps):
    s2 = 2 * mpf(sigma) ** 2
    reach = int(20 * sigma) + 20
    raw = {x: E ** (-mpf(x * x) / s2) for x in range(-reach, reach + 1)}
    total = mp.fsum(raw.values())
    law = lattice_power({x: m / total for x, m in raw.items()}, k)
    return mp.fsum(m * payoff((k * shift * shift - 2 * shift * n) / s2 - mpf(eps)) for n, m in law.items())


def pmf(p, q, k, eps):
    p, q = [mpf(x) for x in p], [mpf(x) for x in q]

    def one(p, q):
        out = [(mpf(1), mpf(1))]
        for _ in range(k):
            out = [(a * x, b * y) for a, b in out for x, y in zip(p, q, strict=True)]
        return mp.fsum(max(a - E ** mpf(eps) * b, mpf(0)) for a, b in out)

    return max(one(p, q), one(q, p))


def main():
    rng = random.Random(20240517)
    rows = []

    def add(kind, value, **parameters):
        if value > mpf("1e-290"):
            rows.append({"kind": kind, **parameters, "delta": mp.nstr(value, 30)})

    for _ in range(40):
        k, e0 = rng.choice([1, 2, 3, 5, 8, 13, 20, 40, 80]), 10 ** rng.uniform(-3, 0.7)
        eps = rng.choice([0.0, rng.uniform(0, 1), rng.uniform(0.9, 1)]) * k * e0
        add("laplace", laplace(e0, k, eps), epsilon0=e0, copies=k, epsilon=eps)
    for _ in range(40):
        k, e0 = rng.choice([1, 2, 3, 10, 64, 65, 300, 1000]), 10 ** rng.uniform(-4, 0.7)
        eps = rng.choice([0.0, rng.uniform(0, 1), e0, 2 * e0]) * (k * e0 if rng.random() < 0.5 else 1.0)
        add("randomized_response", randomized_response(e0, k, eps), epsilon0=e0, copies=k, epsilon=eps)
    add(
        "randomized_response",
        randomized_response(0.1000537, 1000, 10.0),
        epsilon0=0.1000537,
        copies=1000,
        epsilon=10.0,
    )
    for _ in range(15):
        k, e0, d = rng.choice([1, 2, 50, 400]), 10 ** rng.uniform(-3, 0.5), 10 ** rng.uniform(-12, -0.5)
        eps = rng.uniform(0, 1) * k * e0
        add("approximate", approximate(e0, d, k, eps), epsilon0=e0, delta0=d, copies=k, epsilon=eps)
    for _ in range(40):
        k, sigma = rng.choice([1, 10, 1000, 10**6, 10**9]), 10 ** rng.uniform(-0.5, 3)
        rho = k / (2 * sigma**2)
        eps = max(0.0, rho + rng.uniform(-6, 34) * (2 * rho) ** 0.5)
        add("gaussian", gaussian(sigma, k, eps), sigma=sigma, copies=k, epsilon=eps)
    for sigma, k, eps in (
        (20.0, 400, 4.0),
        (20.0, 400, 6.5),
        (20.0, 400, 7.5),
        (20.0, 400, 8.0),
        (20.0, 400, 9.0),
    ):
        add("gaussian", gaussian(sigma, k, eps), sigma=sigma, copies=k, epsilon=eps)
    for _ in range(15):
        k, n, e0 = rng.choice([1, 3, 50]), rng.choice([1, 20]), 10 ** rng.uniform(-2, 0.3)
        sigma = 10 ** rng.uniform(-0.3, 2)
        eps = rng.uniform(0, 1) * k * e0 + rng.uniform(0, 3)
        add("mixed", mixed(e0, k, sigma, n, eps), epsilon0=e0, copies=k, sigma=sigma, releases=n, epsilon=eps)
    for _ in range(15):
        k, shift, scale = rng.choice([1, 2, 7, 20]), rng.choice([1, 2, 5]), 10 ** rng.uniform(-0.5, 2)
        eps = rng.uniform(0, 1) * k * shift / scale
        add(
            "discrete_laplace",
            discrete_laplace(scale, shift, k, eps),
            scale=scale,
            shift=shift,
            copies=k,
            epsilon=eps,
        )
    for _ in range(15):
        k, shift, sigma = rng.choice([1, 2, 4]), rng.choice([1, 2, 3]), 10 ** rng.uniform(-0.8, 0.8)
        eps = rng.uniform(0, 3) * k * shift**2 / (2 * sigma**2)
        add(
            "discrete_gaussian",
            discrete_gaussian(sigma, shift, k, eps),
            sigma=sigma,
            shift=shift,
            copies=k,
            epsilon=eps,
        )
    for _ in range(15):
        k, n = rng.choice([1, 2, 3, 6]), rng.choice([2, 3, 4])
        weights = [[rng.randrange(0 if n > 2 else 1, 256) for _ in range(n)] for _ in range(2)]
        # Dyadic probabilities that sum to exactly one.
        p, q = ([w / 1024 for w in row[:-1]] for row in weights)
        p, q = [*p, 1 - sum(p)], [*q, 1 - sum(q)]
        eps = rng.uniform(0, 2)
        add("pmf", pmf(p, q, k, eps), p=p, q=q, copies=k, epsilon=eps)
    print(json.dumps({"note": __doc__.splitlines()[0], "rows": rows}, indent=0))


if __name__ == "__main__":
    main()
