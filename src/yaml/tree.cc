#include "yaml/tree.h"

#include <exception>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "yaml/text_check.h"

namespace berth::yaml {

namespace {

// Thrown through yaml-cpp to stop it, caught in parse().
struct Refused {
  int line;
  int column;
  std::string message;
};

// Builds the tree from yaml-cpp's events: unlike its own document class, these show aliases before
// they are followed and let us stop at the first thing that is too deep or too much.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const Limits& limits) : limits_(limits) {}

  std::vector<Node> take() { return std::move(documents_); }

  void OnDocumentStart(const YAML::Mark& /*mark*/) override { stack_.clear(); }

  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(start(mark, "", anchor, NodeKind::null));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    refuse(mark,
           "aliases (*name) are not read: write the value out, or put a text that begins with * in "
           "quotes");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node = start(mark, tag, anchor, NodeKind::scalar);
    node.quoted = tag == "!";
    if (!node.quoted && (value == "~" || value == "null" || value.empty())) {
      node.kind = NodeKind::null;
    } else {
      node.text = value;
    }
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, start(mark, tag, anchor, NodeKind::list));
  }

  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, start(mark, tag, anchor, NodeKind::map));
  }

  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    bool awaits_value = false;  // map: the last entry has its key only
  };

  [[noreturn]] static void refuse(const YAML::Mark& mark, std::string message) {
    throw Refused{mark.line + 1, mark.column + 1, std::move(message)};
  }

  [[noreturn]] static void refuse_at(const Node& node, std::string message) {
    throw Refused{node.line, node.column, std::move(message)};
  }

  Node start(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, NodeKind kind) {
    if (anchor != YAML::NullAnchor) {
      refuse(mark, "anchors (&name) are not read: write the value out where it is used");
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(mark, fmt::format("the tag '{}' is not read: leave it out", tag));
    }
    if (++nodes_ > limits_.max_nodes) {
      refuse(mark, fmt::format("more than {} values: split the file", limits_.max_nodes));
    }
    Node node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  void open(const YAML::Mark& mark, Node node) {
    if (stack_.size() >= limits_.max_depth) {
      refuse(mark,
             fmt::format("lists and maps more than {} deep: flatten them", limits_.max_depth));
    }
    if (!stack_.empty() && expects_key()) refuse_at(node, "a key must be one word");
    stack_.push_back({.node = std::move(node)});
  }

  void close() {
    Node done = std::move(stack_.back().node);
    stack_.pop_back();
    add(std::move(done));
  }

  bool expects_key() const { return stack_.back().node.is_map() && !stack_.back().awaits_value; }

  void add(Node node) {
    if (stack_.empty()) {
      documents_.push_back(std::move(node));
    } else if (expects_key()) {
      add_key(stack_.back(), std::move(node));
    } else if (stack_.back().node.is_map()) {
      Entry& entry = stack_.back().node.entries.back();
      stack_.back().awaits_value = false;
      if (node.is_null()) {  // its own mark is that of whatever comes next
        node.line = entry.line;
        node.column = entry.column;
      }
      entry.value = std::move(node);
    } else {
      stack_.back().node.items.push_back(std::move(node));
    }
  }

  static void add_key(Open& map, Node key) {
    if (!key.is_scalar() || key.text.empty()) {
      refuse_at(key, "a key must be one word, and not empty");
    }
    for (const Entry& entry : map.node.entries) {
      if (entry.key == key.text) {
        refuse_at(key, fmt::format("the key '{}' is given twice (first in line {}): keep one",
                                   key.text, entry.line));
      }
    }
    if (key.text == "<<" && !key.quoted) {
      refuse_at(key, "merge keys (<<) are not read: write the entries out");
    }
    map.node.entries.push_back(
        {.key = std::move(key.text), .line = key.line, .column = key.column, .value = {}});
    map.awaits_value = true;
  }

  Limits limits_;
  std::size_t nodes_ = 0;
  std::vector<Open> stack_;
  std::vector<Node> documents_;
};

}  // namespace

const Node* Node::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

std::string_view kind_name(NodeKind kind) {
  switch (kind) {
    case NodeKind::null: return "nothing";
    case NodeKind::scalar: return "a single value";
    case NodeKind::list: return "a list";
    case NodeKind::map: return "a map";
  }
  return "?";
}

Error error_at(std::string_view file_name, int line, int column, std::string_view message) {
  return invalid_argument(fmt::format("{}:{}:{}: {}", file_name, line, column, message));
}

Result<std::vector<Node>> parse(std::string_view text, std::string_view file_name,
                                const Limits& limits) {
  TRY(std::string clean, check_text(text, file_name, limits));
  try {
    std::istringstream stream(std::move(clean));
    YAML::Parser parser(stream);
    TreeBuilder builder(limits);
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.take();
  } catch (const Refused& refused) {
    return error_at(file_name, refused.line, refused.column, refused.message);
  } catch (const YAML::Exception& exception) {
    const bool placed = !exception.mark.is_null();
    // The usual cause of an alias without its anchor.
    const bool star = exception.msg.find("anchor") != std::string::npos;
    return error_at(file_name, placed ? exception.mark.line + 1 : 1,
                    placed ? exception.mark.column + 1 : 1,
                    fmt::format("this is not YAML: {}{}", exception.msg,
                                star ? "; a text that begins with * stands in quotes" : ""));
  } catch (const std::exception& exception) {
    return error_at(file_name, 1, 1, fmt::format("the file cannot be read: {}", exception.what()));
  }
}

}  // namespace berth::yaml
