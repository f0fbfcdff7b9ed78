#include "gateway/chat_body.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace artesian {
namespace {

// In the order of the request: templates write tools and arguments as they come.
using Json = nlohmann::ordered_json;

constexpr std::string_view billing_header = "x-anthropic-billing-header:";

std::string text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool has_text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string();
}

Json list_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : Json::array();
}

bool all_objects(const Json& list) {
  return std::ranges::all_of(list, [](const Json& item) { return item.is_object(); });
}

// Claude's programs put a stamp there that is another one in each request; the server writes it over.
std::string without_stamp(std::string text) {
  constexpr std::string_view name = "cch=";
  constexpr std::size_t stamp = 5;
  if (!text.starts_with(billing_header)) return text;
  const auto at = text.find(name, billing_header.size());
  if (at == std::string::npos) return text;
  const auto from = at + name.size();
  if (from + stamp < text.size() && text[from + stamp] == ';') text.replace(from, stamp, stamp, 'f');
  return text;
}

// Messages of one request, and what could not be understood.
struct Messages {
  Json list = Json::array();
  bool understood = true;

  bool behind_assistant() const { return !list.empty() && text_at(list.back(), "role") == "assistant"; }
  void add(Json message) { list.push_back(std::move(message)); }
};

// "system" of /v1/messages.
void add_system(const Json& system, Messages& messages) {
  if (system.is_null()) return;
  std::string text;
  if (system.is_string()) text = without_stamp(system.get<std::string>());
  if (system.is_array()) {
    for (const Json& block : system) {
      if (block.is_object() && text_at(block, "type") == "text") text += without_stamp(text_at(block, "text"));
    }
  }
  messages.add({{"role", "system"}, {"content", text}});
}

// The answer of a tool, as a message of its own; false where it is more than text.
bool add_tool_result(const Json& block, Messages& results) {
  std::string text;
  const Json content = block.value("content", Json());
  if (content.is_string()) text = content.get<std::string>();
  for (const Json& part : content.is_array() ? content : Json::array()) {
    if (!part.is_object() || text_at(part, "type") == "image") return false;
    if (text_at(part, "type") == "text") text += text_at(part, "text");
  }
  results.add({{"role", "tool"}, {"tool_call_id", text_at(block, "tool_use_id")}, {"content", text}});
  return true;
}

void add_blocks(const Json& message, Messages& messages) {
  Json content = Json::array(), calls = Json::array();
  std::string reasoning;
  Messages results;
  for (const Json& block : message.at("content")) {
    const std::string type = block.is_object() ? text_at(block, "type") : "";
    if (type == "text") {
      content.push_back(block);
    } else if (type == "thinking") {
      reasoning += text_at(block, "thinking");
    } else if (type == "tool_use") {
      const std::string arguments = block.value("input", Json::object()).dump();
      calls.push_back({{"id", text_at(block, "id")},
                       {"type", "function"},
                       {"function", {{"name", text_at(block, "name")}, {"arguments", arguments}}}});
    } else if (type != "tool_result" || !add_tool_result(block, results)) {
      messages.understood = false;
    }
  }
  if (!content.empty() || !calls.empty() || !reasoning.empty()) {
    Json turn{{"role", text_at(message, "role")}};
    turn["content"] = content.empty() ? Json("") : content;
    if (!calls.empty()) turn["tool_calls"] = calls;
    if (!reasoning.empty()) turn["reasoning_content"] = reasoning;
    messages.add(std::move(turn));
  }
  for (const Json& result : results.list) messages.add(result);
}

// One of the parts of an item's content in /v1/responses; other kinds than text are not understood.
Json text_parts(const Json& content, std::initializer_list<std::string_view> kinds, Messages& messages) {
  Json parts = Json::array();
  for (const Json& part : content) {
    const bool known = part.is_object() && std::ranges::find(kinds, text_at(part, "type")) != kinds.end();
    if (!known || !has_text(part, "text")) {
      messages.understood = false;
      break;
    }
    parts.push_back({{"text", part.at("text")}, {"type", "text"}});
  }
  return parts;
}

void add_call(const Json& item, Messages& messages) {
  const Json call{{"function", {{"arguments", item.at("arguments")}, {"name", item.at("name")}}},
                  {"id", item.at("call_id")},
                  {"type", "function"}};
  if (!messages.behind_assistant()) {
    messages.add({{"role", "assistant"}, {"tool_calls", Json::array({call})}});
    return;
  }
  Json& calls = messages.list.back()["tool_calls"];
  if (!calls.is_array()) calls = Json::array();
  calls.push_back(call);
}

void add_call_output(const Json& item, Messages& messages) {
  Json output = item.value("output", Json());
  if (output.is_array()) output = text_parts(output, {"input_text"}, messages);
  messages.understood = messages.understood && (output.is_string() || output.is_array());
  messages.add({{"content", output}, {"role", "tool"}, {"tool_call_id", item.at("call_id")}});
}

