#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace snug {

/// The orders of leaves in which some sets of them stand together, as a PQ-tree: the children of a
/// free node stand in any order, those of a row in theirs or its reverse.
class PackOrders {
 public:
  using Leaves = std::vector<std::uint32_t>;
  using Set = std::vector<char>;  // per leaf: whether it is in the set

  PackOrders() = default;
  /// All orders.
  explicit PackOrders(const Leaves& leaves) : root_(any_order(leaves)) {}

  /// A set cut to as few blocks as have their leaves together in every order.
  std::vector<Leaves> blocks(const Set& set);

  /// Keeps the orders in which a set stands together, and puts other leaves in its place, which
  /// stand together in any order. False: there is none, and what is left is of no use.
  bool replace(const Set& set, const Leaves& others);

  /// An order in which the places of the leaves never fall. There has to be one.
  Leaves sorted(const std::vector<std::uint32_t>& places) const;

  /// The same for the same orders of the same labels, up to the reverse.
  std::uint64_t hash(const std::vector<std::uint64_t>& labels) const { return hash(root_, labels); }

 private:
  enum class Kind : std::uint8_t { Leaf, Free, Row };
  struct Node {
    Kind kind = Kind::Leaf;
    std::uint32_t leaf = 0;
    std::vector<Node> children;
    std::uint32_t leaves = 0, members = 0;  // below it, and those in the latest set
    bool none() const { return members == 0; }
    bool full() const { return members == leaves; }
    bool partial() const { return !none() && !full(); }
  };
  using Nodes = std::vector<Node>;
  struct Extent {
    std::uint32_t first, last;
    auto operator<=>(const Extent&) const = default;
  };

  static Node make(Kind kind, Nodes children);
  static Node any_order(const Leaves& leaves);
  static void count(Node& node, const Set& set);
  static void collect(const Node& node, Leaves& leaves);
  static void add_blocks(const Node& node, std::vector<Leaves>& blocks);
  static bool gather(Node& node, std::uint32_t members, Node others);
  static bool gather_free(Node& node, Node others);
  static bool gather_row(Node& node, Node others);
  static bool open(Node& node, Nodes& outside);
  static bool open_free(Node& node, Nodes& outside);
  static bool open_row(Node& node, Nodes& outside);
  static Extent sort(Node& node, const std::vector<std::uint32_t>& places);
  static std::uint64_t hash(const Node& node, const std::vector<std::uint64_t>& labels);

  Node root_;
};

}  // namespace snug
