#pragma once
#include "backend/native/conv.h"

namespace snug::native {

/// A convolution of floats over rows and columns, of images whose channels are the last axis, by
/// columns and products of OpenBLAS. A column is what the window of a pixel of y meets: the
/// channels of a tap lie together, or, where they are few, each channel of each tap is a plane of
/// its own. It is cut into parts by its sizes alone; each is done by one thread, so the result does
/// not depend on their number.
class ColumnConv {
 public:
  ColumnConv(ConvKind kind, const ConvShape& shape);

  /// False for sizes that BLAS does not have.
  static bool takes(const ConvShape& s);

  /// No less for larger sizes.
  std::uint64_t workspace(int threads) const;
  int blas_buffers(int threads) const;
  void run(const float* in0, const float* in1, float* out, std::byte* workspace, int threads) const;

  /// The multiply-adds that take as long as this does on a core that does one product of large
  /// matrices, about: to compare with other ways.
  double cost() const;

 private:
  /// Channels [first, last) of the images within a group, of groups [group, group_end).
  struct Channels {
    std::int64_t group, group_end, first, last;
    std::int64_t count() const { return last - first; }
  };
  Channels channels(std::int64_t part) const;
  std::int64_t filters() const { return s_.o * depth_; }
  std::int64_t chunk_elements() const;
  void turn_filters(const float* from, float* to, int threads) const;
  std::uint64_t planes_workspace(int threads) const;
  void run_planes(const float* in0, const float* in1, float* out, float* workspace,
                  int threads) const;
  void forward(const float* x, const float* w, float* y, float* chunks, int threads) const;
  void by_images(const float* w, const float* dy, float* dx, float* chunks, int threads) const;
  void by_filters(const float* x, const float* dy, float* sums, float* chunks, int threads) const;
  void add_up(const float* sums, float* dw, int threads) const;
  void fill(const float* x, const Channels& c, std::int64_t group, std::int64_t pixel,
            std::int64_t end, float* columns) const;
  void fold(const float* columns, const Channels& c, std::int64_t group, std::int64_t pixel,
            std::int64_t end, float* x) const;

  ConvKind kind_;
  ConvShape s_;
  std::int64_t depth_;   // elements of a window in one group
  std::int64_t pixels_;  // of y, of all images
  bool direct_;          // the columns are the images
  bool as_stored_;       // columns are in the filters' order: channels, then taps; else turned
  bool planes_;          // channels are too few to be copied together: columns by planes
  std::int64_t pixel_parts_ = 1, channel_parts_ = 1;
};

/// Any dtype that visits, sizes of the run, images with channels last.
std::unique_ptr<PreparedCall> prepare_conv_last(const CallSite& site, ConvKind kind);

}  // namespace snug::native
