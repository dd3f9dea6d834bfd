// Functions whose nodes are scattered over the host and simulated devices, which run what they are
// asked as late as they may: results, memory, and what remains when a device fails.
#include "backend/devices.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "backend/sim/sim_device.h"
#include "fenced_run.h"
#include "plan/queues.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

using Pin = decltype(CompileOptions::pin);

Pin scattered(std::uint64_t seed, std::uint64_t count = 3) {
  return [=](std::uint32_t number, const Node&) {
    return static_cast<std::uint8_t>(((number + 1) * (2 * seed + 1) * 0x9e3779b97f4a7c15 >> 40) %
                                     count);
  };
}
Pin all_on(std::uint8_t device) {
  return [=](std::uint32_t, const Node&) { return device; };
}

class Devices : public ::testing::Test {
 protected:
  void TearDown() override { set_devices(nullptr); }

  /// Two sims; what is made from now on is pinned as `pin` says.
  void use(const Pin& pin, SimDevice::Options options = {}) {
    sims.clear();
    std::vector<std::shared_ptr<Accelerator>> all;
    for (int k = 0; k < 2; ++k) {
      options.name = fmt::format("sim:{}", k);
      sims.push_back(std::make_shared<SimDevice>(options));
      all.push_back(sims.back());
    }
    set_devices(host_and(all), pin);
  }
  void use_host() { set_devices(host_only()); }

  std::vector<std::shared_ptr<SimDevice>> sims;
};

/// A training step of a small network: dropout, a product, a row reduction, labels, two updates.
struct Step {
  Expr x = matrix("x"), y = ivector("y");
  Expr w = shared(random_array({12, 9}, 1), "w"), b = shared(random_array({9}, 2), "b"),
       v = shared(random_array({9, 4}, 3), "v");
  Expr loss;
  std::optional<Function> train;

  explicit Step(FunctionOptions options = {}) {
    const Expr h = tanh(dot(x, w) + b);
    loss = mean(categorical_crossentropy(softmax(dot(h, v)), y));
    const auto g = grad(loss, w, b, v);
    options.updates = {{w, w - 0.1f * g[0]}, {b, b - 0.1f * g[1]}, {v, v - 0.1f * g[2]}};
    train.emplace(function({x, y}, loss, options));
  }
  float run(std::int64_t rows, std::uint64_t seed) {
    Array labels = Array::zeros(DType::I32, {rows});
    for (std::int64_t k = 0; k < rows; ++k) labels.set_int(k, (k * 7 + 3) % 4);
    return (*train)(random_array({rows, 12}, seed), labels).item<float>();
  }
  std::vector<Array> values() const {
    std::vector<Array> all;
    for (const Expr& e : {w, b, v}) all.push_back(as_shared(e)->get_value());
    return all;
  }
};

/// Steps with batches of several sizes; the losses, and the parameters behind them.
std::pair<std::vector<float>, std::vector<Array>> train(Step& step) {
  std::vector<float> losses;
  for (const std::int64_t rows : {16, 16, 7, 16, 1}) losses.push_back(step.run(rows, 10 + rows));
  return {losses, step.values()};
}

TEST_F(Devices, ATrainingStepScattered) {
  use_host();
  Step host;
  const auto expected = train(host);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    use(scattered(seed));
    Step late;
    const auto got = train(late);
    for (std::size_t k = 0; k < got.first.size(); ++k)
      EXPECT_NEAR(got.first[k], expected.first[k], 1e-5);
    EXPECT_GT(sims[0]->commands() + sims[1]->commands(), 0u);
    // The same cuts, but everything as soon as it is asked for: the same bits.
    use(scattered(seed), {.at_once = true});
    Step eager;
    const auto same = train(eager);
    EXPECT_EQ(got.first, same.first);
    for (std::size_t k = 0; k < got.second.size(); ++k)
      EXPECT_TRUE(same_bits(got.second[k], same.second[k])) << k;
  }
}

