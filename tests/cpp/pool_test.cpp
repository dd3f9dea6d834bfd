#include "base/pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <fstream>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/alone_or_together.h"
#include "base/fork.h"

namespace snug {
namespace {

constexpr int kThreads = 4;

/// How often each chunk was done.
std::vector<int> count_chunks(std::int64_t chunks, int threads,
                              std::int64_t amount = kParallelWork) {
  std::vector<std::atomic<int>> done(static_cast<std::size_t>(chunks));
  auto work = [&](int slot, std::int64_t begin, std::int64_t end) {
    EXPECT_GE(slot, 0);
    EXPECT_LT(slot, threads);
    for (; begin < end; ++begin) ++done[static_cast<std::size_t>(begin)];
  };
  run_chunks(chunks, amount, threads, work);
  return {done.begin(), done.end()};
}

/// What a child does, as its exit status.
template <class F>
int in_child(F&& f) {
  const pid_t child = fork();
  if (child == 0) _exit(f() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Pool, DoesEveryChunkOnce) {
  ASSERT_EQ(pool_threads(kThreads), kThreads);
  for (int round = 0; round < 300; ++round)
    for (std::int64_t chunks : {0, 1, 2, 3, 7, 64, 1000})
      for (int threads : {1, 2, 3, kThreads}) {
        const auto done = count_chunks(chunks, threads, round % 2 ? kParallelWork : kAwakeWork);
        ASSERT_EQ(done, std::vector<int>(static_cast<std::size_t>(chunks), 1))
            << chunks << " chunks on " << threads << " threads";
      }
}

/// All threads are in one chunk each at the same time, since each waits for the others. In a child,
/// where no wait of before lets the pool try one thread alone.
TEST(Pool, WorksOnAsManyThreadsAsAskedFor) {
  EXPECT_EQ(in_child([] {
              if (pool_threads(kThreads) != kThreads) return false;
              std::atomic<int> arrived{0};
              std::array<std::atomic<int>, kThreads> slots{};
              auto work = [&](int slot, std::int64_t begin, std::int64_t end) {
                if (end != begin + 1) return;
                ++slots[static_cast<std::size_t>(slot)];
                ++arrived;
                while (arrived < kThreads) std::this_thread::yield();
              };
              run_chunks(kThreads, kParallelWork, kThreads, work);
              return std::all_of(slots.begin(), slots.end(), [](auto& s) { return s == 1; });
            }),
            0);
}

TEST(Pool, WorkInsideAChunkIsDoneByItsThread) {
  pool_threads(kThreads);
  std::atomic<std::int64_t> sum{0};
  auto outer = [&](int, std::int64_t begin, std::int64_t end) {
    for (; begin < end; ++begin) {
      const auto thread = std::this_thread::get_id();
      auto inner = [&](int slot, std::int64_t b, std::int64_t e) {
        EXPECT_EQ(slot, 0);
        EXPECT_EQ(std::this_thread::get_id(), thread);
        for (; b < e; ++b) sum += b;
      };
      run_chunks(10, kParallelWork, kThreads, inner);
    }
  };
  run_chunks(100, kParallelWork, kThreads, outer);
  EXPECT_EQ(sum, 100 * 45);
}

TEST(Pool, ThrowsWhatAChunkThrowsAndGoesOn) {
  pool_threads(kThreads);
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> running{0};
    auto work = [&](int, std::int64_t begin, std::int64_t end) {
      ++running;
      const bool bad = begin % 5 + end - begin > 3;  // the range holds one of 3, 8, 13, ...
      --running;
      if (bad) throw std::runtime_error("a chunk");
    };
    try {
      run_chunks(50, kParallelWork, kThreads, work);
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "a chunk");
    }
    EXPECT_EQ(running, 0);  // nothing runs any more
    EXPECT_EQ(count_chunks(9, kThreads), std::vector<int>(9, 1));
  }
}

TEST(Pool, ManyThreadsBringWorkAtTheSameTime) {
  pool_threads(kThreads);
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 8; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round)
        parallel_ranges(1000, 1 << 20, kThreads, [&](std::int64_t begin, std::int64_t end) {
          std::int64_t part = 0;
          for (; begin < end; ++begin) part += begin;
          sum += part;
        });
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(sum, std::int64_t{8} * 500 * 999 * 1000 / 2);
}

TEST(Pool, PartsStartAtMultiplesOfTheGrain) {
  pool_threads(kThreads);
  for (std::int64_t count : {1, 255, 256, 257, 5000, 100003}) {
    std::mutex mutex;
    std::set<std::pair<std::int64_t, std::int64_t>> parts;
    parallel_slots(
        count, 1 << 22, kThreads,
        [&](int, std::int64_t begin, std::int64_t end) {
          const std::lock_guard lock(mutex);
          parts.emplace(begin, end);
        },
        256);
    std::int64_t at = 0;
    for (auto [begin, end] : parts) {
      EXPECT_EQ(begin, at);
      EXPECT_EQ(begin % 256, 0);
      at = end;
    }
    EXPECT_EQ(at, count);
  }
}

