#include "data/hdf5_objects.h"

#include <algorithm>
#include <bit>

namespace snug::data::h5 {
namespace {

constexpr const char* kHeader = "object header";
constexpr std::size_t kMostMessages = 1 << 16;

/// Reads the blocks of a header one after another; continuations add more.
class HeaderReader {
 public:
  HeaderReader(const Store& store, Address header) : store_(store) {
    const std::vector<std::byte> start = store.read(header, 4, kHeader);
    if (std::memcmp(start.data(), "OHDR", 4) == 0)
      read_new(header);
    else
      read_old(header);
    for (std::size_t i = 0; i < more_.size(); ++i) {  // grows meanwhile
      const auto [at, length] = more_[i];
      const std::vector<std::byte> block = store.read(at, length, kHeader);
      if (!new_) {
        read_messages(block);
        continue;
      }
      check_sum(store_, block, kHeader);
      if (block.size() < 8 || std::memcmp(block.data(), "OCHK", 4) != 0) store_.damaged(kHeader);
      read_messages(std::span(block).subspan(4, block.size() - 8));
    }
  }

  Messages messages;

 private:
  void read_old(Address header) {
    const std::vector<std::byte> bytes = store_.read(header, 12, kHeader);
    Cursor c(store_, bytes, kHeader);
    if (c.number(1) != 1) c.damaged();
    c.skip(1 + 2 + 4);  // counts
    const std::uint64_t size = c.number(4);
    read_messages(store_.read(header + 16, size, kHeader));
  }

  void read_new(Address header) {
    new_ = true;
    const std::vector<std::byte> start = store_.read(header, 6, kHeader);
    if (start[4] != std::byte{2}) store_.damaged(kHeader);
    const auto flags = std::to_integer<unsigned>(start[5]);
    ordered_ = flags & 4;
    const int width = 1 << (flags & 3);
    const std::uint64_t size_at = 6 + (flags & 32 ? 16 : 0) + (flags & 16 ? 4 : 0);
    const std::vector<std::byte> size_bytes = store_.read(header + size_at, width, kHeader);
    const std::uint64_t size = Cursor(store_, size_bytes, kHeader).number(width);
    store_.check(header, size, kHeader);
    const std::uint64_t begin = size_at + width;
    const std::vector<std::byte> bytes = store_.read(header, begin + size + 4, kHeader);
    check_sum(store_, bytes, kHeader);
    read_messages(std::span(bytes).subspan(begin, size));
  }

  void read_messages(std::span<const std::byte> block) {
    Cursor c(store_, block, kHeader);
    const std::size_t head = !new_ ? 8 : ordered_ ? 6 : 4;
    while (c.left() >= head) {
      Message m;
      m.kind = static_cast<int>(c.number(new_ ? 1 : 2));
      const std::uint64_t size = c.number(2);
      m.shared = c.number(1) & 2;
      c.skip(head - (new_ ? 4 : 5));
      const std::span<const std::byte> bytes = c.take(size);
      if (m.kind == Message::Continuation) {
        Cursor place(store_, bytes, kHeader);
        const Address at = place.address();
        more_.emplace_back(at, place.length());
      } else if (m.kind != 0) {
        m.bytes.assign(bytes.begin(), bytes.end());
        messages.push_back(std::move(m));
      }
      if (messages.size() + more_.size() > kMostMessages) c.damaged();
    }
  }

