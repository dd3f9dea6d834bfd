#include "backend/native/pool_axis.h"
#include "backend/opencl/opencl_helpers.h"
#include "backend/opencl/opencl_mapping.h"
#include "backend/opencl/routine_call.h"
#include "backend/opencl/routines.h"

namespace snug::opencl_routines {
namespace {

using native::Divide;
using native::PoolKind;

constexpr const char* kAxes[] = {"z", "y", "x"};
constexpr std::int64_t kItems = 64;

// Of a window: its first place along each axis, and its cells that lie inside.
constexpr const char* kWindow = R"(  const long plane = divided(e, area, area_by, area_down);
  const int at = e - plane * area, row = divided(at, ox_n, x_by, x_down), ox = at - row * ox_n;
  const int oz = divided(row, oy_n, y_by, y_down), oy = row - oz * oy_n;
  const int sx = ox * $STRIDE_X - $LOW_X, sy = oy * $STRIDE_Y - $LOW_Y, sz = oz * $STRIDE_Z - $LOW_Z;
  const int fx = max(0, -sx), fy = max(0, -sy), fz = max(0, -sz);
  const int lx = min($WINDOW_X, x_n - sx), ly = min($WINDOW_Y, y_n - sy), lz = min($WINDOW_Z, z_n - sz);
  const long base = plane * z_n * y_n * x_n;
)";
// Of an element of the images: its place along each axis, and the windows that have it.
constexpr const char* kElement = R"(  const long plane = divided(e, area, area_by, area_down);
  const int at = e - plane * area, row = divided(at, x_n, x_by, x_down), x = at - row * x_n;
  const int z = divided(row, y_n, y_by, y_down), y = row - z * y_n;
  const int bx = max(0, x + $LOW_X - $WINDOW_X + $STRIDE_X) / $STRIDE_X;
  const int by = max(0, y + $LOW_Y - $WINDOW_Y + $STRIDE_Y) / $STRIDE_Y;
  const int bz = max(0, z + $LOW_Z - $WINDOW_Z + $STRIDE_Z) / $STRIDE_Z;
  const int ex = min(ox_n, (x + $LOW_X) / $STRIDE_X + 1), ey = min(oy_n, (y + $LOW_Y) / $STRIDE_Y + 1);
  const int ez = min(oz_n, (z + $LOW_Z) / $STRIDE_Z + 1);
  const long base = plane * oz_n * oy_n * ox_n;
)";
constexpr const char* kCells = R"(  for (int kz = fz; kz < lz; ++kz)
    for (int ky = fy; ky < ly; ++ky)
      for (int kx = fx; kx < lx; ++kx) {
        const long i = base + ((long)(sz + kz) * y_n + sy + ky) * x_n + sx + kx;
)";
constexpr const char* kWindows = R"(  for (int oz = bz; oz < ez; ++oz)
    for (int oy = by; oy < ey; ++oy)
      for (int ox = bx; ox < ex; ++ox) {
        const long i = base + ((long)oz * oy_n + oy) * ox_n + ox;
)";
/// How many cells of window ox, oy, oz an average counts.
std::string count_text(Divide divide) {
  switch (divide) {
    case Divide::No: return "1";
    case Divide::ByInside:
      return "(min($WINDOW_X, x_n - sx) - max(0, -sx)) * (min($WINDOW_Y, y_n - sy) - max(0, -sy)) "
             "* "
             "(min($WINDOW_Z, z_n - sz) - max(0, -sz))";
    default:
      return "min($WINDOW_X, x_n + $HIGH_X - sx) * min($WINDOW_Y, y_n + $HIGH_Y - sy) * "
             "min($WINDOW_Z, z_n + $HIGH_Z - sz)";
  }
}

/// One item per element of the result, which sums up in one order.
class PoolCall : public OpenClRoutine {
 public:
  PoolCall(const CallSite& site, PoolKind kind)
      : OpenClRoutine(site), kind_(kind), axes_(site.node->attrs.ints("window").size()) {
    const Attrs& attrs = site.node->attrs;
    without_index_ = attrs.has("without_index");
    add(text(attrs, site.out[0].dtype));
  }

