/*
 * A program of visitors, threads and comparisons, as C++ is written: before a block is made, a line "bytes
 * name" says what a person calls the function that makes it.
 */
#include <memprof.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <variant>
#include <vector>

static uint32_t pool;
static size_t next = 2000;
static uintptr_t at = 1 << 20;

static __attribute__((noinline)) void made(const char *name)
{
    next += 8;
    memprof_alloc(pool, (void *)(at += 1 << 20), next);
    std::printf("%zu %s\n", next, name);
}

namespace scene {
struct Sphere {
    double radius;
};
struct Box {
    double sides[3];
};
using Shape = std::variant<Sphere, Box>;

struct Measure {
    __attribute__((noinline)) double operator()(const Sphere &sphere) const
    {
        made("scene::Measure::operator()");
        return sphere.radius;
    }
    __attribute__((noinline)) double operator()(const Box &) const { return 0; }
};

template <typename Derived> struct Base { // which calls what is derived from it
    __attribute__((noinline)) int render() const { return static_cast<const Derived *>(this)->draw(); }
};
struct Leaf : Base<Leaf> {
    __attribute__((noinline)) int draw() const
    {
        made("scene::Leaf::draw");
        return 1;
    }
    __attribute__((noinline)) int twice() const
    {
        return [] {
            return [](int times) {
                made("scene::Leaf::twice::{lambda#1}::operator()::{lambda#1}::operator()");
                return times;
            };
        }()(2);
    }
};

template <typename Number> __attribute__((noinline)) Number (*pick(Number))(Number)
{
    made("scene::pick");
    return nullptr;
}

template <typename Number> __attribute__((noinline)) decltype(auto) widest(std::vector<Number> &numbers)
{
    made("scene::widest");
    return numbers[0];
}

template <auto Method> struct Bound {
    __attribute__((noinline)) void call()
    {
        made("scene::Bound::call");
        Leaf leaf;
        (leaf.*Method)();
    }
};

template <typename Number> __attribute__((noinline)) Number &operator<<(Number &number, const Sphere &)
{
    made("scene::operator<<");
    return number;
}
} // namespace scene

int main()
{
    pool = memprof_pool("scene", MEMPROF_HOST);
    scene::Shape shape = scene::Sphere{1};
    (void)std::visit(scene::Measure(), shape);
    scene::Leaf leaf;
    leaf.render();
    leaf.twice();
    (void)scene::pick(1.5);
    std::vector<long> numbers{3, 1, 2};
    scene::widest(numbers);
    scene::Bound<&scene::Leaf::draw>().call();
    int count = 0;
    count << scene::Sphere{2};
    bool first = true;
    std::sort(numbers.begin(), numbers.end(), [&first](long a, long b) {
        if (first) made("main::{lambda#1}::operator()");
        first = false;
        return a < b;
    });
    std::thread([] { made("main::{lambda#2}::operator()"); }).join();
    return 0;
}
