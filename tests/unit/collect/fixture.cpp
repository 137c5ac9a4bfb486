/* Code that C++ compilers describe in ways of their own: lambdas within functions and types, templates, classes. */
#include <algorithm>
#include <string>
#include <vector>

namespace shop
{
struct Price {
    std::string name;
    std::vector<int> digits;
};

template <typename T, int factor> struct Till {
    T sum{};
    __attribute__((noinline)) void take(const std::vector<Price> &prices)
    {
        for (const Price &price : prices)
            for (int digit : price.digits)
                sum += static_cast<T>(digit) * factor;
    }
};
} // namespace shop

__attribute__((noinline)) double sell(std::vector<shop::Price> &prices, int limit)
{
    auto cheaper = [limit](const shop::Price &a, const shop::Price &b) __attribute__((noinline))
    {
        auto small = [limit](const shop::Price &price) {
            return std::count(price.digits.begin(), price.digits.end(), limit);
        };
        return small(a) < small(b);
    };
    std::sort(prices.begin(), prices.end(), cheaper);
    shop::Till<double, 3> till;
    till.take(prices);
    return till.sum;
}
