#include "kernel/kernel_spec.h"

#include "base/error.h"

namespace snug {
namespace {

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

bool is_unary_or_binary_same(Prim p) { return p >= Prim::Add && p <= Prim::Atanh; }
bool is_comparison(Prim p) { return p >= Prim::Lt && p <= Prim::Ne; }
bool is_arg_reduce(ReduceOp r) { return r == ReduceOp::ArgMax || r == ReduceOp::ArgMin; }

}  // namespace

std::string serialise(const KernelSpec& s) {
  std::string out;
  put<std::uint8_t>(out, s.rank());
  for (std::int64_t e : s.extents) put(out, e);
  put(out, s.outer);
  put(out, s.block);
  put<std::uint8_t>(out, s.strict);
  put<std::uint32_t>(out, s.operands.size());
  for (const KernelSpec::Operand& o : s.operands) {
    put(out, o.dtype);
    put<std::uint8_t>(out, o.write);
    put(out, o.may_alias);
    for (std::int64_t stride : o.strides) put(out, stride);
  }
  put<std::uint32_t>(out, s.body.size());
  for (const Instr& in : s.body) {
    put(out, in.prim);
    put(out, in.dtype);
    int n = operand_count(in.prim);
    put(out, n > 0 ? in.a : 0u);
    put(out, n > 1 ? in.b : 0u);
    put(out, n > 2 ? in.c : 0u);
    put(out, in.integer);
    put(out, in.number);
  }
  put<std::uint32_t>(out, s.phases.size());
  for (const KernelSpec::Phase& p : s.phases) {
    put(out, p.begin);
    put(out, p.end);
    put<std::uint8_t>(out, p.inner);
  }
  return out;
}

namespace {

std::string print_axes(std::span<const std::int64_t> values, std::int64_t unknown) {
  std::string out;
  for (std::int64_t v : values)
    out += (out.empty() ? "" : ", ") + (v == unknown ? std::string("?") : std::to_string(v));
  return out;
}

std::string print_instr(const Instr& in) {
  std::string out = name_of(in.prim);
  switch (in.prim) {
    case Prim::Const:
      return is_float(in.dtype) ? fmt::format("{}", in.number) : fmt::format("{}", in.integer);
    case Prim::Index:
    case Prim::Arg: return fmt::format("{} {}", out, in.integer);
    case Prim::Load: return fmt::format("load [{}]", in.integer);
    case Prim::Store: return fmt::format("store [{}] = %{}", in.integer, in.a);
    case Prim::Reduce:
      return fmt::format("{} %{}", name_of(static_cast<ReduceOp>(in.integer)), in.a);
    default: break;
  }
  if (in.prim == Prim::Philox) out += fmt::format(".{}", in.integer);
  const std::uint32_t operands[] = {in.a, in.b, in.c};
  for (int i = 0; i < operand_count(in.prim); ++i) out += fmt::format(" %{}", operands[i]);
  return out;
}

}  // namespace

std::string print(const KernelSpec& s) {
  std::span<const std::int64_t> extents = s.extents;
  std::string out = fmt::format("kernel {}: outer ({})", s.name.empty() ? "unnamed" : s.name,
                                print_axes(extents.first(s.outer), KernelSpec::kRuntime));
  if (s.rank() > s.outer)
    out += fmt::format(", inner ({})", print_axes(extents.subspan(s.outer), KernelSpec::kRuntime));
  if (s.block) out += fmt::format(", blocks of {}", s.block);
  if (s.strict) out += ", strict";
  out += '\n';
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    const KernelSpec::Operand& o = s.operands[i];
    out += fmt::format("  [{}] {} {} strides ({})", i, o.write ? "write" : "read", name_of(o.dtype),
                       print_axes(o.strides, KernelSpec::Operand::kRuntimeStride));
    if (o.may_alias >= 0) out += fmt::format(" may be [{}]", o.may_alias);
    out += '\n';
  }
  for (const KernelSpec::Phase& p : s.phases) {
    out += p.inner ? "  for each inner point\n" : "  once\n";
    for (std::uint32_t i = p.begin; i < p.end; ++i) {
      const Instr& in = s.body[i];
      if (in.prim == Prim::Store)
        out += fmt::format("    {}\n", print_instr(in));
      else
        out += fmt::format("    %{} = {} {}\n", i, short_name_of(in.dtype), print_instr(in));
    }
  }
  return out;
}

namespace {

/// The checks of one spec; every message is preceded by the listing's name.
struct Verifier {
  const KernelSpec& s;
  std::vector<std::uint32_t> phase_of;

  template <class... T>
  void require(bool ok, fmt::format_string<T...> format, T&&... args) const {
    if (ok) return;
    internal_error("kernel/kernel_spec.cpp",
                   fmt::format("{}\n{}", fmt::format(format, std::forward<T>(args)...), print(s)));
  }

