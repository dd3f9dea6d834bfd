#include <gtest/gtest.h>

#include "exec/executable.h"
#include "expr/evaluate_sizes.h"

namespace snug {
namespace {

/// The bounds of every operation hold all its values, for all small ranges of its operands.
TEST(SizeBounds, HoldEveryValue) {
  SizeTable t;
  SizeId a = t.symbol({Symbol::Kind::Dim, 0, 0}), b = t.symbol({Symbol::Kind::Dim, 0, 1});
  std::vector<SizeId> results = {t.add(a, b),   t.sub(a, b),
                                 t.mul(a, b),   t.floor_div(a, b),
                                 t.mod(a, b),   t.min(a, b),
                                 t.max(a, b),   t.less(a, b),
                                 t.equal(a, b), t.select(t.less(a, b), a, t.mul(b, b))};
  constexpr std::int64_t kReach = 4;
  for (std::int64_t alow = -kReach; alow <= kReach; ++alow)
    for (std::int64_t ahigh = alow; ahigh <= kReach; ++ahigh)
      for (std::int64_t blow = -kReach; blow <= kReach; ++blow)
        for (std::int64_t bhigh = blow; bhigh <= kReach; ++bhigh) {
          std::int64_t low[] = {alow, blow}, high[] = {ahigh, bhigh};
          SizeBounds bounds = bound_sizes(t, low, high);
          std::vector<std::int64_t> values(t.nodes().size());
          for (std::int64_t x = alow; x <= ahigh; ++x)
            for (std::int64_t y = blow; y <= bhigh; ++y) {
              std::int64_t symbols[] = {x, y};
              evaluate_sizes(t, values, symbols);
              for (SizeId r : results) {
                ASSERT_LE(bounds.low[r], values[r]) << t.describe(r) << " at " << x << ", " << y;
                ASSERT_GE(bounds.high[r], values[r]) << t.describe(r) << " at " << x << ", " << y;
              }
            }
        }
}

}  // namespace
}  // namespace snug
