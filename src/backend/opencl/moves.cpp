// What moves elements: joined values, slices, rows by indices.
#include "backend/native/slice_place.h"
#include "backend/opencl/opencl_helpers.h"
#include "backend/opencl/opencl_mapping.h"
#include "backend/opencl/routine_call.h"
#include "backend/opencl/routines.h"
#include "backend/opencl/sorted_rows.h"
#include "backend/opencl/spec_forms.h"

namespace snug::opencl_routines {
namespace {

constexpr std::int64_t kItems = 64;

std::string head_of(const std::string& parameters) {
  return fmt::format(
      "__kernel __attribute__((reqd_work_group_size({}, 1, 1)))\nvoid $NAME(const int go, {}) {{\n"
      "  const long e = get_global_id(0);\n  if (!go || e >= count) return;\n",
      kItems, parameters);
}

/// "a b" of the two, in the type of registers.
std::string sum_text(DType t, const std::string& a, const std::string& b) {
  if (t == DType::Bool) return fmt::format("({} | {})", a, b);
  return fmt::format("({})({} + {})", opencl_sum_type(t), a, b);
}

/// Integers as wide as a dtype, to move what must keep every bit.
DType bits_of(DType t) {
  switch (size_of(t)) {
    case 1: return DType::U8;
    case 2: return DType::U16;
    case 4: return DType::U32;
    default: return DType::U64;
  }
}

/// to[..] = from[..], or to[..] += from[..].
class Copy {
 public:
  /// Between arrays of at most these sizes.
  Copy(const OpenClDevice& device, const ArgDesc& to, const ArgDesc& from, bool adds) {
    const std::vector<std::int64_t> ints = ints_of(to, from);
    any_.emplace(spec(to, adds, false), ints, device.found(), device.kernels());
    if (device.found().gpu && is_dense(to, from))
      dense_.emplace(spec(to, adds, true), ints, device.found(), device.kernels());
  }
  void make_ready() const {
    any_->make_ready();
    if (dense_) dense_->make_ready();
  }
  void ask(OpenClQueues& queues, const ArgDesc& to_desc, std::byte* to, const ArgDesc& from_desc,
           std::byte* from) const {
    std::byte* const operands[] = {from, to, to};
    const SpecForms& forms = dense_ && is_dense(to_desc, from_desc) ? *dense_ : *any_;
    forms.ask(queues, operands, ints_of(to_desc, from_desc), nullptr);
  }

 private:
  /// Whether elements along the last axis lie beside each other.
  static bool is_dense(const ArgDesc& to, const ArgDesc& from) {
    return !to.shape.empty() && to.strides.back() == 1 && from.strides.back() == 1;
  }
  static KernelSpec spec(const ArgDesc& to, bool adds, bool dense) {
    const DType t = adds ? to.dtype : bits_of(to.dtype);
    KernelSpec s;
    s.name = fmt::format("{}_{}_r{}", adds ? "add_to" : "copy", name_of(t), to.shape.size());
    KernelSpec::AxisValues strides;
    for (std::size_t k = 0; k < to.shape.size(); ++k) {
      s.extents.push_back(KernelSpec::kRuntime);
      strides.push_back(dense && k + 1 == to.shape.size() ? 1
                                                          : KernelSpec::Operand::kRuntimeStride);
    }
    s.outer = static_cast<std::uint32_t>(to.shape.size());
    s.operands = {{t, false, strides, -1}, {t, false, strides, -1}, {t, true, strides, 1}};
    const auto instr = [&](Prim p, std::uint32_t a, std::uint32_t b, std::int64_t integer) {
      Instr in{p, t, a, b};
      in.integer = integer;
      s.body.push_back(in);
      return static_cast<std::uint32_t>(s.body.size() - 1);
    };
    std::uint32_t value = instr(Prim::Load, 0, 0, 0);
    if (adds) value = instr(Prim::Add, instr(Prim::Load, 0, 0, 1), value, 0);
    instr(Prim::Store, value, 0, 2);
    s.phases = {{0, static_cast<std::uint32_t>(s.body.size()), false}};
    return s;
  }
  static std::vector<std::int64_t> ints_of(const ArgDesc& to, const ArgDesc& from) {
    std::vector<std::int64_t> ints(to.shape.begin(), to.shape.end());
    for (const ArgDesc* d : {&from, &to, &to})
      ints.insert(ints.end(), d->strides.begin(), d->strides.end());
    return ints;
  }

