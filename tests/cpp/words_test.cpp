// Reports in the words of users: graph/words.h, kernel/task_words.h, and what marks them.
#include <gtest/gtest.h>
#include <snug/snug.h>

#include "base/bytes.h"
#include "base/origin_marks.h"
#include "base/seconds.h"
#include "random_array.h"

namespace snug {
namespace {

TEST(Words, AnOriginKeepsItsWordAndItsLines) {
  const Frame frame{"model.py", 7, "make"};
  const OriginId line = intern_origin({&frame, 1});
  const OriginId marked = as_channels_last(as_derivative(with_word(line, "relu backward")));
  EXPECT_EQ(word_of(line), "");
  EXPECT_EQ(word_of(marked), "relu backward");
  EXPECT_EQ(describe(marked), "model.py:7");
  EXPECT_EQ(frames_of(marked), frames_of(line));
  EXPECT_TRUE(is_derivative(marked) && is_channels_last(marked));
  EXPECT_EQ(word_of(with_word(marked, "mean")), "mean");
}

TEST(Words, TheFunctionTheUserCalledNamesItsOps) {
  Expr x = matrix("x");
  EXPECT_EQ(word_of(relu(x)->owner->origin), "relu");
  EXPECT_EQ(word_of(exp(x)->owner->origin), "");  // an op of its own
  EXPECT_EQ(word_of((x + x)->owner->origin), "");
  EXPECT_EQ(word_of(switch_(gt(x, 0.f), x, x)->owner->origin), "");
  // The outermost one: a hinge loss is made with relu.
  EXPECT_EQ(word_of(nn::hinge(x, x, "none")->owner->origin), "hinge");
  EXPECT_EQ(word_of(gradients(sum(relu(x)), {x})[0]->owner->origin), "relu backward");
  EXPECT_EQ(word_of(gradients(sum(exp(x)), {x})[0]->owner->origin), "exp backward");
}

TEST(Words, ConvolutionsSayWhatTheyAreBackwardBy) {
  Expr x = tensor4("x"), w = shared(random_array({4, 3, 3, 3}, 1), "w");
  Expr y = relu(conv2d(x, w, {.pad = {1, 1}}));
  Function f = function({x}, gradients(sum(y * y), {x, w}), {.profile = true});
  f.call({random_array({2, 3, 8, 8}, 2)});
  std::string words;
  for (const auto& step : f.profile().steps) words += step.name + " " + step.result + "\n";
  for (const char* part : {"conv2d float32 (2, 4, 8, 8)", "conv2d backward by images",
                           "conv2d backward by filters float32 (4, 3, 3, 3)", "relu"})
    EXPECT_NE(words.find(part), std::string::npos) << part << " in\n" << words;
  for (const char* part : {"_last", "switch", "grad_"})
    EXPECT_EQ(words.find(part), std::string::npos) << part << " in\n" << words;
}

TEST(Words, AmountsToTypeAreNeverTooSmall) {
  EXPECT_EQ(amount_to_type(8391267090), "7.82GiB");
  EXPECT_EQ(amount_to_type(512), "512");
  EXPECT_EQ(amount_to_type(1 << 20), "1MiB");
  EXPECT_EQ(amount_to_type((1 << 20) + 1), "1.01MiB");
  for (std::uint64_t bytes = 1; bytes < std::uint64_t{1} << 60; bytes = bytes * 9 / 7 + 1) {
    const std::uint64_t typed = parse_bytes(amount_to_type(bytes));
    EXPECT_GE(typed, bytes);
    EXPECT_LE(static_cast<double>(typed), 1.011 * static_cast<double>(bytes) + 1);
    EXPECT_LE(amount_to_type(bytes).size(), 7u) << amount_to_type(bytes);
  }
}

TEST(Words, TimesHaveReadableUnits) {
  EXPECT_EQ(describe_seconds(4.12e-4), "412 us");
  EXPECT_EQ(describe_seconds(0.391), "391 ms");
  EXPECT_EQ(describe_seconds(0.0089), "8.90 ms");
  EXPECT_EQ(describe_seconds(23.4), "23.4 s");
  EXPECT_EQ(describe_seconds(35 * 60), "35 min");
  EXPECT_EQ(describe_seconds(14 * 3600), "14 h");
  EXPECT_EQ(describe_seconds(43 * 86400.0), "43 days");
}

}  // namespace
}  // namespace snug
