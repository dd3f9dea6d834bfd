#include "data/transform.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/convert.h"

namespace snug::data {
namespace {

[[noreturn]] void bad_field(const TransformRule& rule, const Field& field, const std::string& what,
                            const std::string& hint = {}) {
  fail(Fault::Value, fmt::format("{}: the field {} {}", rule.name(), describe(field), what), hint);
}

void need_real(const TransformRule& rule, const Field& field) {
  if (is_complex(field.dtype)) bad_field(rule, field, "holds no real numbers");
}

void need_image(const TransformRule& rule, const Field& field) {
  if (field.shape.size() < 2) bad_field(rule, field, "has no height and width");
}

/// Scale and offset per channel; one channel means all.
class Affine : public TransformRule {
 public:
  Affine(std::string name, std::optional<DType> dtype, std::vector<double> scales,
         std::vector<double> offsets)
      : name_(std::move(name)),
        dtype_(dtype),
        scales_(std::move(scales)),
        offsets_(std::move(offsets)) {}
  std::string name() const override { return name_; }

  Field result(const Field& in) const override {
    need_real(*this, in);
    if (scales_.size() > 1 &&
        (in.shape.empty() || in.shape[0] != static_cast<std::int64_t>(scales_.size())))
      bad_field(*this, in,
                fmt::format("has not the {} channels that numbers are given for", scales_.size()),
                "give one number for all, or one per channel");
    Field out = in;
    out.dtype = dtype_ ? *dtype_ : is_float(in.dtype) ? in.dtype : DType::F32;
    return out;
  }

  void apply(const Field& in, const std::byte* from, const Field& out, std::byte* to,
             RowRandom&) const override {
    const auto channels = static_cast<std::int64_t>(scales_.size());
    const std::int64_t count = product(in.shape) / channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::byte* source = from + c * count * size_of(in.dtype);
      std::byte* target = to + c * count * size_of(out.dtype);
      if (scales_[c] == 1 && offsets_[c] == 0)
        convert(in.dtype, source, out.dtype, target, count);
      else
        scale(in.dtype, source, out.dtype, target, count, scales_[c], offsets_[c]);
    }
  }

 private:
  std::string name_;
  std::optional<DType> dtype_;
  std::vector<double> scales_, offsets_;
};

class Flip : public TransformRule {
 public:
  explicit Flip(double probability) : probability_(probability) {}
  std::string name() const override { return "flip"; }
  Field result(const Field& in) const override {
    need_image(*this, in);
    return in;
  }
  void apply(const Field& in, const std::byte* from, const Field&, std::byte* to,
             RowRandom& random) const override {
    if (random.uniform() >= probability_) {
      std::memcpy(to, from, in.bytes());
      return;
    }
    const std::int64_t width = in.shape.back(), item = size_of(in.dtype);
    const std::int64_t lines = width > 0 ? product(in.shape) / width : 0;
    for (std::int64_t line = 0; line < lines; ++line, from += width * item, to += width * item)
      for (std::int64_t x = 0; x < width; ++x)
        std::memcpy(to + x * item, from + (width - 1 - x) * item, item);
  }

