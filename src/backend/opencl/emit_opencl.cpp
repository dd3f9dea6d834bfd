#include "backend/opencl/emit_opencl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "backend/opencl/opencl_expr.h"
#include "base/error.h"

namespace snug {

namespace {

using Operand = KernelSpec::Operand;
using Kind = OpenClMapping::Kind;

constexpr int kFew = 32;  // terms of a sum that are added up first

bool is_arg(ReduceOp r) { return r == ReduceOp::ArgMax || r == ReduceOp::ArgMin; }

std::string identity(ReduceOp op, DType t) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::int64_t bits = t == DType::Bool ? 1 : 8 * size_of(t);
  std::int64_t high = 0, low = 0;
  if (is_signed_int(t)) {
    high = static_cast<std::int64_t>(~std::uint64_t{0} >> (65 - bits));
    low = -high - 1;
  } else if (is_discrete(t)) {
    high = static_cast<std::int64_t>(~std::uint64_t{0} >> (64 - bits));
  }
  switch (op) {
    case ReduceOp::Prod:
    case ReduceOp::All: return opencl_literal(t, {1, 1});
    case ReduceOp::Max: return opencl_literal(t, {-kInf, low});
    case ReduceOp::Min: return opencl_literal(t, {kInf, high});
    default: return opencl_literal(t, {0, 0});
  }
}

class Emitter {
 public:
  Emitter(const KernelSpec& spec, const OpenClMapping& mapping)
      : s_(spec), m_(mapping), divisors_(divisor_axes(spec, mapping)), expr_(spec, mapping.pairs) {}

  OpenClText emit() {
    OpenClText text;
    text.name = opencl_name(s_);
    text.local = {m_.items, 1, 1};
    const std::string head = signature(text.args);
    sizes();
    switch (m_.kind) {
      case Kind::Item: m_.vector > 1 ? by_vectors() : by_items(); break;
      case Kind::Group: by_groups(); break;
      case Kind::Rows: by_rows(); break;
      case Kind::Tile: by_tiles(); break;
    }
    text.body = head + out_ + "}\n";
    text.helpers = expr_.helpers();
    return text;
  }

 private:
  template <class... T>
  void line(fmt::format_string<T...> format, T&&... args) {
    out_.append(2 * depth_, ' ');
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(args)...);
    out_ += '\n';
  }

  /// Of a value in a register, and of an operand's elements in memory.
  std::string type(DType t) const { return expr_.type(t); }
  std::string memory_type(DType t) const {
    if (t == DType::F16) return "half";
    return t == DType::BF16 ? "ushort" : type(t);
  }
  /// One of as many bytes that variables may have.
  std::string moved_type(DType t) const { return t == DType::F16 ? "ushort" : memory_type(t); }

  /// Of indices.
  const char* index() const { return m_.wide ? "long" : "int"; }

  std::string signature(std::vector<OpenClKind>& args) const {
    std::string out = fmt::format(
        "__kernel __attribute__((reqd_work_group_size({}, 1, 1)))\nvoid $NAME(const int go,\n    ",
        m_.items);
    for (std::size_t o = 0; o < s_.operands.size(); ++o) {
      out += fmt::format("__global {}{}* b{}, const long o{},\n    ",
                         s_.operands[o].write ? "" : "const ", memory_type(s_.operands[o].dtype), o,
                         o);
      args.push_back(OpenClKind::Memory);
    }
    const std::vector<std::uint32_t> ints = runtime_ints(s_);
    if (m_.ints_in_memory) {
      out += "__global const long* ints, const long first,\n    ";
      args.push_back(OpenClKind::Memory);
    } else {
      for (const std::uint32_t i : ints) {
        out += fmt::format("const {} {}, ", index(), int_name(i));
        args.push_back(m_.wide ? OpenClKind::Long : OpenClKind::Int);
      }
    }
    for (const std::uint32_t axis : divisors_) {
      out += fmt::format("const uint by{0}, const int down{0}, ", axis);
      args.insert(args.end(), 2, OpenClKind::Int);
    }
    args.push_back(OpenClKind::Long);
    return out + "const long end) {\n";
  }

