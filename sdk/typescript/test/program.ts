// The agent that the tests start as a process, and kill. Its operations call the service of the tests.

import { Agent, type Attempt, Refused, Retryable, type UndoAttempt } from "../src/index.js";

const { BROKERS = "", AGENT = "", SERVICE = "", INSTANCE, SEAL_KEY_FILE, GRACE_MS } = process.env;

const agent = new Agent(AGENT, {
  brokers: BROKERS,
  ...(INSTANCE ? { instance: INSTANCE } : {}),
  ...(SEAL_KEY_FILE ? { sealKeyFile: SEAL_KEY_FILE } : {}),
  grace: Number(GRACE_MS ?? 2_000),
  log: (level, message) => console.error(new Date().toISOString(), level, message),
});

async function call(a: Attempt & Partial<UndoAttempt>, operation: "do" | "undo"): Promise<unknown> {
  const response = await fetch(`${SERVICE}/${AGENT}/${a.step}/${operation}`, {
    method: "POST",
    headers: { "Idempotency-Key": a.key, "Sagalog-Task": encodeURIComponent(a.task), "Sagalog-Attempt": String(a.number), "Sagalog-Undoes": a.undoes ?? "" },
    body: JSON.stringify({ input: a.input ?? null, output: a.output ?? null, lastProgress: a.lastProgress ?? null }),
    signal: a.signal,
  });
  const answer: unknown = await response.json();
  if (response.status === 422) throw new Refused("the service refused", { code: "http_422", detail: answer, effect: "none" });
  if (!response.ok) throw new Retryable(`the service answered ${response.status}`, { code: `http_${response.status}`, detail: answer, effect: "none" });
  return answer;
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

agent.step((a) => call(a, "do"), async (a) => void (await call(a, "undo")));
agent.operation("capture", (a) => call(a, "do"), async (a) => void (await call(a, "undo")));
// Works for so many seconds, and shows progress. The first attempt fails in the end.
agent.operation<{ seconds: number }>("train", async (a) => {
  for (let epoch = 1; epoch <= a.input.seconds; epoch++) {
    await a.progress({ epoch });
    await sleep(1_000);
  }
  const answer = await call(a, "do");
  if (a.number === 1) throw new Retryable("out of memory", { code: "oom" });
  return answer;
});
// Waits for a stop, then fails, then succeeds.
agent.operation("stopping", async (a) => {
  await call(a, "do");
  if (a.lastProgress === undefined) {
    await a.progress({ done: 1 });
    await new Promise((_, reject) => a.signal.addEventListener("abort", () => reject(a.signal.reason as Error), { once: true }));
  }
  if (a.number === 2) throw new Retryable("broken", { code: "broken" });
  return { attempt: a.number, from: a.lastProgress };
});
// Shows no progress, and looks at nothing but the signal.
agent.operation("silent", async (a) => {
  await call(a, "do");
  if (a.number > 1) return { attempt: a.number };
  await new Promise((resolve) => a.signal.addEventListener("abort", resolve, { once: true }));
  console.error(`ended: ${(a.signal.reason as Error).name}`);
  return { attempt: "too late" };
});

await agent.runForever();
console.error("the agent has left");
