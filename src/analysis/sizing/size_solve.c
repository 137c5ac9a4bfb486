#include "analysis/sizing/size_solve.h"

#include <math.h>
#include <string.h>

#define STEEP   1.5 /* the power from which on a size may prove quadratic */
#define CLEARLY 3.0 /* times nearer than proportionality to the first variable, which is the default */
#define CHANCE  3.0 /* times the deviation from a line */
#define FAR     64  /* times the largest probe: where the steepest and the flattest of several solutions are compared */

enum { ONE, X, Y, XY, XX, YY, XYY };

/* The sums that are tried, the simplest first. Sizes are nearly always products of dimensions: one term; two where a
 * dimension is a length plus a constant (a convolution's border). */
static const struct form {
    unsigned char terms, term[3];
} forms[] = {
    {1, {ONE}},        {1, {X}},          {1, {Y}},          {1, {XY}},         {1, {XYY}},        {1, {YY}},
    {1, {XX}},         {2, {ONE, X}},     {2, {ONE, Y}},     {2, {ONE, XY}},    {2, {X, XY}},      {2, {Y, XY}},
    {2, {X, Y}},       {2, {XY, XYY}},    {2, {X, XYY}},     {2, {ONE, XX}},    {2, {X, XX}},      {2, {ONE, YY}},
    {2, {Y, YY}},      {2, {ONE, XYY}},   {3, {ONE, X, XX}}, {3, {ONE, Y, YY}}, {3, {X, XY, XYY}}, {3, {ONE, X, Y}},
    {3, {ONE, X, XY}}, {3, {ONE, Y, XY}},
};

void mp_size_monomials(struct mp_size_point point, double to[MP_SIZE_TERMS])
{
    double x = (double)point.first, y = (double)point.second;
    to[ONE] = 1;
    to[X] = x;
    to[Y] = y;
    to[XY] = x * y;
    to[XX] = x * x;
    to[YY] = y * y;
    to[XYY] = x * y * y;
}

double mp_size_sum_at(const struct mp_size_sum *sum, const double monomials[MP_SIZE_TERMS])
{
    double bytes = 0;
    for (size_t i = 0; i < MP_SIZE_TERMS; i++)
        bytes += (double)sum->term[i] * monomials[i];
    return bytes / MP_SIZE_UNIT;
}

static bool uses_second(const struct form *form)
{
    for (size_t i = 0; i < form->terms; i++)
        if (form->term[i] == Y || form->term[i] == XY || form->term[i] == YY || form->term[i] == XYY) return true;
    return false;
}

/* Gaussian elimination with pivoting over the given rows; false where they do not determine the factors. */
static bool eliminate(long double rows[3][4], size_t count, long double factors[3])
{
    for (size_t i = 0; i < count; i++) {
        size_t pivot = i;
        for (size_t row = i + 1; row < count; row++)
            if (fabsl(rows[row][i]) > fabsl(rows[pivot][i])) pivot = row;
        if (fabsl(rows[pivot][i]) < 1e-9L) return false;
        for (size_t column = 0; column <= count; column++) {
            long double kept = rows[i][column];
            rows[i][column] = rows[pivot][column];
            rows[pivot][column] = kept;
        }
        for (size_t row = 0; row < count; row++) {
            if (row == i) continue;
            long double times = rows[row][i] / rows[i][i];
            for (size_t column = i; column <= count; column++)
                rows[row][column] -= times * rows[i][column];
        }
    }
    for (size_t i = 0; i < count; i++)
        factors[i] = rows[i][count] / rows[i][i];
    return true;
}

/* The factors with which a form passes through sizes[i] at probe which[i]. */
static bool through(const struct mp_size_points *points, const struct form *form, const size_t *which,
                    const double *sizes, long double factors[3])
{
    long double rows[3][4];
    for (size_t row = 0; row < form->terms; row++) {
        for (size_t i = 0; i < form->terms; i++)
            rows[row][i] = points->monomials[which[row]][form->term[i]];
        rows[row][form->terms] = sizes[row];
    }
    return eliminate(rows, form->terms, factors);
}

static long double value(const struct form *form, const long double factors[3], const double *monomials)
{
    long double sum = 0;
    for (size_t i = 0; i < form->terms; i++)
        sum += factors[i] * monomials[form->term[i]];
    return sum;
}

static struct mp_size_sum to_sum(const struct form *form, const long double factors[3])
{
    struct mp_size_sum sum = {0};
    for (size_t i = 0; i < form->terms; i++)
        sum.term[form->term[i]] = (int64_t)llroundl(factors[i] * MP_SIZE_UNIT);
    return sum;
}

