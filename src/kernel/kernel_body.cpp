#include "kernel/kernel_body.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

namespace snug {
namespace {

InlineVec<std::uint32_t, 3> operands_of(const Instr& in) {
  InlineVec<std::uint32_t, 3> operands{in.a, in.b, in.c};
  operands.resize(static_cast<std::size_t>(operand_count(in.prim)));
  return operands;
}

}  // namespace

Instr renamed_operands(Instr in, const std::vector<std::uint32_t>& to) {
  int n = operand_count(in.prim);
  if (n > 0) in.a = to[in.a];
  if (n > 1) in.b = to[in.b];
  if (n > 2) in.c = to[in.c];
  return in;
}

void contract_fma(std::vector<TimedInstr>& body) {
  std::vector<int> uses(body.size(), 0);
  for (const TimedInstr& t : body)
    for (std::uint32_t operand : operands_of(t.instr)) ++uses[operand];
  for (auto& t : body) {
    if (t.instr.prim != Prim::Add || !is_float(t.instr.dtype)) continue;
    for (auto [product, other] : {std::pair{t.instr.a, t.instr.b}, {t.instr.b, t.instr.a}}) {
      const auto& m = body[product];
      if (m.instr.prim != Prim::Mul || uses[product] != 1 || m.time != t.time) continue;
      t.instr = {Prim::Fma, t.instr.dtype, m.instr.a, m.instr.b, other};
      break;
    }
  }
}

namespace {

/// Per instruction: the first one that computes the same, in whatever phase.
std::vector<std::uint32_t> find_equal(const std::vector<TimedInstr>& body,
                                      const std::vector<BodyOperand>& operands) {
  using Key = std::tuple<Prim, DType, std::int64_t, std::uint64_t, std::uint32_t, std::uint32_t,
                         std::uint32_t>;
  std::map<Key, std::uint32_t> seen;
  std::vector<std::uint32_t> first(body.size());
  for (std::uint32_t i = 0; i < body.size(); ++i) {
    first[i] = i;
    const Instr in = renamed_operands(body[i].instr, first);
    if (in.prim == Prim::Store || in.prim == Prim::Reduce) continue;
    if (in.prim == Prim::Load && operands[static_cast<std::size_t>(in.integer)].write) continue;
    const int n = operand_count(in.prim);
    Key key{in.prim,          in.dtype,
            in.integer,       std::bit_cast<std::uint64_t>(in.number),
            n > 0 ? in.a : 0, n > 1 ? in.b : 0,
            n > 2 ? in.c : 0};
    first[i] = seen.emplace(key, i).first->second;
  }
  return first;
}

/// Per operand: the time of its only store in an inner phase; -1 if it has several, or is read.
std::vector<int> find_single_stores(const std::vector<TimedInstr>& body, std::size_t operands) {
  std::vector<int> stored(operands, -1), touched(operands, 0);
  for (const TimedInstr& t : body) {
    if (t.instr.prim != Prim::Load && t.instr.prim != Prim::Store) continue;
    const auto o = static_cast<std::size_t>(t.instr.integer);
    ++touched[o];
    stored[o] = t.instr.prim == Prim::Store && t.time % 2 == 0 ? t.time : -1;
  }
  for (std::size_t o = 0; o < operands; ++o)
    if (touched[o] != 1) stored[o] = -1;
  return stored;
}

}  // namespace

void keep_functions(std::vector<TimedInstr>& body, const std::vector<BodyOperand>& operands) {
  const std::vector<std::uint32_t> first = find_equal(body, operands);
  std::vector<int> room = find_single_stores(body, operands.size());
  const std::size_t count = body.size();
  for (std::uint32_t i = 0; i < count; ++i) {
    const TimedInstr later = body[i], before = body[first[i]];
    const DType dtype = later.instr.dtype;
    if (!is_function(later.instr.prim) || (dtype != DType::F32 && dtype != DType::F64)) continue;
    if (later.time % 2 != 0 || before.time % 2 != 0 || before.time >= later.time) continue;
    for (std::size_t o = 0; o < operands.size(); ++o) {
      if (room[o] != later.time || operands[o].dtype != dtype) continue;
      room[o] = -1;
      Instr store{Prim::Store, dtype, first[i]}, load{Prim::Load, dtype};
      store.integer = load.integer = static_cast<std::int64_t>(o);
      body[i].instr = load;
      body.push_back({store, before.time});
      break;
    }
  }
}

void finish_body(KernelSpec& spec, const std::vector<TimedInstr>& body) {
  std::vector<bool> live(body.size(), false);
  for (std::size_t i = body.size(); i-- > 0;) {
    const Instr& in = body[i].instr;
    if (in.prim == Prim::Store) live[i] = true;
    if (!live[i]) continue;
    for (std::uint32_t operand : operands_of(in)) live[operand] = true;
  }
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < body.size(); ++i)
    if (live[i]) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    bool sa = body[a].instr.prim == Prim::Store, sb = body[b].instr.prim == Prim::Store;
    return std::pair(body[a].time, sa) < std::pair(body[b].time, sb);
  });
  std::vector<std::uint32_t> renamed(body.size());
  int time = INT32_MIN;
  for (std::uint32_t i : order) {
    if (body[i].time != time) {
      time = body[i].time;
      std::uint32_t at = static_cast<std::uint32_t>(spec.body.size());
      spec.phases.push_back({at, at, time % 2 == 0});
    }
    renamed[i] = static_cast<std::uint32_t>(spec.body.size());
    spec.body.push_back(renamed_operands(body[i].instr, renamed));
    spec.phases.back().end = static_cast<std::uint32_t>(spec.body.size());
  }
}

void reads_first(std::vector<TimedInstr>& body, std::vector<BodyOperand>& operands) {
  std::vector<std::uint32_t> order;
  for (bool write : {false, true})
    for (std::uint32_t i = 0; i < operands.size(); ++i)
      if (operands[i].write == write) order.push_back(i);
  std::vector<std::int64_t> number(operands.size());
  std::vector<BodyOperand> sorted;
  for (std::uint32_t i : order) {
    number[i] = static_cast<std::int64_t>(sorted.size());
    sorted.push_back(std::move(operands[i]));
  }
  operands = std::move(sorted);
  for (auto& t : body)
    if (t.instr.prim == Prim::Load || t.instr.prim == Prim::Store)
      t.instr.integer = number[static_cast<std::size_t>(t.instr.integer)];
}

void prune_operands(std::vector<TimedInstr>& code, std::vector<BodyOperand>& operands) {
  std::vector<std::int64_t> number(operands.size(), -1);
  std::vector<BodyOperand> kept;
  for (auto& t : code) {
    if (t.instr.prim != Prim::Load && t.instr.prim != Prim::Store) continue;
    auto& to = number[static_cast<std::size_t>(t.instr.integer)];
    if (to < 0) {
      to = static_cast<std::int64_t>(kept.size());
      kept.push_back(operands[static_cast<std::size_t>(t.instr.integer)]);
    }
    t.instr.integer = to;
  }
  operands = std::move(kept);
}

}  // namespace snug
