// The pieces of a composition divided at cuts, and bounds of their sum.
//
// Method:    A piece whose estimate is above a share of the width asked for has a contour (or is smoothed); of the
//            others, and of many large steps together, one exponential moment is asked. Where the mean loss of a
//            piece is above epsilon: delta = M(0) - e^epsilon M(-1) + E[(e^{epsilon-L} - 1)+]. Of tails a piece
//            counts with its mass where nearly all of it lies on one side. Beside listed losses a piece is asked
//            at what each of them leaves of epsilon (point_sums.hpp). refine() adds a cut where least is known.
// Domain:    as DividedSteps, which outlives the pieces; no common lattice is used.
// Guarantee: lower <= truth <= upper, for the finite losses; listed ones with the mass of those chosen made 1.
//            Estimates are none.
// Evidence:  docs/accounting_derivations.md, "step_pieces"; tests/test_accounting_subsampled.py,
//            tests/test_accounting_sampled_atoms.py.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "divided_steps.hpp"
#include "dpcore/spectral.hpp"

namespace dpcore::detail {

// The terms of one division, and what is known of them: of delta, or of Pr[L > epsilon], finite losses. Cuts are
// added where that is least.
class StepPieces {
public:
    static constexpr std::size_t kMostCuts = 16;
    // A term is worth a contour where its estimate is above this share of the width asked for, as a logarithm;
    // below, one exponential moment will do.
    static constexpr double kNegligibleShare = 7.0;
    // Cuts are moved by such a stride: the odds by a factor of 3.3.
    static constexpr double kStride = 1.2;

    // c: about where contours stand. content: the width aimed at, relative for delta, absolute for tails; floor:
    // log of what is next to nothing in any case.
    StepPieces(DividedSteps& divided, std::vector<double> cuts, Quantity quantity, double epsilon, double c,
               double content, double floor, StopCheck stop);

    // log of the sum of what one moment says of each term, about. Humps that the cuts do not part make it too
    // large: of two divisions the better one has the lesser estimate.
    double estimate();

    // What is known without any contour.
    LogBounds without(double enough) const;
    // And without cuts.
    LogBounds whole(double enough) const;

    LogBounds bounds();

    // One more cut, in the window of which least is known; whether there is one.
    bool refine();

private:
    struct Piece {
        double low, high;
        LargeStepsCount count;
        double estimate, moment, chernoff;
        bool looked, done;  // what is known is the mass or one moment; or all there is
        LogBounds bounds;
    };

    double next_to_nothing(double log_sum) const;
    void list();
    void look(Piece& p);
    bool without_contour(const std::vector<Term>& steps, double moment, bool search, double enough,
                         LogBounds& bounds) const;
    bool points_without_contour(const Composition& comp, const std::vector<Term>& steps, double moment,
                                bool search, double enough, LogBounds& bounds) const;
    void by_contour(const std::vector<Term>& steps, double enough, double width, LogBounds& bounds) const;

    DividedSteps& divided_;
    std::vector<double> cuts_;
    Quantity quantity_;
    double epsilon_, c_, content_, floor_;
    StopCheck stop_;
    std::vector<WeightedPoint> points_;
    double points_err_ = 0.0;
    std::vector<Piece> pieces_;
    double best_ = -std::numeric_limits<double>::infinity();   // the largest estimate
    double lower_ = -std::numeric_limits<double>::infinity();  // log of a lower bound of the sum
};

}  // namespace dpcore::detail