  const Store& store_;
  bool new_ = false, ordered_ = false;
  std::vector<std::pair<Address, std::uint64_t>> more_;
};

// ---- groups as they were before 1.8: a B-tree of tables, names in a heap

constexpr const char* kGroup = "group";

/// The names of a group, in one piece.
std::vector<std::byte> local_heap(const Store& store, Address at) {
  const std::vector<std::byte> bytes =
      store.read(at, 8 + 2 * store.length_bytes() + store.offset_bytes(), kGroup);
  Cursor c(store, bytes, kGroup);
  c.expect("HEAP");
  c.skip(4);
  const std::uint64_t size = c.length();
  c.length();  // of what is free
  return store.read(c.address(), size, kGroup);
}

void add_table(const Store& store, Address table, const std::vector<std::byte>& names,
               Links& links) {
  const std::vector<std::byte> head = store.read(table, 8, kGroup);
  Cursor h(store, head, kGroup);
  h.expect("SNOD");
  h.skip(2);
  const std::uint64_t count = h.number(2);
  const std::uint64_t entry = 2 * store.offset_bytes() + 24;
  const std::vector<std::byte> bytes = store.read(table + 8, count * entry, kGroup);
  Cursor c(store, bytes, kGroup);
  const auto name_at = [&](std::uint64_t place) {
    Cursor name(store, names, kGroup);
    name.skip(place);
    return name.text();
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string name = name_at(c.address());
    Link link{Link::Hard, c.address(), {}};
    constexpr std::uint64_t kSoft = 2;
    const std::uint64_t kind = c.number(4);
    c.skip(4);
    const std::uint64_t value = c.number(4);
    c.skip(12);
    if (kind == kSoft) link = {Link::Soft, kNowhere, name_at(value)};
    if (!links.emplace(name, link).second) c.damaged();
  }
}

void add_old_links(const Store& store, const Message& message, Links& links) {
  Cursor m(store, message.bytes, kGroup);
  const Address tree = m.address();
  const std::vector<std::byte> names = local_heap(store, m.address());
  std::vector<std::pair<Address, int>> nodes{{tree, -1}};  // with their level, if it is known
  while (!nodes.empty()) {
    const auto [at, expected] = nodes.back();
    nodes.pop_back();
    const std::uint64_t head_bytes = 8 + 2 * store.offset_bytes();
    const std::vector<std::byte> head = store.read(at, head_bytes, kGroup);
    Cursor h(store, head, kGroup);
    h.expect("TREE");
    if (h.number(1) != 0) h.damaged();
    const int level = static_cast<int>(h.number(1));
    if (expected >= 0 && level != expected) h.damaged();
    const std::uint64_t count = h.number(2);
    const std::vector<std::byte> bytes =
        store.read(at + head_bytes, count * (store.length_bytes() + store.offset_bytes()), kGroup);
    Cursor c(store, bytes, kGroup);
    for (std::uint64_t i = 0; i < count; ++i) {
      c.length();
      const Address child = c.address();
      if (level > 0)
        nodes.emplace_back(child, level - 1);
      else
        add_table(store, child, names, links);
    }
  }
}

// ---- groups since 1.8: links as messages, in the header or in a heap

void add_link(const Store& store, std::span<const std::byte> bytes, Links& links) {
  Cursor c(store, bytes, kGroup);
  if (c.number(1) != 1) c.damaged();
  const auto flags = static_cast<unsigned>(c.number(1));
  constexpr std::uint64_t kSoft = 1, kExternal = 64;
  const std::uint64_t kind = flags & 8 ? c.number(1) : 0;
  if (flags & 4) c.skip(8);
  if (flags & 16) c.skip(1);
  const std::span<const std::byte> text = c.take(c.number(1 << (flags & 3)));
  const std::string name(reinterpret_cast<const char*>(text.data()), text.size());
  Link link;
  if (kind == 0) {
    link.object = c.address();
  } else if (kind == kSoft) {
    const std::span<const std::byte> target = c.take(c.number(2));
    link = {Link::Soft, kNowhere,
            std::string(reinterpret_cast<const char*>(target.data()), target.size())};
  } else {
    link.kind = kind == kExternal ? Link::External : Link::Other;
  }
  if (!links.emplace(name, link).second) c.damaged();
}

int log2_of(std::uint64_t value) { return std::bit_width(value) - 1; }

/// A heap of objects in blocks of growing sizes; only where its objects are is read.
class Heap {
 public:
  Heap(const Store& store, Address header) : store_(store) {
    const int o = store.offset_bytes(), l = store.length_bytes();
    const std::vector<std::byte> bytes = store.read(header, 26 + 12 * l + 3 * o, kGroup);
    check_sum(store, bytes, kGroup);
    Cursor c(store, bytes, kGroup);
    c.expect("FRHP");
    c.skip(1);
    id_bytes_ = c.number(2);
    if (c.number(2) != 0)
      bad_file(store.path(), "its list of names is packed", "rewrite it with h5repack");
    c.skip(1);
    const std::uint64_t largest = c.number(4);
    c.skip(2 * (l + o) + 8 * l);
    width_ = c.number(2);
    start_ = c.length();
    const std::uint64_t largest_block = c.length();
    const auto bits = static_cast<int>(c.number(2));
    c.skip(2);
    const Address root = c.address();
    const auto rows = static_cast<int>(c.number(2));
    const auto power = [](std::uint64_t v) { return std::has_single_bit(v) && v < (1ull << 40); };
    if (!power(width_) || !power(start_) || !power(largest_block) || largest_block < start_ ||
        bits < 8 || bits > 64 || largest == 0)
      c.damaged();
    offset_bytes_ = (bits + 7) / 8;
    length_bytes_ = std::min((log2_of(largest_block) + 7) / 8, log2_of(largest) / 8 + 1);
    direct_rows_ = log2_of(largest_block) - log2_of(start_) + 2;
    if (root != kNowhere) find_blocks(root, rows);
  }

