#include "expr/serialize.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <bit>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include "base/fork.h"
#include "base/origin_marks.h"
#include "expr/op_def.h"
#include "expr/rebuild.h"

// The bytes: a header, then the payload: texts, origins, counts, one record per leaf, inner
// function or application in topological order, default updates, roots. Numbers are LEB128;
// expressions are named by their place in the order of records, 0 being the first.
namespace snug {
namespace {

constexpr char kMagic[8] = {'S', 'N', 'U', 'G', 'G', 'R', 'P', 'H'};
constexpr std::uint32_t kVersion = 1;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t zero;
  std::uint64_t bytes;    // of the payload
  std::uint64_t hash[2];  // of the payload
};
static_assert(sizeof(Header) == 40 && std::endian::native == std::endian::little);

enum class Record : std::uint8_t { Input, Constant, Shared, Outside, Function, Apply };
enum class Held : std::uint8_t { Value, Recipe, Apart, Alias };  // what is there of a shared one

// Added to the number of frames of an origin: kDerivativeMark, and that a word or a device follows.
constexpr std::uint64_t kMarkedOrigin = 16, kOriginWithWord = 32, kOriginWithDevice = 64;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 48;  // of an axis
constexpr std::size_t kMaxDims = 8, kMaxName = 64, kMaxNames = 1000;

void set_hash(Header& h, std::string_view payload) {
  const XXH128_hash_t hash = XXH3_128bits(payload.data(), payload.size());
  h.hash[0] = hash.low64;
  h.hash[1] = hash.high64;
}

// ---- saving

class Bytes {
 public:
  void byte(std::uint8_t b) { text.push_back(static_cast<char>(b)); }
  void number(std::uint64_t n) {
    for (; n >= 0x80; n >>= 7) byte(static_cast<std::uint8_t>(n | 0x80));
    byte(static_cast<std::uint8_t>(n));
  }
  void integer(std::int64_t n) {  // small negative ones stay short
    number((static_cast<std::uint64_t>(n) << 1) ^ static_cast<std::uint64_t>(n >> 63));
  }
  void real(double v) { raw(&v, sizeof v); }
  void raw(const void* data, std::size_t size) {
    text.append(static_cast<const char*>(data), size);
  }
  void chars(std::string_view s) {
    number(s.size());
    text.append(s);
  }
  std::string text;
};

class Saver {
 public:
  Saver(std::span<const Expr> roots, const SaveOptions& options) : options_(options) {
    for (const Expr& e : roots) {
      if (!e) fail(Fault::Type, "save_graph: an empty expression");
      visit(e.get());
    }
    for (std::size_t i = 0; i < variables_.size(); ++i) {  // grows while it runs
      SharedVariable* s = as_shared(variables_[i]);
      if (!s || is_outside(variables_[i])) continue;
      if (Expr update = s->find_default_update()) {
        visit(update.get());
        updates_.push_back({i, update, !s->default_update});
      }
    }
    body_.number(updates_.size());
    for (const UpdateOf& u : updates_) {
      body_.number(u.shared);
      body_.number(numbers_.at(u.value.get()));
      body_.byte(u.by_rule);
    }
    body_.number(roots.size());
    for (const Expr& e : roots) body_.number(numbers_.at(e.get()));
  }

  std::string finish() {
    Bytes payload;
    payload.number(texts_.size());
    for (const std::string& s : texts_) payload.chars(s);
    payload.number(origins_.size());
    payload.text += origin_bytes_.text;
    payload.number(outside_);
    payload.number(apart_);
    payload.number(records_);
    payload.text += body_.text;
    Header h{};
    std::memcpy(h.magic, kMagic, sizeof kMagic);
    h.version = kVersion;
    h.bytes = payload.text.size();
    set_hash(h, payload.text);
    if (options_.variables) *options_.variables = std::move(variables_);
    return std::string(reinterpret_cast<const char*>(&h), sizeof h) + payload.text;
  }

