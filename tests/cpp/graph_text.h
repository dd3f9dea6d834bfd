#pragma once
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/grad.h"
#include "graph/capture.h"
#include "reference/interpret_graph.h"

/// Small graphs from text, for golden files and tests:
///
///   x: float32 (n, m)              an input; `1` is a broadcastable axis
///   y = tanh(x) + 1.0              a name
///   return sum(y, axis=[1]), shape(y)
///
/// Calls are ops of the table, relu(x) and grad(cost, x); operands of elementwise ops are aligned
/// at the last axis, windows of pools are 2 x 2. 1 is an int8, 1.0 a float32, true a bool.
namespace snug::testing {

struct TextGraph {
  Graph graph;
  std::vector<Dims> shapes;  // of the inputs, for numbers
};

class TextParser {
 public:
  explicit TextParser(std::string text) : text_(std::move(text)) {}

  TextGraph parse() {
    std::vector<Expr> outputs;
    std::size_t begin = 0;
    while (begin < text_.size()) {
      std::size_t end = std::min(text_.find('\n', begin), text_.size());
      line_ = text_.substr(begin, end - begin);
      at_ = 0;
      begin = end + 1;
      skip();
      if (at_ == line_.size()) continue;
      if (std::size_t colon = line_.find(": "); colon != std::string::npos) {
        declare(line_.substr(0, colon), line_.substr(colon + 2));
      } else if (line_.rfind("return ", 0) == 0) {
        at_ = 7;
        do outputs.push_back(sum());
        while (take(','));
      } else {
        std::string name = word();
        if (!take('=')) bad("expected =");
        names_[name] = sum();
      }
    }
    return {capture({inputs_, outputs, {}, {}, false}).graph, shapes_};
  }

 private:
  [[noreturn]] void bad(const std::string& what) {
    throw std::runtime_error(line_ + " at " + std::to_string(at_) + ": " + what);
  }
  void skip() {
    while (at_ < line_.size() && line_[at_] == ' ') ++at_;
  }
  bool peek(char c) {
    skip();
    return at_ < line_.size() && line_[at_] == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    ++at_;
    return true;
  }
  std::string word() {
    skip();
    std::size_t begin = at_;
    while (at_ < line_.size() &&
           (std::isalnum(static_cast<unsigned char>(line_[at_])) || line_[at_] == '_'))
      ++at_;
    return line_.substr(begin, at_ - begin);
  }

  void declare(const std::string& name, const std::string& type) {
    std::size_t space = type.find(' ');
    auto dtype = dtype_from_name(type.substr(0, space));
    if (!dtype) bad("no dtype " + type);
    TensorType t;
    t.dtype = *dtype;
    Dims shape;
    std::string dims = type.substr(space + 1), part;
    for (char c : dims) {
      if (c == '(' || c == ' ') continue;
      if (c != ',' && c != ')') {
        part += c;
        continue;
      }
      if (part.empty()) continue;
      if (part == "1") t.broadcast |= static_cast<std::uint8_t>(1u << t.shape.size());
      t.shape.push_back(part == "1" ? 1 : -1);
      static const std::map<std::string, std::int64_t> sizes{
          {"n", 3}, {"m", 4}, {"k", 2}, {"1", 1}};
      shape.push_back(sizes.at(part));
      part.clear();
    }
    Expr x = input(t, name);
    names_[name] = x;
    inputs_.push_back(x);
    shapes_.push_back(shape);
  }

  static Expr align(const Expr& x, int ndim) {
    if (x.ndim() == ndim) return x;
    Attrs::Ints pattern(static_cast<std::size_t>(ndim - x.ndim()), -1);
    for (int axis = 0; axis < x.ndim(); ++axis) pattern.push_back(axis);
    return apply(find_op("dimshuffle"), {x}, {{"pattern", pattern}});
  }
  static Expr elementwise(const std::string& op, std::vector<Expr> x) {
    int ndim = 0;
    for (const Expr& e : x) ndim = std::max(ndim, e.ndim());
    for (Expr& e : x) e = align(e, ndim);
    return apply(find_op(op), std::move(x));
  }