  void ask(OpenClQueues& queues, const RunArgs& args) const override {
    const bool back = kind_ == PoolKind::Unpool || kind_ == PoolKind::AverageGrad;
    const Dims& image = (back ? args.out_desc[0] : args.in_desc[0]).shape;
    const Dims& pooled = (back ? args.in_desc[0] : args.out_desc[0]).shape;
    std::vector<OpenClArg> all{in(args, 0), out(args, 0)};
    if (kind_ == PoolKind::Max && !without_index_) all.push_back(out(args, 1));
    if (kind_ == PoolKind::Take || kind_ == PoolKind::Unpool) all.push_back(in(args, 1));
    for (const Dims* dims : {&image, &pooled})
      for (std::size_t k = 0; k < 3; ++k)
        all.push_back(
            OpenClArg::int32(k + axes_ < 3 ? 1 : (*dims)[dims->size() - axes_ + (k + axes_ - 3)]));
    const std::int64_t count = product(args.out_desc[0].shape);
    add_divisors(all, back ? image : pooled, count);
    all.push_back(OpenClArg::int64(count));
    queues.launch(*kernels_[0], all, {groups_of(count, kItems), 1, 1});
  }

 private:
  /// By what the number of an element of the result is divided.
  void add_divisors(std::vector<OpenClArg>& all, const Dims& result, std::int64_t count) const {
    const auto along = [&](std::size_t back) {
      return back < axes_ ? result[result.size() - 1 - back] : 1;
    };
    const std::int64_t area = along(0) * along(1) * along(2);
    all.push_back(OpenClArg::int64(area));
    for (const std::int64_t n : {area, along(0), along(1)}) {
      const Divisor d = divisor_of(n);
      all.push_back(OpenClArg::int32(static_cast<std::int32_t>(d.factor)));
      all.push_back(OpenClArg::int32(count + kItems <= INT32_MAX ? d.shift : -1));
    }
  }

