#pragma once
#include <memory>
#include <string>

#include "kernel/library.h"

namespace snug::native {

enum class ConvKind : std::uint8_t { Forward, GradInput, GradWeight };

/// Sizes of a convolution x (n, c, d, h, w), weight (o, c / groups, kd, kh, kw), y (n, o, od, oh,
/// ow). Over rows and columns alone the first axis has size 1.
struct ConvShape {
  std::int64_t n, c, d = 1, h, w, o, kd = 1, kh, kw, od = 1, oh, ow;
  std::int64_t front = 0, back = 0, top, bottom, left, right;  // padding
  std::int64_t sd = 1, sh, sw, dd = 1, dh, dw;                 // strides and dilation
  std::int64_t groups;
  int axes = 2;
  bool flip;  // a convolution in the mathematical sense: the kernel is turned by 180 degrees

  std::int64_t group_in() const { return c / groups; }
  std::int64_t group_out() const { return o / groups; }
  std::int64_t taps() const { return kd * kh * kw; }
  std::int64_t image() const { return d * h * w; }     // elements of a channel of x
  std::int64_t lines() const { return od * oh; }       // of a channel of y
  std::int64_t plane() const { return lines() * ow; }  // and its elements
  std::int64_t work() const { return n * o * plane() * group_in() * taps(); }
};

/// The constants of the op; `sizes` fills in the rest from the operands of a run, or from bounds of
/// them (sizes that are equal in a run may then differ: the larger counts).
class ConvAttrs {
 public:
  explicit ConvAttrs(const Attrs& attrs);
  ConvShape sizes(ConvKind kind, const ArgDesc& in0, const ArgDesc& in1, const ArgDesc& out) const;

 private:
  ConvShape base_{};
  std::string border_;  // "half", "full": the padding follows from the filters; else empty
};

/// Any dtype, sizes of the run: float32 and float64 by unfolding into the workspace and OpenBLAS,
/// the others by loops that accumulate in a wide type.
std::unique_ptr<PreparedCall> prepare_conv(const CallSite& site, ConvKind kind);

}  // namespace snug::native