TEST_F(Devices, VariablesLiveWhereTheyAreUsed) {
  use(all_on(1));
  Step step;
  step.run(16, 5);
  const std::uint64_t in = sims[0]->copied_in(), out = sims[0]->copied_out();
  step.run(16, 5);
  // A batch goes in, labels for the host to check come out and go in again, and a loss comes out.
  const std::uint64_t batch = 16 * 12 * 4, labels = 16 * 8, slack = 16;
  EXPECT_LE(sims[0]->copied_out() - out, sizeof(float) + labels + slack);
  EXPECT_LE(sims[0]->copied_in() - in, batch + 2 * labels + slack);
  // A copy of the value leaves it there; the host's functions bring it back.
  const std::uint64_t before_copy = sims[0]->copied_out();
  const Array before = as_shared(step.w)->get_value();
  EXPECT_EQ(sims[0]->copied_out() - before_copy, 12 * 9 * 4u);
  use_host();
  const Array doubled = function({}, step.w * 2)();
  for (std::int64_t k = 0; k < before.size(); ++k)
    EXPECT_EQ(doubled.at_double(k), 2 * before.at_double(k));
  as_shared(step.b)->set_value(Array::zeros(DType::F32, {9}));
  EXPECT_TRUE(std::isfinite(step.run(16, 5)));
}

TEST_F(Devices, SizesThatDevicesDecide) {
  Expr x = vector("x");
  const Expr stop = cast(abs(subtensor(x, {0})), DType::I64);
  const std::vector<Expr> outputs{ifelse(gt(sum(x), 0.0f), x * 2.0f, x - 1.0f),
                                  subtensor(tanh(x), {IndexItem::range(Expr(0), stop)})};
  use_host();
  Function host = function({x}, outputs);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    use(scattered(seed));
    Function f = function({x}, outputs);
    for (const float first : {2.0f, -30.0f}) {
      const Array a = Array::from<float>({first, 1, 2, 3, 4}, {5});
      const std::vector<Array> want = host.call({a}), got = f.call({a});
      for (std::size_t k = 0; k < want.size(); ++k) EXPECT_TRUE(same_bits(want[k], got[k]));
    }
  }
}

/// The plan of a step, with waits.
TEST_F(Devices, EveryWaitIsNeededOrTheCheckerSeesIt) {
  Expr x = matrix("x");
  Expr w = shared(random_array({8, 8}, 1), "w");
  const Expr y = tanh(dot(tanh(dot(tanh(dot(x, w)), w)), w));
  std::size_t waits = 0, seen = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    use(scattered(seed));
    FencedRun run({x}, {y}, {{w, w - 0.1f * dot(transpose(y), y)}}, {random_array({8, 8}, 2)}, {},
                  true);
    Schedule s = run.exe->planned->schedule;
    const MemoryPlan& plan = run.exe->planned->plan;
    EXPECT_EQ(find_race(s, plan), "");
    EXPECT_EQ(find_fault(run.exe->lowered->program, s), "");
    for (snug::Step& step : s.steps)
      for (std::size_t k = 0; k < step.waits.size(); ++k) {
        const std::vector<std::uint32_t> all = step.waits;
        step.waits.erase(step.waits.begin() + static_cast<std::ptrdiff_t>(k));
        ++waits;
        seen += !find_race(s, plan).empty();
        step.waits = all;
      }
  }
  EXPECT_GT(waits, 50u);
  EXPECT_EQ(seen, waits);  // none is too much, either
}

TEST_F(Devices, AFaultAtAnyCommandLeavesOldValuesOrErrors) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    use(scattered(seed));
    Step probe;
    probe.run(16, 5);
    const std::vector<Array> before = probe.values();
    const std::uint64_t c0 = sims[0]->commands(), c1 = sims[1]->commands();
    probe.run(16, 6);
    const std::uint64_t per_call[] = {sims[0]->commands() - c0, sims[1]->commands() - c1};
    for (int device = 0; device < 2; ++device)
      for (std::uint64_t n = 1; n <= per_call[device]; ++n) {
        SCOPED_TRACE(fmt::format("seed {}, sim:{}, command {}", seed, device, n));
        const Expr* const all[] = {&probe.w, &probe.b, &probe.v};
        for (std::size_t k = 0; k < 3; ++k) as_shared(*all[k])->set_value(before[k]);
        probe.run(16, 5);  // brings them to their places
        const std::vector<Array> old = probe.values();
        sims[static_cast<std::size_t>(device)]->set_faults({.failing_command = n});
        try {
          probe.run(16, 6);
          ADD_FAILURE() << "no error";
        } catch (const DeviceError& e) {
          EXPECT_NE(e.message().find(fmt::format("sim:{}", device)), std::string::npos);
        }
        for (std::size_t k = 0; k < 3; ++k) try {
            EXPECT_TRUE(same_bits(as_shared(*all[k])->get_value(), old[k]));
          } catch (const DeviceError& e) {
            EXPECT_NE(e.message().find((*all[k]).name()), std::string::npos) << e.message();
          }
      }
  }
}

