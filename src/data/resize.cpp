#include <algorithm>
#include <cmath>

#include "data/image.h"

namespace snug::data {

ImagePart part_of(std::int64_t width, std::int64_t height, const ImageOptions& size) {
  const auto w = static_cast<double>(width), h = static_cast<double>(height);
  if (size.stretch) return {0, 0, w, h};
  // Old pixels per new one, the same in both directions.
  const double step =
      std::min(w / static_cast<double>(size.width), h / static_cast<double>(size.height));
  const double part_width = step * static_cast<double>(size.width);
  const double part_height = step * static_cast<double>(size.height);
  return {(w - part_width) / 2, (h - part_height) / 2, part_width, part_height};
}

std::vector<Resizer::Taps> Resizer::make_taps(std::int64_t size, double begin, double length,
                                              std::int64_t count) {
  std::vector<Taps> all(count);
  const double step = length / static_cast<double>(count), reach = std::max(step, 1.0);
  for (std::int64_t i = 0; i < count; ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * step;
    auto first = static_cast<std::int64_t>(std::floor(center - reach + 0.5));
    auto last = static_cast<std::int64_t>(std::floor(center + reach + 0.5));
    first = std::clamp<std::int64_t>(first, 0, size - 1);
    last = std::clamp<std::int64_t>(last, first + 1, size);
    Taps& taps = all[i];
    taps.begin = first;
    double sum = 0;
    for (std::int64_t p = first; p < last; ++p) {
      const double distance = std::abs(static_cast<double>(p) + 0.5 - center) / reach;
      const double weight = std::max(0.0, 1 - distance);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    if (sum == 0) taps.weights[0] = static_cast<float>(sum = 1);
    for (float& weight : taps.weights) weight = static_cast<float>(weight / sum);
  }
  return all;
}

Resizer::Resizer(std::int64_t width, std::int64_t height, int channels, const ImageOptions& size)
    : size_(size), channels_(channels) {
  const ImagePart part = part_of(width, height, size);
  columns_ = make_taps(width, part.left, part.width, size.width);
  rows_ = make_taps(height, part.top, part.height, size.height);
  narrow_.resize(size.width * channels);
  sums_.assign(size.height * size.width * channels, 0.0f);
}

void Resizer::line(const std::uint8_t* pixels) {
  const std::int64_t y = y_++;
  bool narrowed = false;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const Taps& taps = rows_[row];
    if (taps.begin > y) break;  // they begin later and later
    if (y - taps.begin >= static_cast<std::int64_t>(taps.weights.size())) continue;
    if (!narrowed) {
      narrowed = true;
      for (std::size_t x = 0; x < columns_.size(); ++x)
        for (int c = 0; c < channels_; ++c) {
          const std::uint8_t* from = pixels + columns_[x].begin * channels_ + c;
          float sum = 0;
          for (float weight : columns_[x].weights) {
            sum += weight * *from;
            from += channels_;
          }
          narrow_[x * channels_ + c] = sum;
        }
    }
    const float weight = taps.weights[y - taps.begin];
    float* to = sums_.data() + row * narrow_.size();
    for (std::size_t i = 0; i < narrow_.size(); ++i) to[i] += weight * narrow_[i];
  }
}

void Resizer::finish(std::uint8_t* out) const {
  const std::int64_t pixels = size_.height * size_.width;
  auto byte = [](float value) {
    return static_cast<std::uint8_t>(std::clamp(std::nearbyint(value), 0.0f, 255.0f));
  };
  for (std::int64_t i = 0; i < pixels; ++i) {
    const float* from = sums_.data() + i * channels_;
    if (size_.grey)
      out[i] =
          byte(channels_ == 1 ? from[0] : 0.299f * from[0] + 0.587f * from[1] + 0.114f * from[2]);
    else
      for (int c = 0; c < 3; ++c) out[c * pixels + i] = byte(from[channels_ == 1 ? 0 : c]);
  }
}

std::int64_t Resizer::bytes() const {
  std::size_t floats = narrow_.size() + sums_.size(), taps = columns_.size() + rows_.size();
  for (const std::vector<Taps>* all : {&columns_, &rows_})
    for (const Taps& t : *all) floats += t.weights.size();
  return static_cast<std::int64_t>(floats * sizeof(float) + taps * sizeof(Taps));
}

}  // namespace snug::data