  std::optional<SpecForms> any_, dense_;
};

class ConcatenateCall : public OpenClRoutine {
 public:
  explicit ConcatenateCall(const CallSite& site)
      : OpenClRoutine(site), axis_(site.node->attrs.integer("axis")) {
    for (const ArgDesc& part : site.in) copies_.emplace_back(device(), site.out[0], part, false);
  }
  void make_ready() const override {
    for (const Copy& copy : copies_) copy.make_ready();
  }
  void ask(OpenClQueues& queues, const RunArgs& args) const override {
    ArgDesc part = args.out_desc[0];
    const std::int64_t step = part.strides[axis_] * size_of(part.dtype);
    std::byte* to = args.out[0];
    for (std::size_t i = 0; i < args.in_count; ++i) {
      part.shape[axis_] = args.in_desc[i].shape[axis_];
      copies_[i].ask(queues, part, to, args.in_desc[i], args.in[i]);
      to += part.shape[axis_] * step;
    }
  }

 private:
  std::int64_t axis_;
  std::vector<Copy> copies_;
};

/// slice_set and slice_inc: output 0 is x with y written or added where the slice is.
class SliceCall : public OpenClRoutine {
 public:
  SliceCall(const CallSite& site, bool adds)
      : OpenClRoutine(site),
        spec_(site.node->attrs.ints("spec")),
        whole_(device(), site.out[0], site.in[0], false),
        slice_(device(), part_of(site.out[0]), stretched(site.in[1], part_of(site.out[0])), adds) {}
  void make_ready() const override {
    whole_.make_ready();
    slice_.make_ready();
  }
  void ask(OpenClQueues& queues, const RunArgs& args) const override {
    const ArgDesc& x = args.out_desc[0];
    const auto [part, offset] = native::place_slice(spec_, x, args.size_values);
    if (!args.in_place) whole_.ask(queues, x, args.out[0], args.in_desc[0], args.in[0]);
    slice_.ask(queues, part, args.out[0] + offset * size_of(x.dtype),
               native::stretch(args.in_desc[1], part.shape), args.in[1]);
  }

 private:
  /// y, which may be smaller than the slice is at most.
  static ArgDesc stretched(const ArgDesc& y, const ArgDesc& part) {
    ArgDesc out{y.dtype, part.shape, {}};
    const std::size_t missing = part.shape.size() - y.shape.size();
    for (std::size_t k = 0; k < part.shape.size(); ++k)
      out.strides.push_back(k < missing || y.shape[k - missing] == 1 ? 0 : y.strides[k - missing]);
    return out;
  }
  /// What a slice is at most.
  ArgDesc part_of(const ArgDesc& x) const {
    ArgDesc part{x.dtype, {}, {}};
    for (std::size_t k = 0; k < x.shape.size(); ++k) {
      if (k * 4 < spec_.size() && spec_[k * 4] == 1) continue;
      part.shape.push_back(x.shape[k]);
      part.strides.push_back(x.strides[k]);
    }
    return part;
  }

