// A run touches the bytes its plan says and no others. The arena and every array of the caller end
// at a page that nobody may touch; bytes of the arena that no live buffer has hold a canary.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "classifier.h"
#include "fenced_run.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

/// Looks at every byte of the arena after each step.
class Watch : public StepObserver {
 public:
  Watch(const Executable& exe, Fenced& arena) : exe_(exe), arena_(arena) {}

  void before(const RunState&, std::uint32_t) override {}
  void after(const RunState& state, std::uint32_t step) override {
    const Schedule& s = exe_.planned->schedule;
    // What the step could reach: its operands and its workspace, by their addresses.
    std::vector<std::uint32_t> operands = exe_.steps[step].buffers;
    if (exe_.steps[step].workspace >= 0)
      operands.push_back(static_cast<std::uint32_t>(exe_.steps[step].workspace));
    for (std::uint32_t b : operands)
      if (s.buffers[b].where == Where::Arena)
        highest = std::max(highest, static_cast<std::uint64_t>(state.buffers[b] - arena_.data) +
                                        s.buffers[b].bytes);
    std::vector<std::uint8_t> live(arena_.size(), 0), stays(arena_.size(), 0);
    for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
      const Buffer& buf = s.buffers[b];
      if (buf.where != Where::Arena || buf.first > step || buf.last < step) continue;
      std::uint64_t at = exe_.planned->plan.offsets[b];
      std::memset(live.data() + at, 1, buf.bytes);
      if (buf.last > step) std::memset(stays.data() + at, 1, buf.bytes);
    }
    std::uint64_t wrong = 0;
    for (std::uint64_t k = 0; k < arena_.size(); ++k)
      wrong += !live[k] && arena_.data[k] != kCanary;
    ASSERT_EQ(wrong, 0u) << "step " << step << " wrote bytes that belong to nothing";
    for (std::uint64_t k = 0; k < arena_.size(); ++k)
      if (!stays[k]) arena_.data[k] = kCanary;
  }

  std::uint64_t highest = 0;  // end of the operands of all steps

 private:
  const Executable& exe_;
  Fenced& arena_;
};

void run_watched(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                 const std::vector<std::pair<Expr, Expr>>& updates,
                 const std::vector<Array>& arguments, CompileOptions options = {},
                 double budget_part = 0) {
  options.threads = 2;
  FencedRun run(inputs, outputs, updates, arguments, options, true);
  const std::unique_ptr<Executable>& exe = run.exe;
  if (budget_part > 0) {
    run.plan(static_cast<std::uint64_t>(budget_part *
                                        static_cast<double>(exe->planned->plan.host().bytes)));
    EXPECT_NE(exe->planned->recomputed.empty(), exe->transfers.empty());
  }
  Fenced arena(exe->planned->plan.host().bytes, 64);
  run.bind();
  run.state.arenas = &arena.data;
  std::optional<OffloadFile> file;
  if (!exe->transfers.empty()) {
    file.emplace(std::filesystem::current_path().string())
        .reserve(exe->planned->schedule.file_bytes);
    run.state.file = &*file;
  }
  bind_arena(*exe, run.state);
  std::memcpy(run.buffers[0], arguments[0].data, static_cast<std::size_t>(arguments[0].bytes()));
  Watch watch(*exe, arena);
  run.state.observer = &watch;
  make_ready(*exe);
  run_steps(*exe, run.state);
  EXPECT_EQ((watch.highest + 63) / 64 * 64, exe->planned->plan.host().bytes);
  EXPECT_TRUE(arena.intact());
  for (const auto& h : run.held) EXPECT_TRUE(h->intact());
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
