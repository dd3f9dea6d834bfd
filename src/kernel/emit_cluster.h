#pragma once
#include <vector>

#include "kernel/cluster.h"

namespace snug {

/// Turns clusters into kernels and their tasks.
class ClusterEmitter {
 public:
  ClusterEmitter(Program& program, const std::vector<bool>& memory, bool strict);
  void emit(const Cluster& cluster);

 private:
  Program& program_;
  const std::vector<bool>& memory_;  // per node: has memory
  bool strict_;
};

}  // namespace snug
