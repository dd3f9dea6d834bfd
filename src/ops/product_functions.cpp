#include "ops/product_functions.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

#include "ops/arguments.h"
#include "ops/index_functions.h"
#include "ops/layout_functions.h"

namespace snug {
namespace {

/// Axes by name: a letter, or for those of an ellipsis kEllipsis + their place from the end.
using Labels = std::vector<int>;
constexpr int kEllipsis = 256;

bool holds(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/// A value whose axes have different names.
struct Term {
  Expr x;
  Labels labels;
  std::size_t axis_of(int label) const {
    return static_cast<std::size_t>(std::find(labels.begin(), labels.end(), label) -
                                    labels.begin());
  }
};

Expr size_of_all(const Term& t, const Labels& labels) {
  Expr n = int64_constant(1);
  for (int label : labels) {
    const Expr d = shape_i(t.x, static_cast<std::int64_t>(t.axis_of(label)));
    n = labels.size() == 1 ? d : n * d;
  }
  return n;
}

/// The axes in this order; new broadcastable ones for names that t does not have.
Expr arranged(const Term& t, const Labels& order) {
  std::vector<std::int64_t> pattern;
  for (int label : order)
    pattern.push_back(holds(t.labels, label) ? static_cast<std::int64_t>(t.axis_of(label)) : -1);
  return dimshuffle(t.x, pattern);
}

Labels joined(std::initializer_list<const Labels*> parts) {
  Labels out;
  for (const Labels* p : parts) out.insert(out.end(), p->begin(), p->end());
  return out;
}

/// The product of two terms, summed over the names that `kept` does not hold. A name that is not
/// kept is in both.
Term contract(const Term& a, const Term& b, const Labels& kept) {
  Labels batch, summed, left, right;
  for (int label : a.labels)
    (!holds(b.labels, label) ? left : holds(kept, label) ? batch : summed).push_back(label);
  for (int label : b.labels)
    if (!holds(a.labels, label)) right.push_back(label);
  Term out;
  out.labels = joined({&batch, &left, &right});
  if (summed.empty()) {
    out.x = arranged(a, out.labels) * arranged(b, out.labels);
    return out;
  }
  const bool batched = !batch.empty();
  std::vector<Expr> first{size_of_all(a, left), size_of_all(a, summed)};
  std::vector<Expr> second{size_of_all(b, summed), size_of_all(b, right)};
  if (batched) {
    first.insert(first.begin(), size_of_all(a, batch));
    second.insert(second.begin(), size_of_all(b, batch));
  }
  const Expr x = reshape(arranged(a, joined({&batch, &left, &summed})), first);
  const Expr y = reshape(arranged(b, joined({&batch, &summed, &right})), second);
  std::vector<Expr> sizes;
  std::int64_t ones = 0;
  for (int label : out.labels) {
    const Term& t = holds(a.labels, label) ? a : b;
    const std::size_t axis = t.axis_of(label);
    if (t.x.type().broadcastable(axis)) ones |= std::int64_t{1} << sizes.size();
    sizes.push_back(shape_i(t.x, static_cast<std::int64_t>(axis)));
  }
  out.x = apply(ops::reshape, {batched ? batched_dot(x, y) : dot(x, y), make_vector(sizes)},
                {{"ndim", static_cast<std::int64_t>(sizes.size())}, {"broadcast", ones}});
  return out;
}

/// A sum over the axes that `kept` does not hold.
Term reduced(const Term& t, const Labels& kept) {
  std::vector<std::int64_t> axes;
  Term out;
  for (std::size_t k = 0; k < t.labels.size(); ++k)
    if (holds(kept, t.labels[k]))
      out.labels.push_back(t.labels[k]);
    else
      axes.push_back(static_cast<std::int64_t>(k));
  out.x = axes.empty() ? t.x : sum(t.x, axes, false, t.x.dtype());
  return out;
}

/// Axes of one name become one, the diagonal.
Term without_repeats(Term t) {
  for (std::size_t i = 0; i < t.labels.size(); ++i)
    for (std::size_t j = i + 1; j < t.labels.size();) {
      if (t.labels[i] != t.labels[j]) {
        ++j;
        continue;
      }
      const auto a = static_cast<std::int64_t>(i), b = static_cast<std::int64_t>(j);
      // Both axes have one size.
      const std::vector<Expr> sizes{shape_i(t.x, a), shape_i(t.x, b)};
      const Expr places = arange(sizes[0]), others = arange(sizes[1]);
      const Expr last = moveaxis(t.x, {a, b}, {-2, -1});
      const Expr line =
          subtensor(last, {IndexItem::ellipsis(), IndexItem(places), IndexItem(others)});
      t.x = moveaxis(line, {-1}, {a});
      t.labels.erase(t.labels.begin() + b);
    }
  return t;
}

// ---- subscripts ----

[[noreturn]] void bad(const std::string& subscripts, const std::string& why) {
  fail(Fault::Value, fmt::format("einsum: '{}': {}", subscripts, why));
}

/// The names of one operand; `free` axes stand for its ellipsis.
Labels parse_term(const std::string& subscripts, const std::string& text, int free) {
  Labels labels;
  bool seen = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.') {
      if (seen || text.compare(i, 3, "...") != 0)
        bad(subscripts, "an ellipsis is '...', once per operand");
      seen = true;
      for (int k = free; k-- > 0;) labels.push_back(kEllipsis + k);
      i += 2;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      labels.push_back(c);
    } else {
      bad(subscripts, fmt::format("'{}' is no letter", c));
    }
  }
  return labels;
}

struct Parsed {
  std::vector<Labels> inputs;
  Labels output;
};

Parsed parse(const std::string& given, const std::vector<Expr>& operands) {
  std::string text;
  for (char c : given)
    if (c != ' ') text += c;
  const std::size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  std::vector<std::string> parts{""};
  for (char c : left)
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  if (parts.size() != operands.size())
    bad(given, fmt::format("{} operands are named, {} are given", parts.size(), operands.size()));
  Parsed p;
  int widest = 0;  // axes of the longest ellipsis
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const bool open = parts[k].find('.') != std::string::npos;
    const int named = static_cast<int>(parts[k].size()) - (open ? 3 : 0);
    const int free = operands[k].ndim() - named;
    if (free < 0 || (free > 0 && !open))
      bad(given, fmt::format("operand {} has {} dimensions, {} are named", k + 1,
                             operands[k].ndim(), named));
    widest = std::max(widest, free);
    p.inputs.push_back(parse_term(given, parts[k], free));
  }
  if (arrow != std::string::npos) {
    const std::string right = text.substr(arrow + 2);
    p.output = parse_term(given, right, widest);
    if (widest > 0 && right.find('.') == std::string::npos)
      bad(given, "the result has no '...' for the axes left over");
    for (std::size_t k = 0; k < p.output.size(); ++k) {
      const int label = p.output[k];
      if (std::count(p.output.begin(), p.output.end(), label) > 1)
        bad(given, fmt::format("'{}' is twice in the result", static_cast<char>(label)));
      bool known = label >= kEllipsis;
      for (const Labels& in : p.inputs) known = known || holds(in, label);
      if (!known) bad(given, fmt::format("no operand has '{}'", static_cast<char>(label)));
    }
    return p;
  }
  // Without an arrow: the axes of the ellipsis, then the letters that occur once, sorted.
  std::map<int, int> count;
  for (const Labels& in : p.inputs)
    for (int label : in) ++count[label];
  for (int k = widest; k-- > 0;) p.output.push_back(kEllipsis + k);
  for (auto [label, n] : count)
    if (label < kEllipsis && n == 1) p.output.push_back(label);
  return p;
}

