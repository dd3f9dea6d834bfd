// Sets of orders as trees: against lists of all orders.
#include "plan/pack_orders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace snug {
namespace {

using Leaves = PackOrders::Leaves;
using Orders = std::set<Leaves>;

constexpr std::size_t kIds = 24;

Orders all_orders(Leaves leaves) {
  Orders orders;
  std::sort(leaves.begin(), leaves.end());
  do orders.insert(leaves);
  while (std::next_permutation(leaves.begin(), leaves.end()));
  return orders;
}

PackOrders::Set set_of(const Leaves& leaves) {
  PackOrders::Set set(kIds, 0);
  for (std::uint32_t leaf : leaves) set[leaf] = 1;
  return set;
}

bool together(const Leaves& order, const PackOrders::Set& set) {
  auto in_set = [&](std::uint32_t leaf) { return set[leaf] != 0; };
  const auto first = std::find_if(order.begin(), order.end(), in_set);
  const auto end = std::find_if_not(first, order.end(), in_set);
  return std::none_of(end, order.end(), in_set);
}

/// The largest parts of a set whose leaves are together in all orders.
std::set<Leaves> blocks(const Orders& orders, const Leaves& set) {
  std::set<Leaves> found;
  for (std::uint32_t bits = 1; bits < 1U << set.size(); ++bits) {
    Leaves part;
    for (std::size_t k = 0; k < set.size(); ++k)
      if (bits >> k & 1) part.push_back(set[k]);
    if (std::all_of(orders.begin(), orders.end(),
                    [&](const Leaves& order) { return together(order, set_of(part)); }))
      found.insert(part);
  }
  std::erase_if(found, [&](const Leaves& part) {
    return std::any_of(found.begin(), found.end(), [&](const Leaves& other) {
      return other != part && std::includes(other.begin(), other.end(), part.begin(), part.end());
    });
  });
  return found;
}

Orders replaced(const Orders& orders, const Leaves& leaves, const Leaves& others) {
  const PackOrders::Set set = set_of(leaves);
  Orders found;
  for (const Leaves& order : orders) {
    if (!together(order, set)) continue;
    for (const Leaves& inner : all_orders(others)) {
      Leaves next;
      for (std::uint32_t leaf : order)
        if (!set[leaf])
          next.push_back(leaf);
        else if (std::find(next.begin(), next.end(), inner[0]) == next.end())
          next.insert(next.end(), inner.begin(), inner.end());
      found.insert(next);
    }
  }
  return found;
}

void expect_same(const PackOrders& tree, const Orders& orders) {
  for (const Leaves& order : all_orders(*orders.begin())) {
    std::vector<std::uint32_t> places(kIds, 0);
    for (std::uint32_t k = 0; k < order.size(); ++k) places[order[k]] = k;
    ASSERT_EQ(tree.sorted(places) == order, orders.contains(order));
  }
}

/// Some of the leaves, sorted.
Leaves some_of(std::mt19937& rng, Leaves leaves) {
  std::shuffle(leaves.begin(), leaves.end(), rng);
  leaves.resize(1 + rng() % leaves.size());
  std::sort(leaves.begin(), leaves.end());
  return leaves;
}

TEST(PackOrders, AreThoseInWhichAllSetsStandTogether) {
  std::mt19937 rng(3);
  int without_any = 0;
  for (int round = 0; round < 500; ++round) {
    Leaves leaves(2 + rng() % 5);
    for (std::uint32_t k = 0; k < leaves.size(); ++k) leaves[k] = k;
    PackOrders tree(leaves);
    Orders orders = all_orders(leaves);
    for (std::uint32_t step = 0, next = 6; step < 5; ++step) {
      const Leaves set = some_of(rng, *orders.begin());
      const std::size_t rest = orders.begin()->size() - set.size();
      Leaves others(1 + rng() % std::min<std::size_t>(3, 7 - rest));
      for (std::uint32_t& leaf : others) leaf = next++;
      std::set<Leaves> found;
      for (Leaves block : tree.blocks(set_of(set))) {
        std::sort(block.begin(), block.end());
        found.insert(block);
      }
      ASSERT_EQ(found, blocks(orders, set));
      orders = replaced(orders, set, others);
      ASSERT_EQ(tree.replace(set_of(set), others), !orders.empty());
      without_any += orders.empty();
      if (orders.empty()) break;
      expect_same(tree, orders);
    }
  }
  EXPECT_GT(without_any, 0);
}

/// Sets of a few leaves, each replaced by itself, so that the same orders come about in many ways.
TEST(PackOrders, HaveTheSameHashIfAndOnlyIfTheyAreTheSame) {
  std::mt19937 rng(5);
  std::vector<std::uint64_t> labels(kIds);
  for (std::uint64_t& label : labels) label = rng();
  std::map<std::uint64_t, Orders> by_hash;
  std::set<Orders> different;
  for (int round = 0; round < 500; ++round) {
    Leaves leaves = {0, 1, 2, 3, 4};
    std::shuffle(leaves.begin(), leaves.end(), rng);
    PackOrders tree(leaves);
    Orders orders = all_orders(leaves);
    for (int step = 0; step < 3; ++step) {
      const Leaves set = some_of(rng, leaves);
      orders = replaced(orders, set, set);
      if (!tree.replace(set_of(set), set)) break;
      const auto [known, is_new] = by_hash.emplace(tree.hash(labels), orders);
      ASSERT_EQ(known->second, orders);
      different.insert(orders);
    }
  }
  EXPECT_EQ(by_hash.size(), different.size());
  EXPECT_GT(different.size(), 20U);
}

}  // namespace
}  // namespace snug