/// What is done in `seconds` where threads together and one alone do so much per second.
double work_done(AloneOrTogether& choice, double seconds, double together, double alone,
                 bool held_up) {
  double done = 0;
  for (double t = 0; t < seconds;) {
    constexpr double kEach = 1e-3;  // work of a call
    constexpr std::uint64_t kKind = 1;
    const double took = kEach / (choice.together(kKind) ? together : alone);
    if (choice.together(kKind)) choice.took(took, held_up ? took / 2 : 0);
    if (choice.watches()) choice.did(kKind, took);
    done += kEach;
    t += took;
  }
  return done;
}

TEST(AloneOrTogether, DoesWhatIsFaster) {
  for (double alone : {0.5, 0.9, 1.1, 3.0}) {
    AloneOrTogether choice;
    const double best = std::max(alone, 1.0);
    EXPECT_GT(work_done(choice, 10, 1, alone, true), 10 * best * 0.9) << alone;
    // The neighbours are gone.
    work_done(choice, 3, 2, 1, false);
    EXPECT_TRUE(choice.together(1));
    EXPECT_FALSE(choice.watches());
    EXPECT_GT(work_done(choice, 1, 2, 1, false), 1.99);
  }
}

TEST(AloneOrTogether, SeesWhatComesOnlyWithTime) {
  // One thread is faster by a fifth, once the system has forgotten that there were two: until then
  // it gets the half.
  AloneOrTogether choice;
  double two = 1, done = 0, slower = 0;  // of the last 30 ms, the share with two threads
  for (double t = 0; t < 20;) {
    const bool together = choice.together(1);
    const double took = 1e-3 / (together ? 1 : 1.2 - 0.6 * two);
    two += (static_cast<double>(together) - two) * (1 - std::exp(-took / 0.03));
    if (together) choice.took(took, took / 2);
    if (choice.watches()) choice.did(1, took);
    if (t > 5) done += 1e-3, slower += together ? took : 0;
    t += took;
  }
  EXPECT_GT(done, 15 * 1.2 * 0.93);
  EXPECT_LT(slower, 15 * 0.2);
}

TEST(AloneOrTogether, IsNotMisledByAMixOfWork) {
  // Cheap work, then dear work and so on, in turns of any length: two threads are always faster.
  for (double turn : {0.005, 0.04, 0.05, 0.3}) {
    AloneOrTogether choice;
    double alone = 0;
    for (double t = 0; t < 10;) {
      const bool dear = static_cast<int>(t / turn) % 2 == 1;
      const std::uint64_t kind = dear ? 2 : 1;
      const bool together = choice.together(kind);
      const double took = (dear ? 5e-3 : 1e-3) * (together ? 1 : 1.5);
      if (together) choice.took(took, took / 2);
      if (choice.watches()) choice.did(kind, took);
      if (!together) alone += took;
      t += took;
    }
    EXPECT_LT(alone, 2) << turn;
  }
}

TEST(AloneOrTogether, DoesNotMindACoreThatIsLostNowAndThen) {
  AloneOrTogether choice;
  for (int call = 0; call < 1000; ++call) {
    choice.took(1e-3, call % 10 == 0 ? 1e-3 : 0);
    EXPECT_FALSE(choice.watches());
  }
}

TEST(AloneOrTogether, SaysNothingOfWorkThatWasNotTried) {
  AloneOrTogether choice;
  work_done(choice, 10, 1, 3, true);
  while (choice.together(1)) work_done(choice, 0.01, 1, 3, true);
  EXPECT_TRUE(choice.together(2));
}

TEST(Pool, AChildOfForkStartsThreadsOfItsOwn) {
  pool_threads(kThreads);
  std::atomic<bool> stop{false};
  // The fork comes while the pool works. This thread allocates nothing: the allocator of the
  // address sanitizer does not survive a fork beside one that does.
  std::atomic<std::int64_t> done{0};
  auto work = [&](int, std::int64_t begin, std::int64_t end) { done += end - begin; };
  std::thread busy([&] {
    while (!stop) run_chunks(64, kParallelWork, kThreads, work);
  });
  for (int round = 0; round < 20; ++round)
    EXPECT_EQ(in_child([] {
                if (count_chunks(9, kThreads) != std::vector<int>(9, 1)) return false;
                if (pool_threads(kThreads) != kThreads) return false;
                for (int i = 0; i < 50; ++i)
                  if (count_chunks(50, kThreads) != std::vector<int>(50, 1)) return false;
                return true;
              }),
              0);
  stop = true;
  busy.join();
}

TEST(Pool, WorksWhereNoThreadCanBeStarted) {
  EXPECT_EQ(in_child([] {
              // Room for what threads allocate, and for fewer stacks than 64.
              std::uint64_t pages = 0;
              std::ifstream("/proc/self/statm") >> pages;
              rlimit limit{};
              getrlimit(RLIMIT_AS, &limit);
              limit.rlim_cur = pages * static_cast<std::uint64_t>(getpagesize()) + (64 << 20);
              if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
              const bool fewer = pool_threads(64) < 64;
              limit.rlim_cur = limit.rlim_max;
              setrlimit(RLIMIT_AS, &limit);
              return fewer && count_chunks(9, 64) == std::vector<int>(9, 1);
            }),
            0);
}

}  // namespace
}  // namespace snug