// ---- the order of contractions ----

constexpr double kUnknownSize = 64;  // stands for sizes that are not known before a call

/// Which pairs to contract, as places in the list of terms: both are taken out, the result is put
/// at the end. The cheapest order by the number of multiplications, over all orders.
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
Pairs cheapest_order(const std::vector<Term>& terms, const Labels& output) {
  const std::size_t n = terms.size();
  std::map<int, double> size;
  for (const Term& t : terms)
    for (std::size_t k = 0; k < t.labels.size(); ++k) {
      const std::int64_t d = t.x.type().shape[k];
      double& s = size[t.labels[k]];
      s = std::max(s, d >= 0 ? static_cast<double>(d) : kUnknownSize);
    }
  const std::uint32_t all = (1u << n) - 1;
  auto labels_in = [&](std::uint32_t set) {
    Labels out;
    for (std::size_t k = 0; k < n; ++k)
      if (set >> k & 1)
        for (int label : terms[k].labels)
          if (!holds(out, label)) out.push_back(label);
    return out;
  };
  // What is left of a set after its contraction: what the others or the result need.
  std::vector<Labels> left(all + 1);
  for (std::uint32_t set = 1; set <= all; ++set) {
    const Labels others = labels_in(all & ~set);
    for (int label : labels_in(set))
      if (holds(others, label) || holds(output, label)) left[set].push_back(label);
  }
  std::vector<double> cost(all + 1, std::numeric_limits<double>::infinity());
  std::vector<std::uint32_t> part(all + 1, 0);
  for (std::uint32_t set = 1; set <= all; ++set) {
    if (std::has_single_bit(set)) {
      cost[set] = 0;
      continue;
    }
    const std::uint32_t lowest = set & (~set + 1);
    for (std::uint32_t a = (set - 1) & set; a > 0; a = (a - 1) & set) {
      if (!(a & lowest)) continue;  // each split once
      const std::uint32_t b = set & ~a;
      double work = 1;
      for (int label : left[a]) work *= size[label];
      for (int label : left[b])
        if (!holds(left[a], label)) work *= size[label];
      const double total = cost[a] + cost[b] + work;
      if (total < cost[set]) {
        cost[set] = total;
        part[set] = a;
      }
    }
  }
  // Sets in the order in which they are made: small ones first.
  std::vector<std::uint32_t> made, open{all};
  while (!open.empty()) {
    const std::uint32_t set = open.back();
    open.pop_back();
    if (std::has_single_bit(set)) continue;
    made.push_back(set);
    open.push_back(part[set]);
    open.push_back(set & ~part[set]);
  }
  std::vector<std::uint32_t> list;
  for (std::size_t k = 0; k < n; ++k) list.push_back(1u << k);
  Pairs pairs;
  for (std::size_t k = made.size(); k-- > 0;) {
    auto place = [&](std::uint32_t set) {
      return static_cast<std::size_t>(std::find(list.begin(), list.end(), set) - list.begin());
    };
    const std::size_t a = place(part[made[k]]), b = place(made[k] & ~part[made[k]]);
    pairs.emplace_back(a, b);
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(std::max(a, b)));
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(std::min(a, b)));
    list.push_back(made[k]);
  }
  return pairs;
}

