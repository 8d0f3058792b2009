import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { get } from "../api/client";
import type { components } from "../api/schema";
import { useLive } from "../live";
import { Fault } from "../parts/fault";
import { Since } from "../parts/since";

type Stats = components["schemas"]["StatsDocument"];
type Row = Stats["rows"][number];

const minutes = 60;
/** A chart with more lines than these cannot be read. */
const mostLines = 6;
/** Colours that differ by brightness too; each line has its name in the legend and in the table. */
const strokes = ["--run", "--good", "--bad", "--undo", "--wait", "--undone"];

interface Line {
  name: string;
  values: (number | null)[];
}

/** What happened in the last hour, by the minute. */
export function Charts(): JSX.Element {
  const stats = useLive<Stats>("stats", (signal) => get("v1/stats", { query: { since: `${minutes}m`, every: "1m" }, signal }), 10);
  const rows = stats.data?.rows ?? [];
  const last = Math.floor(Date.now() / 60_000);
  const times = Array.from({ length: minutes }, (_, i) => 60 * (last - minutes + 1 + i)); // up to the current minute, so that the first tasks show at once
  return (
    <>
      <Since of={stats.data} all="hour" />
      <div class="two">
        <section class="card" aria-label="tasks per second">
          <h2>Tasks per second</h2>
          <Fault of={stats.error} />
          <Chart label="tasks per second" unit="/s" times={times} lines={rates(rows, times, stats.data?.since)} />
        </section>
        <section class="card" aria-label="duration of tasks">
          <h2>Duration of tasks (p95, estimated)</h2>
          <Chart label="p95 of the duration of tasks by workflow" unit=" s" times={times} lines={durations(rows, times)} />
        </section>
      </div>
    </>
  );
}

const second = (r: Row): number => Math.floor(new Date(r.at).getTime() / 1000);

/** How many seconds of a minute have passed: at least 15, so that one task does not look like a peak. */
const lasted = (from: number): number => Math.min(60, Math.max(15, Date.now() / 1000 - from));

/** What happened in each minute, and nothing for the minutes before the nodes began to count. */
function rates(rows: Row[], times: number[], since = ""): Line[] {
  const counted = Date.parse(since) / 1000;
  const sum = (of: (r: Row) => number): (number | null)[] => {
    const by = new Map<number, number>();
    for (const r of rows) by.set(second(r), (by.get(second(r)) ?? 0) + of(r) / lasted(second(r)));
    return times.map((t) => by.get(t) ?? (t + 60 <= counted ? null : 0));
  };
  return [
    { name: "started", values: sum((r) => r.started) },
    { name: "processed", values: sum((r) => r.completed) },
    { name: "parked, terminated", values: sum((r) => r.parked + r.failed) },
    { name: "undone", values: sum((r) => r.undone) },
  ];
}

function durations(rows: Row[], times: number[]): Line[] {
  const started = new Map<string, number>();
  for (const r of rows) started.set(r.workflow, (started.get(r.workflow) ?? 0) + r.started);
  const busiest = [...started].sort((a, b) => b[1] - a[1]).slice(0, mostLines);
  return busiest.map(([name]) => {
    const by = new Map(rows.filter((r) => r.workflow === name).map((r) => [second(r), r.p95_s ?? null]));
    return { name, values: times.map((t) => by.get(t) ?? null) };
  });
}

const clock = (t: number): string => new Date(1000 * t).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
const short = (v: number | null | undefined): string => (v == null ? "-" : v >= 100 ? v.toFixed(0) : String(Number(v.toPrecision(2))));

/** The points of a line that no part of the line shows, because there is no value beside them. */
function alone(plot: uPlot, line: number): number[] {
  const values = plot.data[line] ?? [];
  return [...values.keys()].filter((i) => values[i] != null && values[i - 1] == null && values[i + 1] == null);
}

/** A chart, and the same as a table for those who cannot see it or want the numbers. */
function Chart({ label, unit, times, lines }: { label: string; unit: string; times: number[]; lines: Line[] }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const names = lines.map((l) => l.name).join("\n");
  const data: uPlot.AlignedData = [times, ...lines.map((l) => l.values)];
  useEffect(() => {
    const at = place.current;
    if (at === null || names === "") return;
    const style = getComputedStyle(document.documentElement);
    const probe = document.createElement("span");
    at.append(probe);
    const colour = (name: string): string => {
      probe.style.color = `var(${name})`; // light-dark() is resolved here
      return getComputedStyle(probe).color;
    };
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--edge"), width: 1 }, ticks: { stroke: colour("--edge"), width: 1 }, font: `11px ${style.fontFamily}` };
    const made = new uPlot(
      {
        width: at.clientWidth,
        height: 170,
        legend: { live: false },
        cursor: { show: false },
        axes: [{ ...axis, values: (_, list) => list.map(clock) }, { ...axis, size: 56, values: (_, list) => list.map((v) => short(v) + unit) }],
        scales: { y: { range: (_u, _min, max) => [0, Math.max(max ?? 0, 0.01) * 1.1] } },
        series: [{}, ...names.split("\n").map((name, i) => ({ label: name, stroke: colour(strokes[i % strokes.length] ?? "--run"), width: 2, points: { show: true, filter: alone, size: 6 } }))],
      },
      data,
      at,
    );
    probe.remove();
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: at.clientWidth, height: 170 }));
    resized.observe(at);
    return () => {
      resized.disconnect();
      made.destroy();
    };
  }, [names]);
  useEffect(() => plot.current?.setData(data), [JSON.stringify(data)]);
  const shown = times.map((t, i) => ({ t, cells: lines.map((l) => l.values[i]) })).filter((r) => r.cells.some((v) => v != null && v !== 0));
  if (lines.length === 0) return <p class="faint">No task in the last hour.</p>;
  const latest = lines.map((l) => `${l.name} ${short(l.values.at(-1))}${unit}`).join(", ");
  return (
    <>
      <div ref={place} role="img" aria-label={`${label}, in the last minute: ${latest}`} />
      <details>
        <summary>As a table</summary>
        <table>
          <thead>
            <tr>
              <th scope="col">minute</th>
              {lines.map((l) => (
                <th scope="col" key={l.name}>
                  {l.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.reverse().map((r) => (
              <tr key={r.t}>
                <th scope="row">{clock(r.t)}</th>
                {r.cells.map((v, i) => (
                  <td key={lines[i]?.name}>{v == null ? "-" : short(v) + unit}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </>
  );
}
