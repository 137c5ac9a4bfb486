/*
 * A program of templates, operators and destructors, as C++ is written: before a block is made, a line "bytes name" says
 * what a person calls the function that makes it.
 */
#include <memprof.h>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

static uint32_t pool;
static size_t next = 1000;
static uintptr_t at = 1 << 20;

static __attribute__((noinline)) void made(const char *name)
{
    next += 8;
    memprof_alloc(pool, (void *)(at += 1 << 20), next);
    std::printf("%zu %s\n", next, name);
}

namespace media {
struct Frame {
    int width, height;
};

namespace {
__attribute__((noinline)) void decode(const Frame &frame, std::vector<std::pair<int, std::string>> *log)
{
    made("media::(anonymous namespace)::decode");
    log->emplace_back(frame.width, "decoded");
}
} // namespace

template <typename Pixel, size_t Planes> class Image {
  public:
    __attribute__((noinline)) explicit Image(const std::map<std::string, std::vector<Pixel>> &planes)
    {
        made("media::Image::Image");
        (void)planes;
    }
    __attribute__((noinline)) ~Image() { made("media::Image::~Image"); }
    __attribute__((noinline)) std::tuple<Pixel, Pixel> range() const
    {
        made("media::Image::range");
        return {};
    }
    __attribute__((noinline)) Pixel *operator[](size_t plane)
    {
        made("media::Image::operator[]");
        return data[plane];
    }
    __attribute__((noinline)) explicit operator std::string() const
    {
        made("media::Image::operator std::__cxx11::basic_string");
        return "image";
    }
    __attribute__((noinline)) bool operator<(const Image &) const
    {
        made("media::Image::operator<");
        return false;
    }
    template <typename Function> __attribute__((noinline)) auto map(Function function) -> decltype(function(Pixel()))
    {
        made("media::Image::map");
        return function(Pixel());
    }

  private:
    Pixel data[Planes][4] = {};
};

template <typename... Parts> __attribute__((noinline)) std::vector<std::variant<Parts...>> join(const Parts &...)
{
    made("media::join");
    return {};
}

__attribute__((noinline)) std::function<void(int)> later()
{
    return [](int) { made("media::later::{lambda#1}::operator()"); };
}

struct Stage {
    virtual ~Stage() = default;
    virtual void run(std::unique_ptr<Frame> frame) = 0;
};
struct Counted {
    virtual ~Counted() = default;
    virtual void count() = 0;
};
template <int Radius> struct Blur : Counted, Stage {
    __attribute__((noinline)) void run(std::unique_ptr<Frame>) override { made("media::Blur::run"); }
    __attribute__((noinline)) void count() override { made("media::Blur::count"); }
};
} // namespace media

__attribute__((noinline)) unsigned long long operator""_mb(unsigned long long count)
{
    made("operator\"\" _mb");
    return count << 20;
}

static __attribute__((noinline)) void (*choose(int which))(const char *)
{
    made("choose");
    return which ? nullptr : made;
}

[[gnu::abi_tag("v2")]] __attribute__((noinline)) std::string name_of(int)
{
    made("name_of");
    return {};
}

int main()
{
    pool = memprof_pool("media", MEMPROF_HOST);
    std::vector<std::pair<int, std::string>> log;
    media::decode({640, 480}, &log);
    {
        media::Image<float, 3> image({{"red", {1.f}}}), other({});
        (void)image.range();
        (void)image[1];
        (void)std::string(image);
        (void)(image < other);
        (void)image.map([](float value) {
            made("main::{lambda#1}::operator()");
            return value > 0;
        });
    }
    (void)media::join(1, 2.0, std::string("three"));
    media::later()(3);
    std::unique_ptr<media::Stage> stage = std::make_unique<media::Blur<5>>();
    stage->run(std::make_unique<media::Frame>());
    dynamic_cast<media::Counted &>(*stage).count();
    (void)3_mb;
    (void)choose(1);
    (void)name_of(1);
    return 0;
}