/// Axes that stretch are left out where another operand has the same axis in full.
void drop_stretched(std::vector<Term>& terms) {
  std::map<int, bool> full;
  for (const Term& t : terms)
    for (std::size_t k = 0; k < t.labels.size(); ++k)
      full[t.labels[k]] |= !t.x.type().broadcastable(k);
  for (Term& t : terms) {
    Labels kept;
    for (std::size_t k = 0; k < t.labels.size(); ++k)
      if (!t.x.type().broadcastable(k) || !full[t.labels[k]]) kept.push_back(t.labels[k]);
    t = {arranged(t, kept), kept};
  }
}

}  // namespace

Expr einsum(const std::string& subscripts, const std::vector<Expr>& operands, Here where) {
  Scope scope(where);
  if (operands.empty()) fail(Fault::Value, "einsum: there are no operands");
  constexpr std::size_t kMost = 12;
  if (operands.size() > kMost)
    fail(Fault::Unsupported,
         fmt::format("einsum: {} operands; there are at most {}", operands.size(), kMost),
         "contract some of them first");
  for (const Expr& x : operands) require_expr("einsum", x);
  const Parsed p = parse(subscripts, operands);
  std::vector<Term> terms;
  for (std::size_t k = 0; k < operands.size(); ++k)
    terms.push_back(without_repeats({operands[k], p.inputs[k]}));
  drop_stretched(terms);
  auto needed = [&](std::size_t a, std::size_t b) {
    Labels out = p.output;
    for (std::size_t k = 0; k < terms.size(); ++k)
      if (k != a && k != b) out.insert(out.end(), terms[k].labels.begin(), terms[k].labels.end());
    return out;
  };
  for (std::size_t k = 0; k < terms.size(); ++k) terms[k] = reduced(terms[k], needed(k, k));
  for (auto [a, b] : cheapest_order(terms, p.output)) {
    Term product = contract(terms[a], terms[b], needed(a, b));
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(std::max(a, b)));
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(std::min(a, b)));
    terms.push_back(std::move(product));
  }
  return arranged(terms[0], p.output);
}

