#include "backend/native/conv.h"
#include "backend/opencl/routine_call.h"
#include "backend/opencl/routines.h"
#include "backend/opencl/tiled_product.h"

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

// Functions that find an element of the images or of the result; -1: it lies in the padding, or no
// window begins there. `k` and `n` are those of the product.
constexpr const char* kOfImage = R"(typedef struct { int $FIELDS; } $NAME_sizes;
// The element of an image that tap `tap` of channel `channel` meets in place `p` of the result.
static long $NAME_image(long image, long channel, int tap, int p, const $NAME_sizes s) {
  const int tx = tap % s.kw, ty = tap / s.kw % s.kh, tz = tap / s.kw / s.kh;
  const int ox = p % s.ow, oy = p / s.ow % s.oh, oz = p / s.ow / s.oh;
  const int x = ox * $SW - s.left + tx * $DW, y = oy * $SH - s.top + ty * $DH;
  const int z = oz * $SD - s.front + tz * $DD;
  if (x < 0 || x >= s.w || y < 0 || y >= s.h || z < 0 || z >= s.d) return -1;
  return (((image * s.cg * $GROUPS + channel) * s.d + z) * s.h + y) * s.w + x;
}
// The element of the result that tap `tap` brings to place `q` of an image.
static long $NAME_result(long image, long channel, int tap, int q, const $NAME_sizes s) {
  const int tx = tap % s.kw, ty = tap / s.kw % s.kh, tz = tap / s.kw / s.kh;
  const int x = q % s.w + s.left - tx * $DW, y = q / s.w % s.h + s.top - ty * $DH;
  const int z = q / s.w / s.h + s.front - tz * $DD;
  if (x < 0 || y < 0 || z < 0 || x % $SW != 0 || y % $SH != 0 || z % $SD != 0) return -1;
  const int ox = x / $SW, oy = y / $SH, oz = z / $SD;
  if (ox >= s.ow || oy >= s.oh || oz >= s.od) return -1;
  return (((image * s.og * $GROUPS + channel) * s.od + oz) * s.oh + oy) * s.ow + ox;
}
)";

void put(std::string& text, const std::string& name, const std::string& value) {
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += value.size())
    text.replace(at, name.size(), value);
}

/// A convolution or a gradient of it, as products of matrices, one per group. Operands are a and b
/// in the order of the op; the first matrix is of filters, or of what comes from behind.
class ConvCall : public OpenClRoutine {
 public:
  ConvCall(const CallSite& site, ConvKind kind)
      : OpenClRoutine(site), kind_(kind), attrs_(site.node->attrs) {
    const ConvShape s = attrs_.sizes(kind, site.in[0], site.in[1], site.out[0]);
    const auto [m, n] = result(s);
    tile_ = choose_tile(found(), m, n);
    add(text(s, site.out[0].dtype));
  }

  void ask(OpenClQueues& queues, const RunArgs& args) const override {
    const ConvShape s = attrs_.sizes(kind_, args.in_desc[0], args.in_desc[1], args.out_desc[0]);
    std::vector<OpenClArg> all{in(args, 0), in(args, 1), out(args, 0)};
    for (const std::int64_t size : sizes_of(s)) {
      SNUG_CHECK(size >= INT32_MIN && size <= INT32_MAX, "convolution: a size of {}", size);
      all.push_back(OpenClArg::int32(size));
    }
    all.push_back(OpenClArg::int32(0));
    const auto [m, n] = result(s);
    queues.launch(*kernels_[0], all,
                  {groups_of(n, tile_.columns), groups_of(m, tile_.rows), s.groups});
  }

 private:
  /// Rows and columns of the product of one group.
  std::pair<std::int64_t, std::int64_t> result(const ConvShape& s) const {
    switch (kind_) {
      case ConvKind::Forward: return {s.group_out(), s.n * s.plane()};
      case ConvKind::GradInput: return {s.group_in(), s.n * s.image()};
      default: return {s.group_out(), s.group_in() * s.taps()};
    }
  }

