#pragma once
#include <functional>
#include <map>
#include <optional>

#include "data/hdf5_bytes.h"

namespace snug::data::h5 {

/// What the header of an object says of it. Numbers of kinds are those of the format.
struct Message {
  enum Kind : std::uint8_t {
    Dataspace = 0x01,
    LinkInfo = 0x02,
    Datatype = 0x03,
    OldFill = 0x04,
    Fill = 0x05,
    Link = 0x06,
    ExternalFiles = 0x07,
    Layout = 0x08,
    Filters = 0x0B,
    Continuation = 0x10,
    SymbolTable = 0x11,
  };
  int kind = 0;
  bool shared = false;  // `bytes` say where it is
  std::vector<std::byte> bytes;
};
using Messages = std::vector<Message>;

/// All messages of the header at this place, those of its continuations included.
Messages messages_at(const Store& store, Address header);
/// The first one of a kind; null if there is none.
const Message* find(const Messages& messages, Message::Kind kind);
bool is_dataset(const Messages& messages);

/// A name in a group.
struct Link {
  enum Kind : std::uint8_t { Hard, Soft, External, Other } kind = Hard;
  Address object = kNowhere;  // of hard ones
  std::string target;         // of soft ones: a path
};
using Links = std::map<std::string, Link>;

/// The names in the group with this header; none if it is no group.
Links links_of(const Store& store, const Messages& group);

/// Calls `visit` with each record of a B-tree of version 2, whose records are of this type.
void visit_records(const Store& store, Address tree, int type,
                   const std::function<void(std::span<const std::byte> record)>& visit);

}  // namespace snug::data::h5