  /// "e0", an extent, or "s1_0", a stride of operand 1.
  std::string int_name(std::uint32_t i) const {
    const auto rank = static_cast<std::uint32_t>(s_.rank());
    return i < rank ? fmt::format("e{}", i) : fmt::format("s{}_{}", i / rank - 1, i % rank);
  }

  std::string constant(std::int64_t n) const { return fmt::format("{}{}", n, m_.wide ? "L" : ""); }

  std::string extent(std::size_t axis) const {
    return s_.extents[axis] == KernelSpec::kRuntime ? fmt::format("e{}", axis)
                                                    : constant(s_.extents[axis]);
  }

  /// Where operands begin, and the integers where they are in memory.
  void sizes() {
    line("if (!go) return;");
    for (std::size_t o = 0; o < s_.operands.size(); ++o)
      line("__global {}{}* const p{} = b{} + o{};", s_.operands[o].write ? "" : "const ",
           memory_type(s_.operands[o].dtype), o, o, o);
    if (!m_.ints_in_memory) return;
    const std::vector<std::uint32_t> ints = runtime_ints(s_);
    for (std::size_t k = 0; k < ints.size(); ++k)
      line("const {0} {1} = ({0})ints[first + {2}];", index(), int_name(ints[k]), k);
  }

  // ---- points ----

  /// An index divided by the extent of an axis; in units of vectors along the last one.
  std::string divided(const std::string& index, std::size_t axis) const {
    if (std::find(divisors_.begin(), divisors_.end(), axis) != divisors_.end())
      return fmt::format("(int)((mul_hi((uint){0}, by{1}) + (uint){0}) >> down{1})", index, axis);
    return fmt::format("{} / {}", index, units(axis));
  }
  std::string units(std::size_t axis) const {
    if (m_.vector == 1 || axis + 1 < s_.rank()) return extent(axis);
    return fmt::format("({} / {})", extent(axis), m_.vector);
  }

  /// Indices of axes [first, last) of the point of this number among them; `plus` is added to the
  /// first.
  void indices(std::string number, std::size_t first, std::size_t last,
               const std::string& plus = "") {
    const auto begin = [&](std::size_t axis) {  // of a vector
      return m_.vector > 1 && axis + 1 == s_.rank() ? fmt::format("{} * ", m_.vector) : "";
    };
    for (std::size_t axis = last; axis-- > first + 1;) {
      line("const {} q{} = {};", index(), axis, divided(number, axis));
      line("const {} i{} = {}({} - q{} * {});", index(), axis, begin(axis), number, axis,
           units(axis));
      number = fmt::format("q{}", axis);
    }
    if (first < last) line("const {} i{} = {}{}{};", index(), first, begin(first), number, plus);
  }

  void by_items() {
    line("if (get_global_id(0) >= end) return;");
    line("const {0} point = ({0})get_global_id(0);", index());
    indices("point", 0, s_.outer);
    for (const KernelSpec::Phase& p : s_.phases) phase(p);
  }

  void by_groups() {
    trees();
    line("if (get_group_id(0) >= end) return;");
    line("const {0} point = ({0})get_group_id(0);", index());
    line("const int item = get_local_id(0);");
    indices("point", 0, s_.outer);
    for (const KernelSpec::Phase& p : s_.phases) phase(p);
  }

