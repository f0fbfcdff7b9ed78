// What makes KV blocks of one model, in one layout, for one tenant, different from all others. Engines leave most of
// this out of their block hashes; a store asks for it, so that a block of one namespace is never seen from another.
#pragma once

#include <cstdint>
#include <string>

namespace artesian {

struct NamespaceFields {
  std::string model;
  std::string weights;  // a fingerprint of the weights; a store refuses a namespace without
  std::string dtype;    // of the KV: "bf16"
  std::string layout;   // how a block lies in memory, in the engine's own words
  std::uint32_t block_tokens = 0;
  std::uint32_t rank = 0, world_size = 1;
  std::string adapter;  // LoRA, if one is in use
  std::string salt;     // a tenant's secret; is in the digest and nowhere else
  // Not part of what a namespace is: how its new blocks are written. "none" (as ""), or "exponent": without loss, for
  // KV of a dtype that is bf16, fp16 or fp8; a block that does not shrink is stored as it is.
  std::string codec;
  // Neither: which blocks are written and stay. "chats" (as ""): all that the budget allows, what was hit is carried
  // forward; "shared": by how likely it is to be read again; or a pair of the policy room's, "second-sighting+clock".
  std::string policy;
};

}  // namespace artesian
