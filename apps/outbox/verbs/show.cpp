// `outbox show`: everything about an event, payload included.
#include <unistd.h>

#include <memory>

#include "cli/console.hpp"
#include "cli/rows.hpp"
#include "cli/shown_text.hpp"
#include "cli/target.hpp"
#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

using nlohmann::ordered_json;

struct show_options {
  target_options table;
  output_options output;
  std::vector<std::string> ids;
  bool payload_only = false;
};

bool is_text(outbox::event const& e) { return e.kind() == outbox::payload_kind::json; }

std::string hexadecimal(std::string_view bytes) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (auto const c : bytes) {
    auto const b = static_cast<unsigned char>(c);
    text += digits[b >> 4U];
    text += digits[b & 15U];
  }
  return text;
}

ordered_json json_of(outbox::row_view const& r, outbox::instant now, bool keyed) {
  auto j = event_facts(r, now, keyed).json();
  auto headers = ordered_json::object();
  for (auto const& [name, value] : r.event.headers()) headers[name] = value;
  j["headers"] = std::move(headers);
  // As text: numbers keep their digits, whatever reads this.
  j[is_text(r.event) ? "payload" : "payload_hex"] =
      is_text(r.event) ? std::string{r.event.payload()} : hexadecimal(r.event.payload());
  return j;
}

void print_pretty(console& to, outbox::row_view const& r, outbox::instant now, bool keyed) {
  event_facts(r, now, keyed).print(to);
  if (!r.event.headers().empty()) {
    to.out("\nHeaders\n");
    for (auto const& [name, value] : r.event.headers()) to.out("  " + shown(name) + ": " + shown(value) + "\n");
  }
  to.out("\nPayload\n");
  if (is_text(r.event)) {
    to.out(shown(r.event.payload(), true) + "\n");
  } else {
    to.out(hexadecimal(r.event.payload()) + "\n");
  }
}

// To a file or a pipe as it is; to a terminal only in a form that cannot harm it.
void print_payload(console& to, outbox::row_view const& r) {
  auto const& bytes = r.event.payload();
  to.out(to.out_is_terminal() ? shown(bytes, true) + "\n" : std::string{bytes});
}

int run(show_options const& o) {
  console to{o.output};
  target const from{o.table};
  auto const s = from.open(access::read);
  auto const now = s->now();
  bool const keyed = s->capabilities().keys && s->backend().settings().keyed;
  int status = exit_good;
  bool first = true;
  for (auto const& id : o.ids) {
    auto const r = s->inspect().find(id);
    if (!r) {
      to.warn("There is no event '" + shown(id) + "'.");
      status = exit_failed;
      continue;
    }
    if (o.payload_only) {
      print_payload(to, *r);
    } else if (to.chosen() == form::json) {
      to.document(json_of(*r, now, keyed));
    } else if (to.chosen() == form::plain) {
      event_facts(*r, now, keyed).print(to);
      to.out("payload\t" + (is_text(r->event) ? shown(r->event.payload()) : hexadecimal(r->event.payload())) + "\n");
    } else {
      if (!first) to.out("\n");
      print_pretty(to, *r, now, keyed);
    }
    first = false;
  }
  to.flush();
  return status;
}

}  // namespace

void add_show(command_tree& tree) {
  auto const o = std::make_shared<show_options>();
  auto& verb = tree.add(
      "show",
      {.summary = "show everything about events, by id",
       .details =
           "Control characters, and characters that change the direction of text, are shown as \\u{202e}: what a "
           "payload contains cannot harm your terminal. It only reads. With --json it prints one object a line.",
       .examples = {{"outbox show 01JAB3J6ZK0000000000000000 --db sqlite:shop.db", "one event"},
                    {"outbox show ID --payload > payload.bin", "its payload, byte for byte"}},
       .status = "0 all were found; 1 one is not there."},
      [o] { return run(*o); });
  verb.add_option("ids", o->ids, "event ids")->type_name("ID…")->required();
  verb.add_flag("--payload", o->payload_only, "print the payload only, byte for byte unless on a terminal");
  o->table.add_to(verb);
  o->output.add_to(verb);
}

}  // namespace outbox_tool