  Expr sum() {
    Expr a = product();
    for (;;) {
      if (take('+'))
        a = elementwise("add", {a, product()});
      else if (take('-'))
        a = elementwise("sub", {a, product()});
      else
        return a;
    }
  }
  Expr product() {
    Expr a = unary();
    for (;;) {
      if (take('*'))
        a = elementwise("mul", {a, unary()});
      else if (take('/'))
        a = elementwise("div", {a, unary()});
      else
        return a;
    }
  }
  Expr unary() {
    if (!take('-')) return primary();
    skip();
    if (at_ < line_.size() && std::isdigit(static_cast<unsigned char>(line_[at_])))
      return number(-1);
    return elementwise("neg", {unary()});
  }
  Expr number(int sign) {
    std::size_t begin = at_;
    while (at_ < line_.size() && (std::isdigit(static_cast<unsigned char>(line_[at_])) ||
                                  line_[at_] == '.' || line_[at_] == 'e'))
      ++at_;
    std::string digits = line_.substr(begin, at_ - begin);
    if (digits.find('.') != std::string::npos)
      return Expr(static_cast<float>(sign) * std::stof(digits));
    return Expr(sign * std::stoi(digits));
  }
  Attrs::Ints list() {
    Attrs::Ints out;
    if (!take('[')) bad("expected [");
    while (!take(']')) {
      skip();
      std::size_t used = 0;
      out.push_back(std::stoll(line_.substr(at_), &used));
      at_ += used;
      take(',');
    }
    return out;
  }
  static Expr boolean(bool value) { return constant(Array::scalar(value)); }

  Expr primary() {
    if (take('(')) {
      Expr x = sum();
      if (!take(')')) bad("expected )");
      return x;
    }
    skip();
    if (at_ < line_.size() && std::isdigit(static_cast<unsigned char>(line_[at_])))
      return number(1);
    std::string name = word();
    if (name == "true" || name == "false") return boolean(name == "true");
    if (!take('(')) {
      if (!names_.count(name)) bad("unknown name " + name);
      return names_[name];
    }
    std::vector<Expr> x;
    Attrs::Ints ints;
    std::optional<DType> dtype;
    while (!take(')')) {
      skip();
      std::size_t before = at_;
      std::string key = word();
      if (peek('=')) {
        take('=');
        ints = list();
      } else if (auto t = dtype_from_name(key); t && !names_.count(key)) {
        dtype = t;
      } else {
        at_ = before;
        x.push_back(sum());
      }
      take(',');
    }
    return call(name, std::move(x), ints, dtype);
  }

  static Expr call(const std::string& name, std::vector<Expr> x, Attrs::Ints ints,
                   std::optional<DType> dtype) {
    static const std::map<std::string, ReduceOp> reductions{
        {"sum", ReduceOp::Sum},       {"prod", ReduceOp::Prod},    {"max", ReduceOp::Max},
        {"min", ReduceOp::Min},       {"any", ReduceOp::Any},      {"all", ReduceOp::All},
        {"argmax", ReduceOp::ArgMax}, {"argmin", ReduceOp::ArgMin}};
    if (auto it = reductions.find(name); it != reductions.end()) {
      bool arg = it->second == ReduceOp::ArgMax || it->second == ReduceOp::ArgMin;
      DType acc = dtype.value_or(x[0].dtype());
      return apply(find_op(name), x,
                   {{"axes", ints},
                    {"reduce", static_cast<std::int64_t>(it->second)},
                    {"dtype", arg ? DType::I64 : acc},
                    {"acc", arg ? x[0].dtype() : acc}});
    }
    if (name == "dimshuffle") return apply(find_op(name), x, {{"pattern", ints}});
    if (name == "standardize") return apply(find_op(name), x, {{"axes", ints}});
    if (name == "cast") return apply(find_op(name), x, {{"dtype", *dtype}});
    if (name == "rebroadcast") return apply(find_op(name), x, {{"broadcast", ints[0]}});
    if (name == "reshape") return apply(find_op(name), x, {{"ndim", x[1].type().shape[0]}});
    if (name == "item") return apply(find_op("slice"), x, {{"spec", Attrs::Ints{1, 1, 0, 0}}});
    if (name == "slice" || name == "slice_set") return apply(find_op(name), x, {{"spec", ints}});
    if (name == "concatenate") return apply(find_op(name), x, {{"axis", ints[0]}});
    if (name == "relu") {
      const Expr zero(0.0F);
      return elementwise("switch", {elementwise("le", {x[0], zero}), zero, x[0]});
    }
    if (name == "grad") return snug::grad(x[0], x[1]);
    if (name == "sort") return apply(find_op(name), x, {{"axis", ints[0]}});
    if (name == "conv2d")
      return apply(find_op(name), x,
                   {{"pad", Attrs::Ints{0, 0, 0, 0}},
                    {"stride", Attrs::Ints{1, 1}},
                    {"dilation", Attrs::Ints{1, 1}},
                    {"flip", false},
                    {"groups", std::int64_t{1}}});
    if (name == "max_pool")
      return apply(find_op(name), x,
                   {{"window", Attrs::Ints{2, 2}},
                    {"stride", Attrs::Ints{2, 2}},
                    {"pad", Attrs::Ints{0, 0, 0, 0}},
                    {"partial", false}});
    if (has(find_op(name), kElementwise)) return elementwise(name, std::move(x));
    return apply(find_op(name), std::move(x));
  }