TEST_F(Devices, AKernelThatCannotRunShowsBeforeAnythingChanges) {
  for (std::uint64_t k = 1; k <= 3; ++k) {
    SCOPED_TRACE(k);
    use(all_on(1));
    Step step;
    const std::vector<Array> before = step.values();
    sims[0]->set_faults({.failing_kernel = k});
    EXPECT_THROW(step.run(16, 5), DeviceError);
    const std::vector<Array> after = step.values();
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(same_bits(before[i], after[i]));
    EXPECT_EQ(sims[0]->commands(), 0u);
    sims[0]->set_faults({});
    EXPECT_TRUE(std::isfinite(step.run(16, 5)));
  }
}

TEST_F(Devices, CopiesThatWereKeptCanBeRestored) {
  use(all_on(1));
  Step step({.snapshot = 2});
  step.run(16, 5);
  EXPECT_THROW(as_shared(step.w)->restore(), ValueError);
  step.run(16, 6);
  const std::vector<Array> kept = step.values();
  step.run(16, 7);
  sims[0]->set_faults({.lost_at_command = 5});
  EXPECT_THROW(step.run(16, 8), DeviceError);
  for (const Expr& e : {step.w, step.b, step.v}) {
    EXPECT_THROW(as_shared(e)->get_value(), DeviceError);
    as_shared(e)->restore();
  }
  const std::vector<Array> now = step.values();
  for (std::size_t k = 0; k < now.size(); ++k) EXPECT_TRUE(same_bits(now[k], kept[k]));
}

TEST_F(Devices, ALostDeviceTakesWhatItAloneHad) {
  use(all_on(1));
  Step step;
  step.run(16, 5);
  sims[0]->set_faults({.lost_at_command = 1});
  EXPECT_THROW(step.run(16, 5), DeviceError);
  EXPECT_THROW(as_shared(step.w)->get_value(), DeviceError);
  // Given values, the rest goes on elsewhere.
  as_shared(step.w)->set_value(random_array({12, 9}, 1));
  use_host();
  EXPECT_NO_THROW(function({}, step.w * 2)());
}

TEST_F(Devices, ADeviceThatIsFullIsRefusedBeforeAnythingRuns) {
  use(all_on(1), {.memory = 4096});
  Step step;
  const std::uint64_t ran = sims[0]->commands();
  EXPECT_THROW(step.run(1000, 5), MemoryError);
  EXPECT_EQ(sims[0]->commands(), ran);
  EXPECT_TRUE(same_bits(as_shared(step.w)->get_value(), random_array({12, 9}, 1)));
}

TEST_F(Devices, BudgetsOfTheHostChangeNoBit) {
  // Layers of the host, but for some in the middle.
  const Pin pin = [](std::uint32_t number, const Node&) {
    return static_cast<std::uint8_t>(number % 29 == 13 ? 1 + number % 2 : 0);
  };
  const auto network = [](const FunctionOptions& options) {
    Expr x = matrix("x"), h = x;
    std::vector<Expr> weights;
    for (unsigned k = 0; k < 8; ++k) {
      weights.push_back(shared(random_array({16, 16}, k)));
      h = exp(-abs(tanh(dot(h, weights.back()))));
    }
    std::vector<Expr> outputs = grad(mean(h * h), weights);
    outputs.push_back(sum(h));
    return function({x}, outputs, options);
  };
  int fitted = 0;
  use(pin);
  const Array x = random_array({512, 16}, 1);
  const Function plain = network({});
  const std::vector<Dims> shapes{{512, 16}};
  const MemoryReport whole = plain.memory(shapes);
  EXPECT_GT(whole.staging, 0);
  const std::vector<Array> expected = plain.call({x});
  for (const std::int64_t percent : {95, 85, 75, 65}) {
    const std::int64_t budget = whole.peak * percent / 100;
    const Function f = network({.memory = std::to_string(budget), .micro_batches = 1});
    std::vector<Array> got;
    try {
      got = f.call({x});
    } catch (const MemoryError&) {
      continue;
    }
    ++fitted;
    const MemoryReport r = f.memory(shapes);
    EXPECT_LE(r.peak, budget);
    EXPECT_FALSE(r.recomputed.empty());
    for (std::size_t k = 0; k < got.size(); ++k) EXPECT_TRUE(same_bits(got[k], expected[k]));
  }
  EXPECT_GT(fitted, 0);
}