static bool is_within(const struct mp_size_points *points, const struct form *form, const long double factors[3],
                      const struct mp_size_seen *seen)
{
    for (size_t i = 0; i < points->count; i++) {
        long double at = value(form, factors, points->monomials[i]);
        long double slack = 1e-3L + 1e-12L * fabsl(at);
        if (at < seen->low[i] - slack || at > seen->high[i] + slack) return false;
    }
    return true;
}

/* Real sizes have whole factors, or halves (a triangle); the highest term is never negative. */
static bool is_plausible(const struct form *form, const long double factors[3])
{
    if (form->terms > 1 && factors[form->terms - 1] <= 0) return false;
    for (size_t i = 0; form->terms > 1 && i < form->terms; i++)
        if (fabsl(factors[i] * 2 - roundl(factors[i] * 2)) > 1e-6L * fmaxl(1, fabsl(factors[i]) * 1e-6L)) return false;
    for (size_t i = 0; form->terms > 2 && i < form->terms; i++)
        if (factors[i] < 0) return false;
    return true;
}

/* Moves to the next choice of `terms` probes out of `count`; false after the last. */
static bool next_choice(size_t *which, size_t terms, size_t count)
{
    for (size_t i = terms; i--;) {
        if (which[i] >= count - (terms - i)) continue;
        which[i]++;
        for (size_t later = i + 1; later < terms; later++)
            which[later] = which[later - 1] + 1;
        return true;
    }
    return false;
}

static bool solve_exact(const struct mp_size_points *points, const struct form *form, const struct mp_size_seen *seen,
                        struct mp_size_solution *solution)
{
    size_t which[3] = {0, 1, 2};
    long double factors[3];
    double sizes[3];
    do {
        for (size_t i = 0; i < form->terms; i++)
            sizes[i] = seen->low[which[i]];
        if (!through(points, form, which, sizes, factors)) continue;
        if (!is_plausible(form, factors) || !is_within(points, form, factors, seen)) return false;
        solution->likely = solution->low = solution->high = to_sum(form, factors);
        return true;
    } while (next_choice(which, form->terms, points->count));
    return false;
}

/* Searches all sums of the form that stay within the bounds: the extreme ones pass through bounds of as many probes as
 * the form has terms. Keeps those that are highest and lowest far out. */
static bool solve_bounded(const struct mp_size_points *points, const struct form *form, const struct mp_size_seen *seen,
                          struct mp_size_solution *solution)
{
    size_t which[3] = {0, 1, 2};
    struct mp_size_point far = points->at[points->count - 1];
    double monomials[MP_SIZE_TERMS];
    long double lowest = INFINITY, highest = -INFINITY;
    bool found = false;
    far.first *= FAR;
    if (points->two) far.second *= FAR;
    mp_size_monomials(far, monomials);
    do {
        for (unsigned corner = 0; corner < 1u << form->terms; corner++) {
            long double factors[3];
            double sizes[3];
            for (size_t i = 0; i < form->terms; i++)
                sizes[i] = corner >> i & 1 ? seen->high[which[i]] : seen->low[which[i]];
            if (!through(points, form, which, sizes, factors) || !is_within(points, form, factors, seen)) continue;
            if (factors[form->terms - 1] < 0) continue;
            long double out = value(form, factors, monomials);
            if (out < lowest) solution->low = to_sum(form, factors), lowest = out;
            if (out > highest) solution->high = to_sum(form, factors), highest = out;
            found = true;
        }
    } while (next_choice(which, form->terms, points->count));
    for (size_t i = 0; i < MP_SIZE_TERMS; i++)
        solution->likely.term[i] = solution->low.term[i] / 2 + solution->high.term[i] / 2;
    return found;
}

/* Two probes of one variable leave open whether a size grows linearly or quadratically: keeps the likely sum, and as
 * bounds those that agree with both probes and are lowest and highest far out. */
static void leave_open(const struct mp_size_points *points, const struct mp_size_seen *seen,
                       struct mp_size_solution *solution)
{
    static const struct form open[] = {{2, {ONE, X}}, {2, {X, XX}}, {2, {ONE, XX}}};
    double monomials[MP_SIZE_TERMS];
    size_t which[3] = {0, 1, 2};
    mp_size_monomials((struct mp_size_point){points->at[points->count - 1].first * FAR, 1}, monomials);
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        long double factors[3];
        if (!through(points, &open[i], which, seen->low, factors) || factors[0] < 0 || factors[1] < 0) continue;
        struct mp_size_sum sum = to_sum(&open[i], factors);
        double out = mp_size_sum_at(&sum, monomials);
        if (out < mp_size_sum_at(&solution->low, monomials)) solution->low = sum;
        if (out > mp_size_sum_at(&solution->high, monomials)) solution->high = sum;
    }
}