  std::vector<std::byte> object(std::span<const std::byte> id) const {
    Cursor c(store_, id, kGroup);
    constexpr std::uint64_t kManaged = 0;
    if (c.number(1) >> 4 != kManaged) c.damaged();
    const std::uint64_t offset = c.number(offset_bytes_), length = c.number(length_bytes_);
    const auto after =
        std::upper_bound(blocks_.begin(), blocks_.end(), offset,
                         [](std::uint64_t value, const Block& b) { return value < b.offset; });
    if (after == blocks_.begin()) c.damaged();
    const Block& block = *(after - 1);
    const std::uint64_t within = offset - block.offset;
    if (within > block.size || length > block.size - within) c.damaged();
    return store_.read(block.at + within, length, kGroup);
  }

  std::uint64_t id_bytes() const { return id_bytes_; }

 private:
  struct Block {
    std::uint64_t offset, size;  // in the heap
    Address at;
  };
  /// A block of addresses of blocks.
  struct Table {
    Address at;
    std::uint64_t offset;
    int rows;
  };

  std::uint64_t block_size(int row) const { return row == 0 ? start_ : start_ << (row - 1); }

  void find_blocks(Address root, int root_rows) {
    if (root_rows == 0) {
      blocks_.push_back({0, start_, root});
      return;
    }
    std::vector<Table> tables{{root, 0, root_rows}};
    while (!tables.empty()) {
      const Table table = tables.back();
      tables.pop_back();
      if (table.rows < 0 || table.rows > 64) store_.damaged(kGroup);
      const std::uint64_t head = 5 + store_.offset_bytes() + offset_bytes_;
      const std::uint64_t size = head + table.rows * width_ * store_.offset_bytes() + 4;
      const std::vector<std::byte> bytes = store_.read(table.at, size, kGroup);
      check_sum(store_, bytes, kGroup);
      Cursor c(store_, bytes, kGroup);
      c.expect("FHIB");
      c.skip(head - 4);
      std::uint64_t offset = table.offset;
      for (int row = 0; row < table.rows; ++row) {
        for (std::uint64_t i = 0; i < width_; ++i, offset += block_size(row)) {
          const Address at = c.address();
          if (at == kNowhere) continue;
          if (row < direct_rows_)
            blocks_.push_back({offset, block_size(row), at});
          else
            tables.push_back({at, offset, log2_of(block_size(row)) - log2_of(start_ * width_) + 1});
        }
      }
    }
    std::sort(blocks_.begin(), blocks_.end(),
              [](const Block& a, const Block& b) { return a.offset < b.offset; });
  }

