// Requests of other forms as the chat request that llama-server makes of them, so that /apply-template can be asked for
// their prompt: Anthropic's /v1/messages and OpenAI's /v1/responses.
//
// Pure; safe from any thread. Nothing where the server would make something of it that is not known here (images,
// files, kinds of item that came later): such a request is passed on as any other.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace artesian {

std::optional<std::string> chat_of_messages(std::string_view body);
std::optional<std::string> chat_of_responses(std::string_view body);

}  // namespace artesian