  /// Points of the last axis that an item has at once: what lies along it is moved as vectors.
  void by_vectors() {
    line("if (get_global_id(0) >= end) return;");
    line("const {0} point = ({0})get_global_id(0);", index());
    indices("point", 0, s_.rank());
    const std::size_t last = s_.rank() - 1;
    for (std::uint32_t i = 0; i < s_.body.size(); ++i) {
      const Instr& in = s_.body[i];
      if (in.prim != Prim::Load && in.prim != Prim::Store) continue;
      const Operand& o = s_.operands[in.integer];
      if (!is_vector(s_, o)) continue;
      const std::string type = fmt::format("{}{}", memory_type(o.dtype), m_.vector);
      if (in.prim == Prim::Load)
        line("const {0} w{1} = *(__global const {0}*)(p{2} + {3});", type, i, in.integer,
             address(in.integer));
      else
        line("{} w{};", type, i);
    }
    line("const {} first = i{};", index(), last);
    for (lane_ = 0; lane_ < static_cast<int>(m_.vector); ++lane_) {
      line("{{");
      ++depth_;
      line("const {} i{} = first + {};", index(), last, lane_);
      for (std::uint32_t i = 0; i < s_.body.size(); ++i) instr(i);
      --depth_;
      line("}}");
    }
    for (std::uint32_t i = 0; i < s_.body.size(); ++i)
      if (s_.body[i].prim == Prim::Store && is_vector(s_, s_.operands[s_.body[i].integer]))
        line("*(__global {}{}*)(p{} + {}) = w{};",
             memory_type(s_.operands[s_.body[i].integer].dtype), m_.vector, s_.body[i].integer,
             address(s_.body[i].integer), i);
  }

  /// An item has a row, and the group reads and writes the rows of all, one after another.
  void by_rows() {
    const std::uint32_t pitch = m_.columns | 1U;  // over all banks
    std::string columns = s_.rank() - s_.outer == 1 ? extent(s_.outer) : "1";
    for (std::size_t axis = s_.outer; axis < s_.rank() && s_.rank() - s_.outer > 1; ++axis)
      columns = fmt::format("{} * {}", columns, extent(axis));
    stages(m_.items * pitch);
    line("const int item = get_local_id(0);");
    line("const {0} begin = ({0})get_group_id(0) * {1};", index(), m_.items);
    line("const int rows = (int)min((long){}, end - begin), columns = (int)({});", m_.items,
         columns);
    const auto all = [&](bool in) {
      if (!moves(in)) return;
      line("for (int e = item; e < rows * columns; e += {}) {{", m_.items);
      ++depth_;
      line("const int row = {};",
           s_.rank() - s_.outer == 1 && !m_.wide ? divided("e", s_.outer) : "e / columns");
      line("const int column = e - row * columns;");
      line("const {} point = begin + row;", index());
      indices("point", 0, s_.outer);
      indices("column", s_.outer, s_.rank());
      inner_ = true;
      move(in, fmt::format("row * {} + column", pitch));
      --depth_;
      line("}}");
    };
    all(true);
    line("barrier(CLK_LOCAL_MEM_FENCE);");
    line("if (item < rows) {{");
    base_ = ++depth_;
    line("const {} point = begin + item;", index());
    indices("point", 0, s_.outer);
    at_stage_ = fmt::format("item * {} + {}", pitch, flat_inner());
    for (const KernelSpec::Phase& p : s_.phases) phase(p);
    base_ = --depth_;
    line("}}");
    line("barrier(CLK_LOCAL_MEM_FENCE);");
    all(false);
  }

