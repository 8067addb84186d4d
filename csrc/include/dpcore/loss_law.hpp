// The law of the privacy loss of one mechanism, in one direction, seen through its moment generating function.
//
// For outputs P against Q the loss is L = log(dP/dQ) under P, M(z) = E[exp(zL); L finite] and K = log M. A LossLaw
// knows K on the real line (to find saddle points) and hands out LossLines: K on Re z = c with certified error,
// and an envelope of |M| along that line with which an integral to infinity can be cut off.
//
// Method:    closed forms arranged so that no cancellation occurs where the loss is small (expm1, log1p, sinh);
//            the subsampled Gaussian by the trapezoid rule in the output, whose error is bounded in a strip of the
//            plane. Each law has a source of its own in csrc/src, <name>_law.cpp; the laws of a pmf and of atoms
//            are in atoms_law.cpp.
// Domain:    every c; t >= 0. Laws are immutable and may be shared between threads; a line belongs to one thread.
// Guarantee: LossLine::value is within its err of the truth; log_envelope(T) >= log |M(c + it)| for every t >= T
//            (on a lattice: for T <= t <= pi/step). Derivations: docs/accounting_derivations.md, "loss_law".
// Evidence:  tests/cpp/test_spectral.cpp, tests/test_accounting.py.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dpcore/certified.hpp"
#include "dpcore/interrupt.hpp"

namespace dpcore {

// K and its first two derivatives at a real point; approximate (used to place contours, never in a bound).
struct Cumulants {
    double value = 0.0;
    double first = 0.0;
    double second = 0.0;
};

// The values origin + origin_low + step * n, origin and step with their absolute errors.
struct Lattice {
    double origin = 0.0;
    double step = 0.0;  // 0: not a lattice
    double origin_err = 0.0;
    double step_err = 0.0;
    double origin_low = 0.0;  // what rounding takes from the origin of a composition
};

struct Atom {
    double loss = 0.0;
    double loss_err = 0.0;
    double mass = 0.0;
    double mass_err = 0.0;  // relative
};

class LossLine {
public:
    virtual ~LossLine() = default;
    virtual Certified value(double t) const = 0;  // K(c + it)
    // What a value takes, about, in nodes of a sum that are turned on from the value before.
    virtual double cost() const { return 1.0; }
    // Values at multiples of `spacing` will be asked for in order: a line may prepare for it.
    virtual void expect(double spacing) { static_cast<void>(spacing); }
    virtual double log_envelope(double from) const = 0;  // see above
    // At least |K'(c + it)|; log_size is Re K(c + it) as `value` gave it: |M'| is at most the largest loss times
    // M(c).
    virtual double derivative_size(double t, double log_size) const = 0;
    // At least log E[exp(cL); L in a part of the law], such that |M(c + it)| of the rest is at most this over 2t:
    // the atoms of a Laplace loss. Every other law counts as a whole.
    virtual double log_atoms() const {
        const Certified v = value(0.0);
        return v.value.re + v.err;
    }
};

enum class LawKind : std::uint8_t {
    gaussian,
    laplace,
    two_point,
    discrete_gaussian,
    subsampled_gaussian,
    part,  // of a law, made and used by contours alone
    atoms
};

class LossLaw {
public:
    virtual ~LossLaw() = default;
    virtual LawKind kind() const = 0;
    virtual Cumulants cumulants(double c, StopCheck stop) const = 0;
    // copies: how often the law occurs in the composition; the certificate of a quadrature is chosen accordingly.
    // reach: the largest t at which full accuracy is wanted. lattice: the envelope only has to hold up to pi/step.
    // stop: heeded while the line is opened, and by it.
    virtual std::unique_ptr<LossLine> line(double c, double reach, double copies, bool lattice,
                                           StopCheck stop) const = 0;
    virtual double max_loss() const = 0;  // of the finite part; rounded up
    virtual double min_loss() const = 0;  // rounded down
    virtual Lattice lattice() const { return {}; }
    // log of the mass of finite losses and of all losses (0 unless a pmf does not sum to one), and their error.
    virtual double log_finite_mass() const { return 0.0; }
    virtual double log_total_mass() const { return 0.0; }
    virtual double log_mass_err() const { return 0.0; }
    virtual double infinite_mass() const { return 0.0; }
    virtual bool infinite_mass_exact() const { return true; }  // free of rounding error
    // log(finite mass/total mass) <= 0, and its relative error: taken by itself, because as a difference of the
    // two logarithms a small infinite mass would vanish in rounding.
    virtual double log_finite_share() const { return 0.0; }
    virtual double log_finite_share_err() const { return 0.0; }
    // The finite atoms, if there are finitely many and nothing else; and how many there are.
    virtual std::vector<Atom> atoms() const { return {}; }
    virtual double atom_count() const { return 0.0; }
    // Parameters that identify the law among those of its kind.
    virtual std::vector<double> parameters() const = 0;
};

using LawPtr = std::shared_ptr<const LossLaw>;

// Gaussian noise: L ~ Normal(rho, 2 rho), rho = (sensitivity/sigma)^2/2.
LawPtr gaussian_law(double sigma, double sensitivity);
// Several Gaussian mechanisms are one: the rho add up. rho_err is relative.
LawPtr gaussian_law_of_rho(double rho, double rho_err);
double gaussian_rho(const LossLaw& law);
double gaussian_rho_err(const LossLaw& law);

// Laplace noise of scale sensitivity/epsilon.
LawPtr laplace_law(double epsilon);
// Its losses between the two ends, their mass (1 - e^-epsilon)/2 made 1; those at the ends are a randomised
// response.
LawPtr laplace_interior_law(double epsilon);

// Infinite loss with probability delta, else randomised response with the given epsilon.
LawPtr two_point_law(double epsilon, double delta);

// Discrete Gaussian noise on the integers, answers that differ by the integer `shift`.
LawPtr discrete_gaussian_law(double sigma, double shift);

// Discrete Laplace noise exp(-|x|/scale) on the integers, answers that differ by the integer `shift`.
LawPtr discrete_laplace_law(double scale, std::int64_t shift);

// Poisson-subsampled Gaussian, sensitivity 1. removal: the mixture (1-q) N(0, s^2) + q N(1, s^2) against N(0,
// s^2); otherwise N(0, s^2) against the mixture.
LawPtr subsampled_gaussian_law(double sigma, double rate, bool removal);

// Finitely many losses, rising, whose masses make 1 but for the relative error mass_rel of each.
LawPtr atoms_law(std::vector<Atom> atoms, double mass_rel);

// Any finite pair: losses log(p/q) with mass p.
LawPtr pmf_law(const std::vector<double>& p, const std::vector<double>& q, StopCheck stop = {});

}  // namespace dpcore
