#pragma once
#include <string>

#include "ops/functions.h"

/// Losses and metrics. `reduction`: "mean" and "sum" give a number, "none" one per example (of
/// elementwise losses, one per element).
namespace snug::nn {

// ---- losses ----

/// Of softmax(logits) over an axis. Targets are integers, the numbers of the classes, without that
/// axis; or floats in the shape of the logits, distributions over the classes (one-hot).
Expr cross_entropy(const Arg& logits, const Arg& targets, const std::string& reduction = "mean",
                   std::int64_t axis = -1);
/// Of sigmoid(logits), element by element; exact for large logits.
Expr binary_cross_entropy(const Arg& logits, const Arg& targets,
                          const std::string& reduction = "mean");
Expr mse(const Arg& predictions, const Arg& targets, const std::string& reduction = "mean");
Expr mae(const Arg& predictions, const Arg& targets, const std::string& reduction = "mean");
/// d^2 / 2 up to |d| = delta, straight on from there.
Expr huber(const Arg& predictions, const Arg& targets, double delta = 1,
           const std::string& reduction = "mean");
/// max(0, 1 - predictions * targets) for targets of -1 and 1.
Expr hinge(const Arg& predictions, const Arg& targets, const std::string& reduction = "mean");

// ---- metrics, in the default float type; "none" gives 0 or 1 per example ----

/// The part of the examples whose largest prediction is the target. Targets as in cross_entropy.
Expr accuracy(const Arg& predictions, const Arg& targets, std::int64_t axis = -1,
              const std::string& reduction = "mean");
/// ... whose target has fewer than k predictions above it.
Expr top_k_accuracy(const Arg& predictions, const Arg& targets, std::int64_t k = 5,
                    std::int64_t axis = -1, const std::string& reduction = "mean");
/// 1 - accuracy
Expr mean_error(const Arg& predictions, const Arg& targets, std::int64_t axis = -1,
                const std::string& reduction = "mean");

// ---- weights ----

/// A weighted mean in two parts, which add up over slices and batches.
struct WeightedSum {
  Expr sum;     // of weights * values
  Expr weight;  // the sum of the weights, float64
};
/// `values`: one number per example, as "none" gives them; `weights`: one per example, or further
/// ones on the next axes of the values. Values on axes that the weights do not have are averaged.
/// `what` names them in errors.
WeightedSum weighted_sum(const char* what, const Arg& values, const Arg& weights);

}  // namespace snug::nn
