package verify_test

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

var limitCorruptions = []corruption{
	{"an attempt starts without a permit", verify.CheckAttempts, "no_permit", false, func(h *harmed) string {
		f := h.fact(events.NamePermitGranted, "limit-")
		started := h.of(events.NameStepStarted, string(f.Key), "charge")
		h.nothing(f.Record)
		return started.place()
	}},
	{"an attempt gets a permit for which it has not asked", verify.CheckAttempts, "permit", false, func(h *harmed) string {
		f := h.fact(events.NamePermitGranted, "limit-")
		f.alter("link.n", 2)
		return f.place()
	}},
	{"an attempt asks for the permit of another limit", verify.CheckAttempts, "permit", false, func(h *harmed) string {
		f := h.fact(events.NamePermitAsked, "limit-")
		f.alter("limit", "limit/other")
		return f.place()
	}},
	{"an attempt gives a permit back that is not its own", verify.CheckAttempts, "permit", false, func(h *harmed) string {
		f := h.fact(events.NamePermitReleased, "limit-")
		f.alter("link.n", 2)
		return f.place()
	}},
	{"an attempt keeps its permit when its task ends", verify.CheckAttempts, "permit_kept", false, func(h *harmed) string {
		f := h.fact(events.NamePermitReleased, "limit-")
		ended := h.of(events.NameTaskProcessed, string(f.Key), "")
		h.nothing(f.Record)
		return ended.place()
	}},
	{"a named limit gives more permits than its object says", verify.CheckAttempts, "limit", false, func(h *harmed) string {
		f := h.fact(events.NamePermitsDecided, "", func(f found) bool {
			return f.text("limit") == "limit/shelf" && f.body()["asked"] != nil && f.body()["granted"] == nil
		})
		f.alter("granted", f.body()["asked"].(map[string]any)["link"])
		return f.place()
	}},
	{"a named limit gives permits faster than its object says", verify.CheckAttempts, "limit", false, func(h *harmed) string {
		f := h.fact(events.NameLimitAdopted, "", func(f found) bool { return f.text("limit") == "limit/shelf" })
		f.alter("rate", "1/h")
		granted := h.all(topicEvents, func(f found) bool {
			return nameOf(*f.Record) == events.NamePermitsDecided && f.text("limit") == "limit/shelf" && f.body()["granted"] != nil && f.body()["waiting"] == nil && h.accepted(f)
		})
		return granted[1].place()
	}},
	{"the object of a limit is adopted from an offset that is not its own", verify.CheckAttempts, "limit", false, func(h *harmed) string {
		f := h.fact(events.NameLimitAdopted, "")
		f.alter("offset", 10_000)
		return f.place()
	}},
}
