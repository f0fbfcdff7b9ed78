#include "gateway/page.h"

namespace artesian {

const std::string_view status_page = R"PAGE(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Artesian</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
  h1 { font-size: 1.4rem; margin: 0 0 .3rem; }
  p { margin: 0 0 1.2rem; opacity: .75; }
  dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1rem 1.5rem; margin: 0 0 1.5rem; }
  dt { font-size: .85rem; opacity: .7; }
  dd { margin: 0; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
  meter { width: 100%; height: .9rem; }
  table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
  td, th { text-align: left; padding: .15rem 1.2rem .15rem 0; font-weight: normal; }
  th { font-size: .85rem; opacity: .7; }
</style>
<h1>Artesian</h1>
<p id="reason" role="status">…</p>
<dl id="figures"></dl>
<label>Store <meter id="fill" min="0" max="1" value="0"></meter></label>
<p id="store"></p>
<label id="budget-label" hidden>Write budget left today <meter id="budget" min="0" max="1" value="0"></meter></label>
<table><thead><tr><th>slot</th><th>tokens</th><th>does</th></tr></thead><tbody id="slots"></tbody></table>
<noscript>The figures are at <a href="status">status</a>.</noscript>
<script>
  const show = (id, text) => { document.getElementById(id).textContent = text; };
  const size = n => n >= 1e9 ? (n / 1e9).toFixed(2) + " GB" : (n / 1e6).toFixed(1) + " MB";
  const count = n => n.toLocaleString("en");
  // What computing the restored tokens would have taken at the speed seen, less what restoring took.
  const saved = s => s.prefill_tokens_per_second > 0
    ? (s.restored_tokens / s.prefill_tokens_per_second - s.restore_seconds).toFixed(1) + " s" : "–";
  function render(s) {
    show("reason", s.reason);
    const figures = {
      "requests": count(s.requests), "prompts": count(s.prompts), "restored tokens": count(s.restored_tokens),
      "from a slot or restored": count(s.cached_tokens), "computed tokens": count(s.computed_tokens),
      "time saved": saved(s), "restores": count(s.restores), "saved": size(s.saved_bytes),
      "waiting": count(s.waiting), "blocks read ahead": count(s.staged_blocks),
      "sessions paused": count(s.sessions_paused), "sessions ended": count(s.sessions_ended), "failed": count(s.failed + s.refused),
    };
    const list = document.getElementById("figures");
    list.replaceChildren(...Object.entries(figures).map(([name, value]) => {
      const pair = document.createElement("div");
      pair.append(Object.assign(document.createElement("dt"), { textContent: name }),
                  Object.assign(document.createElement("dd"), { textContent: value }));
      return pair;
    }));
    document.getElementById("fill").value = s.store_bytes / Math.max(1, s.store_capacity_bytes);
    show("store", `${size(s.store_bytes)} of ${size(s.store_capacity_bytes)}, ${count(s.blocks)} blocks of this model`);
    document.getElementById("budget-label").hidden = !(s.write_budget_bytes > 0);
    document.getElementById("budget").value = s.write_budget_left_bytes / Math.max(1, s.write_budget_bytes);
    document.getElementById("slots").replaceChildren(...s.slots.map((slot, i) => {
      const row = document.createElement("tr");
      for (const text of [i, count(slot.tokens), slot.busy ? "works" : slot.unsaved ? "to be saved" : "idle"]) {
        row.append(Object.assign(document.createElement("td"), { textContent: text }));
      }
      return row;
    }));
  }
  async function tick() {
    try {
      const answer = await fetch("status");
      if (answer.ok) render(await answer.json()); else show("reason", "The gateway asks for an API key.");
    } catch { show("reason", "The gateway does not answer."); }
    setTimeout(tick, 1000);
  }
  tick();
</script>
</html>
)PAGE";

}  // namespace artesian