 private:
  struct UpdateOf {
    std::size_t shared;
    Expr value;
    bool by_rule;
  };

  bool is_outside(const Expr& e) const { return options_.is_outside && options_.is_outside(e); }

  /// Writes what `root` reaches, operands first.
  void visit(Variable* root) {
    struct Item {
      Variable* v;
      bool expanded;
    };
    std::vector<Item> stack{{root, false}};
    auto later = [&](const Expr& e) {
      if (!numbers_.count(e.get())) stack.push_back({e.get(), false});
    };
    while (!stack.empty()) {
      Item item = stack.back();
      stack.pop_back();
      Variable* v = item.v;
      if (numbers_.count(v)) continue;
      if (item.expanded || is_outside(Expr(Ref<Variable>(v)))) {
        write(v);
        continue;
      }
      stack.push_back({v, true});
      if (auto* shared = dynamic_cast<SharedVariable*>(v); shared && shared->alias_of)
        later(Expr(shared->alias_of));
      if (!v->owner) continue;
      for (std::size_t i = v->owner->inputs.size(); i-- > 0;) later(v->owner->inputs[i]);
      for (const Attrs::Item& attr : v->owner->attrs.items())
        if (auto* f = std::get_if<std::shared_ptr<const Lambda>>(&attr.value)) {
          for (const Expr& e : (*f)->results) later(e);
          for (const Expr& e : (*f)->params) later(e);
        }
    }
  }

  void begin(Record kind) {
    body_.byte(static_cast<std::uint8_t>(kind));
    ++records_;
  }
  void end(const Expr& e) {
    numbers_.emplace(e.get(), variables_.size());
    variables_.push_back(e);
  }

  void write(Variable* v) {
    Expr e{Ref<Variable>(v)};
    if (is_outside(e)) {
      begin(Record::Outside);
      body_.number(outside_++);
      type(v->type);
      if (options_.outside) options_.outside->push_back(e);
    } else if (v->owner) {
      return write_apply(*v->owner);
    } else if (auto* c = dynamic_cast<Constant*>(v)) {
      begin(Record::Constant);
      text(v->name);
      origin(v->origin);
      array(*c->value);
    } else if (auto* s = dynamic_cast<SharedVariable*>(v)) {
      write_shared(*s);
    } else {
      begin(Record::Input);
      text(v->name);
      origin(v->origin);
      type(v->type);
    }
    end(e);
  }

  void write_shared(SharedVariable& s) {
    begin(Record::Shared);
    text(s.name);
    origin(s.origin);
    body_.byte(s.type.broadcast);
    if (s.alias_of) {
      body_.byte(static_cast<std::uint8_t>(Held::Alias));
      body_.number(numbers_.at(s.alias_of.get()));
      return;
    }
    const ReadLock lock(s);
    if (const Recipe* r = s.recipe()) {
      body_.byte(static_cast<std::uint8_t>(Held::Recipe));
      dtype(r->dtype);
      dims(r->shape);
      body_.byte(static_cast<std::uint8_t>(r->kind));
      body_.real(r->a);
      body_.real(r->b);
      body_.number(r->seed);
    } else if (options_.values) {
      body_.byte(static_cast<std::uint8_t>(Held::Apart));
      body_.number(apart_++);
      options_.values->push_back(s.copy_locked());
    } else {
      body_.byte(static_cast<std::uint8_t>(Held::Value));
      array(s.copy_locked());
    }
  }