  void loops() const {
    require(s.outer <= s.rank(), "{} outer axes of {}", s.outer, s.rank());
    for (std::int64_t e : s.extents) require(e >= 0 || e == KernelSpec::kRuntime, "extent {}", e);
    require(s.block >= 0, "block {}", s.block);
    require(!s.block || (s.outer >= 1 && s.rank() > s.outer), "blocks need an inner axis");
  }

  void operands() const {
    for (std::size_t i = 0; i < s.operands.size(); ++i) {
      const KernelSpec::Operand& o = s.operands[i];
      require(o.strides.size() == s.rank(), "operand {} has {} strides", i, o.strides.size());
      if (o.may_alias < 0) continue;
      require(o.write && static_cast<std::size_t>(o.may_alias) < i, "operand {} aliases {}", i,
              o.may_alias);
      const KernelSpec::Operand& read = s.operands[o.may_alias];
      require(!read.write && read.strides == o.strides, "operand {} aliases unlike {}", i,
              o.may_alias);
    }
  }

  void phases() {
    std::uint32_t at = 0;
    for (std::uint32_t p = 0; p < s.phases.size(); ++p) {
      require(s.phases[p].begin == at && s.phases[p].end >= at, "phase {} begins at {}", p,
              s.phases[p].begin);
      for (; at < s.phases[p].end && at < s.body.size(); ++at) phase_of.push_back(p);
    }
    require(at == s.body.size() && phase_of.size() == at, "phases end at {} of {}", at,
            s.body.size());
  }

  void visible(std::uint32_t i, std::uint32_t operand) const {
    require(operand < i, "%{} uses %{}", i, operand);
    bool reduce = s.body[operand].prim == Prim::Reduce;
    bool same = phase_of[operand] == phase_of[i];
    bool lasting = reduce || !s.phases[phase_of[operand]].inner;
    require(same ? !reduce : lasting, "%{} is not visible at %{}", operand, i);
    require(s.body[operand].prim != Prim::Store, "%{} uses a store", i);
  }

  void instr(std::uint32_t i) const {
    const Instr& in = s.body[i];
    const std::uint32_t operands[] = {in.a, in.b, in.c};
    int count = operand_count(in.prim);
    for (int k = 0; k < count; ++k) visible(i, operands[k]);
    auto type = [&](int k) { return s.body[operands[k]].dtype; };
    auto all_of = [&](DType t, int from = 0) {
      for (int k = from; k < count; ++k)
        if (type(k) != t) return false;
      return true;
    };
    bool ok = true;
    Prim p = in.prim;
    if (p == Prim::Arg) {
      ok = false;
    } else if (p == Prim::Index) {
      ok = in.dtype == DType::I64 && in.integer >= 0 &&
           in.integer < static_cast<std::int64_t>(s.rank());
    } else if (p == Prim::FlatIndex) {
      ok = in.dtype == DType::I64;
    } else if (p == Prim::Load || p == Prim::Store) {
      ok = in.integer >= 0 && in.integer < static_cast<std::int64_t>(s.operands.size());
      require(ok, "%{} has operand {}", i, in.integer);
      const KernelSpec::Operand& o = s.operands[in.integer];
      ok = o.dtype == in.dtype && (p == Prim::Load || (o.write && type(0) == in.dtype));
    } else if (p == Prim::Reduce) {
      ok = s.phases[phase_of[i]].inner && in.integer >= 0 &&
           in.integer <= static_cast<int>(ReduceOp::ArgMin);
      auto r = static_cast<ReduceOp>(in.integer);
      if (is_arg_reduce(r))
        ok = ok && in.dtype == DType::I64;
      else if (r == ReduceOp::Any || r == ReduceOp::All)
        ok = ok && in.dtype == DType::Bool && type(0) == DType::Bool;
      else
        ok = ok && type(0) == in.dtype;
    } else if (p == Prim::IsNan || p == Prim::IsInf) {
      ok = in.dtype == DType::Bool && is_float(type(0));
    } else if (is_unary_or_binary_same(p)) {
      ok = all_of(in.dtype) && (p < Prim::Exp || is_float(in.dtype));
    } else if (is_comparison(p)) {
      ok = in.dtype == DType::Bool && all_of(type(0));
    } else if (p == Prim::Shl || p == Prim::Shr) {
      ok = type(0) == in.dtype && is_discrete(in.dtype) && is_discrete(type(1));
    } else if (p >= Prim::And && p <= Prim::Not) {
      ok = all_of(in.dtype) && is_discrete(in.dtype);
    } else if (p == Prim::Select) {
      ok = type(0) == DType::Bool && all_of(in.dtype, 1);
    } else if (p == Prim::Philox) {
      ok = in.dtype == DType::U32 && all_of(DType::U64) && in.integer >= 0 && in.integer < 4;
    }
    require(ok, "%{} = {} {} is ill-formed", i, short_name_of(in.dtype), print_instr(in));
  }
};

}  // namespace

void verify(const KernelSpec& spec) {
  Verifier v{spec, {}};
  v.loops();
  v.operands();
  v.phases();
  for (std::uint32_t i = 0; i < spec.body.size(); ++i) v.instr(i);
}

}  // namespace snug
