#include "backend/native/conv.h"
#include "backend/opencl/routine_call.h"
#include "backend/opencl/routines.h"
#include "backend/opencl/tiled_call.h"

namespace snug::opencl_routines {
namespace {

using native::ConvKind;
using native::ConvShape;

/// Sizes of a convolution, as ConvShape has them; what a group has of channels is `cg` and `og`.
constexpr const char* kSizes[] = {"images", "d",  "h",  "w",  "kd",    "kh",  "kw",  "od",
                                  "oh",     "ow", "cg", "og", "front", "top", "left"};

std::array<std::int64_t, std::size(kSizes)> sizes_of(const ConvShape& s) {
  return {s.n,  s.d,  s.h,          s.w,           s.kd,    s.kh,  s.kw,  s.od,
          s.oh, s.ow, s.group_in(), s.group_out(), s.front, s.top, s.left};
}

// The places of taps, of windows and of elements of images along the three axes; $P is k or n. What
// an index of the product says alone is found once per tile: k_b and n_b are parts of the number of
// an element, k_x and n_x (y, z) of its place.
constexpr const char* kTap =
    "const int tap = $P % taps; $P_x[t$P] = tap % kw * $DW; "
    "$P_y[t$P] = tap / kw % kh * $DH; $P_z[t$P] = tap / kw / kh * $DD; ";
constexpr const char* kWindow =
    "const int p = $P % plane; $P_x[t$P] = p % ow * $SW - left; "
    "$P_y[t$P] = p / ow % oh * $SH - top; $P_z[t$P] = p / ow / oh * $SD - front; ";
constexpr const char* kElement =
    "const int q = $P % area; $P_x[t$P] = q % w + left; "
    "$P_y[t$P] = q / w % h + top; $P_z[t$P] = q / w / h + front; ";

// The element of an image where a tap of a window is; -1: it lies in the padding.
constexpr const char* kOfImage =
    "const int x = n_x[tn] + k_x[tk], y = n_y[tn] + k_y[tk], u = n_z[tn] + k_z[tk]; "
    "const long at = x < 0 || x >= w || y < 0 || y >= h || u < 0 || u >= d "
    "? -1 : n_b[tn] + k_b[tk] + (u * h + y) * w + x;";
// The element of the result that a tap brings to an element of an image; -1: no window begins
// there.
constexpr const char* kOfResult =
    "const int x = n_x[tn] - k_x[tk], y = n_y[tn] - k_y[tk], u = n_z[tn] - k_z[tk]; "
    "const int ox = x / $SW, oy = y / $SH, oz = u / $SD; "
    "const long at = x < 0 || y < 0 || u < 0 || ox * $SW != x || oy * $SH != y || oz * $SD != u || "
    "ox >= ow || oy >= oh || oz >= od ? -1 : n_b[tn] + k_b[tk] + (oz * oh + oy) * ow + ox;";

std::string places(std::string text, const char* index) {
  put(text, "$P", index);
  return text;
}

/// A convolution or a gradient of it, as products of matrices, one per group. Operands are a and b
/// in the order of the op; the first matrix is of filters, or of what comes from behind.
class ConvCall : public TiledCall {
 public:
  ConvCall(const CallSite& site, ConvKind kind)
      : TiledCall(site), kind_(kind), attrs_(site.node->attrs), trial_{site.in, site.out} {
    const ConvShape s = attrs_.sizes(kind, site.in[0], site.in[1], site.out[0]);
    const TiledProduct t = text(s, site.out[0].dtype);
    set_up(t, sizes(site.in.data(), site.out.data()),
           fmt::format("{} {} {}", t.may_not_count, s.taps() == 1, s.sw));
  }

 protected:
  ProductSizes sizes(const ArgDesc* in, const ArgDesc* out) const override {
    const ConvShape s = attrs_.sizes(kind_, in[0], in[1], out[0]);
    const auto [m, n, k] = result(s);
    return {m, n, k, s.groups};
  }

  std::vector<OpenClArg> arguments(const RunArgs& args) const override {
    const ConvShape s = attrs_.sizes(kind_, args.in_desc[0], args.in_desc[1], args.out_desc[0]);
    std::vector<OpenClArg> all{in(args, 0), in(args, 1), out(args, 0)};
    for (const std::int64_t size : {s.taps(), s.plane(), s.image()})
      SNUG_CHECK(size <= INT32_MAX, "convolution: images or filters of {} elements", size);
    for (const std::int64_t size : sizes_of(s)) {
      SNUG_CHECK(size >= INT32_MIN && size <= INT32_MAX, "convolution: a size of {}", size);
      all.push_back(OpenClArg::int32(size));
    }
    return all;
  }

  /// With fewer images.
  Trial trial() const override {
    Trial t = trial_;
    std::vector<ArgDesc*> with_images;
    if (kind_ != ConvKind::GradInput) with_images.push_back(&t.in[0]);
    if (kind_ != ConvKind::Forward) with_images.push_back(&t.in[1]);
    if (kind_ != ConvKind::GradWeight) with_images.push_back(&t.out[0]);
    for (ArgDesc* d : with_images) d->shape[0] = std::min<std::int64_t>(d->shape[0], 4);
    return t;
  }

