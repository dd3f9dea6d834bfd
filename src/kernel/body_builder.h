#pragma once
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "kernel/cluster.h"
#include "kernel/kernel_body.h"

namespace snug {

/// Writes the instructions of a cluster. Values of inner phases are computed again in later ones,
/// which costs less than memory.
class BodyBuilder {
 public:
  BodyBuilder(const Program& program, const Cluster& cluster, SizeTable& sizes);

  std::vector<int> axes;    // cluster axis per kernel axis, outer ones first
  std::uint32_t outer = 0;  // number of outer axes
  bool inner = false;       // there are inner axes
  std::vector<BodyOperand> operands;
  std::vector<TimedInstr> body;
  bool reduces = false;  // there is a Reduce

  /// Computes a member and stores it.
  void store(std::uint32_t member);

 private:
  using Key = std::tuple<std::uint32_t, int, std::vector<int>>;  // node, time, axes

  void find_times();
  int time_of(std::uint32_t member) const { return inner ? times_.at(member) : -1; }
  bool covers_reduced(const AxisMap& map) const;
  std::uint32_t base_of(Value v) const;

  // All of these give the number of an instruction.
  std::uint32_t push(Instr in, int time);
  std::uint32_t member(std::uint32_t id, int time);
  std::uint32_t reduction(std::uint32_t id, const Node& node, int time);
  std::uint32_t elementwise(const Node& node, const AxisMap& loop, int time);
  std::uint32_t value(Value v, AxisMap loop, int time);
  std::uint32_t load(const Place& place, const Type& type, const AxisMap& loop, int time);

  std::uint32_t operand(Value root, const Layout& layout, const Type& type, const AxisMap& loop,
                        bool write);

  const Program& p_;
  const Graph& g_;
  const Cluster& c_;
  SizeTable& sizes_;
  std::vector<int> kernel_axis_;  // per cluster axis; -1 for axes of size 1
  std::unordered_map<std::uint32_t, int> times_;
  std::map<Key, std::uint32_t> memo_;
};

}  // namespace snug