  std::string text_, line_;
  std::size_t at_ = 0;
  std::map<std::string, Expr> names_;
  std::vector<Expr> inputs_;
  std::vector<Dims> shapes_;
};

inline TextGraph graph_from(const std::string& text) { return TextParser(text).parse(); }

/// Random inputs; `special` mixes in NaN, infinities, zeros of both signs and the ends of integers.
inline RefTensor random_tensor(DType dtype, const Dims& shape, std::mt19937& rng, bool special) {
  RefTensor t = RefTensor::zeros(dtype, shape);
  const double inf = std::numeric_limits<double>::infinity();
  const double floats[] = {std::nan(""), inf, -inf, -0.0, 0.0, 1, -1, 0.5, 2, -2.5, 1e30, -1e-30};
  const std::int64_t ints[] = {0, 1, -1, 2, 3, 127, -128, 5, INT64_MIN, INT64_MAX};
  std::uniform_real_distribution<double> uniform(-3, 3);
  for (std::int64_t k = 0; k < t.size(); ++k) {
    if (t.floating()) {
      double v = special && rng() % 3 != 0 ? floats[rng() % std::size(floats)] : uniform(rng);
      t.f[k] = static_cast<double>(static_cast<float>(v));
    } else {
      Instr to{Prim::Cast, dtype};
      std::int64_t v =
          special ? ints[rng() % std::size(ints)] : static_cast<std::int64_t>(rng() % 3);
      t.i[k] = evaluate(to, DType::I64, {0, v}, {}, {}).i;
    }
  }
  return t;
}

/// True if equal up to `tolerance` relative (halves: to their digits); NaN equals NaN. `signs`:
/// zeros have equal signs.
inline bool close(const RefTensor& a, const RefTensor& b, double tolerance, bool signs = true) {
  if (a.dtype != b.dtype || !(a.shape == b.shape) || a.i != b.i) return false;
  if (is_float(a.dtype) && size_of(a.dtype) == 2) tolerance = std::max(tolerance, 1e-2);
  for (std::size_t k = 0; k < a.f.size(); ++k) {
    double x = a.f[k], y = b.f[k];
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x == y && (x != 0 || !signs || std::signbit(x) == std::signbit(y))) continue;
    if (!(std::fabs(x - y) <= tolerance * std::max({std::fabs(x), std::fabs(y), 1e-300})))
      return false;
  }
  return true;
}

inline std::string text_of(const RefTensor& t) {
  std::string s = fmt::format("{} {}:", name_of(t.dtype), describe_shape(t.shape));
  for (double v : t.f) s += fmt::format(" {}", v);
  for (std::int64_t v : t.i) s += fmt::format(" {}", v);
  return s;
}

}  // namespace snug::testing
