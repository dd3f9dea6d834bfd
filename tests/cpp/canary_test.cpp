// A run touches the bytes its plan says and no others. The arena and every array of the caller end
// at a page that nobody may touch; bytes of the arena that no live buffer has hold a canary.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "backend/devices.h"
#include "backend/sim/sim_device.h"
#include "classifier.h"
#include "fenced_run.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

/// An arena of canaries: in fenced memory of the host, or on a device.
class WatchedArena {
 public:
  WatchedArena(const FencedRun& run, Space space, std::uint64_t bytes) : space(space) {
    if (on_host(space)) {
      fenced_ = std::make_unique<Fenced>(bytes, 64);
      data = fenced_->data;
      return;
    }
    memory_ = run.device(device_of(space)).allocate(bytes, "the arena");
    data = memory_->data();
    write(std::vector<std::byte>(bytes, kCanary));
  }
  std::vector<std::byte> read() const {
    std::vector<std::byte> copy(size());
    if (fenced_)
      std::memcpy(copy.data(), data, copy.size());
    else
      memory_->read(data, copy.data(), copy.size());
    return copy;
  }
  void write(const std::vector<std::byte>& bytes) {
    if (fenced_)
      std::memcpy(data, bytes.data(), bytes.size());
    else
      memory_->write(data, bytes.data(), bytes.size());
  }
  std::uint64_t size() const { return fenced_ ? fenced_->size() : memory_->bytes(); }
  bool intact() const { return !fenced_ || fenced_->intact(); }

  Space space;
  std::byte* data = nullptr;
  std::uint64_t highest = 0;  // end of the operands of all steps

 private:
  std::unique_ptr<Fenced> fenced_;
  std::shared_ptr<DeviceMemory> memory_;
};

/// Looks at every byte of all arenas after each step.
class Watch : public StepObserver {
 public:
  Watch(const Executable& exe, std::vector<WatchedArena>& arenas) : exe_(exe), arenas_(arenas) {}

  void before(const RunState&, std::uint32_t) override {}
  void after(const RunState& state, std::uint32_t step) override {
    for (WatchedArena& arena : arenas_) look_at(arena, state, step);
  }

 private:
  void look_at(WatchedArena& arena, const RunState& state, std::uint32_t step) {
    const Schedule& s = exe_.planned->schedule;
    // What the step could reach: its operands and its workspace, by their addresses.
    std::vector<std::uint32_t> operands = exe_.steps[step].buffers;
    if (exe_.steps[step].workspace >= 0)
      operands.push_back(static_cast<std::uint32_t>(exe_.steps[step].workspace));
    for (const std::uint32_t b : exe_.steps[step].elsewhere) operands.push_back(b);
    for (std::uint32_t b : operands)
      if (s.buffers[b].where == Where::Arena && s.buffers[b].space == arena.space)
        arena.highest =
            std::max(arena.highest, static_cast<std::uint64_t>(state.buffers[b] - arena.data) +
                                        s.buffers[b].bytes);
    std::vector<std::uint8_t> live(arena.size(), 0), stays(arena.size(), 0);
    for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
      const Buffer& buf = s.buffers[b];
      if (buf.where != Where::Arena || buf.space != arena.space) continue;
      if (buf.first > step || buf.last < step) continue;
      std::uint64_t at = exe_.planned->plan.offsets[b];
      std::memset(live.data() + at, 1, buf.bytes);
      if (buf.last > step) std::memset(stays.data() + at, 1, buf.bytes);
    }
    std::vector<std::byte> bytes = arena.read();
    std::uint64_t wrong = 0;
    for (std::uint64_t k = 0; k < bytes.size(); ++k) wrong += !live[k] && bytes[k] != kCanary;
    ASSERT_EQ(wrong, 0u) << "step " << step << " wrote bytes that belong to nothing in space "
                         << int{arena.space};
    for (std::uint64_t k = 0; k < bytes.size(); ++k)
      if (!stays[k]) bytes[k] = kCanary;
    arena.write(bytes);
  }

  const Executable& exe_;
  std::vector<WatchedArena>& arenas_;
};