  OpenClText text(const Attrs& attrs, DType dtype) const {
    OpenClText t;
    add_helper(t.helpers, "divided");
    t.local = {kItems, 1, 1};
    const std::string type = opencl_memory_type(dtype), sum = opencl_sum_type(dtype);
    std::int64_t cells = 1;
    for (const std::int64_t n : attrs.ints("window")) cells *= n;
    const char* const index = cells <= 256 ? "uchar" : "int";
    std::string head = fmt::format(
        "__global const {0}* in, const long in0, __global {0}* out, const long out0, ", type);
    t.args = {OpenClKind::Memory, OpenClKind::Memory};
    std::string begin = "  in += in0;\n  out += out0;\n";
    const bool writes_index = kind_ == PoolKind::Max && !without_index_;
    if (writes_index || kind_ == PoolKind::Take || kind_ == PoolKind::Unpool) {
      head += fmt::format("__global {}{}* cell, const long cell0, ", writes_index ? "" : "const ",
                          index);
      begin += "  cell += cell0;\n";
      t.args.push_back(OpenClKind::Memory);
    }
    for (const char* prefix : {"", "o"})
      for (const char* axis : kAxes) {
        head += fmt::format("const int {}{}_n, ", prefix, axis);
        t.args.push_back(OpenClKind::Int);
      }
    head += "const long area, ";
    t.args.push_back(OpenClKind::Long);
    for (const char* of : {"area", "x", "y"}) {
      head += fmt::format("const uint {0}_by, const int {0}_down, ", of);
      t.args.insert(t.args.end(), 2, OpenClKind::Int);
    }
    head += "const long count";
    t.args.push_back(OpenClKind::Long);
    std::string body = fmt::format(
        "__kernel __attribute__((reqd_work_group_size({}, 1, 1)))\nvoid $NAME(const int go, {}) "
        "{{\n"
        "  const long e = get_global_id(0);\n  if (!go || e >= count) return;\n{}",
        kItems, head, begin);
    const std::string at = opencl_load(dtype, "in", "i");
    const auto keep = [&](const std::string& value) {
      return "  " + opencl_store(dtype, "out", "e", value, t.helpers) + "\n}\n";
    };
    switch (kind_) {
      case PoolKind::Max: {
        t.name = "snug_max_pool";
        body += kWindow;
        body += fmt::format("  {} best = 0;\n  int which = -1;\n", sum) + kCells;
        const std::string nan = is_float(dtype) ? " || (isnan(v) && !isnan(best))" : "";
        body += fmt::format(
            "        const {} v = {};\n"
            "        if (which < 0 || v > best{}) {{\n          best = v;\n"
            "          which = (kz * $WINDOW_Y + ky) * $WINDOW_X + kx;\n        }}\n      }}\n",
            sum, at, nan);
        if (writes_index) body += fmt::format("  cell[e] = ({})max(which, 0);\n", index);
        body += keep("best");
        break;
      }
      case PoolKind::Take:
        t.name = "snug_max_pool_take";
        body += kWindow;
        body += fmt::format(
            "  const int which = cell[e];\n"
            "  const int kx = which % $WINDOW_X, ky = which / $WINDOW_X % $WINDOW_Y;\n"
            "  const int kz = which / $WINDOW_X / $WINDOW_Y;\n  {} v = 0;\n"
            "  if (which >= 0 && kz >= fz && kz < lz && ky >= fy && ky < ly && kx >= fx && kx < "
            "lx) "
            "{{\n    const long i = base + ((long)(sz + kz) * y_n + sy + ky) * x_n + sx + kx;\n"
            "    v = {};\n  }}\n",
            sum, at);
        body += keep("v");
        break;
      case PoolKind::Unpool:
        t.name = "snug_max_unpool";
        body += kElement;
        body += fmt::format("  {} sum = 0;\n", sum) + kWindows;
        body += fmt::format(
            "        const int kx = x + $LOW_X - ox * $STRIDE_X, ky = y + $LOW_Y - oy * "
            "$STRIDE_Y;\n"
            "        const int kz = z + $LOW_Z - oz * $STRIDE_Z;\n"
            "        if (cell[i] == (kz * $WINDOW_Y + ky) * $WINDOW_X + kx) sum += {};\n      }}\n",
            at);
        body += keep("sum");
        break;
      case PoolKind::Average:
        t.name = "snug_average_pool";
        body += kWindow;
        body += fmt::format("  {} sum = 0;\n", sum) + kCells;
        body += fmt::format("        sum += {};\n      }}\n", at);
        body += keep(fmt::format("sum / ({})({})", sum, count_text(native::divide_of(attrs))));
        break;
      case PoolKind::AverageGrad:
        t.name = "snug_average_pool_grad";
        body += kElement;
        body += fmt::format("  {} sum = 0;\n", sum) + kWindows;
        body +=
            "        const int sx = ox * $STRIDE_X - $LOW_X, sy = oy * $STRIDE_Y - $LOW_Y;\n"
            "        const int sz = oz * $STRIDE_Z - $LOW_Z;\n";
        body += fmt::format("        sum += {} / ({})({});\n      }}\n", at, sum,
                            count_text(native::divide_of(attrs)));
        body += keep("sum");
    }
    const Attrs::Ints &window = attrs.ints("window"), &stride = attrs.ints("stride"),
                      &pad = attrs.ints("pad");
    for (std::size_t k = 0; k < 3; ++k) {
      const std::size_t axis = k + axes_ - 3;  // of the window; beyond it: none
      const bool there = k + axes_ >= 3;
      const char* const letter = k == 0 ? "Z" : k == 1 ? "Y" : "X";
      const std::pair<const char*, std::int64_t> constants[] = {
          {"$WINDOW_", there ? window[axis] : 1},
          {"$STRIDE_", there ? stride[axis] : 1},
          {"$LOW_", there ? pad[2 * axis] : 0},
          {"$HIGH_", there ? pad[2 * axis + 1] : 0}};
      for (const auto& [name, value] : constants)
        put(body, std::string(name) + letter, std::to_string(value));
    }
    t.body = body;
    t.name += fmt::format("_{}", name_of(dtype));
    return t;
  }

  PoolKind kind_;
  std::size_t axes_;
  bool without_index_ = false;
};

}  // namespace

Prepared prepare_max_pool(const CallSite& site) {
  return std::make_unique<PoolCall>(site, PoolKind::Max);
}
Prepared prepare_max_pool_take(const CallSite& site) {
  return std::make_unique<PoolCall>(site, PoolKind::Take);
}
Prepared prepare_max_unpool(const CallSite& site) {
  return std::make_unique<PoolCall>(site, PoolKind::Unpool);
}
Prepared prepare_average_pool(const CallSite& site) {
  return std::make_unique<PoolCall>(site, PoolKind::Average);
}
Prepared prepare_average_pool_grad(const CallSite& site) {
  return std::make_unique<PoolCall>(site, PoolKind::AverageGrad);
}

}  // namespace snug::opencl_routines