Expr batched_tensordot(const Arg& a, const Arg& b, const std::vector<std::int64_t>& axes_a,
                       const std::vector<std::int64_t>& axes_b) {
  Scope scope(a);
  require_expr("batched_tensordot", a.expr);
  require_expr("batched_tensordot", b.expr);
  if (axes_a.size() != axes_b.size())
    fail(Fault::Value,
         fmt::format("batched_tensordot: {} axes against {}", axes_a.size(), axes_b.size()));
  if (a.expr.ndim() == 0 || b.expr.ndim() == 0)
    fail(Fault::Type, "batched_tensordot: a value of 0 dimensions has no batch");
  // Axis k of a is named k, that of b 8 + k, but for the batch and the summed ones.
  Term x{a.expr, {}}, y{b.expr, {}};
  for (int k = 0; k < a.expr.ndim(); ++k) x.labels.push_back(k);
  for (int k = 0; k < b.expr.ndim(); ++k) y.labels.push_back(k == 0 ? 0 : 8 + k);
  Labels kept = joined({&x.labels, &y.labels});
  for (std::size_t k = 0; k < axes_a.size(); ++k) {
    const std::int64_t i = normal_axis("batched_tensordot", axes_a[k], a.expr.ndim());
    const std::int64_t j = normal_axis("batched_tensordot", axes_b[k], b.expr.ndim());
    if (i == 0 || j == 0)
      fail(Fault::Value, "batched_tensordot: axis 0 is the batch, it is not summed over");
    y.labels[static_cast<std::size_t>(j)] = static_cast<int>(i);
    std::erase(kept, static_cast<int>(i));
  }
  return contract(x, y, kept).x;
}

Expr outer(const Arg& a, const Arg& b) {
  Scope scope(a);
  require_expr("outer", a.expr);
  require_expr("outer", b.expr);
  return dimshuffle(flatten(a), {0, -1}) * dimshuffle(flatten(b), {-1, 0});
}

Expr inner(const Arg& a, const Arg& b) {
  Scope scope(a);
  require_expr("inner", a.expr);
  require_expr("inner", b.expr);
  if (a.expr.ndim() == 0 || b.expr.ndim() == 0) return mul(a, b);
  return tensordot(a, b, {-1}, {-1});
}

Expr vdot(const Arg& a, const Arg& b) {
  Scope scope(a);
  require_expr("vdot", a.expr);
  require_expr("vdot", b.expr);
  return dot(flatten(a), flatten(b));
}

Expr cross(const Arg& a, const Arg& b, std::int64_t axis) {
  Scope scope(a);
  require_expr("cross", a.expr);
  require_expr("cross", b.expr);
  auto along = [&](const Expr& x) {
    const Expr last = moveaxis(x, {normal_axis("cross", axis, x.ndim())}, {-1});
    std::vector<Expr> sizes;
    for (int k = 0; k + 1 < x.ndim(); ++k) sizes.push_back(shape_i(last, k));
    sizes.push_back(int64_constant(3));
    return apply(
        ops::broadcast_to, {last, make_vector(sizes)},
        {{"broadcast", std::int64_t{last.type().broadcast}}, {"for", std::string("cross")}});
  };
  const Expr x = along(a.expr), y = along(b.expr);
  auto part = [](const Expr& v, int k) {
    return subtensor(v, {IndexItem::ellipsis(), IndexItem(k)});
  };
  std::vector<Expr> parts;
  for (int k = 0; k < 3; ++k) {
    const int i = (k + 1) % 3, j = (k + 2) % 3;
    parts.push_back(part(x, i) * part(y, j) - part(x, j) * part(y, i));
  }
  const std::int64_t place = axis < 0 ? axis : axis + std::max(x.ndim(), y.ndim()) - x.ndim();
  return stack(parts, place);
}

}  // namespace snug
