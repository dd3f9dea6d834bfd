// Freed blocks are kept for the next arrays: within bounds, counted, and given back on need.
#include "base/kept_blocks.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>

#include "api/process_memory.h"
#include "error_of.h"
#include "exec/arena.h"
#include "random_array.h"
#include "snug.h"
#include "target/free_memory.h"

namespace snug {
namespace {

using testing::error_of;

constexpr std::int64_t kMiB = 1 << 20;

Array block(std::int64_t mib) { return Array::empty(DType::U8, {mib * kMiB}); }

class KeptBlocks : public ::testing::Test {
 protected:
  void SetUp() override {
    drop_kept_blocks();
    block(1);
    if (kept_block_bytes() == 0) GTEST_SKIP() << "nothing is kept under the sanitizer";
    drop_kept_blocks();
  }
  void TearDown() override {
    set_memory_budget(0);
    drop_kept_blocks();
  }
};

TEST_F(KeptBlocks, ResultsOfCallsUseTheMemoryOfEarlierOnes) {
  const Expr x = vector();
  const Function f = function({x}, x * 2.0F + 1.0F);
  const Array a = random_array({kMiB}, 1);
  const std::byte* const first = f(a).data;
  EXPECT_EQ(kept_block_bytes(), 4 * kMiB);
  const std::int64_t reused = reused_blocks();
  const Array y = f(a);
  EXPECT_EQ(y.data, first);
  EXPECT_EQ(reused_blocks(), reused + 1);
  EXPECT_EQ(kept_block_bytes(), 0);
  for (std::int64_t i = 0; i < a.size(); i += 9973)
    EXPECT_EQ(y.at_double(i), static_cast<float>(a.at_double(i)) * 2.0F + 1.0F);
}

TEST_F(KeptBlocks, ASomewhatLargerBlockServesAndIsCut) {
  const std::byte* const first = block(10).data;
  {
    const Array smaller = block(9);
    EXPECT_EQ(smaller.data, first);
    EXPECT_EQ(kept_block_bytes(), 0);
    std::memset(smaller.data, 1, static_cast<std::size_t>(smaller.bytes()));
  }
  EXPECT_EQ(kept_block_bytes(), 9 * kMiB);
  const Array half = block(4), larger = block(10);
  EXPECT_EQ(kept_block_bytes(), 9 * kMiB) << "too large for the one, too small for the other";
}

TEST_F(KeptBlocks, ZerosAreZero) {
  std::memset(block(3).data, 7, 3 * kMiB);
  ASSERT_EQ(kept_block_bytes(), 3 * kMiB);
  const Array zeros = Array::zeros(DType::U8, {3 * kMiB});
  EXPECT_EQ(kept_block_bytes(), 0);
  for (std::int64_t i = 0; i < zeros.size(); ++i) ASSERT_EQ(zeros.typed<std::uint8_t>()[i], 0);
}

TEST_F(KeptBlocks, TheyAreBounded) {
  const auto bound = static_cast<std::int64_t>(share_to_keep());
  ASSERT_GT(bound, 0);
  EXPECT_LE(bound, 512 * kMiB);
  const std::int64_t part = bound / kMiB / 3;
  {
    std::vector<Array> all;
    for (int i = 0; i < 5; ++i) all.push_back(block(part));
  }
  EXPECT_LE(kept_block_bytes(), bound);
  EXPECT_GE(kept_block_bytes(), 3 * part * kMiB);
  block(bound / kMiB + 1);
  EXPECT_LE(kept_block_bytes(), bound);
  {
    std::vector<Array> many;
    for (int i = 0; i < 200; ++i) many.push_back(block(1));
  }
  EXPECT_LE(kept_block_bytes(), bound);
}

TEST_F(KeptBlocks, MemoryOfSharedVariablesIsNotKept) {
  {
    const Expr w = shared(block(4), "w");
    drop_kept_blocks();  // what it was made of
  }
  EXPECT_EQ(kept_block_bytes(), 0);
}

TEST_F(KeptBlocks, TheyCountAndGiveWayUnderABudget) {
  ArenaPool::shared().drop_idle();
  const MemoryAccount before = memory_account();
  set_memory_budget(before.total() + 8 * kMiB);
  block(6);
  EXPECT_EQ(memory_account().kept, 6U * kMiB);
  EXPECT_EQ(memory_account().total(), before.total());
  EXPECT_EQ(process_memory().kept, 6 * kMiB);
  EXPECT_NE(process_memory().describe().find("kept              6.00 MiB"), std::string::npos)
      << process_memory().describe();
  block(3);
  EXPECT_EQ(memory_account().kept, 3U * kMiB) << "the older one has gone";
  MemoryClaim claim(MemoryClaim::Kind::Loader, 8 * kMiB, "a loader");
  EXPECT_EQ(memory_account().kept, 0U);
  block(6);
  EXPECT_EQ(memory_account().kept, 0U) << "the budget is used up";
  EXPECT_EQ(error_of([&] { claim.grow(1, "a loader"); }).fault(), Fault::Memory);
}

TEST_F(KeptBlocks, AnArenaNeedsThem) {
  block(6);
  Arena arena;
  arena.ensure(kMiB);
  EXPECT_EQ(kept_block_bytes(), 0);
}

/// Runs `body` in a child, which has to return true.
template <class F>
void in_child(F&& body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(KeptBlocks, AChildOfForkHasNoneAndGoesOn) {
  std::memset(block(8).data, 5, 8 * kMiB);
  const Array held = Array::zeros(DType::U8, {2 * kMiB});
  in_child([&] {
    if (kept_block_bytes() != 0) return false;
    const std::byte* const own = block(8).data;
    const Array again = block(8);
    return again.data == own && same_bits(held, Array::zeros(DType::U8, {2 * kMiB}));
  });
  EXPECT_EQ(kept_block_bytes(), 8 * kMiB);
}

TEST_F(KeptBlocks, TheyGiveWayUnderALimitOfAddresses) {
  in_child([] {
    const Array all = block(64);
    block(32);
    if (kept_block_bytes() != 32 * kMiB) return false;
    // What is mapped now, and 40 MiB.
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    std::uint64_t pages = 0;
    if (FILE* file = std::fopen("/proc/self/statm", "r")) {
      unsigned long n = 0;
      if (std::fscanf(file, "%lu", &n) == 1) pages = n;
      std::fclose(file);
    }
    limit.rlim_cur = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + 40 * kMiB;
    setrlimit(RLIMIT_AS, &limit);
    require_free_memory(50 * kMiB, "a test");  // 24 of 40 without them
    if (kept_block_bytes() != 0) return false;
    { const Array large = block(60); }
    return kept_block_bytes() <= static_cast<std::int64_t>(limit.rlim_cur / 16);
  });
}

TEST_F(KeptBlocks, ThreadsShareThem) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const Array a = block(1 + (i + t) % 3);
        std::memset(a.data, t + 1, static_cast<std::size_t>(a.bytes()));
        if (i % 50 == 0) std::this_thread::yield();
        for (std::int64_t k = 0; k < a.bytes(); k += 4096)
          if (a.typed<std::uint8_t>()[k] != t + 1) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(kept_block_bytes(), static_cast<std::int64_t>(share_to_keep()));
}

}  // namespace
}  // namespace snug
