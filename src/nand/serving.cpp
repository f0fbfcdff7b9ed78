#include "nand/serving.h"

#include <algorithm>

namespace artesian::nand {
namespace {

constexpr double seconds_per_year = 365 * 86400.0, joules_per_kwh = 3.6e6;

}  // namespace

void TokenReport::add(const TokenReport& other) {
  first_token.add(other.first_token);
  prompt_tokens += other.prompt_tokens;
  reused_tokens += other.reused_tokens;
  output_tokens += other.output_tokens;
  decoded_tokens += other.decoded_tokens;
  decode_seconds += other.decode_seconds;
  machine_seconds += other.machine_seconds;
  seconds += other.seconds;
  blocks_checked += other.blocks_checked;
  blocks_lost += other.blocks_lost;
  weights_checked += other.weights_checked;
  store_written += other.store_written;
  store_carried += other.store_carried;
}

double TokenReport::prompt_rate() const {
  const double seconds_of_prompts = machine_seconds - decode_seconds;
  return seconds_of_prompts > 0 ? static_cast<double>(prompt_tokens) / seconds_of_prompts : 0;
}

TokenCost cost_of(const TokenReport& tokens, const Serving& serving, const Profile& profile, std::uint64_t whole_bytes,
                  const EnergyReport& energy, double years) {
  if (tokens.tokens() <= 0) return {};
  const double millions = tokens.tokens() * 1e-6;
  const double price = profile.price_usd(whole_bytes);
  const double life = std::min(years, profile.service_years) * seconds_per_year;
  TokenCost cost{.drive_joules = energy.total_j() / millions,
                 .machine_joules = tokens.machine_seconds * serving.watts / millions,
                 .drive_usd = life > 0 ? price * tokens.seconds / life / millions : 0,
                 .machine_usd = tokens.machine_seconds / 3600 * serving.usd_per_hour / millions};
  cost.energy_usd = cost.joules() / joules_per_kwh * profile.usd_per_kwh;
  return cost;
}

}  // namespace artesian::nand
