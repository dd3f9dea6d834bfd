// Every reference model under 200 budgets: plans hold, follow the budget, and are the same again.
#include <gtest/gtest.h>

#include <limits>

#include "compile.h"
#include "graph/capture.h"
#include "plan/fit.h"
#include "snug.h"

namespace snug {
namespace {

constexpr std::uint64_t kBudgets = 200;

/// A training step of a reference model, lowered and prepared for a batch; nothing runs.
class ModelStep {
 public:
  ModelStep(const std::string& name, std::int64_t batch) {
    const nn::models::Info info = nn::models::info(name);
    Dims images = info.input;
    images.insert(0, batch);
    nn::LayerPtr model = nn::models::make(name);
    Expr x = input({DType::F32, Dims(images.size(), -1), 0}, "x");
    nn::Pass pass{.training = true};
    const Expr scores = (*model)(x, pass);
    std::vector<Expr> inputs{x};
    shapes_ = {images};
    Expr loss;
    if (info.classes == 0) {
      loss = nn::binary_cross_entropy(scores, flatten(x, 2));
    } else {
      const bool pixels = scores.ndim() == 4;
      inputs.push_back(tensor(DType::I64, pixels ? 3 : 1, "y"));
      shapes_.push_back(pixels ? Dims{batch, images[2], images[3]} : Dims{batch});
      loss = nn::cross_entropy(scores, inputs[1], "mean", 1);
    }
    const std::vector<Expr> outputs{loss};
    const auto updates = optim::adam(loss, model->trainable()).pairs;
    CompileTrace trace;
    lowered_ = lower(capture({inputs, outputs, updates, {}, true}).graph, {}, trace);
    prepare(inputs.size());
  }

  const Program& program() const { return lowered_->program; }
  const TaskSizes& sizes() const { return tasks_.sizes; }

 private:
  void prepare(std::size_t arguments) {
    const Graph& g = program().graph;
    std::vector<std::int64_t> symbols;
    for (const Symbol& s : g.sizes().symbols()) {
      const auto& shared = g.inputs()[s.input].shared;
      const Dims shape = shared ? shared->shape() : shapes_[s.input];
      symbols.push_back(s.kind == Symbol::Kind::Dim ? shape[s.index] : 0);
    }
    bounds_ = bound_sizes(g.sizes(), symbols, symbols);
    CallKind kind;
    kind.same_shape.assign(g.updates().size(), true);
    kind.copied.assign(arguments, false);
    tasks_ = prepare_tasks(*lowered_, bounds_, kind);
    tasks_.sizes.sizes = bounds_.high;
  }

  std::vector<Dims> shapes_;
  std::unique_ptr<Lowered> lowered_;
  SizeBounds bounds_;
  PreparedTasks tasks_;
};

class Models : public ::testing::TestWithParam<const char*> {};

TEST_P(Models, PlansFollowTheBudget) {
  const ModelStep step(GetParam(), 16);
  Fitter fitter(step.program(), step.sizes());
  const std::uint64_t plain = fitter.fit(0)->plan.bytes;
  const Floor floor = fitter.floor();
  EXPECT_LE(floor.bound, floor.smallest);
  EXPECT_LE(floor.smallest, plain);
  // Where single tasks need far less than the plan, running some again saves something.
  EXPECT_TRUE(floor.bound >= plain / 4 * 3 || floor.smallest < plain / 10 * 9);
  double slower = std::numeric_limits<double>::infinity();
  std::uint64_t before = 0;
  const std::uint64_t low = floor.bound - floor.bound / 50;
  for (std::uint64_t k = 0; k < kBudgets; ++k) {
    const std::uint64_t budget = low + (plain - low) * k / (kBudgets - 1);
    const std::optional<Fitted> f = fitter.fit(budget);
    if (!f) {
      EXPECT_LT(budget, floor.smallest);
      EXPECT_EQ(before, 0u) << "a smaller budget was met";
      continue;
    }
    EXPECT_LE(f->plan.bytes, budget);
    EXPECT_GE(f->plan.bytes, before);
    EXPECT_LE(f->seconds, slower);
    if (f->plan.bytes != before) {
      EXPECT_EQ(find_fault(step.program(), f->schedule), "");
      EXPECT_NO_THROW(verify(f->schedule, f->plan));
    }
    before = f->plan.bytes;
    slower = f->seconds;
  }
  EXPECT_EQ(before, plain);
}

INSTANTIATE_TEST_SUITE_P(Sweep, Models,
                         ::testing::Values("autoencoder", "fcn8", "logistic", "lstm", "mlp",
                                           "mobilenet", "resnet50", "segnet", "transformer", "unet",
                                           "vgg16", "vgg19"),
                         [](const auto& model) { return std::string(model.param); });

TEST(Sweep, PlansAreTheSameAgain) {
  for (const char* name : {"lenet", "vgg-small", "segnet"}) {
    const ModelStep step(name, 8), other(name, 8);
    Fitter first(step.program(), step.sizes()), second(other.program(), other.sizes());
    const std::uint64_t low = first.floor().smallest, plain = first.fit(0)->plan.bytes;
    for (std::uint64_t k = 0; k <= 10; ++k) {
      const std::optional<Fitted> a = first.fit(low + (plain - low) * k / 10);
      const std::optional<Fitted> b = second.fit(low + (plain - low) * k / 10);
      ASSERT_TRUE(a && b);
      EXPECT_EQ(a->plan.offsets, b->plan.offsets) << name << " " << k;
      EXPECT_EQ(a->recomputed, b->recomputed);
      EXPECT_EQ(a->seconds, b->seconds);
    }
  }
}

}  // namespace
}  // namespace snug
