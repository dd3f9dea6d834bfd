#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "expr/op_def.h"

namespace snug {

/// One symbol of a formula. `log(1 + x)` is three: log, add, 1 and x.
struct Term {
  enum class Kind : std::uint8_t {
    Op,
    Variable,  // any value; the same one wherever the name stands
    Rest,      // `i..`: all further operands
    Number,    // a constant of that value, 0-d or stretched; 0 and -0 are different
  };
  Kind kind = Kind::Variable;
  const OpDef* op = nullptr;
  double number = 0;
  std::uint32_t variable = 0;           // Variable and Rest: index into Formula::variables
  std::vector<std::uint32_t> operands;  // indices into Formula::terms
};

/// A rule read from its text: "log(1 + x) -> log1p(x)". Names before parentheses are ops, + - * /
/// and the unary minus are add, sub, mul, div and neg, other names are variables.
struct Formula {
  std::vector<Term> terms;
  std::vector<std::uint32_t> left;  // the left side, once per order of commutative operands
  std::uint32_t right = 0;
  std::vector<std::string> variables;

  const OpDef& root() const { return *terms[left[0]].op; }
};

/// An internal error names the place in the text that cannot be read.
Formula parse_formula(std::string_view text);

}  // namespace snug