void add_reasoning(const Json& item, Messages& messages) {
  const Json content = list_at(item, "content");
  const bool known = item.contains("summary") && item["summary"].is_array() && !content.empty() &&
                     content[0].is_object() && has_text(content[0], "text");
  messages.understood = messages.understood && known;
  if (!known) return;
  if (!messages.behind_assistant()) messages.add({{"role", "assistant"}, {"content", Json::array()}});
  messages.list.back()["reasoning_content"] = content[0]["text"];
}

void add_item(Json item, Messages& messages) {
  const std::string role = text_at(item, "role"), type = text_at(item, "type");
  Json content = item.value("content", Json());
  if (content.is_string()) content = Json::array({{{"text", content}, {"type", "input_text"}}});
  constexpr std::array askers = {"user", "system", "developer"};
  const bool asks = std::ranges::find(askers, role) != askers.end() && content.is_array();
  // What the server makes of two answers in a row is not certain.
  const bool answers = role == "assistant" && type == "message" && content.is_array() && !messages.behind_assistant();
  if (asks || answers) {
    item["content"] = asks ? text_parts(content, {"input_text"}, messages)
                           : text_parts(content, {"output_text", "input_text"}, messages);
    item.erase("type");
    item.erase("status");
    messages.add(std::move(item));
  } else if (type == "function_call" && has_text(item, "arguments") && has_text(item, "call_id") &&
             has_text(item, "name")) {
    add_call(item, messages);
  } else if (type == "function_call_output" && has_text(item, "call_id")) {
    add_call_output(item, messages);
  } else if (type == "reasoning") {
    add_reasoning(item, messages);
  } else {
    messages.understood = false;
  }
}

Json tools_of_messages(const Json& tools) {
  Json all = Json::array();
  for (const Json& tool : tools) {
    const Json parameters = tool.contains("input_schema") ? tool["input_schema"] : Json::object();
    const Json function{
        {"name", text_at(tool, "name")}, {"description", text_at(tool, "description")}, {"parameters", parameters}};
    all.push_back({{"type", "function"}, {"function", function}});
  }
  return all;
}

Json tools_of_responses(const Json& tools) {
  Json all = Json::array();
  for (Json tool : tools) {
    if (text_at(tool, "type") != "function") continue;  // the server leaves those out
    tool.erase("type");
    if (!tool.contains("strict")) tool["strict"] = true;
    all.push_back({{"type", "function"}, {"function", tool}});
  }
  return all;
}

std::optional<std::string> written(const Json& chat, const Messages& messages) {
  if (!messages.understood) return std::nullopt;
  return chat.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::optional<std::string> chat_of_messages(std::string_view text) {
  const Json body = Json::parse(text, nullptr, false);
  if (!body.is_object() || !body.contains("messages") || !body["messages"].is_array()) return std::nullopt;
  Messages messages;
  add_system(body.value("system", Json()), messages);
  for (const Json& message : body["messages"]) {
    if (!message.is_object()) return std::nullopt;
    const bool blocks = message.contains("content") && message["content"].is_array();
    if (blocks) {
      add_blocks(message, messages);
    } else if (message.contains("content") || text_at(message, "role") != "assistant") {
      messages.add(message);
    }
  }
  Json chat{{"messages", messages.list}};
  if (body.contains("tools") && body["tools"].is_array()) {
    if (!all_objects(body["tools"])) return std::nullopt;
    chat["tools"] = tools_of_messages(body["tools"]);
  }
  const Json choice = body.value("tool_choice", Json());
  const std::string chosen = choice.is_object() ? text_at(choice, "type") : "";
  if (chosen == "auto") chat["tool_choice"] = "auto";
  if (chosen == "any" || chosen == "tool") chat["tool_choice"] = "required";
  if (body.contains("chat_template_kwargs")) chat["chat_template_kwargs"] = body["chat_template_kwargs"];
  return written(chat, messages);
}

std::optional<std::string> chat_of_responses(std::string_view text) {
  const Json body = Json::parse(text, nullptr, false);
  if (!body.is_object() || !body.contains("input")) return std::nullopt;
  Messages messages;
  Json chat = body;
  if (body.contains("instructions")) messages.add({{"role", "system"}, {"content", text_at(body, "instructions")}});
  const Json& input = body["input"];
  if (input.is_string()) messages.add({{"role", "user"}, {"content", input}});
  if (!input.is_string() && (!input.is_array() || !all_objects(input))) return std::nullopt;
  if (input.is_array()) {
    for (const Json& item : input) add_item(item, messages);
  }
  chat.erase("input");
  chat.erase("instructions");
  chat["messages"] = messages.list;
  if (body.contains("tools")) {
    if (!body["tools"].is_array() || !all_objects(body["tools"])) return std::nullopt;
    const Json tools = tools_of_responses(body["tools"]);
    chat.erase("tools");
    if (!tools.empty()) chat["tools"] = tools;
  }
  const Json reasoning = body.value("reasoning", Json());
  if (reasoning.is_object() && reasoning.contains("effort")) chat["reasoning_effort"] = reasoning["effort"];
  chat.erase("reasoning");
  return written(chat, messages);
}

}  // namespace artesian
