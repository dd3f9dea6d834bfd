// What functions say of their memory, that they keep to it, and that it is given back.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "api/process_memory.h"
#include "classifier.h"
#include "error_of.h"
#include "exec/arena.h"
#include "random_array.h"
#include "snug.h"
#include "target/free_memory.h"

namespace snug {
namespace {

using testing::error_of;

/// Resident bytes to the page: /proc/self/status lags behind by what threads have not told yet.
std::int64_t exactly_resident() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  while (file >> word)
    if (word == "Rss:") {
      std::int64_t kib = 0;
      file >> kib;
      return kib * 1024;
    }
  return resident_bytes();
}

std::int64_t sum_of_classes(const MemoryReport& r) {
  return r.gradients + r.activations + r.temporaries + r.workspace + r.copies + r.gap;
}

std::int64_t bytes_of(const std::vector<Expr>& variables) {
  std::int64_t sum = 0;
  for (const Expr& e : variables) sum += product(as_shared(e)->shape()) * size_of(e.dtype());
  return sum;
}

/// A function that trains a model, without values of its parameters.
struct Training {
  nn::LayerPtr model;
  std::vector<Expr> weights, states;
  Dims images;
  Function train;

  Training(nn::LayerPtr m, Dims of_images, std::string_view rule, optim::Options o = {},
           FunctionOptions options = {})
      : model(std::move(m)), images(std::move(of_images)) {
    const auto [x, y, loss] = Classifier(*model, images);
    weights = model->trainable();
    optim::Updates updates = optim::updates_by(rule, loss, weights, o);
    states = updates.states;
    options.updates = updates.pairs;
    train = function({x, y}, loss, options);
  }
  MemoryReport memory() const { return train.memory(std::vector<Dims>{images, {images[0]}}); }
  void step() const { train(random_array(images, 1), random_integers({images[0]}, 2, 4)); }
};

nn::LayerPtr convnet() {
  auto block = [](std::int64_t n) {
    return nn::sequential(
        {nn::conv2d(n, {3}, {.border = "half"}), nn::batch_norm(), nn::activation("relu")});
  };
  return nn::sequential({block(16), nn::max_pool({2}), nn::residual(block(16)), nn::max_pool({2}),
                         nn::flatten(), nn::dropout(0.25), nn::dense(5)});
}

nn::LayerPtr wide_mlp(int layers) {
  std::vector<nn::Named> all;
  for (int k = 0; k < layers; ++k) {
    all.push_back(nn::dense(256));
    all.push_back(nn::activation("tanh"));
  }
  all.push_back(nn::dense(5));
  return nn::sequential(all);
}

// ---- the report

TEST(Memory, ClassesOfATrainingStep) {
  Training t(convnet(), {8, 3, 32, 32}, "adam");
  MemoryReport r = t.memory();
  EXPECT_EQ(sum_of_classes(r), r.arena);
  EXPECT_EQ(r.optimizer, bytes_of(t.states) + 8);  // and the state of the random numbers
  std::vector<Expr> all;
  for (const nn::Parameter& p : t.model->parameters()) all.push_back(p.variable);
  EXPECT_EQ(r.parameters, bytes_of(all));
  EXPECT_EQ(r.inputs, 8 * 3 * 32 * 32 * 4 + 8 * 4);
  EXPECT_EQ(r.outputs, 4);
  EXPECT_EQ(r.peak, r.arena + r.parameters + r.optimizer + r.outputs + r.constants);
  EXPECT_LE(r.floor, r.peak);
  const std::int64_t image = 8 * 16 * 32 * 32 * 4;
  EXPECT_GE(r.most[static_cast<std::size_t>(ArenaClass::Activations)], image);
  EXPECT_GT(r.most[static_cast<std::size_t>(ArenaClass::Gradients)], 0);
  std::int64_t alive = 0;
  for (std::size_t i = 0; i < r.alive.size(); ++i) {
    alive += r.alive[i].bytes;
    EXPECT_LE(r.alive[i].bytes, r.alive[i ? i - 1 : 0].bytes);
  }
  EXPECT_EQ(alive + r.gap, r.arena);
  EXPECT_NE(r.alive[0].where.find("classifier.h"), std::string::npos) << r.alive[0].where;
  EXPECT_NE(r.peak_step.find("classifier.h"), std::string::npos) << r.peak_step;
  for (const Expr& w : t.weights) EXPECT_FALSE(as_shared(w)->materialised());
}

TEST(Memory, ClassesSurviveTheRulesOfOptimizers) {
  for (const std::string& rule : optim::rule_names())
    for (double average : {0.0, 0.9}) {
      optim::Options o;
      o.average = average;
      Training t(wide_mlp(2), {4, 20}, rule, o);
      MemoryReport r = t.memory();
      EXPECT_EQ(r.optimizer, bytes_of(t.states)) << rule;
      EXPECT_EQ(r.parameters, bytes_of(t.weights)) << rule;
    }
}

TEST(Memory, AFunctionWithoutGradientsHasParametersAndTemporariesOnly) {
  Expr x = matrix("x");
  Expr W = shared(random_array({50, 60}, 1), "W"), count = shared(Array::scalar(0.0f), "count");
  Function f = function({x}, tanh(dot(x, W)) + 1.0f, {.updates = {{count, count + 1.0f}}});
  MemoryReport r = f.memory(std::vector<Dims>{{30, 50}});
  EXPECT_EQ(r.parameters, 50 * 60 * 4 + 4);
  EXPECT_EQ(r.optimizer + r.gradients + r.activations + r.all_gradients, 0);
  EXPECT_EQ(sum_of_classes(r), r.arena);
}

TEST(Memory, UpdatesAreAppliedAsTheirGradientsAreComplete) {
  for (const auto& [model, images] :
       {std::pair{wide_mlp(6), Dims{4, 256}},
        std::pair{nn::models::make("vgg-small"), Dims{2, 1, 28, 28}}}) {
    Training t(model, images, "momentum");
    MemoryReport r = t.memory();
    const std::int64_t most = r.most[static_cast<std::size_t>(ArenaClass::Gradients)];
    EXPECT_GT(most, 0);
    std::int64_t largest = 0;
    for (const Expr& w : t.weights) largest = std::max(largest, bytes_of(std::vector{w}));
    EXPECT_LE(most, std::min(3 * largest, r.all_gradients - 1));
    EXPECT_GE(r.all_gradients, bytes_of(t.weights) * 9 / 10);  // those of biases may need no buffer
    EXPECT_EQ(r.gradients_wait, "");
    EXPECT_NE(r.describe().find("freed as each update is applied"), std::string::npos);
  }
}

TEST(Memory, WhatKeepsAllGradientsAliveIsSaid) {
  optim::Options clipped;
  clipped.clip_global_norm = 1;
  MemoryReport r = Training(wide_mlp(6), {4, 256}, "sgd", clipped).memory();
  EXPECT_NE(r.gradients_wait.find("needs them before the first update"), std::string::npos);
  const auto gradients = static_cast<std::size_t>(ArenaClass::Gradients);
  EXPECT_GE(r.most[gradients], 5 * 256 * 256 * 4);

  optim::Options one_by_one;
  one_by_one.clip_norm = 1;
  EXPECT_EQ(Training(wide_mlp(6), {4, 256}, "sgd", one_by_one).memory().gradients_wait, "");

  FunctionOptions slices;
  slices.micro_batches = 2;
  r = Training(wide_mlp(6), {4, 256}, "sgd", {}, slices).memory();
  EXPECT_NE(r.gradients_wait.find("micro-batches"), std::string::npos);
  EXPECT_GE(r.most[gradients], 5 * 256 * 256 * 4);
  EXPECT_EQ(sum_of_classes(r), r.arena);
}

TEST(Memory, TheMarkOfDerivativesSurvivesSaving) {
  Expr x = matrix("x");
  Expr W = shared(random_array({8, 8}, 1), "W"), v = shared(Array::zeros(DType::F32, {8, 8}), "v");
  Expr step = v * 0.9f + grad(sum(sqr(tanh(dot(x, W)))), W);
  std::vector<Expr> loaded = load_graph(save_graph(std::vector<Expr>{x, W, v, step}));
  Function f = function({loaded[0]}, std::vector<Expr>{},
                        {.updates = {{loaded[2], loaded[3]}, {loaded[1], loaded[1] - loaded[3]}}});
  MemoryReport r = f.memory(std::vector<Dims>{{5, 8}});
  EXPECT_EQ(r.optimizer, 8 * 8 * 4);
  EXPECT_EQ(r.parameters, 8 * 8 * 4);
}

TEST(Memory, PlansAreForTheGivenSizesAlone) {
  Expr x = matrix("x");
  Function f = function({x}, sum(exp(dot(x, transpose(x)))), {.share_arenas = false});
  auto arena = [&](std::int64_t n) { return f.memory(std::vector<Dims>{{n, n}}).arena; };
  const std::int64_t large = arena(200), small = arena(50);
  EXPECT_LT(small, large / 4);
  EXPECT_EQ(arena(200), large);
  // What was only asked for does not make a call take more.
  f(random_array({50, 50}, 1, -0.1, 0.1));
  EXPECT_EQ(f.counter("arena_bytes"),
            static_cast<std::int64_t>(Arena::mapped_for(static_cast<std::uint64_t>(small))));
  f(random_array({40, 40}, 1, -0.1, 0.1));
  EXPECT_EQ(f.counter("plans"), 1);
  f(random_array({200, 200}, 1, -0.1, 0.1));
  EXPECT_EQ(f.counter("plans"), 2);
  EXPECT_EQ(arena(50), small);
}

// ---- exactness

TEST(Memory, ThePlannedArenaIsWhatIsMapped) {
  const std::uint64_t before = Arena::mapped_in_process();
  FunctionOptions own;
  own.share_arenas = false;
  Training t(convnet(), {8, 3, 32, 32}, "adam", {}, own);
  MemoryReport r = t.memory();
  EXPECT_EQ(Arena::mapped_in_process(), before);
  t.step();
  const std::uint64_t mapped = Arena::mapped_for(static_cast<std::uint64_t>(r.arena));
  EXPECT_EQ(Arena::mapped_in_process() - before, mapped);
  EXPECT_EQ(t.train.counter("arena_bytes"), static_cast<std::int64_t>(mapped));
}

TEST(Memory, NobodyReadsOrWritesBehindAnArena) {
  Arena arena;
  arena.ensure(100000);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(write(ends[1], arena.data() + arena.bytes() - 1, 1), 1);
  EXPECT_EQ(write(ends[1], arena.data() + arena.bytes(), 1), -1);
  EXPECT_EQ(errno, EFAULT);
  close(ends[0]);
  close(ends[1]);
}

TEST(Memory, SteadyStepsTakeNoMoreMemory) {
  if (dlsym(RTLD_DEFAULT, "__asan_init")) GTEST_SKIP() << "the sanitizer keeps freed memory";
  FunctionOptions one_thread;  // others may keep a second one from running
  one_thread.threads = 1;
  Training t(convnet(), {4, 3, 16, 16}, "adam", {}, one_thread);
  const Array images = random_array(t.images, 1), labels = random_integers({4}, 2, 4);
  const ArgView arguments[] = {{images.data, images.dtype, images.shape, images.strides},
                               {labels.data, labels.dtype, labels.shape, labels.strides}};
  float loss = 0;
  std::byte* const outputs[] = {reinterpret_cast<std::byte*>(&loss)};
  for (int i = 0; i < 20; ++i) t.train.run_into(arguments, outputs);
  const std::int64_t before = exactly_resident();
  for (int i = 0; i < 100; ++i) t.train.run_into(arguments, outputs);
  EXPECT_LE(exactly_resident(), before);
}

// ---- memory is given back

TEST(Memory, LargeArraysAreTheirOwnMappings) {
  constexpr std::int64_t kBytes = 64 << 20, kSlack = 1 << 20;
  std::int64_t before = 0;
  {
    Expr W = shared(Array::zeros(DType::F32, {kBytes / 4}), "W");
    as_shared(W)->set_value(random_array({1}, 1));
    Array ones = Array::empty(DType::F32, {kBytes / 4});
    std::memset(ones.data, 1, kBytes);
    as_shared(W)->set_value(ones);
    ones = Array();
    before = exactly_resident();
  }
  EXPECT_LE(exactly_resident(), before - kBytes + kSlack);
}

TEST(Memory, ExportsAreListedAndKeepTheirMemory) {
  Expr W = shared(random_array({100, 100}, 1), "lent");
  Expr x = matrix("x");
  Function f = function({x}, sum(dot(x, W)), {.updates = {{W, W + 1.0f}}});
  auto lent = [] {
    std::vector<Export> found = live_exports();
    std::erase_if(found, [](const Export& e) { return e.name != "lent"; });
    return found;
  };
  const std::vector<Dims> shape{{2, 100}};
  EXPECT_TRUE(lent().empty());
  EXPECT_TRUE(f.memory(shape).exported.empty());
  {
    Array held = as_shared(W)->get_value(true);
    ASSERT_EQ(lent().size(), 1u);
    EXPECT_EQ(lent()[0].bytes, 40000);
    EXPECT_TRUE(lent()[0].current);
    ASSERT_EQ(f.memory(shape).exported.size(), 1u);
    EXPECT_NE(f.memory(shape).describe().find("held by others: lent"), std::string::npos);
    f(random_array({2, 100}, 2));  // goes on with new memory
    ASSERT_EQ(lent().size(), 1u);
    EXPECT_FALSE(lent()[0].current);
    EXPECT_TRUE(f.memory(shape).exported.empty());
    EXPECT_NE(process_memory().describe().find("of lent"), std::string::npos);
  }
  EXPECT_TRUE(lent().empty());
}

// ---- shared arenas

struct TwoFunctions {
  Function small, large;
  std::uint64_t before = Arena::mapped_in_process();
  explicit TwoFunctions(bool share) {
    Expr x = matrix("x");
    Expr y = sum(tanh(dot(x, x))) + sum(exp(dot(transpose(x), x)));
    small = function({x}, y, {.share_arenas = share});
    large = function({x}, y * 2.0f, {.share_arenas = share});
  }
  std::uint64_t mapped() const { return Arena::mapped_in_process() - before; }
  static Array of(std::int64_t n) { return random_array({n, n}, 3, -0.01, 0.01); }
};

TEST(Memory, FunctionsShareAnArena) {
  TwoFunctions f(true);
  const float first = f.small(TwoFunctions::of(100)).item<float>();
  const std::uint64_t small = f.mapped();
  EXPECT_EQ(static_cast<std::int64_t>(small), f.small.counter("arena_bytes"));
  f.large(TwoFunctions::of(300));
  EXPECT_EQ(static_cast<std::int64_t>(f.mapped()), f.large.counter("arena_bytes"));
  EXPECT_GT(f.mapped(), small);
  EXPECT_EQ(f.small(TwoFunctions::of(100)).item<float>(), first);
  f.large.free();  // nobody needs that much any more
  EXPECT_EQ(f.large.counter("arena_bytes"), 0);
  EXPECT_EQ(f.mapped(), 0u);
  EXPECT_EQ(f.small(TwoFunctions::of(100)).item<float>(), first);
  EXPECT_EQ(f.mapped(), small);
  f.small = Function();
  EXPECT_EQ(f.mapped(), 0u);
}

TEST(Memory, FunctionsMayHaveArenasOfTheirOwn) {
  TwoFunctions f(false);
  f.small(TwoFunctions::of(100));
  f.large(TwoFunctions::of(300));
  EXPECT_EQ(static_cast<std::int64_t>(f.mapped()),
            f.small.counter("arena_bytes") + f.large.counter("arena_bytes"));
  f.small.free();
  f.large.free();
  EXPECT_EQ(f.mapped(), 0u);
}

TEST(Memory, ACallInsideACallHasAnArenaOfItsOwn) {
  TwoFunctions f(true);
  const float expected = f.small(TwoFunctions::of(50)).item<float>();
  float inside = 0;
  Expr x = matrix("x");
  Expr shown = print(dot(x, x), "",
                     [&](const Array&) { inside = f.small(TwoFunctions::of(50)).item<float>(); });
  Expr y = sum(tanh(shown) + exp(dot(x, shown)));
  const Array value = TwoFunctions::of(60);
  const float alone = function({x}, y, {.share_arenas = false})(value).item<float>();
  EXPECT_EQ(function({x}, y)(value).item<float>(), alone);
  EXPECT_EQ(inside, expected);
}

TEST(Memory, CallsAtTheSameTimeDoNotDisturbEachOther) {
  TwoFunctions f(true);
  const Array a = TwoFunctions::of(80), b = TwoFunctions::of(120);
  const float small = f.small(a).item<float>(), large = f.large(b).item<float>();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        wrong += t % 2 ? f.small(a).item<float>() != small : f.large(b).item<float>() != large;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// ---- free memory

class FakeSystem {
 public:
  FakeSystem()
      : root_(std::filesystem::temp_directory_path() /
              ("snug_free_memory_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(root_);
  }
  ~FakeSystem() { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  FreeMemory free() const {
    auto at = [&](const char* path) { return (root_ / path).string(); };
    return free_memory({at("meminfo"), at("status"), at("cgroup"), at("groups")});
  }

 private:
  std::filesystem::path root_;
};

TEST(Memory, FreeIsTheLeastOfAllLimits) {
  FakeSystem s;
  EXPECT_EQ(s.free().bytes, UINT64_MAX);
  s.write("meminfo", "MemTotal:  9000 kB\nMemAvailable:    5000 kB\nMemFree: 1 kB\n");
  EXPECT_EQ(s.free().bytes, 5000u * 1024);
  EXPECT_EQ(s.free().limit, "the memory of the machine");

  // Version 2: a group, one around it, and the outermost, which has no limit.
  s.write("cgroup", "0::/a/b\n");
  s.write("groups/a/b/memory.max", "max\n");
  s.write("groups/a/b/memory.current", "700\n");
  s.write("groups/a/memory.max", "4000000\n");
  s.write("groups/a/memory.current", "1500000\n");
  s.write("groups/a/memory.stat", "anon 5\ninactive_file 100000\nactive_file 20000\n");
  EXPECT_EQ(s.free().bytes, 4000000u - 1500000 + 120000);
  EXPECT_EQ(s.free().limit, "the limit of the control group /a");
  s.write("groups/a/b/memory.max", "1000\n");
  EXPECT_EQ(s.free().bytes, 300u);
  EXPECT_EQ(s.free().limit, "the limit of the control group /a/b");
  s.write("groups/a/b/memory.current", "1200\n");
  EXPECT_EQ(s.free().bytes, 0u);

  // Version 1, with a name from outside the container, whose own group is the outermost here.
  s.write("cgroup", "12:pids:/x\n4:cpu,memory:/docker/0123\n1:name=systemd:/x\n0::/\n");
  s.write("groups/memory/memory.limit_in_bytes", "3000000\n");
  s.write("groups/memory/memory.usage_in_bytes", "2000000\n");
  s.write("groups/memory/memory.stat", "total_inactive_file 1000\ntotal_active_file 200\n");
  EXPECT_EQ(s.free().bytes, 1001200u);
  EXPECT_EQ(s.free().limit, "the limit of the control group /");
}

TEST(Memory, APlanLargerThanTheFreeMemoryIsRefused) {
  Expr x = matrix("x");
  Expr W = shared(Array::scalar(1.0f), "W");
  Function f = function({x}, sum(tanh(x) * W), {.updates = {{W, W + 1.0f}}, .name = "big"});
  const std::int64_t n = std::int64_t{1} << 25;  // its square: 4 PiB for the copy of the argument
  const std::uint64_t mapped = Arena::mapped_in_process();
  Array one = random_array({1}, 1);
  const ArgView argument{one.data, DType::F32, {n, n}, {0, 0}};
  float out = 0;
  std::byte* const outputs[] = {reinterpret_cast<std::byte*>(&out)};
  const std::string text = error_of([&] { f.run_into({&argument, 1}, outputs); }).what();
  EXPECT_NE(text.find("memory error: the arena of big needs"), std::string::npos) << text;
  EXPECT_NE(text.find("are free: "), std::string::npos) << text;
  EXPECT_EQ(Arena::mapped_in_process(), mapped);
  EXPECT_EQ(as_shared(W)->get_value().item<float>(), 1);
  EXPECT_GT(f(random_array({3, 3}, 1)).size(), 0);
  EXPECT_EQ(as_shared(W)->get_value().item<float>(), 2);

  Recipe recipe;
  recipe.shape = {std::int64_t{1} << 40};
  Expr huge = shared(recipe, "huge");
  const std::string recipes = error_of([&] { function({}, sum(huge)).call({}); }).what();
  EXPECT_NE(recipes.find("making the shared variables"), std::string::npos) << recipes;
  EXPECT_FALSE(as_shared(huge)->materialised());
}

}  // namespace
}  // namespace snug
