// The budget of the process: what counts against it, and that nothing is taken beyond it.
#include <gtest/gtest.h>

#include "api/function_impl.h"
#include "error_of.h"
#include "exec/arena.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

using testing::error_of;

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kFloats = kMiB / 4;  // of one MiB

/// A budget for the time of a test: what is there already, and `more`.
struct Budget {
  explicit Budget(std::int64_t more) {
    ArenaPool::shared().drop_idle();
    set_memory_budget(memory_account().total() + static_cast<std::uint64_t>(more));
  }
  ~Budget() { set_memory_budget(0); }
};

Expr variable(std::int64_t mib, const std::string& name) {
  return shared(Array::zeros(DType::F32, {mib * kFloats}), name);
}

Expr recipe(std::int64_t mib, const std::string& name) {
  return shared(Recipe{DType::F32, {mib * kFloats}}, name);
}

/// A function whose arena has at least the size of its argument.
Function with_arena(FunctionOptions options = {}) {
  const Expr x = vector();
  return function({x}, sum(sort(x * 2.0F) * x), options);
}

TEST(ProcessBudget, SharedVariablesCountUntilTheirMemoryIsFree) {
  const std::uint64_t before = memory_account().shared;
  {
    const Expr w = variable(3, "w");
    EXPECT_EQ(memory_account().shared, before + 3 * kMiB);
    const Array lent = as_shared(w)->get_value(true);
    as_shared(w)->set_value(Array::zeros(DType::F32, {kFloats}));
    EXPECT_EQ(memory_account().shared, before + 4 * kMiB) << "lent memory stays";
  }
  EXPECT_EQ(memory_account().shared, before);
  const Expr later = recipe(2, "later");
  EXPECT_EQ(memory_account().shared, before) << "a recipe has no memory";
  as_shared(later)->get_value(true);
  EXPECT_EQ(memory_account().shared, before + 2 * kMiB);
}

TEST(ProcessBudget, VariablesBeyondItAreRefused) {
  const Budget budget(4 * kMiB);
  const Expr w = variable(3, "w"), r = recipe(2, "r");
  const auto e = error_of([] { variable(2, "v"); });
  EXPECT_EQ(e.fault(), Fault::Memory);
  EXPECT_NE(e.message().find("leaves 1.00 MiB"), std::string::npos) << e.message();
  EXPECT_EQ(error_of([&] { as_shared(r)->get_value(); }).fault(), Fault::Memory);
  EXPECT_FALSE(as_shared(r)->materialised());
  EXPECT_EQ(
      error_of([&] { as_shared(w)->set_value(Array::zeros(DType::F32, {2 * kFloats})); }).fault(),
      Fault::Memory);
  EXPECT_EQ(as_shared(w)->shape(), Dims{3 * kFloats});
  variable(1, "small");  // the program goes on
}

TEST(ProcessBudget, IdleArenasAreDroppedFirst) {
  FunctionOptions options;
  options.memory = "1GiB";
  const Function f = with_arena(options);
  const Array x = random_array({kFloats}, 1);
  const Budget budget(8 * kMiB);
  f(x);
  const std::uint64_t mapped = Arena::mapped_in_process();
  ASSERT_GE(mapped, static_cast<std::uint64_t>(kMiB));
  const Expr w = variable(8, "w");  // needs what the arena has
  EXPECT_LT(Arena::mapped_in_process(), mapped);
  const auto e = error_of([&] { f(x); });
  EXPECT_EQ(e.fault(), Fault::Memory);
  EXPECT_NE(e.message().find("the arena of"), std::string::npos) << e.message();
}

TEST(ProcessBudget, FunctionsGetWhatOthersLeave) {
  const Expr other = variable(3, "other"), own = variable(2, "own");
  const Budget budget(5 * kMiB);
  const MemoryAccount account = memory_account();
  const auto before = static_cast<std::int64_t>(account.total() - account.arenas);
  const Expr x = vector();
  const Function f = function({x}, sum(x) * sum(own));
  // What is there besides is others', its own variable is not.
  EXPECT_EQ(static_cast<std::int64_t>(f.impl()->budget()),
            static_cast<std::int64_t>(memory_budget()) - (before - 2 * kMiB));
  FunctionOptions less;
  less.memory = "1MiB";
  EXPECT_EQ(function({x}, sum(x) * sum(own), less).impl()->budget(),
            static_cast<std::uint64_t>(kMiB));
  const Function sorted = with_arena();
  const auto e = error_of([&] { sorted(random_array({8 * kFloats}, 1)); });
  EXPECT_EQ(e.fault(), Fault::Memory);
}

TEST(ProcessBudget, VariablesAndArenaAreAskedForTogether) {
  const Expr w = recipe(3, "w"), x = vector();
  FunctionOptions options;
  options.memory = "1GiB";
  const Function f = function({x}, sum(sort(x * 2.0F) * x) + sum(w), options);
  const Budget budget(4 * kMiB);  // each of them fits, both do not
  const auto e = error_of([&] { f(random_array({2 * kFloats}, 1)); });
  EXPECT_EQ(e.fault(), Fault::Memory);
  EXPECT_NE(e.message().find("with its arena"), std::string::npos) << e.message();
  EXPECT_FALSE(as_shared(w)->materialised());
  EXPECT_NO_THROW(f(random_array({100}, 1)));
}

TEST(ProcessBudget, LoadersCountWithTheirLimit) {
  const std::uint64_t before = memory_account().loaders;
  const data::SourcePtr source = data::arrays({Array::zeros(DType::F32, {64, 16})});
  {
    const data::Loader loader(source, {.batch = 8, .memory = "2MiB"});
    EXPECT_EQ(memory_account().loaders, before + 2 * kMiB);
  }
  EXPECT_EQ(memory_account().loaders, before);
  const Budget budget(kMiB);
  EXPECT_EQ(error_of([&] { data::Loader(source, {.batch = 8, .memory = "2MiB"}); }).fault(),
            Fault::Memory);
  EXPECT_EQ(memory_account().loaders, before);
}

TEST(ProcessBudget, ItIsShown) {
  EXPECT_EQ(process_memory().describe().find("budget"), std::string::npos);
  const Budget budget(64 * kMiB);
  const Expr w = variable(3, "w");
  const ProcessMemory m = process_memory();
  EXPECT_EQ(m.budget, static_cast<std::int64_t>(memory_budget()));
  EXPECT_GE(m.shared, 3 * kMiB);
  EXPECT_EQ(m.counted, m.shared + m.arenas + m.loaders);
  EXPECT_NE(m.describe().find("taken by shared variables"), std::string::npos);
}

}  // namespace
}  // namespace snug