void run_watched_once(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                      const std::vector<std::pair<Expr, Expr>>& updates,
                      const std::vector<Array>& arguments, CompileOptions options,
                      double budget_part) {
  options.threads = 2;
  FencedRun run(inputs, outputs, updates, arguments, options, true);
  const std::unique_ptr<Executable>& exe = run.exe;
  if (budget_part > 0) {
    run.plan(static_cast<std::uint64_t>(budget_part *
                                        static_cast<double>(exe->planned->plan.host().bytes)));
    EXPECT_NE(exe->planned->recomputed.empty(), exe->transfers.empty());
  }
  run.bind();
  const std::vector<ArenaPlan>& planned = exe->planned->plan.arenas;
  std::vector<WatchedArena> arenas;
  std::vector<std::byte*> addresses(planned.size(), nullptr);
  for (Space space = 0; space < planned.size(); ++space) {
    if (planned[space].bytes == 0 && space != kHostSpace) continue;
    arenas.emplace_back(run, space, planned[space].bytes);
    addresses[space] = arenas.back().data;
  }
  run.state.arenas = addresses.data();
  std::optional<OffloadFile> file;
  if (!exe->transfers.empty()) {
    file.emplace(std::filesystem::current_path().string())
        .reserve(exe->planned->schedule.file_bytes);
    run.state.file = &*file;
  }
  bind_arena(*exe, run.state);
  std::memcpy(run.buffers[0], arguments[0].data, static_cast<std::size_t>(arguments[0].bytes()));
  Watch watch(*exe, arenas);
  run.state.observer = &watch;
  make_ready(*exe);
  run_steps(*exe, run.state);
  for (const WatchedArena& arena : arenas) {
    EXPECT_EQ((arena.highest + 63) / 64 * 64, planned[arena.space].bytes) << int{arena.space};
    EXPECT_TRUE(arena.intact());
  }
  for (const auto& h : run.held) EXPECT_TRUE(h->intact());
}

/// On the host, and scattered over the host and two devices.
void run_watched(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                 const std::vector<std::pair<Expr, Expr>>& updates,
                 const std::vector<Array>& arguments, CompileOptions options = {},
                 double budget_part = 0) {
  options.devices = host_only();
  run_watched_once(inputs, outputs, updates, arguments, options, budget_part);
  if (budget_part > 0) return;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<std::shared_ptr<Accelerator>> sims;
    for (int k = 0; k < 2; ++k)
      sims.push_back(
          std::make_shared<SimDevice>(SimDevice::Options{.name = fmt::format("sim:{}", k)}));
    options.devices = host_and(sims);
    options.pin = [seed](std::uint32_t number, const Node&) {
      return static_cast<DeviceId>(((number + 1) * (2 * seed + 1) * 0x9e3779b97f4a7c15 >> 40) % 3);
    };
    run_watched_once(inputs, outputs, updates, arguments, options, 0);
  }
}

/// Dropout, an embedding, softmax and cross-entropy, with their gradients and updates.
struct Net {
  Expr x = matrix("x"), y = ivector("y"), words = ivector("words");
  Expr W = shared(random_array({20, 48}, 1), "W"), V = shared(random_array({48, 10}, 2), "V"),
       E = shared(random_array({100, 48}, 3), "E");
  RandomStream stream{4};
  Expr loss;
  std::vector<std::pair<Expr, Expr>> updates;
  Net() {
    Expr rows = subtensor(E, {words});
    Expr h = x;
    h = dropout(tanh(dot(h, W) + rows), 0.25, stream);
    h = dropout(tanh(h * 2.0f) + h, 0.25, stream);
    Expr p = softmax(dot(h, V));
    loss = mean(-log(subtensor(p, {arange(shape_i(y, 0)), y})));
    auto g = grad(loss, std::vector<Expr>{W, V, rows});
    updates = {{W, W - 0.1f * g[0]}, {V, V - 0.1f * g[1]}, {E, inc_subtensor(E, {words}, g[2])}};
  }
  std::vector<Array> arguments(std::int64_t n) const {
    return {random_array({n, 20}, 5), random_integers({n}, 6, 9), random_integers({n}, 7, 99)};
  }
};

TEST(Canary, ATrainingStepTouchesItsPlanOnly) {
  for (std::int64_t n : {1, 37, 300}) {
    Net net;
    run_watched({net.x, net.y, net.words}, {net.loss}, net.updates, net.arguments(n));
  }
}

TEST(Canary, RecomputationTouchesItsPlanOnly) {
  RandomStream stream(4);
  Expr x = matrix("x");
  Expr W = shared(random_array({64, 64}, 1, -0.1, 0.1), "W");
  Expr h = x;
  for (int layer = 0; layer < 4; ++layer) h = dropout(tanh(dot(h, W)), 0.3, stream);
  Expr loss = sum(sqr(h));
  run_watched({x}, {loss, grad(loss, W)}, {}, {random_array({128, 64}, 2)}, {}, 0.92);
}

