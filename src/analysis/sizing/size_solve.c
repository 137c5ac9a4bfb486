#include "analysis/sizing/size_solve.h"

#include <math.h>
#include <string.h>

#define FAR 64 /* solutions within bounds are compared at the largest probe times FAR */

enum { ONE, B, BB };

static const struct form {
    unsigned char terms, term[2];
} forms[] = {{1, {ONE}}, {1, {B}}, {1, {BB}}, {2, {ONE, B}}, {2, {B, BB}}, {2, {ONE, BB}}};

static long double monomial(unsigned term, double batch)
{
    return term == ONE ? 1 : term == B ? batch : (long double)batch * batch;
}

double mp_size_sum_at(const struct mp_size_sum *sum, double batch)
{
    return sum->term[ONE] + (sum->term[B] + sum->term[BB] * batch) * batch;
}

static long double value(const struct form *form, const long double *factors, double batch)
{
    long double sum = 0;
    for (size_t i = 0; i < form->terms; i++)
        sum += factors[i] * monomial(form->term[i], batch);
    return sum;
}

static struct mp_size_sum to_sum(const struct form *form, const long double *factors)
{
    struct mp_size_sum sum = {0};
    for (size_t i = 0; i < form->terms; i++)
        sum.term[form->term[i]] = (double)factors[i];
    return sum;
}

/* The factors with which a form has a given size at one batch and, with two terms, another size at another batch. */
static bool through(const struct form *form, double one, double size, double other, double other_size,
                    long double factors[2])
{
    long double a = monomial(form->term[0], one), b = monomial(form->term[1], one);
    long double c = monomial(form->term[0], other), d = monomial(form->term[1], other), divisor = a * d - b * c;
    if (form->terms == 1) {
        factors[0] = size / a;
        return true;
    }
    if (fabsl(divisor) < 1e-9L) return false;
    factors[0] = (size * d - b * other_size) / divisor;
    factors[1] = (a * other_size - size * c) / divisor;
    return true;
}

/* True if the form agrees with every probe and grows. If sizes are known exactly, factors are whole numbers, or halves
 * (for a triangle). */
static bool agrees(const struct mp_size_batches *batches, const struct form *form, const long double *factors,
                   const struct mp_size_seen *seen, bool exact)
{
    for (size_t i = 0; i < form->terms && form->terms > 1; i++)
        if (exact && fabsl(factors[i] * 2 - roundl(factors[i] * 2)) > 1e-6L * fmaxl(1, fabsl(factors[i]) * 1e-6L))
            return false;
    if (factors[form->terms - 1] < 0) return false;
    for (size_t i = 0; i < batches->count; i++) {
        long double at = value(form, factors, batches->at[i]), slack = 1e-3L + 1e-12L * fabsl(at);
        if (at < seen->low[i] - slack || at > seen->high[i] + slack) return false;
    }
    return true;
}

/* A form with N terms passes through the bounds of N probes in its extreme solutions. Keeps the highest and the lowest
 * of these at FAR. */
static bool solve_form(const struct mp_size_batches *batches, const struct form *form, const struct mp_size_seen *seen,
                       bool exact, struct mp_size_solution *solution)
{
    double far = FAR * batches->at[batches->count - 1];
    long double lowest = INFINITY, highest = -INFINITY, factors[2];
    for (size_t i = 0; i < batches->count; i++)
        for (size_t j = form->terms > 1 ? i + 1 : batches->count - 1; j < batches->count; j++)
            for (unsigned corner = 0; corner < (exact ? 1 : 1u << form->terms); corner++) {
                double one = corner & 1 ? seen->high[i] : seen->low[i];
                double other = corner & 2 ? seen->high[j] : seen->low[j];
                if (!through(form, batches->at[i], one, batches->at[j], other, factors) ||
                    !agrees(batches, form, factors, seen, exact))
                    continue;
                long double out = value(form, factors, far);
                if (out < lowest) solution->low = to_sum(form, factors), lowest = out;
                if (out > highest) solution->high = to_sum(form, factors), highest = out;
            }
    for (size_t i = 0; i < MP_SIZE_TERMS; i++)
        solution->likely.term[i] = solution->low.term[i] / 2 + solution->high.term[i] / 2;
    if (exact) solution->likely = solution->high;
    return highest >= lowest;
}

/* The line of least squares that neither falls nor begins below zero. */
static struct mp_size_sum nearest_line(const struct mp_size_batches *batches, const double *seen)
{
    static const struct form line = {2, {ONE, B}};
    long double n = batches->count, x = 0, y = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < batches->count; i++) {
        x += batches->at[i], y += seen[i];
        xx += batches->at[i] * batches->at[i], xy += batches->at[i] * seen[i];
    }
    long double spread = n * xx - x * x, factors[2] = {0, spread > 0 ? (n * xy - x * y) / spread : 0};
    if (factors[1] < 0) factors[1] = 0;
    factors[0] = (y - factors[1] * x) / n;
    if (factors[0] < 0) factors[0] = 0, factors[1] = xy / xx;
    return to_sum(&line, factors);
}

void mp_size_solve(const struct mp_size_batches *batches, const struct mp_size_seen *seen,
                   struct mp_size_solution *solution)
{
    bool exact = !memcmp(seen->low, seen->high, batches->count * sizeof *seen->low);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        memset(solution, 0, sizeof *solution);
        if (forms[i].terms > batches->different || !solve_form(batches, &forms[i], seen, exact, solution)) continue;
        solution->proved = forms[i].terms < batches->different;
        return;
    }
    memset(solution, 0, sizeof *solution);
    solution->likely = nearest_line(batches, seen->high);
}
