package verify_test

import (
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

var waitCorruptions = []corruption{
	{"a sleep is over before its time", verify.CheckAttempts, "too_early", false, func(h *harmed) string {
		f := h.fact(events.NameWaitStarted, "ok-")
		f.alter("within", "8760h0m0s")
		f.alter("until", longAfter(f))
		return h.one(topicEvents, func(x found) bool {
			return nameOf(*x.Record) == events.NameStepCompleted && string(x.Key) == string(f.Key) && x.text("step") == "rest" && h.accepted(x)
		}).place()
	}},
	{"a sleep has another end than its duration", verify.CheckMovers, "no_end", false, func(h *harmed) string {
		f := h.fact(events.NameWaitStarted, "ok-")
		f.alter("until", longAfter(f))
		return f.place()
	}},
	{"a sleep begins twice", verify.CheckAttempts, "start_again", false, func(h *harmed) string {
		f, into := late(h, events.NameWaitStarted, "park", "")
		return h.again(f, into).place()
	}},
	{"a step sleeps that has an agent", verify.CheckAttempts, "not_as_defined", false, func(h *harmed) string {
		f := h.fact(events.NameWaitStarted, "ok-")
		f.alter("step", "charge")
		return f.place()
	}},
	{"a soft limit passes before its time", verify.CheckAttempts, "soft_limit", false, func(h *harmed) string {
		f := h.fact(events.NameSoftLimitPassed, "sig-")
		set(f.Record, events.HeaderTime, f.text("since"))
		return f.place()
	}},
	{"a soft limit passes of a task that has none", verify.CheckAttempts, "soft_limit", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park-", "", step("reserve"))
		return h.forge(into, events.NameSoftLimitPassed, string(f.Key), &events.SoftLimitPassed{Since: 1, SoftAt: 2}).place()
	}},
	{"a soft limit passes of a step that has begun to wait with another", verify.CheckAttempts, "not_as_defined", false, func(h *harmed) string {
		f := h.fact(events.NameSoftLimitPassed, "sig-")
		w := h.one(topicEvents, func(x found) bool {
			return nameOf(*x.Record) == events.NameWaitStarted && string(x.Key) == string(f.Key) && x.text("step") == f.text("step") && h.accepted(x)
		})
		w.alter("remind_after", "8760h0m0s")
		return w.place()
	}},
	{"a soft limit passes of a step that is over", verify.CheckAttempts, "soft_limit_over", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park-", "", step("reserve"))
		return h.forge(into, events.NameSoftLimitPassed, string(f.Key), &events.SoftLimitPassed{Step: "reserve", Since: 1, SoftAt: 2}).place()
	}},
	{"the time of a task comes early", verify.CheckAttempts, "not_before", false, func(h *harmed) string {
		f := h.fact(events.NameNotBeforePassed, "ok-")
		f.alter("not_before", longAfter(f))
		return f.place()
	}},
	{"the time of a task comes twice", verify.CheckAttempts, "not_before", false, func(h *harmed) string {
		f, into := late(h, events.NameNotBeforePassed, "park", "")
		return h.again(f, into).place()
	}},
	{"a task begins before its time", verify.CheckAttempts, "start_not_forward", false, func(h *harmed) string {
		f := h.fact(events.NameNotBeforePassed, "ok-")
		first := h.one(topicEvents, func(x found) bool {
			return nameOf(*x.Record) == events.NameStepStarted && string(x.Key) == string(f.Key) && x.text("step") == "reserve" && h.accepted(x)
		})
		h.nothing(f.Record)
		return first.place()
	}},
	{"a task waits for another time than its submission says", verify.CheckInputs, "not_its_input", false, func(h *harmed) string {
		f := h.fact(events.NameSubmitted, "ok-")
		f.alter("not_before", longAfter(f))
		return f.place()
	}},
	{"a step without an attempt completes that does not wait", verify.CheckAttempts, "outcome_of_nothing", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "park", "")
		return h.forge(into, events.NameStepCompleted, string(f.Key), &events.StepCompleted{Step: f.text("step")}).place()
	}},
	{"a step takes a signal that came later", verify.CheckAttempts, "signal", false, func(h *harmed) string {
		f := h.taking("first")
		f.alter("signal", strings.Replace(f.text("signal"), "-no", "-yes", 1))
		return f.place()
	}},
	{"a step takes a signal that it took", verify.CheckAttempts, "signal", false, func(h *harmed) string {
		f := h.taking("second")
		f.alter("signal", strings.Replace(f.text("signal"), "-yes", "-no", 1))
		return f.place()
	}},
	{"the output is not the signal", verify.CheckAttempts, "signal_output", false, func(h *harmed) string {
		f := h.taking("first")
		f.alter("output.payload.by", "nobody")
		return f.place()
	}},
	{"a step waits for other signals", verify.CheckAttempts, "not_as_defined", false, func(h *harmed) string {
		f := h.fact(events.NameWaitStarted, "sig-")
		f.alter("signals", []string{"yes"})
		return f.place()
	}},
	{"a wait is over before its time", verify.CheckAttempts, "timeout_early", false, func(h *harmed) string {
		w := h.fact(events.NameWaitStarted, "sig-", step("second"), func(f found) bool { return slices.Contains([]string{"sig-3", "sig-4"}, string(f.Key)) })
		w.alter("within", "8760h0m0s")
		w.alter("until", longAfter(w))
		return h.of(events.NameTimeout, string(w.Key), "second").place()
	}},
	{"a step takes a signal that was not kept", verify.CheckAttempts, "signal", false, func(h *harmed) string {
		f := h.taking("first")
		h.nothing(h.fact(events.NameSignalReceived, string(f.Key), func(x found) bool { return x.text("request") == f.text("signal") }).Record)
		return f.place()
	}},
}

// taking picks the completion of a step by a signal, of a task that had two of them.
func (h *harmed) taking(name string) found {
	return h.one(topicEvents, func(f found) bool {
		return nameOf(*f.Record) == events.NameStepCompleted && f.text("step") == name && slices.Contains([]string{"sig-1", "sig-2"}, string(f.Key)) && h.accepted(f)
	})
}

// longAfter is a year after the fact.
func longAfter(f found) string {
	at, _ := events.ParseInstant(f.Header(events.HeaderTime))
	return at.Add(8760 * 3600e9).String()
}