TEST(Canary, ValuesInAFileTouchTheirPlanOnly) {
  Expr x = matrix("x");
  Expr W = shared(random_array({64, 64}, 1, -0.1, 0.1), "W");
  Expr h = x;
  for (int layer = 0; layer < 6; ++layer) h = tanh(dot(h, W));
  Expr loss = sum(sqr(h));
  CompileOptions options;
  options.recompute = false;
  options.disk.emplace();
  for (const double part : {0.8, 0.6})
    run_watched({x}, {loss, grad(loss, W)}, {}, {random_array({256, 64}, 2)}, options, part);
}

TEST(Canary, MicroBatchesTouchTheirPlanOnly) {
  Net net;
  CompileOptions options;
  options.micro_batches = 2;
  run_watched({net.x, net.y, net.words}, {net.loss}, net.updates, net.arguments(37), options);
}

TEST(Canary, LibraryCallsTouchTheirPlanOnly) {
  Expr x = tensor4("x");
  Expr W = shared(random_array({8, 3, 3, 3}, 1), "W");
  Expr h = conv2d(x, W, {.border_mode = "half"});
  Expr flat = flatten(h, 2);
  Expr gram = dot(flat, transpose(flat)) * 0.01f + eye(shape_i(x, 0), shape_i(x, 0), 0, DType::F32);
  Expr loss = sum(cholesky(gram)) + sum(sqr(h));
  run_watched({x}, {loss, grad(loss, W)}, {}, {random_array({6, 3, 13, 13}, 2)});
}

/// Models of snug.nn that are trained with all that makes plans difficult.
void train_watched(const nn::LayerPtr& model, const Dims& images, int classes,
                   std::string_view rule, double clip, CompileOptions options = {}) {
  const auto [x, y, loss] = Classifier(*model, images);
  optim::Options o;
  o.clip_global_norm = clip;
  run_watched({x, y}, {loss}, optim::updates_by(rule, loss, model->trainable(), o).pairs,
              {random_array(images, 1), random_integers({images[0]}, 2, classes - 1)}, options);
}

TEST(Canary, TrainingOfNetworksTouchesItsPlanOnly) {
  auto block = [](std::int64_t n) {
    return nn::sequential(
        {nn::conv2d(n, {3}, {.border = "half"}), nn::batch_norm(), nn::activation("relu")});
  };
  auto convnet = [&] {
    return nn::sequential({block(8), nn::max_pool({2}), nn::residual(block(8)), nn::max_pool({2}),
                           nn::flatten(), nn::dropout(0.25), nn::dense(5)});
  };
  train_watched(convnet(), {4, 3, 12, 12}, 5, "adam", 0);
  train_watched(convnet(), {3, 3, 12, 12}, 5, "momentum", 1);
  train_watched(nn::models::make("lenet"), {2, 1, 28, 28}, 10, "sgd", 0);
  CompileOptions slices, rounded;
  slices.micro_batches = 2;
  rounded.round = RoundActivations::Always;
  train_watched(convnet(), {4, 3, 12, 12}, 5, "adam", 0, rounded);
  auto mlp = [] {
    return nn::sequential({nn::dense(40), nn::activation("tanh"), nn::dropout(0.5), nn::dense(5)});
  };
  train_watched(mlp(), {5, 30}, 5, "adam", 0, slices);
  slices.round = RoundActivations::Always;
  train_watched(mlp(), {5, 30}, 5, "adam", 0, slices);
}

TEST(Canary, MasksAndLoopsTouchTheirPlanOnly) {
  Expr x = matrix("x");
  Expr chosen = subtensor(x, {gt(x, 0.0f)});
  auto step = [&](const Expr&, const std::vector<Expr>& in, const std::vector<Expr>& state) {
    Expr h = tanh(in[0] + state[0]);
    return LoopStep{{h}, {sqr(h)}};
  };
  LoopResult r = loop(step, {x}, {zeros_like(subtensor(x, {0}))});
  Expr loss = sum(sqr(chosen)) + sum(r.outputs[0]);
  run_watched({x}, {loss, grad(loss, x), chosen}, {}, {random_array({23, 17}, 3)});
}

}  // namespace
}  // namespace snug