  Attrs::Ints spec_;
  Copy whole_, slice_;
};

// The row of an array that index tuple l names.
std::string row_text(std::size_t indices) {
  std::string text = "0";
  for (std::size_t k = 0; k < indices; ++k)
    text = fmt::format("({} * d{} + index{}[l])", text, k, k);
  return text;
}
void add_indices(std::size_t indices, std::string& parameters, std::string& begin,
                 std::vector<OpenClKind>& args) {
  for (std::size_t k = 0; k < indices; ++k) {
    parameters +=
        fmt::format("__global const long* index{0}, const long index{0}_0, const long d{0}, ", k);
    begin += fmt::format("  index{0} += index{0}_0;\n", k);
    args.insert(args.end(), {OpenClKind::Memory, OpenClKind::Long});
  }
}

/// The parameters that `divided` takes besides n, for numbers below `count`.
constexpr const char* kBlockParameters = "const long block, const uint by, const int down, ";
void add_block(std::vector<OpenClArg>& all, std::int64_t block, std::int64_t count) {
  const Divisor d = divisor_of(block);
  const bool fits = count <= INT32_MAX && block <= INT32_MAX;
  all.push_back(OpenClArg::int64(block));
  all.push_back(OpenClArg::int32(static_cast<std::int32_t>(d.factor)));
  all.push_back(OpenClArg::int32(fits ? d.shift : -1));
}
void add_block(OpenClText& text) {
  text.args.insert(text.args.end(), {OpenClKind::Long, OpenClKind::Int, OpenClKind::Int});
  add_helper(text.helpers, "divided");
}

/// x[i0, i1, ...], one item per element of the result.
class GatherCall : public OpenClRoutine {
 public:
  explicit GatherCall(const CallSite& site) : OpenClRoutine(site), indices_(site.in.size() - 1) {
    const DType t = bits_of(site.out[0].dtype);
    OpenClText text;
    text.name = fmt::format("snug_gather_{}_{}", name_of(t), indices_);
    text.local = {kItems, 1, 1};
    std::string parameters =
        fmt::format("__global const {0}* x, const long x0, __global {0}* y, const long y0, ",
                    opencl_memory_type(t));
    text.args = {OpenClKind::Memory, OpenClKind::Memory};
    std::string begin;
    add_indices(indices_, parameters, begin, text.args);
    add_block(text);
    text.args.push_back(OpenClKind::Long);
    text.body =
        head_of(parameters + kBlockParameters + "const long count") + begin +
        fmt::format(
            "  const long l = divided(e, block, by, down);\n"
            "  const long i = x0 + {} * block + e - l * block, o = y0 + e;\n  {}\n}}\n",
            row_text(indices_), opencl_store(t, "y", "o", opencl_load(t, "x", "i"), text.helpers));
    add(std::move(text));
  }
  void ask(OpenClQueues& queues, const RunArgs& args) const override {
    const Dims& shape = args.in_desc[0].shape;
    std::vector<OpenClArg> all{in(args, 0), out(args, 0)};
    std::int64_t block = 1;
    for (std::size_t k = indices_; k < shape.size(); ++k) block *= shape[k];
    for (std::size_t k = 0; k < indices_; ++k) {
      all.push_back(in(args, 1 + k));
      all.push_back(OpenClArg::int64(shape[k]));
    }
    const std::int64_t count = product(args.out_desc[0].shape);
    add_block(all, block, count + kItems);
    all.push_back(OpenClArg::int64(count));
    queues.launch(*kernels_[0], all, {groups_of(count, kItems), 1, 1});
  }

 private:
  std::size_t indices_;
};

/// scatter_add and scatter_set. Indices are sorted, and an item has a column of a row and all that
/// comes to it, in the order of the indices: so results have the same bits every time.
class ScatterCall : public OpenClRoutine {
 public:
  ScatterCall(const CallSite& site, bool adds) : OpenClRoutine(site), indices_(site.in.size() - 2) {
    const DType t = adds ? site.out[0].dtype : bits_of(site.out[0].dtype);
    whole_.emplace(device(), site.out[0], site.in[0], false);
    std::string parameters, begin;
    std::vector<OpenClKind> kinds;
    add_indices(indices_, parameters, begin, kinds);
    sorted_ = std::make_unique<SortedRows>(device().kernels(), parameters, kinds, begin,
                                           row_text(indices_));
    workspace = SortedRows::bytes(product(site.in[2].shape));
    add(text(t, adds));
  }

  void make_ready() const override {
    OpenClRoutine::make_ready();
    whole_->make_ready();
    sorted_->make_ready();
  }