  /// A group has kSide x kSide points, of which an item takes every so many.
  void by_tiles() {
    constexpr std::uint32_t kSide = OpenClMapping::kSide;
    const std::size_t last = s_.rank() - 1, across = m_.across;
    stages(kSide * (kSide + 1));
    line("const int item = get_local_id(0);");
    line("const {0} columns = ({1} + {2}) / {3}, rows = ({4} + {2}) / {3};", index(), extent(last),
         kSide - 1, kSide, extent(across));
    line("const {0} group = ({0})get_group_id(0);", index());
    line("const {0} row0 = group / columns % rows * {1}, column0 = group % columns * {1};", index(),
         kSide);
    std::string rest = "group / columns / rows";
    for (std::size_t axis = last; axis-- > 0;) {
      if (axis == across) continue;
      line("const {} g{} = {};", index(), axis, rest);
      line("const {0} i{1} = g{1} % {2};", index(), axis, extent(axis));
      rest = fmt::format("g{} / {}", axis, extent(axis));
    }
    const auto all = [&](bool along_rows, auto&& what) {
      line("for (int e = item; e < {}; e += {}) {{", kSide * kSide, m_.items);
      ++depth_;
      line("const int row = e {0} {2}, column = e {1} {2};", along_rows ? '/' : '%',
           along_rows ? '%' : '/', kSide);
      line("const {0} i{1} = row0 + row, i{2} = column0 + column;", index(), across, last);
      line("if (i{} >= {} || i{} >= {}) continue;", across, extent(across), last, extent(last));
      what();
      --depth_;
      line("}}");
    };
    at_stage_ = fmt::format("row * {} + column", kSide + 1);
    if (moves(true)) all(false, [&] { move(true, at_stage_); });
    line("barrier(CLK_LOCAL_MEM_FENCE);");
    all(true, [&] {
      for (std::uint32_t i = 0; i < s_.body.size(); ++i) instr(i);
    });
    line("barrier(CLK_LOCAL_MEM_FENCE);");
    if (moves(false)) all(false, [&] { move(false, at_stage_); });
  }

  // ---- what goes through local memory ----

  bool is_staged(std::size_t o) const {
    return std::find(m_.staged.begin(), m_.staged.end(), o) != m_.staged.end();
  }
  /// Whether an operand comes from memory before the points are gone through, or goes there
  /// afterwards.
  bool moves(std::uint32_t o, bool in) const {
    for (const Instr& i : s_.body)
      if (i.integer == o && (i.prim == Prim::Load || i.prim == Prim::Store)) {
        if (in) return i.prim == Prim::Load;  // what is stored first is not read from memory
        if (i.prim == Prim::Store) return true;
      }
    return false;
  }
  bool moves(bool in) const {
    return std::any_of(m_.staged.begin(), m_.staged.end(),
                       [&](std::uint32_t o) { return moves(o, in); });
  }
  void stages(std::uint32_t elements) {
    for (const std::uint32_t o : m_.staged)
      line("__local {} l{}[{}];", moved_type(s_.operands[o].dtype), o, elements);
  }
  void move(bool in, const std::string& at) {
    for (const std::uint32_t o : m_.staged) {
      if (!moves(o, in)) continue;
      const std::string memory =
          fmt::format("((__global {}{}*)p{})[{}]", s_.operands[o].write ? "" : "const ",
                      moved_type(s_.operands[o].dtype), o, address(o));
      const std::string stage = fmt::format("l{}[{}]", o, at);
      line("{} = {};", in ? stage : memory, in ? memory : stage);
    }
  }

  /// Where a load or store finds an element.
  struct Place {
    std::string space, pointer, at;
  };
  Place place(std::size_t o) const {
    const bool inside = m_.kind == Kind::Tile || inner_;
    if (!inside || !is_staged(o)) return {"__global", fmt::format("p{}", o), address(o)};
    return {"__local", fmt::format("l{}", o), at_stage_};
  }

  // ---- phases ----