  const Store& store_;
  std::uint64_t id_bytes_ = 0, width_ = 0, start_ = 0;
  int offset_bytes_ = 0, length_bytes_ = 0, direct_rows_ = 0;
  std::vector<Block> blocks_;
};

void add_new_links(const Store& store, const Message& info, Links& links) {
  Cursor c(store, info.bytes, kGroup);
  if (c.number(1) != 0) c.damaged();
  if (c.number(1) & 1) c.skip(8);
  const Address heap_at = c.address();
  if (heap_at == kNowhere) return;  // all are in the header
  const Heap heap(store, heap_at);
  constexpr int kByName = 5;
  visit_records(store, c.address(), kByName, [&](std::span<const std::byte> record) {
    if (record.size() != 4 + heap.id_bytes()) store.damaged(kGroup);
    add_link(store, heap.object(record.subspan(4)), links);
  });
}

}  // namespace

Messages messages_at(const Store& store, Address header) {
  return HeaderReader(store, header).messages;
}

const Message* find(const Messages& messages, Message::Kind kind) {
  for (const Message& m : messages)
    if (m.kind == kind) return &m;
  return nullptr;
}

bool is_dataset(const Messages& messages) {
  return find(messages, Message::Dataspace) && find(messages, Message::Datatype) &&
         find(messages, Message::Layout);
}

Links links_of(const Store& store, const Messages& group) {
  Links links;
  for (const Message& m : group) {
    if (m.kind == Message::SymbolTable) add_old_links(store, m, links);
    if (m.kind == Message::LinkInfo) add_new_links(store, m, links);
    if (m.kind == Message::Link) add_link(store, m.bytes, links);
  }
  return links;
}

void visit_records(const Store& store, Address tree, int type,
                   const std::function<void(std::span<const std::byte> record)>& visit) {
  constexpr const char* kWhat = "B-tree";
  const int o = store.offset_bytes();
  const std::vector<std::byte> head = store.read(tree, 22 + o + store.length_bytes(), kWhat);
  check_sum(store, head, kWhat);
  Cursor h(store, head, kWhat);
  h.expect("BTHD");
  h.skip(1);
  if (h.number(1) != static_cast<std::uint64_t>(type)) h.damaged();
  const std::uint64_t node_bytes = h.number(4), record_bytes = h.number(2);
  const int depth = static_cast<int>(h.number(2));
  h.skip(2);
  const Address root = h.address();
  const std::uint64_t root_records = h.number(2);
  constexpr std::uint64_t kNodeHead = 6, kSum = 4;
  constexpr int kDeepest = 32;
  if (record_bytes == 0 || node_bytes < kNodeHead + kSum + record_bytes || depth > kDeepest)
    h.damaged();
  if (root == kNowhere) return;

  // A pointer to a node has two counts, as wide as the most records that fit need it: those in the
  // node, and with nodes below it those of all.
  const auto width_for = [](std::uint64_t count) { return (std::bit_width(count) + 7) / 8; };
  struct Level {
    std::uint64_t records = 0, all = 0;  // at most
    int pointer_bytes = 0;               // of one to this level
    int count_bytes = 0, all_bytes = 0;
  };
  std::vector<Level> levels(depth + 1);
  constexpr std::uint64_t kMany = std::uint64_t{1} << 56;
  for (int i = 0; i <= depth; ++i) {
    Level& level = levels[i];
    if (i == 0) {
      level.records = level.all = (node_bytes - kNodeHead - kSum) / record_bytes;
    } else {
      const Level& below = levels[i - 1];
      const std::uint64_t pointer = below.pointer_bytes;
      if (node_bytes < kNodeHead + kSum + pointer) h.damaged();
      level.records = (node_bytes - kNodeHead - kSum - pointer) / (record_bytes + pointer);
      const double all = static_cast<double>(level.records + 1) * static_cast<double>(below.all) +
                         static_cast<double>(level.records);
      level.all = all > static_cast<double>(kMany)
                      ? kMany
                      : (level.records + 1) * below.all + level.records;
    }
    level.count_bytes = width_for(levels[0].records);
    level.all_bytes = i == 0 ? 0 : width_for(level.all);
    level.pointer_bytes = o + level.count_bytes + level.all_bytes;
  }

  struct Node {
    Address at;
    std::uint64_t records;
    int level;
  };
  std::vector<Node> nodes{{root, root_records, depth}};
  while (!nodes.empty()) {
    const Node node = nodes.back();
    nodes.pop_back();
    if (node.records > levels[node.level].records) h.damaged();
    const std::uint64_t pointers =
        node.level == 0 ? 0 : (node.records + 1) * levels[node.level - 1].pointer_bytes;
    const std::vector<std::byte> bytes =
        store.read(node.at, kNodeHead + node.records * record_bytes + pointers + kSum, kWhat);
    check_sum(store, bytes, kWhat);
    Cursor c(store, bytes, kWhat);
    c.expect(node.level == 0 ? "BTLF" : "BTIN");
    c.skip(2);
    for (std::uint64_t i = 0; i < node.records; ++i) visit(c.take(record_bytes));
    if (node.level == 0) continue;
    const Level& below = levels[node.level - 1];
    for (std::uint64_t i = 0; i <= node.records; ++i) {
      const Address child = c.address();
      nodes.push_back({child, c.number(below.count_bytes), node.level - 1});
      c.skip(below.all_bytes);
    }
  }
}

}  // namespace snug::data::h5
