// Steady calls allocate nothing: malloc, mmap and operator new are interposed, and each allocation
// is put down to the library whose code asked for it. A program of its own, since it replaces
// malloc.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "snug.h"

namespace {

struct Count {
  char object[96];
  std::atomic<long> calls;
};
Count counts[32];
std::atomic<bool> counting{false};

void note(void* caller) {
  if (!counting.load(std::memory_order_relaxed)) return;
  Dl_info info;
  const char* path = dladdr(caller, &info) && info.dli_fname ? info.dli_fname : "?";
  const char* name = std::strrchr(path, '/') ? std::strrchr(path, '/') + 1 : path;
  for (Count& c : counts) {
    if (!c.object[0]) std::snprintf(c.object, sizeof c.object, "%s", name);
    if (std::strcmp(c.object, name) == 0) {
      ++c.calls;
      return;
    }
  }
}

void* real_malloc(std::size_t bytes) {
  static auto real = reinterpret_cast<void* (*)(std::size_t)>(dlsym(RTLD_NEXT, "malloc"));
  return real(bytes);
}

}  // namespace

extern "C" void* mmap(void* at, std::size_t bytes, int protection, int flags, int file,
                      off_t offset) noexcept {
  note(__builtin_return_address(0));
  static auto real = reinterpret_cast<void* (*)(void*, std::size_t, int, int, int, off_t)>(
      dlsym(RTLD_NEXT, "mmap"));
  return real(at, bytes, protection, flags, file, offset);
}
extern "C" void* malloc(std::size_t bytes) {
  note(__builtin_return_address(0));
  return real_malloc(bytes);
}
void* operator new(std::size_t bytes) {
  note(__builtin_return_address(0));
  if (void* p = real_malloc(bytes)) return p;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) {
  note(__builtin_return_address(0));
  if (void* p = real_malloc(bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace snug {
namespace {

/// Allocations in `calls` steady calls: of libsnug itself and of all other libraries but oneDNN.
struct Allocations {
  long ours = 0, onednn = 0, others = 0;
};

Allocations allocations_of(const std::function<void()>& call, int calls) {
  for (int i = 0; i < 3; ++i) call();
  for (Count& c : counts) c.object[0] = 0, c.calls = 0;
  counting = true;
  for (int i = 0; i < calls; ++i) call();
  counting = false;
  Allocations found;
  for (Count& c : counts) {
    if (!c.object[0]) continue;
    std::printf("  %-28s %6.1f allocations per call\n", c.object, double(c.calls) / calls);
    const bool ours = std::strncmp(c.object, "libsnug", 7) == 0;
    const bool onednn = std::strncmp(c.object, "libdnnl", 7) == 0;
    (ours ? found.ours : onednn ? found.onednn : found.others) += c.calls;
  }
  return found;
}

/// Of libsnug itself.
long count_in(const std::function<void()>& call, int calls) {
  return allocations_of(call, calls).ours;
}

/// Steady calls of a training step on images of this shape allocate nothing of ours.
void expect_none(const Function& train, const Dims& shape) {
  Array images = ones(shape), labels = Array::zeros(DType::I32, {shape[0]});
  ArgView arguments[] = {{images.data, images.dtype, images.shape, images.strides},
                         {labels.data, labels.dtype, labels.shape, labels.strides}};
  float out = 0;
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(&out)};
  auto call = [&] { train.run_into(arguments, outputs); };
  EXPECT_EQ(count_in(call, 20), 0) << "batch " << shape[0];
}

TEST(Allocation, SteadyTrainingStepsMakeNoneOfOurs) {
  Expr x = matrix("x"), y = ivector("y");
  Expr W = shared(zeros({784, 10}), "W"), b = shared(zeros({10}), "b");
  Expr loss = mean(categorical_crossentropy(softmax(dot(x, W) + b), y));
  auto [gW, gb] = grad(loss, W, b);
  Function train = function({x, y}, loss, {.updates = {{W, W - 0.1f * gW}, {b, b - 0.1f * gb}}});
  expect_none(train, {8, 784});    // on the calling thread
  expect_none(train, {512, 784});  // on the pool
}

TEST(Allocation, SteadyStepsOfANetworkMakeNoneOfOurs) {
  auto block = [](std::int64_t n) {
    return nn::sequential(
        {nn::conv2d(n, {3}, {.border = "half"}), nn::batch_norm(), nn::activation("relu")});
  };
  nn::LayerPtr model =
      nn::sequential({block(8), nn::max_pool({2}), nn::residual(block(8)), nn::max_pool({2}),
                      nn::flatten(), nn::dropout(0.25), nn::dense(5)});
  model->build({-1, 3, 16, 16}, 7);
  Expr x = tensor4("x"), y = ivector("y");
  nn::Pass pass{.training = true, .seed = 7};
  Expr loss = nn::cross_entropy((*model)(x, pass), y);
  Function train = function({x, y}, loss, {.updates = optim::adam(loss, model->trainable()).pairs});
  expect_none(train, {2, 3, 16, 16});
  expect_none(train, {64, 3, 16, 16});
}

/// A step of a network of so many layers of 64.
struct TrainingStep {
  Expr x, y, loss;
  FunctionOptions options;
};
TrainingStep training_of(int layers) {
  TrainingStep step{matrix("x"), ivector("y"), {}, {}};
  Expr h = step.x;
  std::vector<Expr> weights;
  for (int layer = 0; layer < layers; ++layer) {
    weights.push_back(shared(ones({64, 64})));
    h = tanh(dot(h, weights.back()));
  }
  step.loss = mean(categorical_crossentropy(softmax(h), step.y));
  const std::vector<Expr> by = grad(step.loss, weights);
  for (std::size_t k = 0; k < by.size(); ++k)
    step.options.updates.emplace_back(weights[k], weights[k] - by[k]);
  return step;
}

TEST(Allocation, SteadyStepsWithValuesInAFileMakeNoneOfOurs) {
  auto [x, y, loss, options] = training_of(6);
  const std::vector<Dims> shapes{{2048, 64}, {2048}};
  const std::int64_t plain = function({x, y}, loss, options).memory(shapes).peak;
  options.memory = std::to_string(plain * 6 / 10);
  options.recompute = false;
  options.micro_batches = 1;
  options.offload = ".";
  Function train = function({x, y}, loss, options);
  ASSERT_GT(train.memory(shapes).offloaded, 0);
  expect_none(train, {2048, 64});
}

TEST(Allocation, OfAllLibrariesOnlyOneDnnAllocatesSixTimesPerOperation) {
  constexpr int kCalls = 20;
  Expr x = matrix("the rows of a batch, by a long name"), W = shared(ones({64, 64}), "W");
  Array a = ones({32, 64}), out = ones({32, 64});
  const ArgView argument{a.data, a.dtype, a.shape};
  std::byte* outputs[] = {out.data};
  const auto count = [&](const Expr& y) {
    const Function f = function({x}, y, {.threads = 1});
    return allocations_of([&] { f.run_into({&argument, 1}, outputs); }, kCalls);
  };
  const Allocations fused = count(tanh(x) * 2.0f), one = count(dot(x, W)),
                    three = count(dot(dot(dot(x, W), W), W));
  EXPECT_EQ(fused.ours + fused.onednn + fused.others, 0);
  for (const Allocations& found : {one, three}) {
    EXPECT_EQ(found.ours, 0);
    EXPECT_EQ(found.others, 0);
  }
  EXPECT_LE(one.onednn, 6 * kCalls);
  EXPECT_LE(three.onednn, 3 * 6 * kCalls);
}

TEST(Allocation, SteadyStepsInSlicesMakeNoneOfOurs) {
  auto [x, y, loss, options] = training_of(4);
  const std::int64_t plain = function({x, y}, loss, options).memory({{1024, 64}, {1024}}).peak;
  options.memory = std::to_string(plain / 2);
  Function train = function({x, y}, loss, options);
  expect_none(train, {1024, 64});
}

TEST(Allocation, StridedArgumentsAreCopiedIntoThePlan) {
  Expr x = matrix("x");
  Function f = function({x}, sum(sqr(x)));
  Array a = ones({300, 300});
  Dims transposed{1, 300};
  ArgView argument{a.data, a.dtype, a.shape, transposed};
  float out = 0;
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(&out)};
  auto call = [&] { f.run_into({&argument, 1}, outputs); };
  EXPECT_EQ(count_in(call, 20), 0);
  EXPECT_EQ(out, 90000);
}

TEST(Allocation, ChangingSliceBoundsMakeNoneOfOurs) {
  Expr data = shared(ones({1000, 16}), "data"), i = lscalar("i");
  Expr rows = subtensor(data, {IndexItem::range(i * 10, (i + 1) * 10)});
  Function f = function({i}, sum(sqr(rows)));
  std::int64_t k = 0;
  Dims none;
  float out = 0;
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(&out)};
  auto call = [&] {
    k = (k + 1) % 100;
    ArgView argument{reinterpret_cast<const std::byte*>(&k), DType::I64, none, none};
    f.run_into({&argument, 1}, outputs);
  };
  EXPECT_EQ(count_in(call, 200), 0);
  EXPECT_EQ(f.counter("plans"), 1);
}

}  // namespace
}  // namespace snug