 private:
  double probability_;
};

class Crop : public TransformRule {
 public:
  Crop(std::int64_t height, std::int64_t width, std::int64_t padding, bool random)
      : height_(height), width_(width), padding_(padding), random_(random) {}
  std::string name() const override { return "crop"; }
  Field result(const Field& in) const override {
    need_image(*this, in);
    Field out = in;
    const std::size_t y = in.shape.size() - 2;
    if (in.shape[y] + 2 * padding_ < height_ || in.shape[y + 1] + 2 * padding_ < width_)
      bad_field(
          *this, in,
          fmt::format("with a padding of {} is smaller than {} x {}", padding_, height_, width_));
    out.shape[y] = height_;
    out.shape[y + 1] = width_;
    return out;
  }
  void apply(const Field& in, const std::byte* from, const Field& out, std::byte* to,
             RowRandom& random) const override {
    const std::size_t y = in.shape.size() - 2;
    const std::int64_t height = in.shape[y], width = in.shape[y + 1], item = size_of(in.dtype);
    const std::int64_t free_y = height + 2 * padding_ - height_;
    const std::int64_t free_x = width + 2 * padding_ - width_;
    // The corner in the image without its padding.
    const std::int64_t top = (random_ ? random.below(free_y + 1) : free_y / 2) - padding_;
    const std::int64_t left = (random_ ? random.below(free_x + 1) : free_x / 2) - padding_;
    const std::int64_t planes = height * width > 0 ? product(in.shape) / (height * width) : 0;
    const std::int64_t begin = std::clamp<std::int64_t>(-left, 0, width_);
    const std::int64_t end = std::clamp<std::int64_t>(width - left, begin, width_);
    std::memset(to, 0, out.bytes());
    for (std::int64_t p = 0; p < planes; ++p)
      for (std::int64_t line = 0; line < height_; ++line) {
        const std::int64_t source = top + line;
        if (source < 0 || source >= height || begin == end) continue;
        std::memcpy(to + ((p * height_ + line) * width_ + begin) * item,
                    from + ((p * height + source) * width + left + begin) * item,
                    (end - begin) * item);
      }
  }

 private:
  std::int64_t height_, width_, padding_;
  bool random_;
};

class Jitter : public TransformRule {
 public:
  Jitter(double brightness, double contrast) : brightness_(brightness), contrast_(contrast) {}
  std::string name() const override { return "jitter"; }
  Field result(const Field& in) const override {
    need_real(*this, in);
    if (!is_float(in.dtype) && in.dtype != DType::U8)
      bad_field(*this, in, "is neither uint8 nor a float", "put to('float32') before it");
    return in;
  }
  void apply(const Field& in, const std::byte* from, const Field&, std::byte* to,
             RowRandom& random) const override {
    const double light = random.uniform(1 - brightness_, 1 + brightness_);
    const double distance = random.uniform(1 - contrast_, 1 + contrast_);
    const std::int64_t count = product(in.shape);
    if (count == 0) return;
    constexpr std::int64_t kPiece = 256;
    float piece[kPiece];
    auto* numbers = reinterpret_cast<std::byte*>(piece);
    const std::int64_t item = size_of(in.dtype);
    double sum = 0;
    for (std::int64_t i = 0; i < count; i += kPiece) {
      const std::int64_t n = std::min(kPiece, count - i);
      convert(in.dtype, from + i * item, DType::F32, numbers, n);
      for (std::int64_t k = 0; k < n; ++k) sum += piece[k];
    }
    // ((x * light) - mean) * distance + mean, with the mean of x * light.
    const double mean = sum / static_cast<double>(count) * light;
    for (std::int64_t i = 0; i < count; i += kPiece) {
      const std::int64_t n = std::min(kPiece, count - i);
      scale(in.dtype, from + i * item, DType::F32, numbers, n, light * distance,
            mean * (1 - distance));
      if (in.dtype == DType::U8)
        for (std::int64_t k = 0; k < n; ++k)
          piece[k] = std::clamp(std::nearbyint(piece[k]), 0.0f, 255.0f);
      convert(DType::F32, numbers, in.dtype, to + i * item, n);
    }
  }

 private:
  double brightness_, contrast_;
};

class OneHot : public TransformRule {
 public:
  explicit OneHot(std::int64_t classes) : classes_(classes) {}
  std::string name() const override { return "one_hot"; }
  Field result(const Field& in) const override {
    if (product(in.shape) != 1 || !is_int(in.dtype)) bad_field(*this, in, "is no integer");
    return {in.name, DType::F32, {classes_}};
  }
  void apply(const Field& in, const std::byte* from, const Field&, std::byte* to,
             RowRandom&) const override {
    std::int64_t label = 0;
    convert(in.dtype, from, DType::I64, reinterpret_cast<std::byte*>(&label), 1);
    if (label < 0 || label >= classes_)
      fail(Fault::Value, fmt::format("one_hot: the class {} in field '{}' is not within 0 to {}",
                                     label, in.name, classes_ - 1));
    std::memset(to, 0, classes_ * sizeof(float));
    const float one = 1;
    std::memcpy(to + label * sizeof one, &one, sizeof one);
  }