  void phase(const KernelSpec::Phase& p) {
    inner_ = p.inner;
    if (p.inner) {
      for (std::uint32_t i = p.begin; i < p.end; ++i)
        if (s_.body[i].prim == Prim::Reduce) start_reduce(i);
      if (m_.kind == Kind::Group)
        shared_loop();
      else
        for (std::size_t axis = s_.outer; axis < s_.rank(); ++axis) loop(axis);
      if (s_.outer == s_.rank() && m_.kind != Kind::Group) line("{{"), ++depth_;
    }
    const bool by_one = m_.kind == Kind::Group && !p.inner;
    bool waited = false;
    for (std::uint32_t i = p.begin; i < p.end; ++i) {
      if (by_one && s_.body[i].prim == Prim::Store) {
        // One item stores what all have computed, some of it from the same memory.
        if (!waited) line("barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);");
        waited = true;
        line("if (item == 0)");
      }
      instr(i);
    }
    while (depth_ > base_) --depth_, line("}}");
    for (std::uint32_t i = p.begin; i < p.end; ++i)
      if (is_long_sum(s_.body[i])) line("v{0} = v{0} + part{0};", i);
    if (m_.kind != Kind::Group) return;
    for (std::uint32_t i = p.begin; i < p.end; ++i)
      if (s_.body[i].prim == Prim::Reduce) join(i);
    line("barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);");
  }

  /// Local memory in which the items of a group join what they have reduced.
  void trees() {
    for (std::uint32_t i = 0; i < s_.body.size(); ++i) {
      if (s_.body[i].prim != Prim::Reduce) continue;
      const DType t = s_.body[s_.body[i].a].dtype;
      line("__local {} tree{}[{}];", type(t), i, m_.items);
      if (is_arg(static_cast<ReduceOp>(s_.body[i].integer)))
        line("__local long where{}[{}];", i, m_.items);
    }
  }

  /// The inner points in C order, an item taking every so many of them.
  void shared_loop() {
    const std::size_t first = s_.outer;
    std::string count = "1";
    const std::string length = s_.block ? fmt::format("(min({1}, (i0 + 1) * {0}) - i0 * {0})",
                                                      constant(s_.block), extent(first))
                                        : "";
    for (std::size_t axis = first; axis < s_.rank(); ++axis)
      count = fmt::format("{} * {}", count, s_.block && axis == first ? length : extent(axis));
    line("for ({0} at = item; at < {1}; at += {2}) {{", index(), count, m_.items);
    ++depth_;
    indices("at", first, s_.rank(), s_.block ? " + i0 * " + constant(s_.block) : "");
  }

  /// All items have what the group has reduced, joined in one order.
  void join(std::uint32_t i) {
    const Instr& in = s_.body[i];
    const auto op = static_cast<ReduceOp>(in.integer);
    const DType t = s_.body[in.a].dtype;
    const bool arg = is_arg(op);
    line("tree{0}[item] = {1}{0};", i, arg ? "best" : "v");
    if (arg) line("where{0}[item] = v{0};", i);
    line("barrier(CLK_LOCAL_MEM_FENCE);");
    line("for (int half_ = {} / 2; half_ > 0; half_ /= 2) {{", m_.items);
    ++depth_;
    line("if (item < half_) {{");
    ++depth_;
    line("const {0} a_ = tree{1}[item], b_ = tree{1}[item + half_];", type(t), i);
    if (arg) {
      line("const long x_ = where{0}[item], y_ = where{0}[item + half_];", i);
      const char* const nan_a = is_float(t) ? "isnan(a_)" : "0";
      const char* const nan_b = is_float(t) ? "isnan(b_)" : "0";
      line(
          "const int better_ = {1} ? !{0} || y_ < x_ : !{0} && (b_ {2} a_ || (b_ == a_ && y_ < "
          "x_));",
          nan_a, nan_b, op == ReduceOp::ArgMax ? '>' : '<');
      line("if (y_ >= 0 && (x_ < 0 || better_)) {{");
      line("  tree{}[item] = b_;", i);
      line("  where{}[item] = y_;", i);
      line("}}");
    } else {
      line("tree{}[item] = {};", i, expr_.arithmetic(kSteps[in.integer], t, "a_", "b_", ""));
    }
    --depth_;
    line("}}");
    line("barrier(CLK_LOCAL_MEM_FENCE);");
    --depth_;
    line("}}");
    line("v{0} = {1}{0}[0];", i, arg ? "where" : "tree");
  }