  void write_apply(Apply& a) {
    find_op(a.op->name);  // an op of compiled graphs alone cannot be read again
    for (const Attrs::Item& attr : a.attrs.items())
      if (auto* f = std::get_if<std::shared_ptr<const Lambda>>(&attr.value)) function(f->get());
    begin(Record::Apply);
    text(a.op->name);
    origin(a.origin);
    body_.number(a.inputs.size());
    for (const Expr& x : a.inputs) body_.number(numbers_.at(x.get()));
    body_.number(a.attrs.items().size());
    for (const Attrs::Item& attr : a.attrs.items()) {
      text(attr.name);
      body_.byte(static_cast<std::uint8_t>(attr.value.index()));
      std::visit([&](const auto& v) { attribute(v); }, attr.value);
    }
    body_.number(a.types.size());
    for (std::size_t i = 0; i < a.types.size(); ++i) {
      Expr out = a.output(i);
      text(out.name());
      end(out);
    }
  }

  void function(const Lambda* f) {
    if (!functions_.try_emplace(f, functions_.size()).second) return;
    begin(Record::Function);
    for (const std::vector<Expr>* list : {&f->params, &f->results}) {
      body_.number(list->size());
      for (const Expr& e : *list) body_.number(numbers_.at(e.get()));
    }
  }

  void attribute(bool v) { body_.byte(v); }
  void attribute(std::int64_t v) { body_.integer(v); }
  void attribute(double v) { body_.real(v); }
  void attribute(const std::string& v) { text(v); }
  void attribute(DType v) { dtype(v); }
  void attribute(const Attrs::Ints& v) {
    body_.number(v.size());
    for (std::int64_t i : v) body_.integer(i);
  }
  void attribute(const std::shared_ptr<const Array>& v) { array(*v); }
  void attribute(const std::shared_ptr<const Lambda>& v) { body_.number(functions_.at(v.get())); }
  [[noreturn]] void attribute(const std::shared_ptr<const HostCall>&) {
    fail(Fault::Unsupported, "save_graph: the expression prints, by code that a file cannot hold",
         "save the expression without Print");
  }

  void text(std::string_view s) { body_.number(text_number(s)); }
  std::uint64_t text_number(std::string_view s) {
    auto [it, fresh] = text_numbers_.try_emplace(std::string(s), texts_.size());
    if (fresh) texts_.emplace_back(s);
    return it->second;
  }
  void origin(OriginId id) {
    if (id == 0) return body_.number(0);
    auto [it, fresh] = origins_.try_emplace(id, origins_.size() + 1);
    if (fresh) {
      std::vector<Frame> frames = frames_of(id);
      const std::string_view word = word_of(id), device = device_mark(id);
      origin_bytes_.number(frames.size() + (is_derivative(id) ? kMarkedOrigin : 0) +
                           (word.empty() ? 0 : kOriginWithWord) +
                           (device.empty() ? 0 : kOriginWithDevice));
      if (!word.empty()) origin_bytes_.number(text_number(word));
      if (!device.empty()) origin_bytes_.number(text_number(device));
      for (const Frame& f : frames) {
        origin_bytes_.number(text_number(f.file));
        origin_bytes_.integer(f.line);
        origin_bytes_.number(text_number(f.function));
      }
    }
    body_.number(it->second);
  }
  void dtype(DType t) { text(name_of(t)); }
  void dims(const Dims& d) {
    body_.number(d.size());
    for (std::int64_t n : d) body_.integer(n);
  }
  void type(const TensorType& t) {
    dtype(t.dtype);
    body_.byte(t.broadcast);
    dims(t.shape);
  }
  void array(const Array& a) {
    dtype(a.dtype);
    dims(a.shape);
    const Array whole = a.contiguous() ? a : a.contiguous_copy();
    body_.raw(whole.data, static_cast<std::size_t>(whole.bytes()));
  }