 private:
  /// Rows, columns and terms of the product of one group.
  std::array<std::int64_t, 3> result(const ConvShape& s) const {
    switch (kind_) {
      case ConvKind::Forward: return {s.group_out(), s.n * s.plane(), s.group_in() * s.taps()};
      case ConvKind::GradInput: return {s.group_in(), s.n * s.image(), s.group_out() * s.taps()};
      default: return {s.group_out(), s.group_in() * s.taps(), s.n * s.plane()};
    }
  }

  TiledProduct text(const ConvShape& s, DType dtype) const {
    TiledProduct t;
    t.dtype = dtype;
    const std::string type = opencl_memory_type(dtype);
    for (const char* name : {"a", "b", "c"}) {
      t.parameters += fmt::format("__global {0}{1}* {2}, const long {2}0, ",
                                  *name == 'c' ? "" : "const ", type, name);
      t.args.push_back(OpenClKind::Memory);
      t.begin += fmt::format("  {0} += {0}0;\n", name);
    }
    for (const char* name : kSizes) {
      t.parameters += fmt::format("const int {}, ", name);
      t.args.push_back(OpenClKind::Int);
    }
    t.begin += "  const int taps = kd * kh * kw, plane = od * oh * ow, area = d * h * w;\n";
    t.of_k = {{"k_a", "long"}, {"k_b", "long"}, {"k_x", "int"}, {"k_y", "int"}, {"k_z", "int"}};
    t.of_n = {{"n_b", "long"}, {"n_x", "int"}, {"n_y", "int"}, {"n_z", "int"}};
    const char* const turn = s.flip ? "(taps - 1 - tap)" : "tap";
    const std::string at_a = opencl_load(dtype, "a", "at"), at_b = opencl_load(dtype, "b", "at");
    switch (kind_) {
      case ConvKind::Forward:
        t.name = "conv";
        t.begin += "  const long M = og, N = (long)images * plane, K = (long)cg * taps;";
        t.find_k =
            places(kTap, "k") +
            fmt::format("k_a[tk] = k - tap + {}; k_b[tk] = (z * cg + k / taps) * area;", turn);
        t.find_n = places(kWindow, "n") + "n_b[tn] = n / plane * cg * $GROUPS * area;";
        t.find_a = "const long at = (z * M + m) * K + k_a[tk];";
        t.load_a = at_b;
        t.find_b = kOfImage;
        t.load_b = at_a;
        t.store = "const long at = ((n / plane * og * $GROUPS + z * og + m) * plane) + n % plane; ";
        t.may_not_count = pads(s);
        break;
      case ConvKind::GradInput:
        t.name = "conv_grad_input";
        t.begin += "  const long M = cg, N = (long)images * area, K = (long)og * taps;";
        t.find_k = places(kTap, "k") + fmt::format(
                                           "k_a[tk] = (z * og + k / taps) * M * taps + {}; "
                                           "k_b[tk] = (z * og + k / taps) * plane;",
                                           turn);
        t.find_n = places(kElement, "n") + "n_b[tn] = n / area * og * $GROUPS * plane;";
        t.find_a = "const long at = k_a[tk] + m * taps;";
        t.load_a = at_a;
        t.find_b = kOfResult;
        t.load_b = at_b;
        t.store = "const long at = ((n / area * cg * $GROUPS + z * cg + m) * area) + n % area; ";
        t.may_not_count = true;
        break;
      default:
        t.name = "conv_grad_weight";
        t.begin += "  const long M = og, N = (long)cg * taps, K = (long)images * plane;";
        t.find_k = places(kWindow, "k") +
                   "k_a[tk] = k / plane * og * $GROUPS * plane + p; "
                   "k_b[tk] = k / plane * cg * $GROUPS * area;";
        t.find_n = places(kTap, "n") + "n_b[tn] = (z * cg + n / taps) * area;";
        t.find_a = "const long at = k_a[tk] + (z * og + m) * plane;";
        t.load_a = at_b;
        t.find_b = kOfImage;
        t.load_b = at_a;
        t.b_along_k = true;
        t.store = fmt::format(
            "const int tap = n % taps; const long at = (z * M + m) * N + n - tap + {}; ", turn);
        t.may_not_count = pads(s);
    }
    t.store += opencl_store(dtype, "c", "at", "sum", t.helpers);
    t.constants = {{"$GROUPS", s.groups}, {"$SD", s.sd}, {"$SH", s.sh}, {"$SW", s.sw},
                   {"$DD", s.dd},         {"$DH", s.dh}, {"$DW", s.dw}};
    return t;
  }

  /// Some windows have cells in the padding.
  static bool pads(const ConvShape& s) {
    const std::int64_t all[] = {s.front, s.back, s.top, s.bottom, s.left, s.right};
    return std::any_of(std::begin(all), std::end(all), [](std::int64_t n) { return n != 0; });
  }

  ConvKind kind_;
  native::ConvAttrs attrs_;
  Trial trial_;  // with the sizes that it is prepared for
};

}  // namespace

Prepared prepare_conv(const CallSite& site) {
  return std::make_unique<ConvCall>(site, ConvKind::Forward);
}
Prepared prepare_conv_grad_input(const CallSite& site) {
  return std::make_unique<ConvCall>(site, ConvKind::GradInput);
}
Prepared prepare_conv_grad_weight(const CallSite& site) {
  return std::make_unique<ConvCall>(site, ConvKind::GradWeight);
}

}  // namespace snug::opencl_routines