  /// A sum of floats is one of sums of a few: its error grows with the number of these.
  bool is_long_sum(const Instr& in) const {
    return in.prim == Prim::Reduce && static_cast<ReduceOp>(in.integer) == ReduceOp::Sum &&
           is_float(s_.body[in.a].dtype) && !expr_.is_pair(s_.body[in.a].dtype);
  }

  void loop(std::size_t axis) {
    if (s_.block && axis == s_.outer)
      line("for ({3} i{0} = i0 * {1}; i{0} < min({2}, (i0 + 1) * {1}); ++i{0}) {{", axis,
           constant(s_.block), extent(axis), index());
    else
      line("for ({2} i{0} = 0; i{0} < {1}; ++i{0}) {{", axis, extent(axis), index());
    ++depth_;
  }

  /// Inner axes have index 0 in outer phases.
  bool at_zero(std::size_t axis) const { return axis >= s_.outer && !inner_; }

  std::string address(std::size_t o) const {
    std::string out;
    for (std::size_t axis = 0; axis < s_.rank(); ++axis) {
      std::int64_t stride = s_.operands[o].strides[axis];
      if (stride == 0 || at_zero(axis)) continue;
      out += fmt::format("{}i{}", out.empty() ? "" : " + ", axis);
      if (stride == Operand::kRuntimeStride)
        out += fmt::format(" * s{}_{}", o, axis);
      else if (stride != 1)
        out += fmt::format(" * {}", constant(stride));
    }
    return out.empty() ? "0" : out;
  }

  /// Number of this point among axes [from, rank) in C order.
  std::string flat(std::size_t from) const {
    std::string out = "0";
    for (std::size_t axis = from; axis < s_.rank(); ++axis) {
      std::string at = at_zero(axis) ? "0" : fmt::format("i{}", axis);
      out = out == "0" ? at : fmt::format("({} * {} + {})", out, extent(axis), at);
    }
    return out;
  }

  /// Of the point among the inner ones.
  std::string flat_inner() {
    inner_ = true;
    return flat(s_.outer);
  }

  std::string load(std::uint32_t i) const {
    const Instr& in = s_.body[i];
    const Place from = place(in.integer);
    const std::string element = m_.vector > 1 && is_vector(s_, s_.operands[in.integer])
                                    ? fmt::format("w{}.s{}", i, lane_)
                                    : fmt::format("{}[{}]", from.pointer, from.at);
    switch (in.dtype) {
      case DType::F16:
        return fmt::format("vload_half({}, ({} const half*){})", from.at, from.space, from.pointer);
      case DType::BF16: return fmt::format("as_float((uint){} << 16)", element);
      case DType::Bool: return element + " != 0";
      default: return element;
    }
  }
  /// The bits of a value of 16 bits.
  std::string load_bits(std::uint32_t i) const {
    const Instr& in = s_.body[i];
    const Place from = place(in.integer);
    if (m_.vector > 1 && is_vector(s_, s_.operands[in.integer]))
      return fmt::format("w{}.s{}", i, lane_);
    return fmt::format("(({} const ushort*){})[{}]", from.space, from.pointer, from.at);
  }

  void store(std::uint32_t i) {
    const Instr& in = s_.body[i];
    const Place to = place(in.integer);
    const std::string element = m_.vector > 1 && is_vector(s_, s_.operands[in.integer])
                                    ? fmt::format("w{}.s{}", i, lane_)
                                    : fmt::format("{}[{}]", to.pointer, to.at);
    // A value of 16 bits that is only moved keeps every bit: a nan would get another one through a
    // float.
    const bool is_short = size_of(in.dtype) == 2 && is_float(in.dtype);
    if (is_short && s_.body[in.a].prim == Prim::Load) {
      if (in.dtype == DType::F16)
        line("(({} ushort*){})[{}] = h{};", to.space, to.pointer, to.at, in.a);
      else
        line("{} = h{};", element, in.a);
    } else if (in.dtype == DType::F16) {
      line("vstore_half_rte(v{}, {}, ({} half*){});", in.a, to.at, to.space, to.pointer);
    } else if (in.dtype == DType::BF16) {
      line("{} = {}(v{});", element, expr_.helper("bfloat"), in.a);
    } else {
      line("{} = v{};", element, in.a);
    }
  }