/// A plan on a device within a budget for its memory: the same steps run again, the same bits.
TEST_F(Devices, BudgetsOfADeviceChangeNoBit) {
  Expr x = matrix("x"), h = x;
  std::vector<Expr> weights;
  for (unsigned k = 0; k < 8; ++k) {
    weights.push_back(shared(random_array({16, 16}, k)));
    h = exp(-abs(tanh(dot(h, weights.back()))));
  }
  const std::vector<Expr> outputs = grad(mean(h * h), weights);
  const Array in = random_array({512, 16}, 1);
  use(all_on(1));
  const Function plain = function({x}, outputs);
  const std::vector<Array> expected = plain.call({in});
  const MemoryReport whole = plain.memory(std::vector<Dims>{{512, 16}});
  const std::int64_t stays = whole.devices[0].variables() + whole.devices[0].constants;
  int fitted = 0;
  for (const std::int64_t percent : {90, 75, 60, 30, 5}) {
    SCOPED_TRACE(percent);
    const auto budget = static_cast<std::uint64_t>(stays + whole.devices[0].arena * percent / 100);
    const Function f =
        function({x}, outputs, {.memory = fmt::format("sim:0={}", budget), .micro_batches = 1});
    std::vector<Array> got;
    try {
      got = f.call({in});
    } catch (const MemoryError& e) {
      EXPECT_NE(e.message().find("sim:0"), std::string::npos) << e.message();
      continue;
    }
    ++fitted;
    const MemoryReport r = f.memory(std::vector<Dims>{{512, 16}});
    EXPECT_LE(static_cast<std::uint64_t>(stays + r.devices[0].arena), budget);
    EXPECT_FALSE(r.recomputed.empty());
    for (std::size_t k = 0; k < got.size(); ++k) EXPECT_TRUE(same_bits(got[k], expected[k]));
  }
  EXPECT_GE(fitted, 2);
  EXPECT_LT(fitted, 5);
}

TEST_F(Devices, TwoThreadsOnOneDevice) {
  use(all_on(1));
  Step step;
  Expr x = matrix("x");
  const Function predict = function({x}, tanh(dot(x, step.w) + step.b), {.contexts = 2});
  const auto work = [&] {
    for (int k = 0; k < 20; ++k) {
      const Array y = predict(random_array({8, 12}, 3));
      EXPECT_TRUE(std::isfinite(y.at_double(0)));
    }
  };
  std::thread one(work), other(work);
  for (int k = 0; k < 20; ++k) EXPECT_TRUE(std::isfinite(step.run(16, 5)));
  one.join();
  other.join();
}

TEST_F(Devices, AnArenaInSlabs) {
  use(all_on(1));
  Step whole;
  const auto expected = train(whole);
  use(all_on(1), {.largest_allocation = 900, .alignment = 128});
  Step slabs;
  const auto got = train(slabs);
  EXPECT_EQ(got.first, expected.first);
  for (std::size_t k = 0; k < got.second.size(); ++k)
    EXPECT_TRUE(same_bits(got.second[k], expected.second[k]));
  // A value that no slab has room for.
  EXPECT_THROW(slabs.run(100, 5), MemoryError);
}

TEST_F(Devices, TheReportTellsWhatIsWhere) {
  use(all_on(1));
  Step step;
  const MemoryReport r = step.train->memory(std::vector<Dims>{{16, 12}, {16}});
  ASSERT_EQ(r.devices.size(), 2u);
  EXPECT_EQ(r.devices[0].name, "sim:0");
  EXPECT_EQ(r.devices[0].variables(), (12 * 9 + 9 + 9 * 4) * 4);
  EXPECT_EQ(r.parameters, 0);
  EXPECT_EQ(r.devices[1].arena, 0);
  step.run(16, 5);
  // Planned is what is there, to the byte.
  EXPECT_EQ(sims[0]->allocated(),
            static_cast<std::uint64_t>(r.devices[0].variables() + r.devices[0].constants +
                                       r.devices[0].arena));
  EXPECT_NE(r.describe().find("sim:0"), std::string::npos);
}

