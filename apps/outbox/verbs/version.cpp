// `outbox version`.
#include <memory>
#include <outbox/spi/store.hpp>
#include <outbox/version.hpp>

#include "cli/console.hpp"
#include "cli/report.hpp"
#include "exit_status.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {

void add_version(command_tree& tree) {
  auto const o = std::make_shared<output_options>();
  auto& verb = tree.add("version",
                        {.summary = "print the version of the tool and of the schema it knows",
                         .examples = {{"outbox version --json", "for scripts"}}},
                        [o] {
                          console to{*o};
                          facts f;
                          f.add("version", "outbox", text_cell(outbox::version()));
                          f.add("schema_version", "schema", number_cell(outbox::spi::schema_version));
                          if (to.chosen() == form::json) {
                            to.document(f.json());
                          } else {
                            f.print(to);
                          }
                          to.flush();
                          return exit_good;
                        });
  o->add_to(verb);
}

}  // namespace outbox_tool
