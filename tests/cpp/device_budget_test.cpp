// Budgets of devices: plans keep to them by every technique, refusals say what does, the ledger has
// what was planned.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <set>

#include "api/process_memory.h"
#include "backend/devices.h"
#include "backend/sim/sim_device.h"
#include "compile.h"
#include "error_of.h"
#include "random_array.h"
#include "snug.h"
#include "target/memory_budget.h"

namespace snug {
namespace {

class DeviceBudgets : public ::testing::Test {
 protected:
  void SetUp() override { use({}); }
  void TearDown() override {
    set_memory_budget(0);
    set_devices(nullptr);
  }

  /// A simulated device that has all it can have.
  void use(const SimDevice::Options& options) {
    sim = std::make_shared<SimDevice>(options);
    set_devices(host_and({sim}), [](std::uint32_t, const Node&) { return DeviceId{1}; });
  }

  std::shared_ptr<SimDevice> sim;
};

/// A training step of a deep network, whose activations are most of what it needs.
struct Deep {
  Expr x = matrix("x"), y = matrix("y"), loss;
  std::vector<Expr> weights;

  explicit Deep(unsigned layers = 6) {
    Expr h = x;
    for (unsigned k = 0; k < layers; ++k) {
      weights.push_back(shared(random_array({32, 32}, k + 1), fmt::format("w{}", k)));
      h = tanh(dot(h, weights.back() * 0.2F));
    }
    loss = mean(sqr(h - y));
  }
  Function function(FunctionOptions options) const {
    const std::vector<Expr> g = grad(loss, weights);
    for (std::size_t k = 0; k < g.size(); ++k)
      options.updates.emplace_back(weights[k], weights[k] - 0.1F * g[k]);
    return snug::function({x, y}, loss, options);
  }
  static std::vector<Dims> shapes(std::int64_t rows) { return {{rows, 32}, {rows, 32}}; }
  static float run(const Function& f, std::int64_t rows) {
    return f(random_array({rows, 32}, 7), random_array({rows, 32}, 8)).item<float>();
  }
};

std::int64_t peak_of(const FunctionOptions& options, std::int64_t rows = 256) {
  const Deep deep;
  return deep.function(options).memory(Deep::shapes(rows)).devices[0].peak;
}

/// What is thrown; the test fails if nothing is.
template <class F>
MemoryError refusal_of(F&& f) {
  try {
    f();
  } catch (const MemoryError& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was refused";
  return MemoryError("");
}

std::string of_device(std::int64_t bytes) { return fmt::format("sim:0={}", bytes); }

TEST_F(DeviceBudgets, EveryTechniqueKeepsToABudgetOfTheDeviceAlone) {
  const MemoryReport::OnDevice whole = Deep().function({}).memory(Deep::shapes(256)).devices[0];
  const std::int64_t plain = whole.peak;
  const float expected = Deep::run(Deep().function({}), 256);
  const auto run_within = [&](const FunctionOptions& options, std::int64_t percent) {
    const std::int64_t budget = plain * percent / 100;
    FunctionOptions all = options;
    all.memory = of_device(budget);
    const std::uint64_t before = sim->allocated();
    const Deep deep;
    const Function f = deep.function(all);
    EXPECT_NEAR(Deep::run(f, 256), expected, 1e-5);
    const MemoryReport r = f.memory(Deep::shapes(256));
    EXPECT_LE(r.devices[0].peak, budget);
    // What is chosen is a way of its own, beside the constants of the whole.
    const std::int64_t constants =
        (r.micro_batches > 1 && options.micro_batches == 0) || r.rounded > 0 ? whole.constants : 0;
    EXPECT_EQ(static_cast<std::int64_t>(sim->allocated() - before), r.devices[0].peak + constants);
    return r;
  };
  EXPECT_GT(run_within({.recompute = false}, 60).slices, 1);
  EXPECT_FALSE(run_within({.micro_batches = 1}, 70).recomputed.empty());
  const MemoryReport both = run_within({.micro_batches = 2}, 65);
  EXPECT_EQ(both.slices, 2);
  EXPECT_FALSE(both.recomputed.empty());  // in the body, on the device
  EXPECT_GT(
      run_within({.micro_batches = 1, .recompute = false, .activations = DType::BF16}, 85).rounded,
      0);
}

TEST_F(DeviceBudgets, MoreMemoryIsNeverSlowerByPrediction) {
  const MemoryReport plain = Deep(3).function({}).memory(Deep::shapes(256));
  const auto seconds = [&](std::int64_t device, std::int64_t host) {
    const Deep deep(3);
    std::string memory = device ? of_device(plain.devices[0].peak * device / 100) : "";
    if (host) memory += fmt::format("{}cpu={}", device ? "," : "", plain.peak * host / 100);
    try {
      const MemoryReport r =
          deep.function({.memory = memory, .plan_only = true}).memory(Deep::shapes(256));
      return std::max(r.seconds, plain.seconds);
    } catch (const MemoryError&) {
      return HUGE_VAL;
    }
  };
  int found = 0;
  constexpr std::int64_t kPercent[] = {40, 60, 100, 0};  // 0: no budget
  std::map<std::pair<std::size_t, std::size_t>, double> known;
  for (std::size_t d = 0; d < std::size(kPercent); ++d)
    for (std::size_t h = 2; h < std::size(kPercent); ++h) {
      const double here = known[{d, h}] = seconds(kPercent[d], kPercent[h]);
      found += std::isfinite(here);
      const double less_there = d > 0 ? known[{d - 1, h}] : HUGE_VAL;
      const double less_here = h > 2 ? known[{d, h - 1}] : HUGE_VAL;
      EXPECT_LE(here, std::min(less_there, less_here) * (1 + 1e-12)) << d << " " << h;
    }
  EXPECT_GE(found, 5);
}

TEST_F(DeviceBudgets, ARefusalHasATableAndRemediesThatHold) {
  const std::int64_t plain = peak_of({}), budget = plain * 3 / 4;
  const Deep deep;
  const FunctionOptions options{
      .memory = of_device(budget), .micro_batches = 1, .recompute = false};
  const std::uint64_t ran = sim->commands();
  const auto e = refusal_of([&] { Deep::run(deep.function(options), 256); });
  EXPECT_EQ(sim->commands(), ran);
  EXPECT_EQ(e.need().device, "sim:0");
  EXPECT_EQ(e.need().peak, static_cast<std::uint64_t>(plain));
  for (const char* part :
       {"sim:0: needs", "the budget is", "on sim:0:", "parameters", "the largest buffers there",
        "each was planned; bytes on sim:0", ".memory = \"sim:0=", ".device = \"cpu\""})
    EXPECT_NE(e.message().find(part), std::string::npos) << part << "\n" << e.message();
  std::set<Remedy::Kind> kinds;
  for (const Remedy& r : e.remedies()) {
    kinds.insert(r.kind);
    FunctionOptions given = options;
    std::int64_t rows = 256;
    switch (r.kind) {
      case Remedy::Kind::Batch: rows = r.count; break;
      case Remedy::Kind::Recompute: given.recompute = true; break;
      case Remedy::Kind::MicroBatches: given.micro_batches = r.count; break;
      case Remedy::Kind::Activations: given.activations = DType::BF16; break;
      case Remedy::Kind::Memory: given.memory = of_device(r.peak); break;
      case Remedy::Kind::Host: {
        given.device = "cpu";
        given.memory.clear();
        EXPECT_EQ(deep.function(given).memory(Deep::shapes(256)).peak, r.peak);
        continue;
      }
      default: continue;
    }
    EXPECT_EQ(peak_of(given, rows), r.peak) << r.option();
    EXPECT_TRUE(r.kind == Remedy::Kind::Memory || r.peak <= budget) << r.option();
  }
  for (const Remedy::Kind kind :
       {Remedy::Kind::Batch, Remedy::Kind::Recompute, Remedy::Kind::MicroBatches,
        Remedy::Kind::Activations, Remedy::Kind::Host, Remedy::Kind::Memory})
    EXPECT_EQ(kinds.count(kind), 1u) << static_cast<int>(kind);
}

TEST_F(DeviceBudgets, LessThanTheVariablesIsRefused) {
  const Deep deep;
  const auto e = refusal_of([&] { deep.function({.memory = "sim:0=5000,cpu=1GiB"}); });
  EXPECT_NE(e.message().find("sim:0: variables, constants and copies"), std::string::npos);
  EXPECT_NE(e.message().find("w5, float32 (32, 32)"), std::string::npos) << e.message();
  EXPECT_EQ(sim->allocated(), 0u);
}

TEST_F(DeviceBudgets, ClassesOfADeviceSumUpToItsArena) {
  for (const std::int64_t slices : {1, 4}) {
    const Deep deep;
    const Function f = deep.function({.micro_batches = slices});
    const MemoryReport r = f.memory(Deep::shapes(64));
    const MemoryReport::OnDevice& d = r.devices[0];
    EXPECT_EQ(d.gradients + d.activations + d.temporaries + d.workspace + d.copies + d.gap,
              d.arena);
    EXPECT_EQ(d.peak, d.variables() + d.constants + d.arena);
    EXPECT_GT(d.activations, 0);
    EXPECT_GT(d.all_gradients, 0);
    EXPECT_GT(d.floor, 0);
    EXPECT_LE(d.floor, d.peak);
    EXPECT_EQ(d.parameters, 6 * 32 * 32 * 4);
    EXPECT_EQ(r.parameters, 0);
    EXPECT_EQ(r.activations, 0);
    const std::int64_t smallest = f.smallest_budget(Deep::shapes(64), {}, "sim:0");
    EXPECT_GE(smallest, d.floor);
    EXPECT_LE(smallest, d.peak);
    EXPECT_LE(f.smallest_budget(Deep::shapes(64)), r.peak);
    Deep::run(f, 64);
    EXPECT_EQ(sim->allocated(), static_cast<std::uint64_t>(d.peak));
    use({});
  }
  const Deep deep;
  const auto e = testing::error_of<ValueError>(
      [&] { deep.function({}).smallest_budget(Deep::shapes(4), {}, "sim:9"); });
  EXPECT_NE(e.message().find("'sim:9' is no device of the function"), std::string::npos);
}

TEST_F(DeviceBudgets, TheLargestBatchFitsTheDevice) {
  const Deep deep(2);
  const auto peak_of = [&](const FunctionOptions& options, std::int64_t rows) {
    return deep.function(options).memory(Deep::shapes(rows)).devices[0].peak;
  };
  const std::int64_t budget = peak_of({}, 100);
  const MaxBatch most = deep.function({.micro_batches = 1, .recompute = false})
                            .max_batch(Deep::shapes(1), of_device(budget));
  EXPECT_EQ(most.device, 1);
  EXPECT_LE(most.plan.devices[0].peak, budget);
  EXPECT_GT(peak_of({}, most.rows + 1), budget);
  EXPECT_NE(most.describe().find("on sim:0"), std::string::npos);
  const MaxBatch any = deep.function({.memory = of_device(budget)}).max_batch(Deep::shapes(1));
  EXPECT_GT(any.rows, most.rows);
  // Without a budget it is what the device has, less what others have there.
  use({.memory = static_cast<std::uint64_t>(budget + 4000)});
  const Expr other = shared(Array::zeros(DType::F32, {1000}), "other");
  function({}, sum(other)).call({});
  const MaxBatch has =
      deep.function({.micro_batches = 1, .recompute = false}).max_batch(Deep::shapes(1));
  EXPECT_EQ(has.rows, most.rows);
}

TEST_F(DeviceBudgets, TheBudgetOfTheProcessBoundsDevices) {
  const std::int64_t plain = peak_of({});
  set_memory_budget(of_device(plain * 3 / 4));
  const Deep deep;
  const Function f = deep.function({});
  Deep::run(f, 256);
  EXPECT_LE(sim->allocated(), static_cast<std::uint64_t>(plain * 3 / 4));
  const ProcessMemory m = process_memory();
  ASSERT_FALSE(m.devices.empty());
  const DeviceMemoryUse& use = m.devices.back();
  EXPECT_EQ(use.device, "sim:0");
  EXPECT_EQ(use.claimed, sim->allocated());
  EXPECT_EQ(use.budget, static_cast<std::uint64_t>(plain * 3 / 4));
  std::uint64_t taken = 0;
  for (const auto& [who, bytes] : use.owners) taken += bytes;
  EXPECT_EQ(taken, use.claimed);
  EXPECT_NE(m.describe().find("w3"), std::string::npos) << m.describe();
  // Another variable has no room besides, wherever functions leave some.
  const Expr large = shared(Array::zeros(DType::F32, {plain / 4}), "large");
  const auto e = refusal_of([&] { snug::function({}, sum(large)).call({}); });
  EXPECT_NE((e.message() + e.hint()).find("set_memory_budget"), std::string::npos) << e.what();
  const auto refused =
      refusal_of([&] { Deep::run(deep.function({.micro_batches = 1, .recompute = false}), 256); });
  EXPECT_NE(refused.message().find("the budget of the process"), std::string::npos);
  EXPECT_NE(refused.message().find("set_memory_budget(\"sim:0="), std::string::npos)
      << refused.message();
}

TEST_F(DeviceBudgets, ADeviceThatHasLessIsRefusedWithRemedies) {
  const std::int64_t plain = peak_of({});
  use({.memory = static_cast<std::uint64_t>(plain * 3 / 4)});
  const Deep deep;
  const auto e = refusal_of([&] { Deep::run(deep.function({}), 256); });
  EXPECT_EQ(sim->commands(), 0u);
  EXPECT_NE(e.message().find("sim:0: needs"), std::string::npos);
  EXPECT_NE(e.message().find("it has"), std::string::npos);
  bool slices = false, memory = false;
  for (const Remedy& r : e.remedies()) {
    slices |= r.kind == Remedy::Kind::MicroBatches;
    memory |= r.kind == Remedy::Kind::Memory;
  }
  EXPECT_TRUE(slices);
  EXPECT_FALSE(memory) << "no budget makes the device larger";
  Deep::run(deep.function({.memory = of_device(plain * 3 / 4)}), 256);
}

/// A matrix that no slab has room for: when the function is made, if its size is known.
TEST_F(DeviceBudgets, AValueAboveTheLargestAllocationIsRefusedByName) {
  use({.largest_allocation = 100'000});
  const Expr x = matrix("x"), w = shared(Array::zeros(DType::F32, {200, 200}), "w");
  const auto known = refusal_of([&] { function({x}, dot(x, w)); });
  EXPECT_NE(known.message().find("w, float32 (200, 200)"), std::string::npos) << known.message();
  EXPECT_NE(known.hint().find(".device = \"cpu\""), std::string::npos);
  const Expr v = shared(Array::zeros(DType::F32, {10, 10}), "v");
  const Function f = function({x}, exp(dot(x, v)));
  EXPECT_NO_THROW(f(Array::zeros(DType::F32, {1000, 10})));
  const auto later = refusal_of([&] { f(Array::zeros(DType::F32, {10'000, 10})); });
  EXPECT_NE(later.message().find("a copy of x, float32 (10000, 10)"), std::string::npos)
      << later.message();
  EXPECT_NE(later.message().find("a batch of"), std::string::npos) << later.message();
  EXPECT_EQ(function({x}, dot(x, w), {.device = "cpu"})(Array::zeros(DType::F32, {2, 200})).shape,
            (Dims{2, 200}));
}

TEST_F(DeviceBudgets, TheArenaOfALoopMayHaveSeveralSlabs) {
  const float expected = Deep::run(Deep().function({.micro_batches = 2}), 256);
  use({.largest_allocation = 40'000, .alignment = 128});
  const Deep deep;
  const Function f = deep.function({.micro_batches = 2});
  EXPECT_GT(f.memory(Deep::shapes(256)).devices[0].arena, 100'000);
  EXPECT_EQ(Deep::run(f, 256), expected);
}

/// Values of a device that live at some steps, and what they are packed into.
Schedule lifetimes(const std::vector<std::array<std::uint64_t, 3>>& values, std::uint64_t slab) {
  Schedule s;
  s.steps.resize(8);
  s.rules = {{}, {slab, 64}};
  for (const auto& [bytes, first, last] : values)
    s.buffers.push_back({.where = Where::Arena,
                         .space = own_space(1),
                         .bytes = bytes,
                         .first = static_cast<std::uint32_t>(first),
                         .last = static_cast<std::uint32_t>(last)});
  return s;
}

TEST(Slabs, TakeNothingUnlessAValueWouldLieAcross) {
  const std::vector<std::array<std::uint64_t, 3>> values = {{640, 0, 2}, {256, 1, 3}, {384, 3, 5},
                                                            {512, 4, 6}, {128, 0, 6}, {320, 5, 7}};
  const MemoryPlan whole = pack(lifetimes(values, 0), PackEffort::Thorough);
  const std::uint64_t height = whole.arenas[1].bytes;
  EXPECT_EQ(pack(lifetimes(values, height), PackEffort::Thorough).offsets, whole.offsets);
  for (std::uint64_t slab = 640; slab < height; slab += 64) {
    const Schedule s = lifetimes(values, slab);
    const MemoryPlan plan = pack(s, PackEffort::Thorough);
    bool crosses = false, whole_crosses = false;
    for (std::size_t k = 0; k < values.size(); ++k) {
      const std::uint64_t bytes = values[k][0];
      crosses |= plan.offsets[k] / slab != (plan.offsets[k] + bytes - 1) / slab;
      whole_crosses |= whole.offsets[k] / slab != (whole.offsets[k] + bytes - 1) / slab;
    }
    EXPECT_FALSE(crosses) << slab;
    EXPECT_TRUE(whole_crosses || plan.offsets == whole.offsets) << slab;
    EXPECT_NO_THROW(verify(s, plan));
  }
}

}  // namespace
}  // namespace snug