  OpenClText text(const ConvShape& s, DType dtype) const {
    TiledProduct t;
    t.dtype = dtype;
    const std::string type = opencl_memory_type(dtype);
    for (const char* name : {"a", "b", "c"}) {
      t.parameters += fmt::format("__global {0}{1}* {2}, const long {2}0, ",
                                  *name == 'c' ? "" : "const ", type, name);
      t.args.push_back(OpenClKind::Memory);
      t.begin += fmt::format("  {0} += {0}0;\n", name);
    }
    std::string fields;
    for (const char* name : kSizes) {
      t.parameters += fmt::format("const int {}, ", name);
      t.args.push_back(OpenClKind::Int);
      fields += (fields.empty() ? "" : ", ") + std::string(name);
    }
    t.begin += fmt::format(
        "  const $NAME_sizes s = {{{}}};\n"
        "  const int taps = kd * kh * kw, plane = od * oh * ow, area = d * h * w;\n",
        fields);
    const char* const turn = s.flip ? "(taps - 1 - tap)" : "tap";
    const std::string at_b = opencl_load(dtype, "b", "at");
    switch (kind_) {
      case ConvKind::Forward:
        t.name = "conv";
        t.begin += "  const long M = og, N = (long)images * plane, K = (long)cg * taps;";
        t.find_a = fmt::format(
            "const int tap = k % taps; const long at = (z * M + m) * K + k - tap + {};", turn);
        t.load_a = opencl_load(dtype, "b", "at");
        t.find_b =
            "const long at = $NAME_image(n / plane, z * cg + k / taps, k % taps, n % plane, s);";
        t.load_b = opencl_load(dtype, "a", "at");
        t.store = "const long at = ((n / plane * og * $GROUPS + z * og + m) * plane) + n % plane; ";
        t.may_not_count = pads(s);
        break;
      case ConvKind::GradInput:
        t.name = "conv_grad_input";
        t.begin += "  const long M = cg, N = (long)images * area, K = (long)og * taps;";
        t.find_a = fmt::format(
            "const int tap = k % taps; "
            "const long at = ((z * og + k / taps) * M + m) * taps + {};",
            turn);
        t.load_a = opencl_load(dtype, "a", "at");
        t.find_b =
            "const long at = $NAME_result(n / area, z * og + k / taps, k % taps, n % area, s);";
        t.load_b = at_b;
        t.store = "const long at = ((n / area * cg * $GROUPS + z * cg + m) * area) + n % area; ";
        t.may_not_count = true;
        break;
      default:
        t.name = "conv_grad_weight";
        t.begin += "  const long M = og, N = (long)cg * taps, K = (long)images * plane;";
        t.find_a = "const long at = (k / plane * og * $GROUPS + z * og + m) * plane + k % plane;";
        t.load_a = at_b;
        t.find_b =
            "const long at = $NAME_image(k / plane, z * cg + n / taps, n % taps, k % plane, s);";
        t.load_b = opencl_load(dtype, "a", "at");
        t.b_along_k = true;
        t.store = fmt::format(
            "const int tap = n % taps; const long at = (z * M + m) * N + n - tap + {}; ", turn);
        t.may_not_count = pads(s);
    }
    t.store += opencl_store(dtype, "c", "at", "sum", t.helpers);
    OpenClText out = tiled_text(t, tile_, found());
    std::string functions = kOfImage;
    put(functions, "$FIELDS", fields);
    out.body = functions + out.body;
    const std::pair<const char*, std::int64_t> constants[] = {
        {"$GROUPS", s.groups}, {"$SD", s.sd}, {"$SH", s.sh}, {"$SW", s.sw},
        {"$DD", s.dd},         {"$DH", s.dh}, {"$DW", s.dw}};
    for (const auto& [name, value] : constants) put(out.body, name, std::to_string(value));
    return out;
  }

  /// Some windows have cells in the padding.
  static bool pads(const ConvShape& s) {
    return s.front + s.back + s.top + s.bottom + s.left + s.right != 0;
  }

  ConvKind kind_;
  native::ConvAttrs attrs_;
  ProductTile tile_;
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