  const SaveOptions& options_;
  std::unordered_map<Variable*, std::size_t> numbers_;
  std::unordered_map<const Lambda*, std::size_t> functions_;
  std::unordered_map<OriginId, std::size_t> origins_;
  std::unordered_map<std::string, std::size_t> text_numbers_;
  std::vector<std::string> texts_;
  std::vector<Expr> variables_;  // by number
  std::vector<UpdateOf> updates_;
  Bytes body_, origin_bytes_;
  std::uint64_t records_ = 0, apart_ = 0, outside_ = 0;
};

// ---- loading

[[noreturn]] void damaged(std::string_view what) {
  fail(Fault::Value, fmt::format("load_graph: the bytes are damaged: {}", what),
       "save the graph again");
}

/// Names of attributes live as long as the process; those of the rows are literals.
std::string_view lasting(const std::string& name) {
  static BriefMutex& mutex = *new BriefMutex;
  static std::set<std::string>* names = new std::set<std::string>;
  bool plain = !name.empty() && name.size() <= kMaxName;
  for (char c : name) plain &= (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  if (!plain) damaged("an attribute without a proper name");
  std::lock_guard lock(mutex);
  if (names->size() >= kMaxNames && !names->count(name)) damaged("too many kinds of attributes");
  return *names->insert(name).first;
}

class Loader {
 public:
  Loader(std::string_view payload, const LoadOptions& options) : rest_(payload), options_(options) {
    const std::size_t texts = count("texts");
    for (std::size_t i = 0; i < texts; ++i) {
      const std::size_t size = count("a text");
      texts_.emplace_back(take(size));
    }
    const std::size_t origins = count("origins");
    origins_.push_back(0);
    for (std::size_t i = 0; i < origins; ++i) origins_.push_back(read_origin());
    if (number() != options.outside.size())
      fail(Fault::Value, fmt::format("load_graph: {} expressions are given from outside, the bytes "
                                     "need another number of them",
                                     options.outside.size()));
    if (number() != options.values.size())
      fail(Fault::Value, fmt::format("load_graph: {} values of shared variables are given, the "
                                     "bytes need another number of them",
                                     options.values.size()));
    const std::size_t records = count("records");
    for (std::size_t i = 0; i < records; ++i) read_record();
    const std::size_t updates = count("default updates");
    for (std::size_t i = 0; i < updates; ++i) read_default_update();
    const std::size_t count_of_roots = count("roots");
    for (std::size_t i = 0; i < count_of_roots; ++i) roots.push_back(variable());
    if (!rest_.empty()) damaged("there is more than the graph");
    // Last: an update that reads its variable makes a circle, which must not be left behind by
    // bytes that turn out to be damaged.
    for (auto& [s, value] : default_updates_) s->default_update = std::move(value);
    if (options.variables) *options.variables = std::move(variables_);
  }
  std::vector<Expr> roots;

 private:
  std::string_view take(std::size_t size) {
    if (size > rest_.size()) damaged("they end too early");
    std::string_view out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return out;
  }
  std::uint8_t byte() { return static_cast<std::uint8_t>(take(1)[0]); }
  std::uint64_t number() {
    std::uint64_t n = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint8_t b = byte();
      n |= static_cast<std::uint64_t>(b & 0x7f) << shift;
      if (b < 0x80) return n;
    }
    damaged("a number without end");
  }
  std::int64_t integer() {
    const std::uint64_t n = number();
    return static_cast<std::int64_t>((n >> 1) ^ (~(n & 1) + 1));
  }
  double real() {
    double v;
    std::memcpy(&v, take(sizeof v).data(), sizeof v);
    return v;
  }
  /// A number of things that take at least a byte each.
  std::size_t count(std::string_view of) {
    const std::uint64_t n = number();
    if (n > rest_.size()) damaged(fmt::format("{} {}", n, of));
    return static_cast<std::size_t>(n);
  }
  template <class T>
  const T& at(const std::vector<T>& list, std::string_view what) {
    const std::uint64_t i = number();
    if (i >= list.size()) damaged(fmt::format("there is no {} number {}", what, i));
    return list[static_cast<std::size_t>(i)];
  }
  const std::string& text() { return at(texts_, "text"); }
  const Expr& variable() { return at(variables_, "expression"); }
  OriginId origin() { return at(origins_, "origin"); }
  DType dtype() {
    const std::string& name = text();
    std::optional<DType> t = dtype_from_name(name);
    if (!t) damaged(fmt::format("'{}' is no dtype", name));
    return *t;
  }
  bool flag() {
    const std::uint8_t b = byte();
    if (b > 1) damaged("a flag that is neither 0 nor 1");
    return b;
  }

  OriginId read_origin() {
    std::uint64_t n = number();
    const bool placed = n >= kOriginWithDevice;
    if (placed) n -= kOriginWithDevice;
    const bool worded = n >= kOriginWithWord;
    if (worded) n -= kOriginWithWord;
    const bool marked = n >= kMarkedOrigin;
    if (marked) n -= kMarkedOrigin;
    if (n > kMaxOriginFrames) damaged("an origin of too many frames");
    const std::string word = worded ? text() : "", device = placed ? text() : "";
    std::vector<Frame> frames;
    for (std::uint64_t i = 0; i < n; ++i) {
      Frame f;
      f.file = text();
      f.line = static_cast<int>(integer());
      f.function = text();
      frames.push_back(std::move(f));
    }
    OriginId id = intern_origin(frames);
    if (worded) id = with_word(id, word);
    if (placed) id = with_device_mark(id, device);
    return marked ? as_derivative(id) : id;
  }

  /// The sizes of an array (or, with `least` -1, of a type) whose product fits 64 bits.
  Dims dims(std::int64_t least) {
    const std::uint64_t n = number();
    if (n > kMaxDims) damaged(fmt::format("{} dimensions", n));
    Dims out;
    std::int64_t elements = 1;
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::int64_t size = integer();
      if (size < least || size > kMaxSize ||
          __builtin_mul_overflow(elements, std::max<std::int64_t>(size, 1), &elements) ||
          elements > kMaxSize)
        damaged(fmt::format("an axis of size {}", size));
      out.push_back(size);
    }
    return out;
  }
  TensorType type() {
    TensorType t;
    t.dtype = dtype();
    const std::uint8_t mask = byte();
    t.shape = dims(-1);
    t.broadcast = mask;
    check_mask(mask, t.shape.size());
    for (std::size_t i = 0; i < t.shape.size(); ++i)
      if (t.broadcastable(i) && t.shape[i] != 1) damaged("a broadcastable axis that is not 1");
    return t;
  }
  Array array() {
    const DType t = dtype();
    const Dims shape = dims(0);
    const std::int64_t bytes = product(shape) * size_of(t);
    const std::string_view data = take(static_cast<std::size_t>(bytes));
    if (t == DType::Bool)
      for (char b : data)
        if (b != 0 && b != 1) damaged("a bool that is neither 0 nor 1");
    Array a = Array::empty(t, shape);
    if (bytes) std::memcpy(a.data, data.data(), data.size());
    return a;
  }