/// A loop whose body is on a device, and a batch in slices there.
TEST_F(Devices, LoopsGoWhereTheirNodesGo) {
  use_host();
  Step sliced_host({.micro_batches = 3});
  const auto expected = train(sliced_host);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    use(seed == 0 ? all_on(1) : scattered(seed));
    Step sliced({.micro_batches = 3});
    const auto got = train(sliced);
    for (std::size_t k = 0; k < got.first.size(); ++k)
      EXPECT_NEAR(got.first[k], expected.first[k], 1e-5);
  }
}

/// Notes the longest stride that kernels are prepared for.
class NotesStrides : public SimDevice {
 public:
  using SimDevice::SimDevice;
  std::unique_ptr<PreparedCall> prepare(const KernelSpec& spec,
                                        std::span<const std::int64_t> ints) const override {
    for (const std::int64_t i : ints.subspan(spec.rank())) longest = std::max(longest, std::abs(i));
    return SimDevice::prepare(spec, ints);
  }
  mutable std::int64_t longest = 0;
};

TEST_F(Devices, StridesThatRunBackwardsHaveBounds) {
  // Iteration i takes every (i + 1)-th element from the end.
  Expr x = vector("x");
  const auto body = [&](const Expr& i, const auto&, const auto&) {
    const Expr every = subtensor(x, {IndexItem::range({}, {}, -(i + 1))});
    return LoopStep{.states = {}, .outputs = {sum(tanh(every))}};
  };
  const Expr sums = loop(body, {}, {}, Expr(7)).outputs[0];
  const auto device = std::make_shared<NotesStrides>(SimDevice::Options{});
  set_devices(host_and({device}), all_on(1));
  const Array a = random_array({50}, 1), got = function({x}, sums)(a);
  EXPECT_EQ(device->longest, 7);
  use_host();
  const Array want = function({x}, sums)(a);
  for (std::int64_t k = 0; k < 7; ++k) EXPECT_NEAR(got.at_double(k), want.at_double(k), 1e-5);
}

TEST_F(Devices, AnErrorOnTheHostStopsTheQueues) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    use(scattered(seed));
    Step step;
    step.run(16, 5);
    const std::vector<Array> before = step.values();
    Array labels = Array::zeros(DType::I32, {16});
    labels.set_int(3, 77);
    EXPECT_THROW((*step.train)(random_array({16, 12}, 1), labels), IndexError);
    const std::vector<Array> after = step.values();
    for (std::size_t k = 0; k < after.size(); ++k) EXPECT_TRUE(same_bits(before[k], after[k]));
    EXPECT_TRUE(std::isfinite(step.run(16, 5)));
  }
}

TEST_F(Devices, TheCheckingModeReadsTheirMemory) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    use(scattered(seed));
    Step step({.mode = Mode::Check});
    EXPECT_TRUE(std::isfinite(step.run(16, 5)));
    EXPECT_TRUE(std::isfinite(step.run(7, 6)));
  }
}

TEST_F(Devices, UpdatesThatSwapAndGrow) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    use(scattered(seed));
    Expr a = shared(random_array({3}, 1), "a"), b = shared(random_array({3}, 2), "b");
    const Array a0 = as_shared(a)->get_value(), b0 = as_shared(b)->get_value();
    const Function swap = function({}, {a + b}, {.updates = {{a, b}, {b, a}}});
    swap.call({});
    EXPECT_TRUE(same_bits(as_shared(a)->get_value(), b0));
    EXPECT_TRUE(same_bits(as_shared(b)->get_value(), a0));
    const Function grow = function({}, {sum(a)}, {.updates = {{a, concatenate({a, a})}}});
    grow.call({});
    grow.call({});
    EXPECT_EQ(as_shared(a)->shape(), (Dims{12}));
  }
}

}  // namespace
}  // namespace snug