 private:
  std::int64_t classes_;
};

class Reshape : public TransformRule {
 public:
  explicit Reshape(const Dims& shape) : shape_(shape) {}
  std::string name() const override { return "reshape"; }
  Field result(const Field& in) const override {
    if (product(in.shape) != product(shape_))
      bad_field(*this, in, fmt::format("has no shape {}", describe_shape(shape_)));
    return {in.name, in.dtype, shape_};
  }
  void apply(const Field& in, const std::byte* from, const Field&, std::byte* to,
             RowRandom&) const override {
    std::memcpy(to, from, in.bytes());
  }

 private:
  Dims shape_;
};

template <class Rule, class... A>
Transform make(A&&... arguments) {
  return Transform(std::make_shared<Rule>(std::forward<A>(arguments)...));
}

}  // namespace

Transform Transform::on(std::vector<std::string> fields) const {
  Transform out = *this;
  out.fields_ = std::move(fields);
  return out;
}

Transform to(DType dtype, double scale) {
  if (is_complex(dtype)) fail(Fault::Type, "to: a complex dtype");
  if (scale != 1 && !is_float(dtype))
    fail(Fault::Type, fmt::format("to: a scale makes floats, not {}", name_of(dtype)));
  return make<Affine>("to", dtype, std::vector{scale}, std::vector{0.0});
}

Transform normalise(const std::vector<double>& mean, const std::vector<double>& std) {
  if (mean.empty() || std.empty() ||
      (mean.size() != std.size() && mean.size() != 1 && std.size() != 1))
    fail(Fault::Value,
         fmt::format("normalise: {} means and {} deviations", mean.size(), std.size()));
  std::vector<double> scales, offsets;
  for (std::size_t i = 0; i < std::max(mean.size(), std.size()); ++i) {
    const double deviation = std[std.size() == 1 ? 0 : i];
    if (!(deviation > 0))
      fail(Fault::Value, fmt::format("normalise: a deviation of {}", deviation));
    scales.push_back(1 / deviation);
    offsets.push_back(-mean[mean.size() == 1 ? 0 : i] / deviation);
  }
  return make<Affine>("normalise", std::nullopt, scales, offsets);
}

Transform flip(double probability) {
  if (!(probability >= 0 && probability <= 1))
    fail(Fault::Value, fmt::format("flip: a probability of {}", probability));
  return make<Flip>(probability);
}

Transform crop(std::int64_t height, std::int64_t width, std::int64_t padding, bool random) {
  constexpr std::int64_t kLargest = 1 << 20;
  if (std::min(height, width) < 1 || std::max({height, width, padding}) > kLargest || padding < 0)
    fail(Fault::Value,
         fmt::format("crop: {} x {} of an image with a padding of {}", height, width, padding));
  return make<Crop>(height, width, padding, random);
}

Transform jitter(double brightness, double contrast) {
  if (!(brightness >= 0 && brightness <= 1 && contrast >= 0 && contrast <= 1))
    fail(Fault::Value, fmt::format("jitter: brightness {} and contrast {} are not within 0 to 1",
                                   brightness, contrast));
  return make<Jitter>(brightness, contrast);
}

Transform one_hot(std::int64_t classes) {
  if (classes < 1 || classes > (1 << 24))
    fail(Fault::Value, fmt::format("one_hot: {} classes", classes));
  return make<OneHot>(classes);
}

Transform reshape(const Dims& shape) {
  checked_product(shape, 1, "reshape");
  if (shape.size() > 7) fail(Fault::Unsupported, "reshape: no room for the axis of rows");
  return make<Reshape>(shape);
}

}  // namespace snug::data