  void ask(OpenClQueues& queues, const RunArgs& args) const override {
    const ArgDesc& x = args.out_desc[0];
    if (!args.in_place) whole_->ask(queues, x, args.out[0], args.in_desc[0], args.in[0]);
    std::int64_t block = 1, all_rows = 1;
    for (std::size_t k = 0; k < x.shape.size(); ++k)
      (k < indices_ ? all_rows : block) *= x.shape[k];
    const std::int64_t rows = product(args.in_desc[2].shape), count = rows * block;
    if (count == 0) return;
    SNUG_CHECK(all_rows <= UINT32_MAX, "rows by indices of an array with {} rows", all_rows);
    std::vector<OpenClArg> indices;
    for (std::size_t k = 0; k < indices_; ++k) {
      indices.push_back(in(args, 2 + k));
      indices.push_back(OpenClArg::int64(x.shape[k]));
    }
    sorted_->ask(queues, args.workspace, rows, indices);
    std::vector<OpenClArg> all{out(args, 0), in(args, 1),
                               OpenClArg::memory(args.workspace, sizeof(std::uint64_t)),
                               OpenClArg::int64(rows)};
    add_block(all, block, count + kItems);
    all.push_back(OpenClArg::int64(count));
    queues.launch(*kernels_[0], all, {groups_of(count, kItems), 1, 1});
  }

 private:
  static OpenClText text(DType t, bool adds) {
    OpenClText out;
    out.name = fmt::format("snug_scatter_{}_{}", adds ? "add" : "set", name_of(t));
    out.local = {kItems, 1, 1};
    const std::string parameters = fmt::format(
        "__global {0}* x, const long x0, __global const {0}* y, const long y0, __global const "
        "ulong* words, const long words0, const long rows, {1}const long count",
        opencl_memory_type(t), kBlockParameters);
    out.args = {OpenClKind::Memory, OpenClKind::Memory, OpenClKind::Memory, OpenClKind::Long};
    add_block(out);
    out.args.push_back(OpenClKind::Long);
    // The first of a row does all of it; of what is set the last counts.
    const std::string from = opencl_load(t, "y", "(words[at] & 0xffffffffUL) * block + column");
    const std::string set = opencl_store(t, "x", "to", "value", out.helpers);
    const std::string type = opencl_sum_type(t);
    const std::string step = adds ? fmt::format("value = {};", rounded_sum(t, from, out.helpers))
                                  : fmt::format("value = {};", from);
    out.body = head_of(parameters) +
               fmt::format(
                   "  words += words0;\n  x += x0;\n  y += y0;\n"
                   "  long at = divided(e, block, by, down);\n"
                   "  const long column = e - at * block;\n"
                   "  const ulong row = words[at] >> 32;\n"
                   "  if (at > 0 && words[at - 1] >> 32 == row) return;\n"
                   "  const long to = row * block + column;\n"
                   "  {} value = {};\n"
                   "  for (; at < rows && words[at] >> 32 == row; ++at) {}\n  {}\n}}\n",
                   type, adds ? opencl_load(t, "x", "to") : "0", step, set);
    return out;
  }

  /// `value` and another one, as if it were kept in memory in between.
  static std::string rounded_sum(DType t, const std::string& other, OpenClHelpers& helpers) {
    const std::string sum = sum_text(t, "value", other);
    if (t != DType::F16 && t != DType::BF16) return sum;
    return fmt::format("{}({})",
                       add_helper(helpers, t == DType::F16 ? "round_half" : "round_bfloat"), sum);
  }

  std::size_t indices_;
  std::optional<Copy> whole_;
  std::unique_ptr<SortedRows> sorted_;
};

}  // namespace

Prepared prepare_concatenate(const CallSite& site) {
  return std::make_unique<ConcatenateCall>(site);
}
Prepared prepare_gather(const CallSite& site) { return std::make_unique<GatherCall>(site); }
Prepared prepare_scatter_add(const CallSite& site) {
  return std::make_unique<ScatterCall>(site, true);
}
Prepared prepare_scatter_set(const CallSite& site) {
  return std::make_unique<ScatterCall>(site, false);
}
Prepared prepare_slice_set(const CallSite& site) {
  return std::make_unique<SliceCall>(site, false);
}
Prepared prepare_slice_inc(const CallSite& site) { return std::make_unique<SliceCall>(site, true); }

}  // namespace snug::opencl_routines
