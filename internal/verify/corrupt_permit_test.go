package verify_test

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

var permitCorruptions = []corruption{
	{"a step starts without a permit", verify.CheckAttempts, "no_permit", false, func(h *harmed) string {
		f := h.fact(events.NamePermitGranted, "key-")
		started := h.of(events.NameStepStarted, string(f.Key), "charge")
		h.nothing(f.Record)
		return started.place()
	}},
	{"a task gets a permit for which it has not asked", verify.CheckAttempts, "permit", false, func(h *harmed) string {
		f := h.fact(events.NamePermitGranted, "key-")
		f.alter("link.n", 2)
		return f.place()
	}},
	{"a task asks for the permit of another limit", verify.CheckAttempts, "permit", false, func(h *harmed) string {
		f := h.fact(events.NamePermitAsked, "key-")
		f.alter("limit", "concurrency/keyed/two")
		return f.place()
	}},
	{"a task keeps its permit when it ends", verify.CheckAttempts, "permit_kept", false, func(h *harmed) string {
		f := h.fact(events.NameTaskProcessed, "key-")
		f.alter("release", nil)
		return f.place()
	}},
	{"a task without a limit gives a permit back", verify.CheckAttempts, "permit", false, func(h *harmed) string {
		f := h.fact(events.NameTaskProcessed, "ok-")
		f.alter("release", map[string]any{"limit": "concurrency/keyed/one", "link": map[string]any{"task": string(f.Key), "incarnation": "1-a/1", "run": 1, "n": 1}})
		return f.place()
	}},
	{"a limit takes an ask that nobody sent", verify.CheckInputs, "not_its_input", false, func(h *harmed) string {
		f := h.fact(events.NamePermitsDecided, "", func(f found) bool { return f.body()["asked"] != nil })
		f.alter("asked.link.n", 7)
		return f.place()
	}},
	{"a paused limit gives a permit", verify.CheckAttempts, "limit", false, func(h *harmed) string {
		f := h.fact(events.NameLimitResumed, "")
		granted := h.fact(events.NamePermitsDecided, "", func(x found) bool {
			return x.part == f.part && x.index > f.index && x.body()["limit"] == f.body()["limit"] && x.body()["granted"] != nil
		})
		h.nothing(f.Record)
		return granted.place()
	}},
	{"a limit is paused although nobody asked for it", verify.CheckInputs, "not_its_input", false, func(h *harmed) string {
		f := h.fact(events.NameLimitPaused, "")
		f.alter("request", "nobody")
		return f.place()
	}},
	{"a limit gives more permits than it has", verify.CheckAttempts, "limit", false, func(h *harmed) string {
		f := h.fact(events.NamePermitsDecided, "", func(f found) bool { return f.body()["asked"] != nil && f.body()["granted"] == nil })
		f.alter("granted", f.body()["asked"].(map[string]any)["link"])
		return f.place()
	}},
}
