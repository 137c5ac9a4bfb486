/*
 * A ring of frames, as a program in C++ has one: ring [leak]. 400 frames are captured, filtered and put into a ring of 32,
 * which gives back the frame that was there; with `leak` not if that was a key frame, which every fifth is. Steps are not
 * marked. It says how many bytes it never gave back.
 */
#include <memprof.h>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

constexpr size_t FRAMES = 400, KEY = 5;

class Pool {
  public:
    void *take(size_t bytes)
    {
        void *block = reinterpret_cast<void *>(next += 1 << 20);
        memprof_alloc(pool, block, bytes);
        held += bytes;
        return block;
    }
    void give(void *block, size_t bytes)
    {
        memprof_free(pool, block);
        held -= bytes;
    }
    size_t held = 0;

  private:
    uintptr_t next = 1 << 20;
    uint32_t pool = memprof_pool("frames", MEMPROF_HOST);
};

struct Frame {
    void *data = nullptr;
    size_t bytes = 0;
    bool key = false;
};

template <size_t Places> class Ring {
  public:
    Ring(Pool &pool, bool leak) : pool(pool), leak(leak) {}
    void push(Frame frame)
    {
        Frame &place = frames[at++ % Places];
        if (place.data && !(leak && place.key)) pool.give(place.data, place.bytes);
        place = frame;
    }
    void clear()
    {
        for (Frame &frame : frames)
            pool.give(frame.data, frame.bytes);
    }

  private:
    Pool &pool;
    bool leak;
    size_t at = 0;
    std::array<Frame, Places> frames;
};

__attribute__((noinline)) static Frame capture(Pool &pool, size_t number)
{
    bool key = number % KEY == 0;
    size_t bytes = key ? 64 << 10 : 8 << 10;
    return {pool.take(bytes), bytes, key};
}

__attribute__((noinline)) static void filter(Pool &pool, const Frame &frame)
{
    void *half = pool.take(frame.bytes / 2), *quarter = pool.take(frame.bytes / 4);
    pool.give(half, frame.bytes / 2);
    pool.give(quarter, frame.bytes / 4);
}

template <size_t Places> __attribute__((noinline)) static void process(Pool &pool, Ring<Places> &ring, size_t number)
{
    Frame frame = capture(pool, number);
    filter(pool, frame);
    ring.push(frame);
}

int main(int argc, char **argv)
{
    Pool pool;
    auto ring = std::make_unique<Ring<32>>(pool, argc > 1 && !std::strcmp(argv[1], "leak"));
    for (size_t number = 0; number < FRAMES; number++)
        process(pool, *ring, number);
    ring->clear();
    std::printf("%zu\n", pool.held);
    return 0;
}
