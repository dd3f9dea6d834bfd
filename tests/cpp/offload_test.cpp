// Values that a file holds while nothing reads them: the search, its checkers, the file, and calls.
#include "plan/offload.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/file_error.h"
#include "compile.h"
#include "error_of.h"
#include "exec/offload_file.h"
#include "graph/capture.h"
#include "plan/fit.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

using snug::testing::error_of;

/// Free of slow disks: plans do not depend on where tests run.
constexpr DiskRates kDisk{1e9, 2e9, 1e-4};

std::string here() { return std::filesystem::current_path().string(); }

/// A chain of tasks and one back through it that reads what the first one made.
RecomputeProblem there_and_back(std::uint32_t n, std::uint64_t bytes) {
  RecomputeProblem p;
  p.values.assign(2 * n, {.bytes = bytes});
  for (std::uint32_t k = 0; k < 2 * n; ++k) {
    RecomputeProblem::Task t;
    t.writes = {k};
    t.cost = 1;
    if (k > 0) t.reads.push_back(k - 1);
    if (k > n) t.reads.push_back(2 * n - 1 - k);
    p.tasks.push_back(t);
  }
  return p;
}

TEST(Offload, ThePeakFallsWithEveryValueThatGoes) {
  constexpr std::uint64_t kBytes = 1 << 20;
  const RecomputeProblem p = there_and_back(12, kBytes);
  const std::vector<Offload> offloads = find_offloads(p, kDisk);
  ASSERT_GE(offloads.size(), 8U);
  std::uint64_t before = plain_plan(p).peak;
  for (std::size_t count = 1; count <= offloads.size(); ++count) {
    const OffloadProblem with = with_offloads(p, {offloads.data(), count}, kDisk);
    const RecomputePlan plan = plain_plan(with.problem);
    EXPECT_EQ(find_fault(with.problem, plan), "");
    EXPECT_LE(plan.peak, before);
    before = plan.peak;
    for (const RecomputePlan& found : find_frontier(with.problem, {.runs = 200'000}))
      EXPECT_EQ(find_fault(with.problem, found), "");
  }
  // Of three values that a task back touches, none can go.
  EXPECT_LE(before, 4 * kBytes);
}

/// A program, planned with values in a file.
struct Offloaded {
  std::unique_ptr<Lowered> lowered;
  SizeBounds bounds;
  PreparedTasks tasks;

  Offloaded() {
    const Expr x = matrix("x"), w = shared(random_array({32, 32}, 1), "w");
    Expr h = x;
    for (int layer = 0; layer < 6; ++layer) h = tanh(dot(h, w));
    const Expr loss = sum(sqr(h));
    const std::vector<Expr> inputs{x}, outputs{loss};
    const std::vector<std::pair<Expr, Expr>> updates{{w, w - grad(loss, w)}};
    CompileTrace trace;
    lowered = lower(capture({inputs, outputs, updates, {}, true}).graph, {}, trace);
    const SizeTable& table = lowered->program.graph.sizes();
    std::vector<std::int64_t> symbols;
    for (const Symbol& s : table.symbols())
      symbols.push_back(s.index == 0 && s.input == 0 ? 4096 : 32);
    bounds = bound_sizes(table, symbols, symbols);
    tasks = prepare_tasks(*lowered, bounds, {{true}, {false}});
    tasks.sizes.sizes = bounds.high;
    tasks.sizes.disk = &kDisk;
  }
};

TEST(Offload, PlansAreMonotoneAndTheCheckerFindsFaults) {
  const Offloaded o;
  Fitter fitter(o.lowered->program, o.tasks.sizes, false);
  const Planned plain = *fitter.fit(0);
  const std::uint64_t smallest = fitter.floor().host().smallest;
  EXPECT_LT(smallest, plain.plan.host().bytes / 2);
  double before = HUGE_VAL;
  Planned last;
  for (std::uint64_t budget = smallest; budget <= plain.plan.host().bytes + 4096; budget += 65536) {
    const auto fitted = fitter.fit(budget);
    ASSERT_TRUE(fitted) << budget;
    EXPECT_LE(fitted->plan.host().bytes, budget);
    EXPECT_LE(fitted->seconds, before);
    EXPECT_TRUE(fitted->recomputed.empty());
    EXPECT_EQ(find_fault(o.lowered->program, fitted->schedule), "");
    before = fitted->seconds;
    if (!fitted->schedule.transfers.empty()) last = *fitted;
  }
  ASSERT_FALSE(last.schedule.transfers.empty());
  const auto fault_with = [&](const std::function<void(Schedule&, Transfer&)>& change, bool store) {
    Schedule s = last.schedule;
    change(s, *std::find_if(s.transfers.begin(), s.transfers.end(),
                            [&](const Transfer& t) { return t.store == store; }));
    return find_fault(o.lowered->program, s);
  };
  EXPECT_NE(fault_with([](Schedule&, Transfer& t) { t.offset += 1U << 30; }, true), "");
  EXPECT_NE(fault_with([](Schedule&, Transfer& t) { t.offset += 64; }, false), "");
  EXPECT_NE(fault_with([](Schedule&, Transfer& t) { t.end = 0; }, true), "");
  EXPECT_NE(
      fault_with([](Schedule& s, Transfer& t) { t.end = s.buffers[t.buffer].last + 2; }, true), "");
  EXPECT_NE(fault_with([](Schedule& s, Transfer& t) { t.begin = s.buffers[t.buffer].first; }, true),
            "");
  EXPECT_NE(fault_with([](Schedule&, Transfer& t) { ++t.end; }, false), "");
  EXPECT_NE(
      fault_with([](Schedule& s, Transfer& t) { s.buffers[t.buffer].first = t.begin + 1; }, false),
      "");
  EXPECT_NE(fault_with(
                [](Schedule& s, Transfer&) {
                  std::erase_if(s.transfers, [](const Transfer& t) { return t.store; });
                },
                true),
            "");
}

TEST(OffloadFile, GivesBackWhatItTook) {
  std::vector<std::byte> data(20U << 20), back(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 / 3);
  OffloadFile file(here());
  file.reserve(data.size() + 8192);
  for (int round = 0; round < 2; ++round) {
    std::memset(back.data(), 0, back.size());
    file.moves() = {{data.data(), data.size(), 4096, true},
                    {back.data(), back.size(), 4096, false}};
    file.start();
    file.allow(2);
    file.wait(2);
    file.stop();
    EXPECT_TRUE(data == back);
  }
}

/// The part of the bytes of a file that is in the page cache.
double cached_part(int file, std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  EXPECT_NE(data, MAP_FAILED);
  std::vector<unsigned char> pages((bytes + 4095) / 4096);
  EXPECT_EQ(mincore(data, bytes, pages.data()), 0);
  munmap(data, bytes);
  const auto cached = std::count_if(pages.begin(), pages.end(), [](auto p) { return p & 1; });
  return static_cast<double>(cached) / static_cast<double>(pages.size());
}

TEST(OffloadFile, LeavesNothingInThePageCache) {
  std::vector<std::byte> data(32U << 20);
  OffloadFile file(here());
  file.reserve(data.size());
  int opened = -1;  // the file, which has no name
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string to = std::filesystem::read_symlink(entry.path(), gone).string();
    if (to.starts_with(here()) && to.ends_with("(deleted)"))
      opened = std::stoi(entry.path().filename().string());
  }
  ASSERT_GE(opened, 0);
  for (const bool store : {true, false}) {
    file.moves() = {{data.data(), data.size(), 0, store}};
    file.start();
    file.allow(1);
    file.wait(1);
    EXPECT_LT(cached_part(opened, data.size()), 0.25);  // what the system reads ahead
  }
}

TEST(OffloadFile, RefusesWhatIsNoDisk) {
  EXPECT_THROW(OffloadFile("/no/such/directory"), FileError);
  EXPECT_THROW(OffloadFile("/proc/self/cmdline"), FileError);
  if (std::filesystem::exists("/dev/shm")) {
    EXPECT_NE(error_of([] { OffloadFile("/dev/shm"); }).message().find("in memory"),
              std::string::npos);
  }
  OffloadFile file(here());
  EXPECT_THROW(file.reserve(std::uint64_t{1} << 60), FileError);
  file.reserve(4096);  // as before
}

TEST(OffloadFile, AFailedMoveIsToldWhereItIsWaitedFor) {
  std::vector<std::byte> data(4096);
  OffloadFile file(here());
  file.reserve(4096);
  file.moves() = {{data.data(), 4096, 1U << 20, false}, {data.data(), 4096, 0, true}};
  file.start();
  file.allow(2);
  EXPECT_THROW(file.wait(1), FileError);  // there is nothing behind the end
  file.stop();
  file.moves() = {{data.data(), 4096, 0, true}};
  file.start();
  file.allow(1);
  EXPECT_NO_THROW(file.wait(1));
}

/// Training of a deep network.
struct Deep {
  Expr x = matrix("x");
  std::vector<Expr> w;
  Function step;

  explicit Deep(FunctionOptions options) {
    Expr h = x;
    for (std::uint64_t layer = 0; layer < 8; ++layer) {
      w.push_back(shared(random_array({64, 64}, layer, -0.2, 0.2)));
      h = tanh(dot(h, w.back()));
    }
    const Expr loss = mean(sqr(h));
    const std::vector<Expr> by = grad(loss, w);
    for (std::size_t k = 0; k < w.size(); ++k) options.updates.emplace_back(w[k], w[k] - by[k]);
    options.micro_batches = 1;
    step = function({x}, loss, options);
  }
  static std::vector<Dims> shapes() { return {{2048, 64}}; }

  void expect_same_as(Deep& other) {
    const Array rows = random_array({2048, 64}, 99);
    for (int k = 0; k < 3; ++k) EXPECT_EQ(step(rows).at_double(0), other.step(rows).at_double(0));
    for (std::size_t k = 0; k < w.size(); ++k) {
      const Array a = as_shared(w[k])->get_value(), b = as_shared(other.w[k])->get_value();
      EXPECT_EQ(std::memcmp(a.data, b.data, static_cast<std::size_t>(a.bytes())), 0);
    }
  }
};

FunctionOptions within(std::int64_t bytes) {
  FunctionOptions o;
  o.memory = std::to_string(bytes);
  o.recompute = false;
  o.offload = here();
  return o;
}

TEST(Offload, ResultsAreEqualToTheBitAndBytesAreAsPlanned) {
  const std::int64_t plain = Deep({}).step.memory(Deep::shapes()).peak;
  for (const double part : {0.8, 0.6, 0.5}) {
    const auto budget = static_cast<std::int64_t>(part * static_cast<double>(plain));
    FunctionOptions options = within(budget);
    options.share_arenas = false;
    Deep whole({}), kept(options);
    const MemoryReport plan = kept.step.memory(Deep::shapes());
    EXPECT_LE(plan.peak, budget);
    EXPECT_GT(plan.offloaded, 0);
    EXPECT_TRUE(plan.recomputed.empty());
    kept.expect_same_as(whole);
    EXPECT_EQ(kept.step.counter("arena_bytes"), (plan.arena + 4095) / 4096 * 4096);
  }
}

TEST(Offload, IsForBudgetsThatNeedItAndMayBeCombined) {
  const std::int64_t plain = Deep({}).step.memory(Deep::shapes()).peak;
  EXPECT_EQ(Deep(within(plain)).step.memory(Deep::shapes()).offloaded, 0);
  EXPECT_EQ(Deep({.offload = here()}).step.memory(Deep::shapes()).offloaded, 0);
  FunctionOptions both = within(plain / 2);
  both.recompute = true;
  Deep whole({}), kept(both);
  const MemoryReport plan = kept.step.memory(Deep::shapes());
  EXPECT_LE(plan.peak, plain / 2);
  kept.expect_same_as(whole);
}

TEST(Offload, StepsAreCheckedAndForkedProcessesGoOn) {
  const std::int64_t plain = Deep({}).step.memory(Deep::shapes()).peak;
  FunctionOptions checked = within(plain * 6 / 10);
  checked.mode = Mode::Check;
  checked.share_arenas = false;
  Deep kept(checked);
  const double loss = Deep(within(plain * 6 / 10)).step(random_array({2048, 64}, 99)).at_double(0);
  EXPECT_EQ(kept.step(random_array({2048, 64}, 99)).at_double(0), loss);

  FunctionOptions small = within(plain * 6 / 10);
  small.threads = 1;
  Deep first(small), again(small);
  const Array rows = random_array({2048, 64}, 99);
  const double before = first.step(rows).at_double(0);
  again.step(rows);
  const double wanted = first.step(rows).at_double(0);
  EXPECT_NE(wanted, before);
  const pid_t child = fork();
  if (child == 0) _exit(again.step(rows).at_double(0) == wanted ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(again.step(rows).at_double(0), wanted);
}

TEST(Offload, IsARemedy) {
  const std::int64_t plain = Deep({}).step.memory(Deep::shapes()).peak;
  Deep deep({});
  const std::vector<Remedy> ways =
      deep.step.remedies(Deep::shapes(), static_cast<std::uint64_t>(plain / 2));
  EXPECT_TRUE(std::any_of(ways.begin(), ways.end(), [&](const Remedy& r) {
    return r.kind == Remedy::Kind::Offload && r.peak <= plain / 2 && r.time_ratio >= 1;
  }));
  const auto e = error_of([] { Deep({.memory = "1MiB", .offload = "/no/such"}); });
  EXPECT_NE(e.message().find("/no/such"), std::string::npos);
}

}  // namespace
}  // namespace snug
