#include "plan/pack_orders.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "plan/pack_mix.h"

namespace snug {
namespace {

constexpr std::uint64_t kSeed = 1;

template <class T>
void move_to(std::vector<T>& to, std::vector<T>& from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

template <class T>
void move_reversed_to(std::vector<T>& to, std::vector<T>& from) {
  std::move(from.rbegin(), from.rend(), std::back_inserter(to));
}

}  // namespace

/// One alone needs no node around it, and two are free in a row as well.
PackOrders::Node PackOrders::make(Kind kind, Nodes children) {
  if (children.size() == 1) return std::move(children.front());
  Node node;
  node.kind = children.size() == 2 ? Kind::Free : kind;
  node.children = std::move(children);
  return node;
}

PackOrders::Node PackOrders::any_order(const Leaves& leaves) {
  Nodes children(leaves.size());
  for (std::size_t k = 0; k < leaves.size(); ++k) children[k].leaf = leaves[k];
  return make(Kind::Free, std::move(children));
}

void PackOrders::count(Node& node, const Set& set) {
  const bool is_leaf = node.kind == Kind::Leaf;
  node.leaves = is_leaf;
  node.members = is_leaf && set[node.leaf];
  for (Node& child : node.children) {
    count(child, set);
    node.leaves += child.leaves;
    node.members += child.members;
  }
}

void PackOrders::collect(const Node& node, Leaves& leaves) {
  if (node.kind == Kind::Leaf) leaves.push_back(node.leaf);
  for (const Node& child : node.children) collect(child, leaves);
}

void PackOrders::add_blocks(const Node& node, std::vector<Leaves>& blocks) {
  if (node.none()) return;
  if (node.full()) return collect(node, blocks.emplace_back());
  bool goes_on = false;  // the child before in the row is full
  for (const Node& child : node.children) {
    if (child.full() && goes_on)
      collect(child, blocks.back());
    else
      add_blocks(child, blocks);
    goes_on = child.full() && node.kind == Kind::Row;
  }
}

std::vector<PackOrders::Leaves> PackOrders::blocks(const Set& set) {
  count(root_, set);
  std::vector<Leaves> found;
  add_blocks(root_, found);
  return found;
}

bool PackOrders::replace(const Set& set, const Leaves& others) {
  count(root_, set);
  return gather(root_, root_.members, any_order(others));
}

/// In the smallest part of the tree that has all members.
bool PackOrders::gather(Node& node, std::uint32_t members, Node others) {
  if (node.full()) {
    node = std::move(others);
    return true;
  }
  for (Node& child : node.children)
    if (child.members == members) return gather(child, members, std::move(others));
  return node.kind == Kind::Free ? gather_free(node, std::move(others))
                                 : gather_row(node, std::move(others));
}

bool PackOrders::gather_free(Node& node, Node others) {
  Nodes free, row, after;
  int partial = 0;
  for (Node& child : node.children) {
    if (child.none()) free.push_back(std::move(child));
    if (child.partial() && (++partial > 2 || !open(child, partial == 1 ? row : after)))
      return false;
  }
  row.push_back(std::move(others));
  move_reversed_to(row, after);
  free.push_back(make(Kind::Row, std::move(row)));
  node = make(Kind::Free, std::move(free));
  return true;
}

bool PackOrders::gather_row(Node& node, Node others) {
  Nodes row, rest, after;
  bool begun = false;
  for (Node& child : node.children) {
    if (child.none()) {
      (begun ? rest : row).push_back(std::move(child));
      continue;
    }
    // Members go on from the child before, and those of a partial one stand beside them.
    if (!rest.empty() || !after.empty()) return false;
    if (child.partial() && !open(child, begun ? after : row)) return false;
    begun = true;
  }
  row.push_back(std::move(others));
  move_reversed_to(row, after);
  move_to(row, rest);
  node = make(Kind::Row, std::move(row));
  return true;
}

/// What is left of a partial node without its members if those are at one end: from the farthest
/// to the nearest to them.
bool PackOrders::open(Node& node, Nodes& outside) {
  return node.kind == Kind::Free ? open_free(node, outside) : open_row(node, outside);
}

bool PackOrders::open_free(Node& node, Nodes& outside) {
  Nodes free;
  Node* partial = nullptr;
  for (Node& child : node.children) {
    if (child.none()) free.push_back(std::move(child));
    if (!child.partial()) continue;
    if (partial) return false;
    partial = &child;
  }
  if (!free.empty()) outside.push_back(make(Kind::Free, std::move(free)));
  return !partial || open(*partial, outside);
}

bool PackOrders::open_row(Node& node, Nodes& outside) {
  if (node.children.front().full() || node.children.back().none())
    std::reverse(node.children.begin(), node.children.end());
  bool begun = false;
  for (Node& child : node.children) {
    if (begun && !child.full()) return false;
    begun |= !child.none();
    if (child.partial() && !open(child, outside)) return false;
    if (child.none()) outside.push_back(std::move(child));
  }
  return true;
}

PackOrders::Extent PackOrders::sort(Node& node, const std::vector<std::uint32_t>& places) {
  if (node.kind == Kind::Leaf) return {places[node.leaf], places[node.leaf]};
  std::vector<std::pair<Extent, std::size_t>> extents;
  for (Node& child : node.children) extents.emplace_back(sort(child, places), extents.size());
  if (node.kind == Kind::Row) {
    if (extents.back().first < extents.front().first) {
      std::reverse(node.children.begin(), node.children.end());
      std::reverse(extents.begin(), extents.end());
    }
  } else {
    std::sort(extents.begin(), extents.end());
    Nodes sorted;
    for (const auto& [extent, k] : extents) sorted.push_back(std::move(node.children[k]));
    node.children = std::move(sorted);
  }
  return {extents.front().first.first, extents.back().first.last};
}

PackOrders::Leaves PackOrders::sorted(const std::vector<std::uint32_t>& places) const {
  Node root = root_;
  sort(root, places);
  Leaves leaves;
  collect(root, leaves);
  return leaves;
}

std::uint64_t PackOrders::hash(const Node& node, const std::vector<std::uint64_t>& labels) {
  if (node.kind == Kind::Leaf) return mix_bits(labels[node.leaf]);
  std::vector<std::uint64_t> hashes;
  for (const Node& child : node.children) hashes.push_back(mix_bits(hash(child, labels)));
  if (node.kind == Kind::Free)
    return mix_bits(std::accumulate(hashes.begin(), hashes.end(), kSeed));
  auto chain = [](std::uint64_t all, std::uint64_t h) { return mix_bits(all + h); };
  const std::uint64_t forwards = std::accumulate(hashes.begin(), hashes.end(), kSeed, chain);
  const std::uint64_t backwards = std::accumulate(hashes.rbegin(), hashes.rend(), kSeed, chain);
  return mix_bits(forwards + backwards);
}

}  // namespace snug
