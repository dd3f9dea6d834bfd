#include "rewrite/formula.h"

#include <cctype>
#include <cmath>
#include <cstdlib>

namespace snug {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Formula parse() {
    std::uint32_t left = sum();
    if (!take('-') || !take('>')) bad("expected ->");
    std::size_t known = formula_.variables.size();
    formula_.right = sum();
    skip();
    if (at_ != text_.size()) bad("unexpected text");
    if (formula_.variables.size() != known) bad("a variable that the left side does not bind");
    if (formula_.terms[left].kind != Term::Kind::Op) bad("the left side must be an op");
    commute(left);
    return std::move(formula_);
  }

 private:
  [[noreturn]] void bad(std::string_view what) const {
    internal_error("rewrite/formula.cpp", fmt::format("\"{}\" at {}: {}", text_, at_, what));
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool peek(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    ++at_;
    return true;
  }
  bool arrow() const { return text_.substr(at_, 2) == "->"; }
  std::uint32_t push(Term term) {
    formula_.terms.push_back(std::move(term));
    return static_cast<std::uint32_t>(formula_.terms.size() - 1);
  }
  std::uint32_t op(std::string_view name, std::vector<std::uint32_t> operands) {
    return push({Term::Kind::Op, &find_op(name), 0, 0, std::move(operands)});
  }

  std::uint32_t sum() {
    std::uint32_t a = product();
    for (;;) {
      if (take('+')) {
        a = op("add", {a, product()});
      } else if (peek('-') && !arrow()) {
        take('-');
        a = op("sub", {a, product()});
      } else {
        return a;
      }
    }
  }
  std::uint32_t product() {
    std::uint32_t a = unary();
    for (;;) {
      if (take('*'))
        a = op("mul", {a, unary()});
      else if (take('/'))
        a = op("div", {a, unary()});
      else
        return a;
    }
  }
  std::uint32_t unary() {
    if (!take('-')) return primary();
    skip();
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])))
      return push({Term::Kind::Number, nullptr, -number(), 0, {}});
    return op("neg", {unary()});
  }
  double number() {
    const char* begin = text_.data() + at_;
    char* end = nullptr;
    double value = std::strtod(begin, &end);
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }
  std::uint32_t primary() {
    if (take('(')) {
      std::uint32_t inner = sum();
      if (!take(')')) bad("expected )");
      return inner;
    }
    skip();
    if (at_ >= text_.size()) bad("the text ends here");
    if (std::isdigit(static_cast<unsigned char>(text_[at_])))
      return push({Term::Kind::Number, nullptr, number(), 0, {}});
    std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    std::string_view name = text_.substr(begin, at_ - begin);
    if (name.empty()) bad("expected a name");
    if (take('(')) {
      std::vector<std::uint32_t> operands;
      do operands.push_back(sum());
      while (take(','));
      if (!take(')')) bad("expected )");
      return op(name, std::move(operands));
    }
    bool rest = text_.substr(at_, 2) == "..";
    if (rest) at_ += 2;
    return push({rest ? Term::Kind::Rest : Term::Kind::Variable, nullptr, 0, variable(name), {}});
  }
  std::uint32_t variable(std::string_view name) {
    for (std::uint32_t k = 0; k < formula_.variables.size(); ++k)
      if (formula_.variables[k] == name) return k;
    formula_.variables.emplace_back(name);
    return static_cast<std::uint32_t>(formula_.variables.size() - 1);
  }

  bool equal(std::uint32_t a, std::uint32_t b) const {
    const Term &x = formula_.terms[a], &y = formula_.terms[b];
    if (x.kind != y.kind || x.op != y.op || x.variable != y.variable ||
        x.operands.size() != y.operands.size() || x.number != y.number)
      return false;
    for (std::size_t k = 0; k < x.operands.size(); ++k)
      if (!equal(x.operands[k], y.operands[k])) return false;
    return true;
  }

  /// All orders of commutative operands below `root`, as copies of its terms.
  std::vector<std::uint32_t> orders(std::uint32_t root) {
    Term term = formula_.terms[root];
    std::vector<std::vector<std::uint32_t>> choices{{}};
    for (std::uint32_t operand : term.operands) {
      std::vector<std::vector<std::uint32_t>> longer;
      for (std::uint32_t variant : orders(operand))
        for (std::vector<std::uint32_t> c : choices) {
          c.push_back(variant);
          longer.push_back(std::move(c));
        }
      choices = std::move(longer);
    }
    bool swap = term.op && has(*term.op, kCommutative) && term.operands.size() == 2 &&
                !equal(term.operands[0], term.operands[1]);
    std::vector<std::uint32_t> out;
    for (const auto& c : choices) {
      Term copy = term;
      copy.operands = c;
      out.push_back(push(copy));
      if (!swap) continue;
      std::swap(copy.operands[0], copy.operands[1]);
      out.push_back(push(copy));
    }
    return out;
  }
  void commute(std::uint32_t left) { formula_.left = orders(left); }

  std::string_view text_;
  std::size_t at_ = 0;
  Formula formula_;
};

}  // namespace

Formula parse_formula(std::string_view text) { return Parser(text).parse(); }

}  // namespace snug
