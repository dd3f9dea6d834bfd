// Every reference model under 200 budgets: plans hold, follow the budget, and are the same again.
#include <gtest/gtest.h>

#include <limits>

#include "compile.h"
#include "exec/frontier_cache.h"
#include "graph/capture.h"
#include "plan/fit.h"
#include "snug.h"

namespace snug {
namespace {

constexpr std::uint64_t kBudgets = 200;

/// A training step of a reference model, lowered and prepared for a batch; nothing runs.
class ModelStep {
 public:
  ModelStep(const std::string& name, std::int64_t batch, std::int64_t slices = 0) {
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
    lowered_ = lower(capture({inputs, outputs, updates, {}, true}).graph, {.micro_batches = slices},
                     trace);
    find_sizes(inputs.size());
    tasks_ = prepare();
  }

  const Program& program() const { return lowered_->program; }
  const TaskSizes& sizes() const { return tasks_.sizes; }
  PreparedTasks prepare() const {
    PreparedTasks tasks = prepare_tasks(*lowered_, bounds_, kind_);
    tasks.sizes.sizes = bounds_.high;
    return tasks;
  }

 private:
  void find_sizes(std::size_t arguments) {
    const Graph& g = program().graph;
    std::vector<std::int64_t> symbols;
    for (const Symbol& s : g.sizes().symbols()) {
      const auto& shared = g.inputs()[s.input].shared;
      const Dims shape = shared ? shared->shape() : shapes_[s.input];
      symbols.push_back(s.kind == Symbol::Kind::Dim ? shape[s.index] : 0);
    }
    bounds_ = bound_sizes(g.sizes(), symbols, symbols);
    kind_.same_shape.assign(g.updates().size(), true);
    kind_.copied.assign(arguments, false);
  }

