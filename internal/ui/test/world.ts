import { writeFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Engine } from "./engine";

/**
 * Workflows and an agent without code. Its command packs an order: size 0 is refused, and size 7 while the file "closed" is there;
 * size 9 takes as long as an attempt may take.
 */
const files: Record<string, string> = {
  "order.yaml": `workflow: order
description: An order, whose goods are packed.
input: {type: object, required: [size]}
steps:
  pack: {agent: pack, with: {size: "\${ input.size }"}, complete_within: 60s, retry: {attempts: 1, then: park}}
  approve: {needs: [pack], wait: {signal: approval}, complete_within: 24h}
`,
  "ship.yaml": `workflow: ship
input: {type: object, required: [size]}
steps:
  pack: {agent: pack, with: {size: "\${ input.size }"}, complete_within: 60s, retry: {attempts: 1, then: park}}
`,
  "lost.yaml": "workflow: lost\nsteps:\n  find: {agent: nobody, complete_within: 1h}\n",
  "nightly.yaml": 'schedule: nightly\nworkflow: ship\ncron: "0 2 * * *"\ninput: {size: 1}\n',
  "agents/pack.yaml": `agent: pack
exec:
  command: [sh, -c, 'case "$(cat)" in *0*) echo out of boxes >&2; exit 3;; *7*) test -e closed && { echo the warehouse is closed >&2; exit 4; };; *9*) sleep 60;; esac; echo "{\\"box\\":1}"']
  env: [PATH]
`,
};

/** Writes the files and applies the workflows. */
export async function world(engine: Engine): Promise<void> {
  mkdirSync(join(engine.dir, "agents"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(engine.dir, name), text);
  await engine.cli("workflow", "apply", "order.yaml");
  await engine.cli("workflow", "apply", "ship.yaml");
}