  void add(Expr e, const std::string& name, OriginId origin) {
    e->name = name;
    e->origin = origin;
    variables_.push_back(std::move(e));
  }

  void read_record() {
    const std::uint8_t kind = byte();
    switch (static_cast<Record>(kind)) {
      case Record::Input: {
        const std::string& name = text();
        const OriginId where = origin();
        return add(input(type()), name, where);
      }
      case Record::Constant: {
        const std::string& name = text();
        const OriginId where = origin();
        return add(constant(array()), name, where);
      }
      case Record::Shared: return read_shared();
      case Record::Outside: {
        const std::uint64_t i = number();
        if (i >= options_.outside.size()) damaged("an expression from outside that is not there");
        const Expr& e = options_.outside[i];
        const TensorType saved = type();
        if (saved.dtype != e.dtype() || saved.broadcast != e.type().broadcast ||
            saved.shape.size() != e.type().shape.size())
          fail(Fault::Value, fmt::format("load_graph: expression {} from outside is {}, not {}", i,
                                         describe(e.type()), describe(saved)));
        variables_.push_back(e);
        return;
      }
      case Record::Function: return read_function();
      case Record::Apply: return read_apply();
    }
    damaged(fmt::format("a record of kind {}", kind));
  }

  void read_shared() {
    const std::string& name = text();
    const OriginId where = origin();
    const std::uint8_t mask = byte();
    Ref<SharedVariable> made;
    const std::uint8_t held = byte();
    switch (static_cast<Held>(held)) {
      case Held::Value: {
        Array value = array();
        check_mask(mask, value.shape.size());
        made = Ref<SharedVariable>(new SharedVariable(value, {}, mask));
        break;
      }
      case Held::Recipe: {
        Recipe r;
        r.dtype = dtype();
        r.shape = dims(0);
        const std::uint8_t kind = byte();
        if (kind > static_cast<std::uint8_t>(Recipe::Kind::Normal)) damaged("an unknown recipe");
        r.kind = static_cast<Recipe::Kind>(kind);
        r.a = real();
        r.b = real();
        r.seed = number();
        check_mask(mask, r.shape.size());
        for (std::size_t i = 0; i < r.shape.size(); ++i)
          if ((mask >> i & 1) && r.shape[i] != 1) damaged("a broadcastable axis that is not 1");
        made = Ref<SharedVariable>(new SharedVariable(r, {}, mask));
        break;
      }
      case Held::Apart: {
        const std::uint64_t i = number();
        if (i >= options_.values.size()) damaged("a value that is not there");
        const Array& value = options_.values[i];
        check_mask(mask, value.shape.size());
        made = Ref<SharedVariable>(new SharedVariable(value, {}, mask));
        break;
      }
      case Held::Alias: {
        auto* of = as_shared(variable());
        if (!of) damaged("a variable of the same value as one that is not shared");
        made = Ref<SharedVariable>(new SharedVariable(Ref<SharedVariable>(of)));
        break;
      }
      default: damaged("an unknown kind of value");
    }
    add(Expr(Ref<Variable>(made)), name, where);
  }
  static void check_mask(std::uint8_t mask, std::size_t ndim) {
    if (ndim < 8 && mask >> ndim) damaged("more broadcastable axes than dimensions");
  }

