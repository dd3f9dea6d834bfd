#pragma once
#include <vector>

#include "kernel/program.h"

namespace snug {

/// An instruction of a kernel to be. Times order the phases: even times run over the inner axes,
/// odd ones once per point of the outer axes; -1 comes before the first inner phase.
struct TimedInstr {
  Instr instr;
  int time;
};

/// An operand of a kernel whose sizes are still expressions.
struct BodyOperand {
  Value root;
  SizeId offset;
  DType dtype;
  bool write;
  std::vector<SizeId> strides;  // per kernel axis
  bool operator==(const BodyOperand&) const = default;
};

/// One instruction with its operands renamed.
Instr renamed_operands(Instr in, const std::vector<std::uint32_t>& to);
/// a * b + c becomes one instruction, rounded once: fixed here, so that no device and no plan
/// decides it.
void contract_fma(std::vector<TimedInstr>& body);
/// A function (exp, tanh, ...) that two inner phases need is computed in the first one only and
/// kept in what the second one writes: softmax.
void keep_functions(std::vector<TimedInstr>& body, const std::vector<BodyOperand>& operands);
/// Sorts by time, drops what nothing stores, and numbers the phases.
void finish_body(KernelSpec& spec, const std::vector<TimedInstr>& body);
/// Operands that are read come first: a written one may take over an earlier one.
void reads_first(std::vector<TimedInstr>& body, std::vector<BodyOperand>& operands);
/// Drops operands that the code does not touch.
void prune_operands(std::vector<TimedInstr>& code, std::vector<BodyOperand>& operands);

}  // namespace snug
