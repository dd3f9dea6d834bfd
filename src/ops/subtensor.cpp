#include <algorithm>

#include "ops/arguments.h"
#include "ops/computed.h"

/// Indexing as a chain of at most four steps, each of which can be read through and written back
/// through: a slice, a reordering that puts the indexed axes first, a gather, and a reordering that
/// puts the axes of the index arrays where NumPy has them.
namespace snug {
namespace {

struct Step {
  enum class Kind : std::uint8_t { Slice, Shuffle, Gather } kind;
  std::vector<std::int64_t> ints;  // Slice: spec. Shuffle: pattern.
  std::vector<Expr> exprs;         // Slice: bounds. Gather: index arrays.
};

Expr get(const Step& s, const Expr& x) {
  std::vector<Expr> inputs{x};
  inputs.insert(inputs.end(), s.exprs.begin(), s.exprs.end());
  switch (s.kind) {
    case Step::Kind::Slice: return apply(ops::slice, inputs, {{"spec", s.ints}});
    case Step::Kind::Shuffle: return dimshuffle(x, s.ints);
    case Step::Kind::Gather: return apply(ops::gather, inputs);
  }
  return {};
}

/// x with what `get` reads replaced by y, or increased by y.
Expr put(const Step& s, const Expr& x, const Expr& y, bool increase) {
  std::vector<Expr> inputs{x, y};
  inputs.insert(inputs.end(), s.exprs.begin(), s.exprs.end());
  switch (s.kind) {
    case Step::Kind::Slice:
      return apply(increase ? ops::slice_inc : ops::slice_set, inputs, {{"spec", s.ints}});
    case Step::Kind::Gather: return apply(increase ? ops::scatter_add : ops::scatter_set, inputs);
    case Step::Kind::Shuffle: {
      std::vector<std::int64_t> inverse(static_cast<std::size_t>(x.ndim()), -1);
      for (std::size_t i = 0; i < s.ints.size(); ++i)
        if (s.ints[i] >= 0)
          inverse[static_cast<std::size_t>(s.ints[i])] = static_cast<std::int64_t>(i);
      Expr back = dimshuffle(y, inverse);
      return increase ? x + back : back;
    }
  }
  return {};
}

Expr bound(const Expr& e) {
  if (e.ndim() != 0 || !is_int(e.dtype()))
    fail(Fault::Type, fmt::format("index: a bound of a slice is a 0-d integer, not {}",
                                  snug::describe(e.type())));
  return e;
}

/// Whether constant bounds keep the only element of a broadcastable axis.
bool keeps_the_one(const IndexItem& item) {
  auto known = [](const Expr& e) { return !e || constant_value(e); };
  if (!known(item.start) || !known(item.stop) || !known(item.step)) return false;
  auto value = [](const Expr& e) { return constant_value(e)->at_int(0); };
  std::int64_t step = item.step ? value(item.step) : 1;
  if (step == 0) return false;
  auto place = [&](const Expr& e) { return value(e) < 0 ? value(e) + 1 : value(e); };
  std::int64_t start = item.start ? place(item.start) : 0;
  std::int64_t stop = item.stop ? place(item.stop) : step > 0 ? 1 : -1;
  return step > 0 ? start <= 0 && stop >= 1 : start >= 0 && stop <= -1;
}

struct Item {
  enum class Kind : std::uint8_t { Range, Single, Array, Mask, NewAxis } kind;
  IndexItem given;
  std::size_t axis = 0;    // of x
  bool separates = false;  // an ellipsis stood here: the indices around are not neighbours
};

/// Items with the ellipsis written out and axes counted.
std::vector<Item> expand(const Expr& x, const std::vector<IndexItem>& given) {
  std::vector<Item> items;
  std::size_t used = 0, ellipses = 0;
  for (const IndexItem& g : given) {
    if (g.kind == IndexItem::Kind::Ellipsis) ++ellipses;
    if (g.kind == IndexItem::Kind::Range) ++used;
    if (g.kind != IndexItem::Kind::Index) continue;
    if (!g.index) fail(Fault::Type, "index: an index is an empty expression");
    if (!is_discrete(g.index.dtype()))
      fail(Fault::Type,
           fmt::format("index: an index is an integer or a mask of bools, not {}",
                       snug::describe(g.index.type())),
           "cast it to int64");
    used += g.index.dtype() == DType::Bool ? static_cast<std::size_t>(g.index.ndim()) : 1;
  }
  const std::size_t ndim = static_cast<std::size_t>(x.ndim());
  if (ellipses > 1) fail(Fault::Index, "index: an index has at most one ellipsis");
  if (used > ndim)
    fail(Fault::Index, fmt::format("index: {} indices for a value of {} dimensions", used, ndim));
  std::size_t axis = 0;
  bool separates = false;
  auto push = [&](Item item, std::size_t width) {
    item.axis = axis;
    item.separates = separates;
    separates = false;
    axis += width;
    items.push_back(std::move(item));
  };
  for (const IndexItem& g : given) {
    switch (g.kind) {
      case IndexItem::Kind::Range: push({Item::Kind::Range, g}, 1); break;
      case IndexItem::Kind::NewAxis: push({Item::Kind::NewAxis, g}, 0); break;
      case IndexItem::Kind::Ellipsis:
        for (std::size_t k = used; k < ndim; ++k) push({Item::Kind::Range, {}}, 1);
        separates = true;
        break;
      case IndexItem::Kind::Index:
        if (g.index.dtype() == DType::Bool)
          push({Item::Kind::Mask, g}, static_cast<std::size_t>(g.index.ndim()));
        else
          push({g.index.ndim() == 0 ? Item::Kind::Single : Item::Kind::Array, g}, 1);
        break;
    }
  }
  while (axis < ndim) push({Item::Kind::Range, {}}, 1);
  return items;
}

/// Index arrays stretched to one shape.
void align(std::vector<Expr>& indices) {
  int ndim = 0;
  for (const Expr& i : indices) ndim = std::max(ndim, i.ndim());
  std::uint8_t common = 0xff;
  for (Expr& i : indices) {
    std::vector<std::int64_t> pattern(static_cast<std::size_t>(ndim - i.ndim()), -1);
    for (int k = 0; k < i.ndim(); ++k) pattern.push_back(k);
    i = dimshuffle(i, pattern);
    common &= i.type().broadcast;
  }
  bool same = true;
  for (const Expr& i : indices) same = same && i.type().broadcast == common;
  if (same) return;
  Expr all = indices[0];  // only its sizes are used
  for (std::size_t k = 1; k < indices.size(); ++k) all = all + indices[k];
  for (Expr& i : indices)
    if (i.type().broadcast != common)
      i = apply(ops::broadcast_to, {i, shape(all)}, {{"broadcast", std::int64_t{common}}});
}

bool is_array(const Item& i) { return i.kind == Item::Kind::Array || i.kind == Item::Kind::Mask; }

/// What an item asks of its axis in the spec of a slice; its bounds are added to `bounds`.
/// `advanced`: single indices are index arrays.
std::vector<std::int64_t> spec_of(const Expr& x, const Item& i, bool advanced,
                                  std::vector<Expr>& bounds) {
  std::vector<std::int64_t> spec(4, 0);
  if (i.kind == Item::Kind::Single && !advanced) {
    bounds.push_back(bound(i.given.index));
    spec = {1, 1, 0, 0};
  } else if (i.kind == Item::Kind::Range) {
    IndexItem range = i.given;
    if (x.type().broadcastable(i.axis) && keeps_the_one(range)) range.start = range.stop = Expr();
    const Expr* parts[] = {&range.start, &range.stop, &range.step};
    for (std::size_t k = 0; k < 3; ++k)
      if (*parts[k]) {
        spec[k + 1] = 1;
        bounds.push_back(bound(*parts[k]));
      }
  }
  return spec;
}

/// Ranges and, without index arrays, single indices. Its spec is empty if all axes are whole.
Step slice_step(const Expr& x, const std::vector<Item>& items, bool advanced) {
  Step slice{Step::Kind::Slice, {}, {}};
  std::size_t needed = 0;
  for (const Item& i : items) {
    if (i.kind == Item::Kind::NewAxis) continue;
    std::vector<std::int64_t> spec = spec_of(x, i, advanced, slice.exprs);
    std::size_t width =
        i.kind == Item::Kind::Mask ? static_cast<std::size_t>(i.given.index.ndim()) : 1;
    for (std::size_t k = 0; k < width; ++k)
      slice.ints.insert(slice.ints.end(), spec.begin(), spec.end());
    if (spec != std::vector<std::int64_t>(4, 0)) needed = slice.ints.size();
  }
  slice.ints.resize(needed);
  return slice;
}

/// How the axes of a sliced value are sorted: those with index arrays come first.
struct Sorting {
  std::vector<std::int64_t> indexed, others;  // -1 for new axes
  std::vector<Expr> indices;
  std::size_t place = 0;   // how many other axes stand before the first index
  bool neighbours = true;  // no other axis stands between index arrays
};

/// Adds the index arrays of an item over axes of `value` from `axis` on, which moves behind them.
void add_indices(const Expr& value, const Item& i, std::int64_t& axis, Sorting& s) {
  if (i.kind != Item::Kind::Mask) {
    s.indices.push_back(apply(ops::check_index, {i.given.index, shape_i(value, axis)}));
    s.indexed.push_back(axis++);
    return;
  }
  const Expr& mask = i.given.index;
  if (mask.ndim() == 0) {  // the one place of a new axis, or none
    const Array* known = constant_value(mask);
    s.indices.push_back(!known             ? nonzero(dimshuffle(mask, {-1}))[0]
                        : known->at_int(0) ? dimshuffle(int64_constant(0), {-1})
                                           : constant(Array::zeros(DType::I64, {0})));
    s.indexed.push_back(-1);
    return;
  }
  // The mask has the sizes of the axes it stands for.
  std::vector<Expr> sizes;
  for (int k = 0; k < mask.ndim(); ++k) sizes.push_back(shape_i(value, axis + k));
  Expr fitted = apply(ops::broadcast_to, {mask, make_vector(sizes)},
                      {{"broadcast", std::int64_t{0}}, {"for", std::string("mask")}});
  for (Expr& n : nonzero(fitted)) {
    s.indices.push_back(n);
    s.indexed.push_back(axis++);
  }
}

Sorting sort_axes(const Expr& value, const std::vector<Item>& items, bool advanced) {
  Sorting s;
  bool open = false, closed = false;  // an index has come; another axis behind it
  std::int64_t axis = 0;              // of `value`
  for (const Item& i : items) {
    if (i.separates && open) closed = true;
    bool single = i.kind == Item::Kind::Single;
    if (is_array(i) || (advanced && single)) {
      if (!open) s.place = s.others.size();
      if (closed) s.neighbours = false;
      open = true;
      add_indices(value, i, axis, s);
      continue;
    }
    if (open) closed = true;
    if (i.kind == Item::Kind::NewAxis)
      s.others.push_back(-1);
    else if (!single)
      s.others.push_back(axis++);
  }
  return s;
}

/// Puts the first `width` axes, those of the index arrays, behind `place` of the others.
std::vector<std::int64_t> back_in_place(const Sorting& s, std::size_t width) {
  std::vector<std::int64_t> back;
  auto append = [&](std::size_t from, std::size_t to) {
    for (; from < to; ++from) back.push_back(static_cast<std::int64_t>(from));
  };
  append(width, width + s.place);
  append(0, width);
  append(width + s.place, width + s.others.size());
  return back;
}

/// The steps of x[given].
std::vector<Step> chain(const Expr& x, const std::vector<IndexItem>& given) {
  std::vector<Item> items = expand(x, given);
  bool advanced = std::any_of(items.begin(), items.end(), is_array);
  // The slices of a loop's body are planned before it runs: an element is picked as a gather does.
  if (!ops::open_loops().empty())
    for (const Item& i : items)
      advanced = advanced || (i.kind == Item::Kind::Single && ops::is_computed(i.given.index));
  std::vector<Step> steps;
  Expr value = x;
  auto add = [&](Step step) {
    value = get(step, value);
    steps.push_back(std::move(step));
  };
  if (Step slice = slice_step(x, items, advanced); !slice.ints.empty()) add(std::move(slice));

  Sorting s = sort_axes(value, items, advanced);
  std::vector<std::int64_t> order = s.indexed;
  order.insert(order.end(), s.others.begin(), s.others.end());
  bool same = order.size() == static_cast<std::size_t>(value.ndim());
  for (std::size_t k = 0; same && k < order.size(); ++k)
    same = order[k] == static_cast<std::int64_t>(k);
  if (!same) add({Step::Kind::Shuffle, order, {}});
  if (!advanced) return steps;

  align(s.indices);
  const auto width = static_cast<std::size_t>(s.indices[0].ndim());
  add({Step::Kind::Gather, {}, s.indices});
  if (s.neighbours && s.place > 0) add({Step::Kind::Shuffle, back_in_place(s, width), {}});
  return steps;
}

/// y in the shape and type of the part it replaces.
Expr fitted(const char* what, const Expr& y, const Expr& region) {
  Expr v = y;
  if (v.ndim() > region.ndim())
    fail(Fault::Type, fmt::format("{}: a value of {} dimensions for a part of {}", what, v.ndim(),
                                  region.ndim()));
  bool stretch =
      v.ndim() < region.ndim() || (v.type().broadcast & ~unsigned{region.type().broadcast}) != 0;
  if (stretch)
    v = apply(ops::broadcast_to, {v, shape(region)},
              {{"broadcast", std::int64_t{region.type().broadcast}}});
  return rebroadcast(v, region.type().broadcast);
}

Expr written(const char* what, const Expr& x, const std::vector<IndexItem>& items, const Expr& y,
             bool increase) {
  // A float takes a wider one and an integer, too, as in Theano: what is made of the numbers 0. or
  // -1 is often narrow.
  const bool one_kind =
      (is_float(x.dtype()) && is_float(y.dtype())) || (is_int(x.dtype()) && is_int(y.dtype()));
  if (!one_kind && upcast(x.dtype(), y.dtype()) != x.dtype())
    fail(Fault::Type,
         fmt::format("{}: a part of a tensor of {} cannot take {}", what, name_of(x.dtype()),
                     name_of(y.dtype())),
         "cast one of them");
  std::vector<Step> steps = chain(x, items);
  std::vector<Expr> values{x};
  for (const Step& s : steps) values.push_back(get(s, values.back()));
  Expr v = fitted(what, cast(y, x.dtype()), values.back());
  // The last step that leaves elements out does the addition; those after it only reorder.
  std::size_t adds = 0;
  bool whole = true;
  for (std::size_t k = 0; k < steps.size(); ++k)
    if (steps[k].kind != Step::Kind::Shuffle) adds = k, whole = false;
  if (steps.empty() && increase) return x + v;
  for (std::size_t k = steps.size(); k-- > 0;)
    v = put(steps[k], values[k], v, increase && k == adds);
  // Where nothing of x is left, its sizes still say what y must be.
  return whole && !increase ? put({Step::Kind::Slice, {}, {}}, x, v, false) : v;
}

}  // namespace

bool ops::is_computed(const Expr& value) {
  std::vector<Expr> open{value};
  for (int seen = 0; !open.empty(); ++seen) {
    const Expr e = open.back();
    open.pop_back();
    if (seen > 64 || !is_discrete(e.dtype())) return true;
    if (constant_value(e) || (!e->owner && e.ndim() == 0)) continue;
    if (!e->owner) return true;
    const OpDef* op = e->owner->op;
    if (op == &ops::shape) continue;
    if (!has(*op, kElementwise) && op != &ops::slice && op != &ops::make_vector) return true;
    open.insert(open.end(), e->owner->inputs.begin(), e->owner->inputs.end());
  }
  return false;
}

IndexItem IndexItem::range(Expr start, Expr stop, Expr step) {
  IndexItem item;
  item.start = std::move(start);
  item.stop = std::move(stop);
  item.step = std::move(step);
  return item;
}
IndexItem IndexItem::newaxis() {
  IndexItem item;
  item.kind = Kind::NewAxis;
  return item;
}
IndexItem IndexItem::ellipsis() {
  IndexItem item;
  item.kind = Kind::Ellipsis;
  return item;
}

Expr subtensor(const Arg& x, const std::vector<IndexItem>& items) {
  Scope scope(x);
  Expr value = x.expr;
  for (const Step& s : chain(x.expr, items)) value = get(s, value);
  return value;
}

Expr set_subtensor(const Arg& x, const std::vector<IndexItem>& items, const Arg& y) {
  Scope scope(x);
  return written("set_subtensor", x.expr, items, y.expr, false);
}

Expr inc_subtensor(const Arg& x, const std::vector<IndexItem>& items, const Arg& y) {
  Scope scope(x);
  return written("inc_subtensor", x.expr, items, y.expr, true);
}

Expr slice_axis(const Arg& x, std::int64_t axis, const Expr& start, const Expr& stop,
                const Expr& step) {
  if (axis < 0) axis += x.expr.ndim();
  if (axis < 0 || axis >= x.expr.ndim())
    fail(Fault::Value,
         fmt::format("slice_axis: axis {} of a value of {} dimensions", axis, x.expr.ndim()));
  std::vector<IndexItem> items(static_cast<std::size_t>(axis));
  items.push_back(IndexItem::range(start, stop, step));
  return subtensor(x, items);
}

std::vector<Expr> nonzero(const Arg& x) {
  Scope scope(x);
  return apply_all(ops::nonzero, {x.expr});
}

}  // namespace snug