  std::vector<Dims> shapes_;
  std::unique_ptr<Lowered> lowered_;
  SizeBounds bounds_;
  CallKind kind_;
  PreparedTasks tasks_;
};

class Models : public ::testing::TestWithParam<const char*> {};

TEST_P(Models, PlansFollowTheBudget) {
  const ModelStep step(GetParam(), 16);
  Fitter fitter(step.program(), step.sizes());
  const std::uint64_t plain = fitter.fit(0)->plan.host().bytes;
  const Floor floor = fitter.floor();
  EXPECT_LE(floor.host().bound, floor.host().smallest);
  EXPECT_LE(floor.host().smallest, plain);
  // Where single tasks need far less than the plan, running some again saves something.
  EXPECT_TRUE(floor.host().bound >= plain / 4 * 3 || floor.host().smallest < plain / 10 * 9);
  double slower = std::numeric_limits<double>::infinity();
  std::uint64_t before = 0;
  const std::uint64_t low = floor.host().bound - floor.host().bound / 50;
  for (std::uint64_t k = 0; k < kBudgets; ++k) {
    const std::uint64_t budget = low + (plain - low) * k / (kBudgets - 1);
    const std::optional<Planned> f = fitter.fit(budget);
    if (!f) {
      EXPECT_LT(budget, floor.host().smallest);
      EXPECT_EQ(before, 0u) << "a smaller budget was met";
      continue;
    }
    EXPECT_LE(f->plan.host().bytes, budget);
    EXPECT_GE(f->plan.host().bytes, before);
    EXPECT_LE(f->seconds, slower);
    if (f->plan.host().bytes != before) {
      EXPECT_EQ(find_fault(step.program(), f->schedule), "");
      EXPECT_NO_THROW(verify(f->schedule, f->plan));
    }
    before = f->plan.host().bytes;
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
    const std::uint64_t low = first.floor().host().smallest,
                        plain = first.fit(0)->plan.host().bytes;
    for (std::uint64_t k = 0; k <= 10; ++k) {
      const std::optional<Planned> a = first.fit(low + (plain - low) * k / 10);
      const std::optional<Planned> b = second.fit(low + (plain - low) * k / 10);
      ASSERT_TRUE(a && b);
      EXPECT_EQ(a->plan.offsets, b->plan.offsets) << name << " " << k;
      EXPECT_EQ(a->recomputed, b->recomputed);
      EXPECT_EQ(a->seconds, b->seconds);
    }
  }
}

/// A plan within a budget with the plans of its loops, in numbers.
struct Answer {
  std::vector<std::uint64_t> offsets;
  std::vector<std::string> recomputed;
  std::vector<std::uint64_t> workspace;
  double seconds = 0;
  std::uint64_t bound = 0, smallest = 0;
  bool operator==(const Answer&) const = default;
};

Answer ask(const ModelStep& step, std::uint64_t budget, ProgramFrontiers& kept) {
  PreparedTasks tasks = step.prepare();
  Floor floor;
  const auto fitted = fit_with_loops(step.program(), tasks, budget, floor, {}, kept);
  Answer answer{{}, {}, tasks.sizes.workspace, 0, floor.host().bound, floor.host().smallest};
  if (!fitted) return answer;
  answer.offsets = fitted->plan.offsets;
  answer.recomputed = fitted->recomputed;
  answer.seconds = fitted->seconds;
  return answer;
}

/// What is kept of earlier questions changes no answer, whatever their order.
TEST(Sweep, AnswersDoNotDependOnEarlierQuestions) {
  for (std::int64_t slices : {0, 4}) {
    const ModelStep step("lenet", 32, slices), other("lenet", 32, slices);
    const PreparedTasks tasks = step.prepare();
    EXPECT_EQ(frontier_key(step.program(), tasks, true),
              frontier_key(other.program(), other.prepare(), true));
    EXPECT_NE(frontier_key(step.program(), tasks, true),
              frontier_key(step.program(), tasks, false));
    const ModelStep larger("lenet", 33, slices);
    EXPECT_NE(frontier_key(step.program(), tasks, true),
              frontier_key(larger.program(), larger.prepare(), true));
    ProgramFrontiers falling, rising;
    const std::uint64_t plain = Fitter(step.program(), step.sizes()).fit(0)->plan.host().bytes;
    const std::uint64_t low = ask(step, 1, falling).bound / 10 * 9;
    std::vector<Answer> answers;
    for (std::uint64_t k = 8; k-- > 0;)
      answers.push_back(ask(step, low + (plain - low) * k / 8, falling));
    const std::int64_t searches = falling.searches();
    EXPECT_GT(searches, 0);
    for (std::uint64_t k = 0; k < 8; ++k) {
      const std::uint64_t budget = low + (plain - low) * k / 8;
      ProgramFrontiers none;
      EXPECT_EQ(ask(step, budget, none), answers[7 - k]) << slices << " " << k;
      EXPECT_EQ(ask(other, budget, rising), answers[7 - k]) << slices << " " << k;
      EXPECT_EQ(ask(step, budget, falling), answers[7 - k]) << slices << " " << k;
    }
    EXPECT_EQ(falling.searches(), searches);
  }
}

TEST(FrontierCache, KeepsWhatWasUsedLastWithinItsBytes) {
  FrontierCache cache(100'000);
  const auto user = std::make_shared<FrontierUser>(), other = std::make_shared<FrontierUser>();
  const auto fill = [](ProgramFrontiers& f) {
    f.whole.plain.offsets.resize(2500);  // 20 kB
    f.whole.searched = true;
  };
  const auto is_kept = [&](const std::string& key) {
    bool kept = false;
    cache.with(key, user, [&](ProgramFrontiers& f) { kept = f.whole.searched; });
    return kept;
  };
  for (int k = 0; k < 4; ++k) cache.with(std::to_string(k), user, fill);
  EXPECT_EQ(cache.count(), 4u);
  EXPECT_EQ(user->searches, 4);
  EXPECT_TRUE(is_kept("0"));
  for (int k = 4; k < 7; ++k) cache.with(std::to_string(k), other, fill);
  EXPECT_LE(cache.bytes(), 100'000u);
  EXPECT_EQ(cache.count(), 4u);
  EXPECT_TRUE(is_kept("0"));  // used after "1", "2" and "3"
  EXPECT_FALSE(is_kept("1"));
  cache.forget(*other);
  EXPECT_FALSE(is_kept("6"));
  EXPECT_TRUE(is_kept("0"));
  // What is larger than all may be is used, and not kept.
  cache.with("large", user, [&](ProgramFrontiers& f) { f.whole.plain.offsets.resize(20'000); });
  EXPECT_LE(cache.bytes(), 100'000u);
  EXPECT_TRUE(is_kept("0"));
  // What is dropped while somebody works with it stays until that ends.
  cache.with("busy", user, [&](ProgramFrontiers& f) {
    cache.forget(*user);
    fill(f);
  });
  EXPECT_EQ(cache.count(), 0u);
  EXPECT_EQ(cache.bytes(), 0u);
  // What was found until an error stays.
  EXPECT_THROW(cache.with("broken", user,
                          [&](ProgramFrontiers& f) {
                            fill(f);
                            fail(Fault::Value, "stop");
                          }),
               Error);
  EXPECT_TRUE(is_kept("broken"));
}

}  // namespace
}  // namespace snug
