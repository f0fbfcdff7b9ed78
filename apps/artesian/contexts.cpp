// artesian contexts: what a running gateway keeps, shown, removed, pinned, and made ahead of time.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "commands.h"
#include "gateway/http.h"
#include "key_file.h"
#include "platform/file.h"

namespace artesian::cli {
namespace {

using nlohmann::json;

constexpr std::uint64_t warm_bytes_max = 32 * MiB;
constexpr auto call_time_max = std::chrono::hours(1);  // of one that may compute a long prompt

struct ContextsOptions {
  std::string url = "http://127.0.0.1:8080", key_file, id, file;
  bool json = false;
};
using Options = std::shared_ptr<ContextsOptions>;

Result<Answer> call(const ContextsOptions& options, const std::string& method, const std::string& target,
                    const std::string& body = "") {
  auto address = parse_address(options.url);
  if (!address) return fail(std::move(address.error()));
  std::string authorization;
  if (!options.key_file.empty()) {
    const auto keys = read_key_file(options.key_file);
    if (!keys) return fail(keys.error());
    authorization = "Bearer " + keys->front();
  }
  boost::asio::io_context loop{1};
  Upstream gateway(loop.get_executor(), std::move(*address), HttpLimits{});
  Result<Answer> answer = fail(Code::retry, "no answer");
  boost::asio::co_spawn(loop, gateway.ask(method, target, body, authorization, call_time_max),
                        [&answer](const std::exception_ptr&, Result<Answer> got) { answer = std::move(got); });
  loop.run();
  if (!answer) return fail(answer.error().code, "{}: {}", options.url, answer.error().message);
  if (answer->status == 200) return answer;
  const json said = json::parse(answer->body, nullptr, false);
  const json error = said.is_object() ? said.value("error", json::object()) : json::object();
  const std::string reason = error.is_object() ? error.value("message", "no reason given") : "no reason given";
  return fail(answer->status == 404 ? Code::not_found : Code::rejected, "{}: {}", options.url, reason);
}

Result<int> list(const ContextsOptions& options) {
  const auto answer = call(options, "GET", "/artesian/contexts");
  if (!answer) return fail(answer.error());
  const json report = json::parse(answer->body, nullptr, false);
  if (!report.is_object() || !report.contains("contexts")) {
    return fail(Code::rejected, "{}: is not a gateway of Artesian's", options.url);
  }
  if (options.json) {
    std::printf("%s\n", report.dump().c_str());
    return exit_ok;
  }
  std::printf("%s\n", report.value("model", std::string()).c_str());
  std::printf("%-16s %10s %12s %10s  %s\n", "id", "tokens", "bytes", "shared", "last used");
  for (const json& context : report["contexts"]) {
    const double age = context.value("idle_seconds", -1.0);
    const std::string used = age < 0 ? "before this start" : fmt::format("{:.0f} s ago", age);
    std::printf("%-16s %10llu %12s %10llu  %s%s\n", context.value("id", std::string()).c_str(),
                context.value("tokens", 0ULL), format_bytes(context.value("bytes", 0ULL)).c_str(),
                context.value("shared_tokens", 0ULL), used.c_str(), context.value("pinned", false) ? ", pinned" : "");
  }
  return exit_ok;
}

Result<int> act(const ContextsOptions& options, const std::string& action) {
  const auto answer = call(options, "POST", "/artesian/contexts/" + options.id + "/" + action);
  if (!answer) return fail(answer.error());
  return exit_ok;
}

// A system prompt: what a conversation with it begins with is computed once, and saved like any other.
Result<int> warm(const ContextsOptions& options) {
  const auto file = File::open(options.file, {});
  if (!file) return fail(file.error());
  const auto size = file->size();
  if (!size) return fail(size.error());
  if (*size == 0 || *size > warm_bytes_max) {
    return fail(Code::invalid, "contexts warm: {}: has {} bytes, a prompt has 1 to {}", options.file, *size,
                warm_bytes_max);
  }
  std::string text(*size, '\0');
  if (auto read = file->read(0, std::as_writable_bytes(std::span(text))); !read) return fail(std::move(read.error()));
  json body;
  body["messages"] =
      json::array({json{{"role", "system"}, {"content", text}}, json{{"role", "user"}, {"content", ""}}});
  body["max_tokens"] = 1;
  const auto answer =
      call(options, "POST", "/v1/chat/completions", body.dump(-1, ' ', false, json::error_handler_t::replace));
  if (!answer) return fail(answer.error());
  const json said = json::parse(answer->body, nullptr, false);
  const json usage = said.is_object() ? said.value("usage", json::object()) : json::object();
  std::printf("%llu tokens\n", usage.is_object() ? usage.value("prompt_tokens", 0ULL) : 0ULL);
  return exit_ok;
}

Options add_gateway(CLI::App& command) {
  auto options = std::make_shared<ContextsOptions>();
  command.add_option("--url", options->url, "The gateway")->capture_default_str();
  command.add_option("--api-key-file", options->key_file, "Its first line is the key that the gateway asks for");
  return options;
}

Action with_id(CLI::App& command, const std::string& action, std::string_view example) {
  const Options options = add_gateway(command);
  command.add_option("ID", options->id, "As artesian contexts ls shows it")->required();
  set_examples(command, {example});
  return [options, action] { return act(*options, action); };
}

}  // namespace

Action setup_contexts_ls(CLI::App& command, const Context&) {
  const Options options = add_gateway(command);
  command.add_flag("--json", options->json, "One JSON object");
  set_examples(command, {"artesian contexts ls", "artesian contexts ls --url http://127.0.0.1:9000 --json"});
  return [options] { return list(*options); };
}

Action setup_contexts_rm(CLI::App& command, const Context&) {
  return with_id(command, "erase", "artesian contexts rm 0b5d8f1c2a3e4f60");
}

Action setup_contexts_pin(CLI::App& command, const Context&) {
  return with_id(command, "pin", "artesian contexts pin 0b5d8f1c2a3e4f60");
}

Action setup_contexts_unpin(CLI::App& command, const Context&) {
  return with_id(command, "unpin", "artesian contexts unpin 0b5d8f1c2a3e4f60");
}

Action setup_contexts_warm(CLI::App& command, const Context&) {
  const Options options = add_gateway(command);
  command.add_option("FILE", options->file, "A system prompt")->required();
  set_examples(command, {"artesian contexts warm system-prompt.txt"});
  return [options] { return warm(*options); };
}

}  // namespace artesian::cli
