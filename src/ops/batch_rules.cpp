#include "ops/batch_rules.h"

#include <algorithm>

namespace snug::ops {
namespace {

using Kind = BatchRule::Kind;

BatchRule no(std::string_view why = {}) {
  BatchRule rule;
  rule.why = why;
  return rule;
}
constexpr std::string_view kAlong = "it runs along the batch";
constexpr std::string_view kTwoAxes = "the batch would be on two axes";
BatchRule rows(int axis, std::vector<int> cut) { return {Kind::Rows, axis, std::move(cut)}; }
/// As `rows`, of an op with a shape input: its element `axis` is the number of rows, `size` of
/// them if it differs from that of the inputs.
BatchRule sized_rows(int axis, std::vector<int> cut, SizeId size = SizeTable::kNoSize) {
  BatchRule rule = rows(axis, std::move(cut));
  rule.rows_at = axis;
  rule.size = size;
  return rule;
}
BatchRule summed(std::vector<int> cut) { return {Kind::Summed, kWhole, std::move(cut)}; }

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

/// The axis that all inputs with rows in [first, end) have them on; kWhole if they differ or none
/// has any.
int common_axis(const BatchArgs& a, std::size_t first, std::size_t end) {
  int axis = kWhole;
  for (std::size_t i = first; i < end; ++i) {
    if (a.axis[i] == kWhole) continue;
    if (axis != kWhole && axis != a.axis[i]) return kWhole;
    axis = a.axis[i];
  }
  return axis;
}

/// Where axis `axis` of the input of a slice is in the result, if the spec leaves it whole.
int beyond_slice(const BatchArgs& a, int axis) {
  const Attrs::Ints& spec = a.attrs.ints("spec");
  int dropped = 0;
  for (int k = 0; k < axis; ++k) dropped += at(4 * k) < spec.size() && spec[at(4 * k)] == 1;
  if (at(4 * axis) < spec.size())
    for (int k = 0; k < 4; ++k)
      if (spec[at(4 * axis + k)] != 0) return kWhole;
  return axis - dropped;
}

/// Rules of x[i0, i1, ...], which gather and scatter share: x is input 0, the index arrays start
/// at `first`. The rows of the picked part and how x and the indices are cut; `local` as in
/// BatchRule.
struct Picked {
  bool legal = false;
  int x = kWhole, index = kWhole, part = kWhole, local = -1;
};
Picked pick(const BatchArgs& a, std::size_t first) {
  Picked p;
  const int count = static_cast<int>(a.in.size() - first);
  const int index_ndim = a.in[first]->ndim();
  p.x = a.axis[0];
  p.index = common_axis(a, first, a.in.size());
  for (std::size_t i = first; i < a.in.size(); ++i)
    if (a.axis[i] != kWhole && a.axis[i] != p.index) return p;
  if (p.x == kWhole) {
    p.part = p.index;
    p.legal = true;
  } else if (p.x >= count) {
    p.part = index_ndim + p.x - count;
    p.legal = p.index == kWhole;
  } else {
    // x has the rows on an indexed axis: legal if row r asks for row r.
    p.local = static_cast<int>(first) + p.x;
    p.part = 0;
    p.legal = index_ndim == 1 && p.index == 0 && a.row_numbers[at(p.local)];
  }
  return p;
}

}  // namespace

BatchRule batch_same(const BatchArgs& a) {
  int axis = common_axis(a, 0, a.in.size());
  return axis == kWhole ? no() : rows(axis, std::vector<int>(a.in.size(), axis));
}

BatchRule batch_but_last(const BatchArgs& a) {
  return a.axis[0] + 1 < a.in[0]->ndim() ? batch_same(a) : no(kAlong);
}

BatchRule batch_dot(const BatchArgs& a) {
  const int x = a.axis[0], y = a.axis[1];
  if (x == 0 && y == kWhole) return rows(0, {0, kWhole});
  if (x == kWhole && y == 1) return rows(1, {kWhole, 1});
  if ((x == 1 || x == kWhole) && (y == 0 || y == kWhole)) return summed({1, 0});
  return no(x == 0 && y == 1 ? kTwoAxes : std::string_view());
}

BatchRule batch_batched_dot(const BatchArgs& a) {
  const int x = a.axis[0], y = a.axis[1];
  if ((x == 0 || x == kWhole) && (y == 0 || y == kWhole)) return rows(0, {0, 0});
  if (x == 1 && y == kWhole) return rows(1, {1, kWhole});
  if (x == kWhole && y == 2) return rows(2, {kWhole, 2});
  if ((x == 2 || x == kWhole) && (y == 1 || y == kWhole)) return summed({2, 1});
  return no();
}

BatchRule batch_images(const BatchArgs& a) {
  return a.axis[0] == 0 && a.axis[1] == kWhole ? rows(0, {0, kWhole}) : no();
}

BatchRule batch_images_second(const BatchArgs& a) {
  return a.axis[0] == kWhole && a.axis[1] == 0 ? sized_rows(0, {kWhole, 0}) : no();
}

BatchRule batch_filters(const BatchArgs& a) {
  return a.axis[0] <= 0 && a.axis[1] <= 0 ? summed({0, 0}) : no();
}

BatchRule batch_windows(const BatchArgs& a) {
  const int axis = common_axis(a, 0, a.in.size());
  const int windows = static_cast<int>(a.attrs.ints("window").size());
  if (axis == kWhole || axis >= a.in[0]->ndim() - windows) return no();
  return rows(axis, std::vector<int>(a.in.size(), axis));
}

BatchRule batch_windows_sized(const BatchArgs& a) {
  BatchRule rule = batch_windows(a);
  rule.cut.resize(a.in.size() - 1);
  rule.rows_at = rule.axis;
  return rule;
}

BatchRule batch_solve(const BatchArgs& a) {
  return a.axis[0] == kWhole && a.axis[1] == 1 ? rows(1, {kWhole, 1}) : no();
}

BatchRule batch_dimshuffle(const BatchArgs& a) {
  const Attrs::Ints& pattern = a.attrs.ints("pattern");
  for (std::size_t k = 0; k < pattern.size(); ++k)
    if (pattern[k] == a.axis[0]) return rows(static_cast<int>(k), {a.axis[0]});
  return no();
}

BatchRule batch_broadcast_to(const BatchArgs& a) {
  const int lead = a.out.ndim() - a.in[0]->ndim();
  if (a.axis[0] != kWhole) return sized_rows(lead + a.axis[0], {a.axis[0]});
  // A whole value stretched to the size of the batch has equal rows.
  int found = kWhole;
  for (int k = 0; k < a.out.ndim(); ++k) {
    if (!a.sizes.is_multiple(a.out.dims[at(k)], a.rows) ||
        (k >= lead && !a.in[0]->broadcastable(at(k - lead))))
      continue;
    if (found != kWhole) return no(kTwoAxes);
    found = k;
  }
  return found == kWhole ? no() : sized_rows(found, {kWhole}, a.out.dims[at(found)]);
}

BatchRule batch_reshape(const BatchArgs& a) {
  const int axis = a.axis[0];
  if (axis == kWhole) return no();
  // The axes before the rows stay, so the rows keep their order. Axes behind may join theirs or
  // come out of it: (n, t, d) -> (n * t, d) and back.
  std::vector<SizeId> before, after;
  for (int k = 0; k < axis; ++k)
    if (!a.sizes.is(a.in[0]->dims[at(k)], 1)) before.push_back(a.in[0]->dims[at(k)]);
  for (int k = 0; k < a.out.ndim(); ++k) {
    const SizeId d = a.out.dims[at(k)];
    if (before == after && a.sizes.is_multiple(d, a.rows)) return sized_rows(k, {axis}, d);
    if (!a.sizes.is(d, 1)) after.push_back(d);
  }
  return no("the batch is not the first factor of an axis");
}

BatchRule batch_other_axes(const BatchArgs& a) {
  BatchRule rule = batch_same(a);
  return rule.axis != kWhole && rule.axis == a.attrs.integer("axis") ? no(kAlong) : rule;
}

BatchRule batch_slice(const BatchArgs& a) {
  if (a.axis[0] == kWhole) return no();
  int axis = beyond_slice(a, a.axis[0]);
  return axis == kWhole ? no("it takes part of the batch") : rows(axis, {a.axis[0]});
}

BatchRule batch_put_slice(const BatchArgs& a) {
  // x may be whole and y have the rows, or the other way round: both are cut.
  for (int axis = 0; axis < a.in[0]->ndim(); ++axis) {
    int part = beyond_slice(a, axis);
    if (part == kWhole || (a.axis[0] != kWhole && a.axis[0] != axis) ||
        (a.axis[1] != kWhole && a.axis[1] != part) || a.in[0]->dims[at(axis)] != a.size)
      continue;
    return rows(axis, {axis, part});
  }
  return no("it changes part of the batch");
}

BatchRule batch_gather(const BatchArgs& a) {
  Picked p = pick(a, 1);
  if (!p.legal || p.part == kWhole) return no("it picks rows of the batch");
  std::vector<int> cut(a.in.size(), p.index);
  cut[0] = p.x;
  BatchRule rule = rows(p.part, std::move(cut));
  rule.local = p.local;
  return rule;
}

BatchRule batch_scatter(const BatchArgs& a) {
  Picked p = pick(a, 2);
  const int y = a.axis[1];
  if (!p.legal || (y != kWhole && p.part != kWhole && y != p.part))
    return no("it writes to rows of the batch");
  std::vector<int> cut(a.in.size(), p.index);
  cut[0] = p.x;
  cut[1] = p.part;
  // Into a table the rows go all at once: in its place, and nobody sees it half done.
  if (p.x == kWhole) return {Kind::Joined};
  BatchRule rule = rows(p.x, std::move(cut));
  rule.local = p.local;
  return rule;
}

BatchRule batch_check_index(const BatchArgs& a) {
  if (a.axis[0] == kWhole) return no();
  BatchRule rule = rows(a.axis[0], {a.axis[0]});
  rule.row_numbers = a.row_numbers[0];  // they are not negative, so they stay
  return rule;
}

BatchRule batch_argtopk(const BatchArgs& a) {
  const int axis = a.axis[0];
  return axis == kWhole || axis == a.attrs.integer("axis") ? no(kAlong) : rows(axis, {axis});
}

BatchRule batch_searchsorted(const BatchArgs& a) {
  return a.axis[0] == kWhole ? rows(a.axis[1], {kWhole, a.axis[1]}) : no();
}

BatchRule batch_arange(const BatchArgs& a) {
  // Integers are made whole; floats must be, too: a slice does not start at the first number.
  if (!a.sizes.is_multiple(a.out.dims[0], a.rows) || !is_discrete(a.out.dtype)) return no();
  BatchRule rule = rows(0, {kWhole, kWhole});
  rule.size = a.out.dims[0];
  auto is = [&](std::size_t i, std::int64_t value) {
    return !a.elements[i].empty() && a.sizes.is(a.elements[i][0], value);
  };
  rule.row_numbers = is(0, 0) && is(1, 1);
  return rule;
}

BatchRule batch_random(const BatchArgs& a) {
  if (a.out.ndim() == 0 || !a.sizes.is_multiple(a.out.dims[0], a.rows)) return no();
  BatchRule rule = sized_rows(0, {kWhole, kWhole}, a.out.dims[0]);
  rule.counter = 1;
  return rule;
}

}  // namespace snug::ops
