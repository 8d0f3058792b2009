// Package sim is the proof of the engine's core: a single-threaded simulator that drives the real fold, the real
// scheduler and the real owner over a model of the broker, with virtual time. A run is a function of its seed.
//
//	clients ──▶ submissions ─┐                        ┌──▶ work ──▶ agents ──▶ reports
//	                         ├─▶ Owner (2 or 3 nodes) ─┤
//	            reports ─────┘         │ ▲            └──▶ dlq, alerts, forwards
//	                                   ▼ │
//	                                 events ──▶ reader: folds each record and checks the invariants
//
// The broker lets appends be lost, land late, twice, in parts or out of order, and its answers be lost, doubled or
// late; nodes crash, lose their store or find an older one, sleep and wake up; two nodes own a partition at once;
// clocks differ. Then the world heals, and must come to rest with every promise kept.
//
// The reader of each partition is the judge: it folds what the log holds, and cites the invariant (DESIGN 6) that a
// record, an effect or a commit breaks. It shares with the owners only the fold.
//
// It refuses to model what no protocol on one log can mend: an acknowledged record that the broker then loses.
package sim
