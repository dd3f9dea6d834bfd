#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/array.h"
#include "base/dtype.h"

namespace snug {

struct Lambda;  // expr/expr.h: an inner function of a loop or branch

/// Code of the host program that an op calls while it runs. The array is valid during the call
/// only, and lies in memory that must not be changed. An exception ends the call of the function.
struct HostCall {
  std::function<void(const Array&)> run;
};

/// The constants of an op, by name. Printing, hashing, comparing and serialising are here, once.
class Attrs {
 public:
  using Ints = std::vector<std::int64_t>;
  using Value = std::variant<bool, std::int64_t, double, std::string, DType, Ints,
                             std::shared_ptr<const Array>, std::shared_ptr<const Lambda>,
                             std::shared_ptr<const HostCall>>;
  struct Item {
    std::string_view name;  // a string literal
    Value value;
  };

  Attrs() = default;
  Attrs(std::initializer_list<Item> items) : items_(items) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// An internal error if the attribute is missing or of another kind.
  bool flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  DType dtype(std::string_view name) const;
  const Ints& ints(std::string_view name) const;
  const std::shared_ptr<const Array>& array(std::string_view name) const;
  const std::shared_ptr<const Lambda>& lambda(std::string_view name) const;
  const std::shared_ptr<const HostCall>& host_call(std::string_view name) const;
  void set(std::string_view name, Value value);
  void erase(std::string_view name);

  const std::vector<Item>& items() const { return items_; }
  bool empty() const { return items_.empty(); }
  std::size_t hash() const;
  /// Arrays compare by dtype, shape and bits; lambdas and host calls by identity.
  friend bool operator==(const Attrs& a, const Attrs& b);
  std::string describe() const;  // "axis=[0], keepdims=true"

 private:
  const Value* find(std::string_view name) const;
  std::vector<Item> items_;
};

}  // namespace snug
