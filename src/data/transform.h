#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/random.h"
#include "data/source.h"

namespace snug::data {

/// What a transform does to one row of a field.
class TransformRule {
 public:
  virtual ~TransformRule() = default;
  virtual std::string name() const = 0;
  /// What comes out for such a field; an error if it cannot be.
  virtual Field result(const Field& in) const = 0;
  virtual void apply(const Field& in, const std::byte* from, const Field& out, std::byte* to,
                     RowRandom& random) const = 0;
};

/// A step on the way from a row of a source to a row of a batch. It works on the first field unless
/// told otherwise; several fields get the same random numbers, so an image and its mask turn
/// together.
class Transform {
 public:
  explicit Transform(std::shared_ptr<const TransformRule> rule) : rule_(std::move(rule)) {
    if (!rule_) fail(Fault::Type, "a transform without a rule");
  }
  Transform on(std::vector<std::string> fields) const;
  const TransformRule& rule() const { return *rule_; }
  const std::vector<std::string>& fields() const { return fields_; }  // empty: the first one

 private:
  std::shared_ptr<const TransformRule> rule_;
  std::vector<std::string> fields_;
};

/// x * scale, as this dtype. A scale other than 1 needs a float.
Transform to(DType dtype, double scale = 1);
/// (x - mean) / std, as a float: one number for all, or one per channel (the first axis).
Transform normalise(const std::vector<double>& mean, const std::vector<double>& std);
/// Images (..., height, width): left and right change places, with this probability.
Transform flip(double probability = 0.5);
/// Images (..., height, width): a part of this size at a random place of the image with `padding`
/// zeros around it; or, with `random` false, the middle.
Transform crop(std::int64_t height, std::int64_t width, std::int64_t padding = 0,
               bool random = true);
/// Brightness times a number in [1 - brightness, 1 + brightness], and the distance of every value
/// from the mean of the image times one in [1 - contrast, 1 + contrast]. Integers keep within their
/// range.
Transform jitter(double brightness, double contrast = 0);
/// An integer as a float32 vector with a one at its place.
Transform one_hot(std::int64_t classes);
/// The same values in another shape.
Transform reshape(const Dims& shape);

}  // namespace snug::data