  void instr(std::uint32_t i) {
    const Instr& in = s_.body[i];
    std::string value;
    switch (in.prim) {
      case Prim::Store: return store(i);
      case Prim::Reduce: return fold(i);
      case Prim::Load:
        value = load(i);
        if (size_of(in.dtype) == 2 && is_float(in.dtype))
          line("const ushort h{} = {};", i, load_bits(i));
        break;
      case Prim::Index: value = at_zero(in.integer) ? "0" : fmt::format("i{}", in.integer); break;
      case Prim::FlatIndex: value = flat(s_.block ? 1 : 0); break;
      default: value = expr_.expr(in);
    }
    line("const {} v{} = {};", type(in.dtype), i, value);
  }

  void start_reduce(std::uint32_t i) {
    const Instr& in = s_.body[i];
    auto op = static_cast<ReduceOp>(in.integer);
    DType t = s_.body[in.a].dtype;
    if (is_arg(op)) {
      line("long v{} = -1;", i);
      line("{} best{} = 0;", opencl_type(t), i);
    } else {
      line("{} v{} = {};", type(t), i,
           expr_.is_pair(t) ? fmt::format("(float2)({}, 0)", identity(op, DType::F32))
                            : identity(op, t));
      if (is_long_sum(in)) line("{} part{} = 0; int count{} = 0;", opencl_type(t), i, i);
    }
  }

  /// The first NaN wins an ArgMax or ArgMin, else the first of equal values.
  void fold(std::uint32_t i) {
    const Instr& in = s_.body[i];
    auto op = static_cast<ReduceOp>(in.integer);
    DType t = s_.body[in.a].dtype;
    std::string x = fmt::format("v{}", in.a), sum = fmt::format("v{}", i);
    if (is_arg(op)) {
      std::string nan = is_float(t) ? fmt::format(" || (isnan({}) && !isnan(best{}))", x, i) : "";
      line("if (v{0} < 0{1} || {2} {3} best{0}) {{", i, nan, x, op == ReduceOp::ArgMax ? '>' : '<');
      line("  best{} = {};", i, x);
      line("  v{} = {};", i, flat(s_.outer));
      line("}}");
      return;
    }
    if (is_long_sum(in)) {
      line("part{0} = part{0} + {1};", i, x);
      line("if (++count{0} == {1}) {{ v{0} = v{0} + part{0}; part{0} = 0; count{0} = 0; }}", i,
           kFew);
      return;
    }
    line("{} = {};", sum, expr_.arithmetic(kSteps[in.integer], t, sum, x, ""));
  }

  /// By ReduceOp.
  static constexpr Prim kSteps[] = {Prim::Add, Prim::Mul, Prim::Max,
                                    Prim::Min, Prim::Max, Prim::Min};

  const KernelSpec& s_;
  const OpenClMapping& m_;
  const std::vector<std::uint32_t> divisors_;
  OpenClExpr expr_;
  std::string out_;
  int depth_ = 1, base_ = 1;  // the base is where variables are that live through all phases
  bool inner_ = false;
  int lane_ = 0;          // of vectors
  std::string at_stage_;  // where a point is in local memory
};

}  // namespace

std::string opencl_name(const KernelSpec& spec) {
  std::string out = "snug_" + (spec.name.empty() ? "kernel" : spec.name);
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return out;
}

OpenClText emit_opencl(const KernelSpec& spec, const OpenClMapping& mapping) {
  return Emitter(spec, mapping).emit();
}

}  // namespace snug