  std::vector<Expr> variable_list(std::string_view what) {
    std::vector<Expr> out;
    const std::size_t n = count(what);
    for (std::size_t i = 0; i < n; ++i) out.push_back(variable());
    return out;
  }

  void read_function() {
    auto f = std::make_shared<Lambda>();
    f->params = variable_list("parameters");
    f->results = variable_list("results");
    std::unordered_set<Variable*> params;
    for (const Expr& p : f->params)
      if (p->owner || constant_value(p) || as_shared(p) || !params.insert(p.get()).second)
        damaged("a parameter that is no input of its own");
    for (const Expr& e : topological(f->results, f->params))
      if (!e->owner && !constant_value(e) && !params.count(e.get()))
        damaged("an inner function that reaches what is no parameter");
    functions_.push_back(std::move(f));
  }

  Attrs::Value attribute() {
    switch (byte()) {
      case 0: return flag();
      case 1: return integer();
      case 2: return real();
      case 3: return text();
      case 4: return dtype();
      case 5: {
        Attrs::Ints list;
        const std::size_t n = count("integers");
        for (std::size_t i = 0; i < n; ++i) list.push_back(integer());
        return list;
      }
      case 6: return std::make_shared<const Array>(array());
      case 7: return std::shared_ptr<const Lambda>(at(functions_, "inner function"));
      default: damaged("an attribute of an unknown kind");
    }
  }

