#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/gauge.h"
#include "data/source.h"

namespace snug::data {

/// The part of an image that is taken, in pixels, not always whole ones.
struct ImagePart {
  double left = 0, top = 0, width = 0, height = 0;
};
ImagePart part_of(std::int64_t width, std::int64_t height, const ImageOptions& size);

/// Takes the lines of an image from top to bottom and makes the image of the wanted size: a filter
/// of triangles, as wide as the steps between the new pixels. Needs memory for the new image and
/// a line alone.
class Resizer {
 public:
  /// `channels` (1 or 3) of what comes.
  Resizer(std::int64_t width, std::int64_t height, int channels, const ImageOptions& size);
  void line(const std::uint8_t* pixels);  // interleaved
  /// After the last line: (channels, height, width).
  void finish(std::uint8_t* out) const;
  std::int64_t bytes() const;  // that it takes

 private:
  /// The old pixels that make a new one, and how much.
  struct Taps {
    std::int64_t begin = 0;
    std::vector<float> weights;
  };
  static std::vector<Taps> make_taps(std::int64_t size, double begin, double length,
                                     std::int64_t count);

  ImageOptions size_;
  int channels_;
  std::vector<Taps> columns_, rows_;
  std::vector<float> narrow_;  // a line of the new width
  std::vector<float> sums_;    // the new image, interleaved
  std::int64_t y_ = 0;
};

/// Images of more pixels are refused.
inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;

// A whole file in memory becomes (channels, height, width) at `out`. Errors name `path`. `memory`
// gets what the decoder takes, that of the libraries by what their formats need.
void decode_jpeg(std::span<const std::uint8_t> file, const std::string& path,
                 const ImageOptions& size, std::uint8_t* out, Gauge::Share& memory);
void decode_png(std::span<const std::uint8_t> file, const std::string& path,
                const ImageOptions& size, std::uint8_t* out, Gauge::Share& memory);

}  // namespace snug::data