void mp_size_solve(const struct mp_size_points *points, const struct mp_size_seen *seen,
                   struct mp_size_solution *solution)
{
    bool exact = !memcmp(seen->low, seen->high, points->count * sizeof *seen->low);
    memset(solution, 0, sizeof *solution);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const struct form *form = &forms[i];
        if (form->terms > points->count || (uses_second(form) && !points->two)) continue;
        if (form->terms > 2 && (!exact || form->terms == points->count)) continue; /* nearly anything agrees */
        if (!(exact ? solve_exact : solve_bounded)(points, form, seen, solution)) continue;
        solution->kind = form->terms < points->count ? MP_SIZE_SOLVED : MP_SIZE_UNCHECKED;
        if (exact && solution->kind == MP_SIZE_UNCHECKED && points->count == 2 && !points->two)
            leave_open(points, seen, solution);
        return;
    }
    solution->kind = MP_SIZE_OPAQUE;
}

/* ---- sizes without a solution ----------------------------------------------------------------------------------- */

static void widen(struct mp_size_bounds *bounds, double bytes)
{
    if (bytes < bounds->low) bounds->low = bytes;
    if (bytes > bounds->high) bounds->high = bytes;
}

/* The largest deviation of the sizes from proportionality to a monomial. */
static double spread(const struct mp_size_points *points, const double *seen, unsigned growth)
{
    double low = INFINITY, high = 0;
    for (size_t k = 0; k < points->count; k++) {
        double ratio = seen[k] / points->monomials[k][growth];
        low = fmin(low, ratio);
        high = fmax(high, ratio);
    }
    return high > 0 ? (high - low) / high : 0;
}

unsigned mp_size_growth(const struct mp_size_points *points, const double *seen)
{
    static const unsigned char growths[] = {ONE, XX, Y, XY, YY, XYY};
    unsigned best = X;
    double least = spread(points, seen, X) / CLEARLY;
    for (size_t i = 0; i < (points->two ? sizeof growths : 2); i++) {
        double differ = spread(points, seen, growths[i]);
        if (differ < least) best = growths[i], least = differ;
    }
    return best;
}

/* The largest deviation, as a part, of the sizes from the nearest line. */
static double residue(const struct mp_size_points *points, const double *seen, unsigned growth)
{
    double n = (double)points->count, x = 0, y = 0, xx = 0, xy = 0, most = 0;
    for (size_t k = 0; k < points->count; k++) {
        double of = points->monomials[k][growth];
        x += of / n, y += seen[k] / n, xx += of * of / n, xy += of * seen[k] / n;
    }
    double slope = xx > x * x ? (xy - x * y) / (xx - x * x) : 0;
    for (size_t k = 0; k < points->count; k++) {
        double line = y + slope * (points->monomials[k][growth] - x);
        if (seen[k] > 0) most = fmax(most, fabs(seen[k] - line) / seen[k]);
    }
    return most;
}

/* Bounds from several assumptions: that each probe alone gives the size per unit; that it grows along a line, or as a
 * power; that it grows no more. The deviation from a line counts as chance, and reaches further than the few probes
 * show. */
struct mp_size_bounds mp_size_bound(const struct mp_size_points *points, const double *seen, unsigned growth,
                                    struct mp_size_point at)
{
    double monomials[MP_SIZE_TERMS], sum = 0, weight = 0;
    struct mp_size_bounds bounds = {0, INFINITY, 0};
    size_t last = points->count - 1;
    mp_size_monomials(at, monomials);
    double by = monomials[growth];
    for (size_t k = 0; k < points->count; k++) {
        double of = points->monomials[k][growth];
        widen(&bounds, seen[k] * by / of);
        sum += seen[k] * of;
        weight += of * of;
    }
    double first_of = points->monomials[0][growth], last_of = points->monomials[last][growth];
    if (growth == ONE) {
        const double *x = points->monomials[0], *far = points->monomials[last];
        double slope = far[X] > x[X] ? (seen[last] - seen[0]) / (far[X] - x[X]) : 0;
        widen(&bounds, fmax(seen[last] + slope * (monomials[X] - far[X]), 0));
    } else if (last_of > first_of) {
        widen(&bounds, fmax(seen[last] + (seen[last] - seen[0]) / (last_of - first_of) * (by - last_of), 0));
        double power = seen[0] > 0 ? log(seen[last] / seen[0]) / log(last_of / first_of) : 1;
        if (power > STEEP) power = 2;
        if (power > 1) widen(&bounds, seen[last] * pow(by / last_of, power));
    }
    if (last && seen[last] <= seen[last - 1]) widen(&bounds, seen[last]);
    bounds.likely = fmin(fmax(sum / weight * by, bounds.low), bounds.high);
    double chance = CHANCE * residue(points, seen, growth);
    bounds.low *= fmax(1 - chance, 0);
    bounds.high *= 1 + chance;
    return bounds;
}