  /// Rows that trust their indices get ones that are checked while they run.
  static void check_indices(const std::string& name, std::vector<Expr>& inputs) {
    const std::size_t first = name == "gather" ? 1 : name.starts_with("scatter_") ? 2 : SIZE_MAX;
    for (std::size_t i = first; i < inputs.size(); ++i) {
      const Apply* maker = inputs[i]->owner.get();
      if (maker && maker->op->name == "check_index") continue;
      const Expr axis = constant(Array::scalar<std::int64_t>(static_cast<std::int64_t>(i - first)));
      const Expr size = apply(find_op("slice"), {apply(find_op("shape"), {inputs[0]}), axis},
                              {{"spec", Attrs::Ints{1, 1, 0, 0}}});
      inputs[i] = apply(find_op("check_index"), {inputs[i], size});
    }
  }

  void read_apply() {
    const std::string& name = text();
    const OriginId where = origin();
    std::vector<Expr> inputs = variable_list("operands");
    Attrs attrs;
    const std::size_t n_attrs = count("attributes");
    for (std::size_t i = 0; i < n_attrs; ++i) {
      std::string_view key = lasting(text());
      if (attrs.has(key)) damaged(fmt::format("{} has the attribute {} twice", name, key));
      attrs.set(key, attribute());
    }
    OriginOverride place(where);
    std::vector<Expr> outputs;
    try {
      const OpDef& op = find_op(name);
      if (has(op, kLeaf)) damaged(fmt::format("{} is applied", name));
      check_indices(name, inputs);
      outputs = apply_all(op, std::move(inputs), std::move(attrs));
    } catch (const Error& e) {
      throw ValueError(fmt::format("load_graph: {} cannot be made: {}", name, e.message()),
                       e.hint());
    } catch (const std::length_error& e) {
      damaged(fmt::format("{}: {}", name, e.what()));
    }
    if (count("outputs") != outputs.size())
      damaged(fmt::format("{} with another number of outputs", name));
    for (Expr& out : outputs) {
      out->name = text();
      variables_.push_back(std::move(out));
    }
  }

  void read_default_update() {
    const Expr target = variable(), value = variable();
    SharedVariable* s = as_shared(target);
    for (const Expr& e : options_.outside)
      if (same(e, target)) s = nullptr;
    if (!s) damaged("a default update of what is not shared");
    if (!flag()) {
      default_updates_.emplace_back(s, value);
      return;
    }
    // The rule must not hold the variable it is of.
    const Expr self = input(target.type(), target.name());
    const Expr general = substitute({value}, {{target, self}})[0];
    s->default_update_rule = [self, general](const Expr& now) {
      return substitute({general}, {{self, now}})[0];
    };
  }

  std::string_view rest_;
  const LoadOptions& options_;
  std::vector<std::string> texts_;
  std::vector<OriginId> origins_;
  std::vector<Expr> variables_;
  std::vector<std::pair<SharedVariable*, Expr>> default_updates_;
  std::vector<std::shared_ptr<const Lambda>> functions_;
};

}  // namespace

std::string save_graph(std::span<const Expr> roots, const SaveOptions& options) {
  return Saver(roots, options).finish();
}

std::vector<Expr> load_graph(std::string_view bytes, const LoadOptions& options) {
  Header h;
  if (bytes.size() < sizeof h || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    fail(Fault::Value, "load_graph: these bytes are no saved graph");
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.version != kVersion)
    fail(Fault::Value,
         fmt::format("load_graph: the graph was saved in version {}, this one reads "
                     "version {}",
                     h.version, kVersion),
         "load it with the version of Snug that saved it");
  const std::string_view payload = bytes.substr(sizeof h);
  if (h.bytes != payload.size())
    damaged(fmt::format("{} bytes are there, not {}", payload.size(), h.bytes));
  Header check{};
  set_hash(check, payload);
  if (h.zero != 0 || check.hash[0] != h.hash[0] || check.hash[1] != h.hash[1])
    damaged("their hash is wrong");
  try {
    return Loader(payload, options).roots;
  } catch (const Error& e) {
    if (e.fault() == Fault::Value) throw;
    damaged(e.message());
  }
}

}  // namespace snug
