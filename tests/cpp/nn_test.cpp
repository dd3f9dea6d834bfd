#include <gtest/gtest.h>

#include "error_of.h"
#include "random_array.h"
#include "snug.h"

namespace snug {
namespace {

using testing::error_of;

std::vector<std::string> names(const std::vector<nn::Parameter>& parameters) {
  std::vector<std::string> all;
  for (const nn::Parameter& p : parameters) all.push_back(p.name);
  return all;
}

nn::LayerPtr small_model() {
  return nn::sequential(
      {{"features", nn::sequential({nn::conv2d(4, {3}, {.border = "half"}), nn::batch_norm(),
                                    nn::activation("relu"), nn::max_pool({2})})},
       {"classifier", nn::sequential({nn::flatten(), nn::dropout(0.25), nn::dense(3)})}});
}

TEST(Nn, ParametersHaveNamesAndAreRecipes) {
  nn::LayerPtr model = small_model();
  model->build({-1, 2, 8, 8});
  const std::vector<nn::Parameter> all = model->parameters();
  EXPECT_EQ(names(all), (std::vector<std::string>{
                            "features.0.weight", "features.0.bias", "features.1.running_mean",
                            "features.1.running_var", "features.1.weight", "features.1.bias",
                            "classifier.2.weight", "classifier.2.bias"}));
  for (const nn::Parameter& p : all) {
    EXPECT_EQ(p.variable.name(), p.name);
    EXPECT_FALSE(as_shared(p.variable)->materialised());
  }
  EXPECT_FALSE(all[2].trainable);
  EXPECT_EQ(model->trainable().size(), 6u);
}

TEST(Nn, ATrainingStepLowersTheLossAndMovesStatistics) {
  nn::LayerPtr model = small_model();
  model->build({-1, 2, 8, 8}, 7);
  Expr x = tensor4("x"), y = ivector("y");
  nn::Pass pass{.training = true, .seed = 7};
  Expr loss = nn::cross_entropy((*model)(x, pass), y);
  EXPECT_EQ(pass.random.states().size(), 1u);
  const std::vector<Expr> weights = model->trainable();
  const std::vector<Expr> slopes = grad(loss, weights);
  nn::Updates updates;
  for (std::size_t i = 0; i < weights.size(); ++i)
    updates.emplace_back(weights[i], weights[i] - 0.1f * slopes[i]);
  Function train = function({x, y}, loss, {.updates = updates});
  Function use = function({x}, (*model)(x));
  EXPECT_EQ(train.view().updates.size(), weights.size() + 3);  // statistics, random state
  EXPECT_TRUE(use.view().updates.empty());

  const Array images = random_array({16, 2, 8, 8}, 1), labels = random_integers({16}, 2, 2);
  const float first = train(images, labels).item<float>();
  float last = first;
  for (int i = 0; i < 30; ++i) last = train(images, labels).item<float>();
  EXPECT_LT(last, first);
  const Array mean = as_shared(model->parameters()[2].variable)->get_value();
  EXPECT_NE(mean.at_double(0), 0);
  EXPECT_EQ(use(images).shape, (Dims{16, 3}));
}

TEST(Nn, ALambdaIsALayer) {
  nn::LayerPtr inside = nn::dense(4, {.in = 3});
  nn::LayerPtr model = nn::sequential(
      {nn::call([](const Expr& x, nn::Pass&) { return x * 2.0f; }, "twice"), inside});
  Expr x = fmatrix("x");
  EXPECT_EQ(model->describe(), "Sequential(twice, Dense(4))");
  EXPECT_EQ(function({x}, (*model)(x))(random_array({5, 3}, 1)).shape, (Dims{5, 4}));
}

TEST(Nn, ErrorsNameTheLayer) {
  nn::LayerPtr model = small_model();
  const auto e = error_of([&] { (*model)(tensor4("x")); });
  EXPECT_EQ(e.fault(), Fault::Shape);
  EXPECT_NE(e.message().find("layer features.0: Conv2d(4, 3x3)"), std::string::npos) << e.what();
  EXPECT_NE(e.hint().find("build"), std::string::npos);
  EXPECT_NE(error_of([&] { model->parameters(); }).message().find("features.0"), std::string::npos);
  EXPECT_EQ(error_of([&] { nn::models::make("resnet_18"); }).hint(), "did you mean 'resnet18'?");
}

TEST(Nn, ModelsAreMadeForOtherSizesAndClasses) {
  nn::LayerPtr model = nn::models::make("lenet", {.input = {3, 32, 32}, .classes = 7});
  nn::Summary s = nn::summarise(*model, {2, 3, 32, 32});
  EXPECT_EQ(s.total.output, (Dims{2, 7}));
  EXPECT_EQ(s.layers.size(), 8u);
  EXPECT_EQ(s.total.parameters,
            6 * 3 * 25 + 6 + 16 * 6 * 25 + 16 + 576 * 120 + 120 + 120 * 84 + 84 + 84 * 7 + 7);
}

TEST(Nn, PartsAreFoundReplacedAndFrozen) {
  nn::LayerPtr model = small_model();
  model->build({-1, 2, 8, 8});
  EXPECT_EQ(model->at("features.0")->describe(), "Conv2d(4, 3x3)");
  const auto missing = error_of([&] { model->at("features.7"); });
  EXPECT_EQ(missing.fault(), Fault::Index);
  EXPECT_EQ(missing.hint(), "it has 0, 1, 2, 3");
  nn::LayerPtr part = model->at("features")->part(1, 3);
  EXPECT_EQ(names(part->parameters())[0], "1.running_mean");
  EXPECT_EQ(part->inner()[0].layer, model->at("features.1"));

  model->at("features")->freeze();
  EXPECT_EQ(model->trainable().size(), 2u);
  EXPECT_EQ(nn::summarise(*model, {1, 2, 8, 8}).total.trainable, 64 * 3 + 3);
  const Expr x = tensor4("x");
  nn::Pass pass{.training = true};
  const std::vector<Expr> features{(*model->at("features"))(x, pass)};
  for (const Expr& e : topological(features)) {
    SharedVariable* s = as_shared(e);
    EXPECT_FALSE(s && s->find_default_update());
  }
  model->freeze(false);
  EXPECT_EQ(model->trainable().size(), 6u);

  model->at("classifier")->replace(2, nn::dense(5));
  model->build({-1, 2, 8, 8});
  EXPECT_EQ(nn::summarise(*model, {1, 2, 8, 8}).total.output, (Dims{1, 5}));
  EXPECT_EQ(error_of([&] { model->replace(0, nn::sequential({model})); }).fault(), Fault::Value);
  EXPECT_EQ(error_of([&] { model->at("features.0")->part(0, 1); }).fault(), Fault::Type);
}

TEST(Nn, PruningMasksUpdates) {
  nn::LayerPtr model = nn::dense(4, {.in = 4});
  EXPECT_DOUBLE_EQ(nn::prune(*model, 0.5).sparsity(), 0.5);
  Expr weight = model->trainable()[0];
  Function f =
      function({}, std::vector<Expr>{}, {.updates = nn::masked({{weight, weight + 1.0f}}, *model)});
  f.call({});
  EXPECT_EQ(nn::sparsity(*model).rows[0].zeros, 8);
}

}  // namespace
}  // namespace snug
