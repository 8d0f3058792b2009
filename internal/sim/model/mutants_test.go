package model_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/sim/model"
)

// mutant is a rule of the owner or of the fold that is left out, or got wrong, by other text in one place of a source.
type mutant struct {
	rule, file string
	was, is    string
	// search is the configurations that find it.
	search string
	// breaks is part of what breaks.
	breaks string
}

var mutants = []mutant{
	{"an end is judged that was asked for after the timer fell due, not seen after", "supervisor/clockwork.go",
		"goal{end, o.times.askedAt}", "goal{end, o.now}",
		"^a timer, a crash$", "a Timeout beat a report"},
	{"what was judged counts in this epoch alone", "supervisor/owner.go",
		"outbox{}, clockwork{}, definitions{}", "outbox{}, clockwork{horizon: o.times.horizon}, definitions{}",
		"^a timer, an unknown outcome$", "a Timeout beat a report"},
	{"an end is passed when it is judged, not when it is read", "supervisor/clockwork.go",
		"if o.in[in].judged < g.end {", "if o.in[in].fetched < g.end {",
		"^a timer, an unknown outcome$", "a Timeout beat a report|work is sent again"},
	{"InputsPassed carries what was judged, not what was read", "supervisor/input.go",
		"p := events.Passed{Next: q.judged}", "p := events.Passed{Next: q.fetched}",
		"^definitions, a crash, work$", "INV12: the resume point skipped"},
	{"an idle partition says how far it passed its inputs", "supervisor/fill.go",
		"if o.unpassed() || (owed", "if (owed",
		"^a sweep, a duplicate$", "INV12: the folded resume point"},
	{"InputsPassed comes before a sweep", "supervisor/clockwork.go",
		"if o.unpassed() && !o.passInputs(b) {", "if false {",
		"^a sweep, a duplicate$", "durable before the horizon"},
	{"a sweep waits for submissions too", "supervisor/clockwork.go",
		"at = min(at, o.times.horizon[events.Submissions])\n\tbefore", "before",
		"^a sweep, a duplicate$", "durable before the horizon"},
	{"a task leaves memory when its latest state is committed", "supervisor/cache.go",
		"cached{seq, c.known[id].bytes}", "cached{min(seq, c.committed), c.known[id].bytes}",
		"^a small cache$", "INV|stale|stops"},
	{"work that is sent again waits for the reports", "supervisor/outbox.go",
		"\t\to.keepWork()\n", "",
		"^a crash$", "work is sent again although its report was durable"},
	{"a sweep asks at all", "supervisor/clockwork.go",
		"\tbefore := at.Add(-o.cfg.Settings.RememberFor.Std())", "\tbefore := o.now.Add(-o.cfg.Settings.RememberFor.Std())",
		"^a sweep, a duplicate$", "durable before the horizon"},
	{"no task is swept whose effects are not settled", "supervisor/clockwork.go",
		" && !busy[id] {", " && !(busy[id] && false) {",
		"^a sweep with effects$", "was swept while an effect of it is not settled"},
	{"a cancel that is held makes a fact", "supervisor/report.go",
		"return o.emit(b, o.inputFact(events.Reports, r, q.Task, &events.RequestHeld{Request: q, ExpiresAt: expires}), nil)", "_, _ = expires, r\n\treturn nil",
		"^a held cancel$", "the request was not judged"},
	{"a held cancel expires after the submissions before it are judged", "supervisor/clockwork.go",
		"at = min(at, o.times.horizon[events.Submissions])\n\tif at == o.times.expiredAt", "if at == o.times.expiredAt",
		"^a held cancel$", "a held cancel expired although"},
	{"the fold keeps a held cancel in its task", "events/apply.go",
		"t.Held = append(t.Held, h.Request)", "",
		"^a held cancel, work$", "a step started although a cancel was held"},
	{"a held cancel is consumed once", "events/apply.go",
		"\t\ts.dropHeld(f.Task, h.Request.ID)\n", "",
		"^a held cancel$", "although its task was accepted behind it"},
	{"a new owner sends again what is not settled", "supervisor/outbox.go",
		"\t\tif due {\n\t\t\to.stats.Resent++", "\t\tif due && false {\n\t\t\to.stats.Resent++",
		"^a crash$", "effect"},
	{"work is sent again when the reports from before are judged", "supervisor/outbox.go",
		"|| o.times.horizon[events.Reports] == 0 {", "{",
		"^a crash$", "work is sent again although its report was durable"},
	{"settled stops before the first fact with an effect to come", "supervisor/outbox.go",
		"return o.box.entries[0].before", "return o.box.entries[0].at",
		"^(a crash|two tasks, a crash|batches, in parts)$", "settled passed an effect"},
	{"settled is contiguous", "supervisor/outbox.go",
		"if len(o.box.entries) > 0 {\n\t\treturn", "if len(o.box.entries) > 1 {\n\t\treturn",
		"^(a crash|two tasks, a crash)$", "settled passed an effect"},
	{"an owner reads its own partition while idle", "supervisor/tail.go",
		"\to.stats.Void++\n\to.endEpoch()\n\treturn false", "\to.stats.Void++\n\treturn true",
		"^a hand-over, no work$", "orphan partition|is committed up to"},
	{"a refused claim is tried again", "supervisor/claim.go",
		"o.load.claim = \"\"\n\t\to.load.retryAt = o.now.Add(o.pause())", "o.load.claim = \"\"\n\t\to.load.retryAt = o.now.Add(1 << 60)",
		"^a hand-over, no work$", "orphan partition"},
	{"the identifier of a claim is fresh", "supervisor/owner.go",
		"return hex.EncodeToString(b[:])", "return hex.EncodeToString(b[:0]) + o.cfg.Node",
		"^an unknown outcome$", "orphan|INV11|livelock"},
	{"follow-ups are planned from the state", "supervisor/fill.go",
		"if !o.unplanned || len(o.pipe.flying) > 0 {", "if true {",
		"^an undo, a cancel, a crash$", "stuck task"},
	{"a forward that fails for good is a dead letter", "supervisor/effect.go",
		"if b.Kind == events.EffectForward {", "if false {",
		"^a forward$", "lost effect"},
	{"a dead letter is never given up", "supervisor/outbox.go",
		"case x.kind == events.EffectDeadLetter:", "case false:",
		"^garbage, markers$", "a dead letter is given up"},
	{"an attempt of an earlier epoch is never one without effect", "supervisor/report.go",
		"p.Effect == events.EffectNone && !o.sentTwice(s)", "p.Effect == events.EffectNone",
		"^an attempt without effect$", "an earlier owner may have sent"},
	{"a result counts once", "supervisor/report.go",
		"|| !t.Running(p.Step, p.Operation, p.Attempt) {", "{",
		"^timers, failures$", "stops|INV|internal"},
	{"acknowledgements are taken in the order of the appends", "supervisor/pipeline.go",
		"for len(o.pipe.flying) > 0 && o.pipe.flying[0].answered {", "for len(o.pipe.flying) > 0 {\n\t\tif !o.pipe.flying[0].answered {\n\t\t\tif len(o.pipe.flying) < 2 || !o.pipe.flying[1].answered {\n\t\t\t\tbreak\n\t\t\t}\n\t\t\to.pipe.flying[0], o.pipe.flying[1] = o.pipe.flying[1], o.pipe.flying[0]\n\t\t\to.pipe.confirmed = o.pipe.flying[0].offsets[0]\n\t\t}",
		"^reordered and doubled$", "INV"},
	{"the epoch ends when an append fails", "supervisor/pipeline.go",
		"if b.err != nil || !o.contiguous(b) {", "if b.err != nil {\n\t\to.pipe.flying = o.pipe.flying[1:]\n\t\treturn true\n\t}\n\tif !o.contiguous(b) {",
		"^an unknown outcome$", "INV|orphan|lost|stuck|livelock"},
	{"a claim that names another predecessor is void", "events/apply.go",
		"(c.Prev != p.Epoch.ID && !s.lax.AnyClaim) || ", "",
		"^a hand-over, doubled claims$", "INV11"},
	{"inputs are judged in the order of their topic, none before definitions are known", "supervisor/input.go",
		"if !ok { // definitions must be read first; nothing behind it may overtake (traces, h5)\n\t\t\treturn true", "if !ok {\n\t\t\to.passed(q, item)\n\t\t\treturn true",
		"^definitions asked for$", "INV12"},
	{"a forwarded copy says where it was found", "supervisor/effect.go",
		"events.Header{Key: events.HeaderForwardedFrom, Value: []byte(from)},", "events.Header{Key: \"x\", Value: []byte(from)},",
		"^a forward$", "INV8|INV12"},
	{"work that is refused when it is sent again may have had an effect", "supervisor/outbox.go",
		"effects: list, again: o.box.replaying}", "effects: list}",
		"^a refused request, sent before$", "an earlier owner may have sent"},
	{"what was to be sent is forgotten with the epoch", "supervisor/owner.go",
		"outbox{}, clockwork{}, definitions{}", "o.box, clockwork{}, definitions{}",
		"^a refused request, an unknown outcome$", "an earlier owner may have sent"},
	{"work is refused for good: a failed attempt", "supervisor/outbox.go",
		"\t\to.box.failed = true", "",
		"^a refused request$", "lost effect"},
}

// TestMutantsAreStillMutants shows that the text of each mutant stands in the product, so that a change there does not
// leave the list behind, and that there is a configuration to search.
func TestMutantsAreStillMutants(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		source, err := os.ReadFile(filepath.Join("../../..", m.file))
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(source), m.was), "%s: %s does not have this text once:\n%s", m.rule, m.file, m.was)
		require.True(t, slices.ContainsFunc(model.Configurations(), func(c model.Bounded) bool {
			return regexp.MustCompile(m.search).MatchString(c.Name)
		}), "%s: no configuration is named %s", m.rule, m.search)
	}
}

// TestModelCatchesMutants compiles the product with one rule changed at a time, and searches with it. It takes some
// minutes: SAGALOG_MUTANTS=1 go test ./internal/sim/model -run Mutants -v
func TestModelCatchesMutants(t *testing.T) {
	if os.Getenv("SAGALOG_MUTANTS") == "" {
		t.Skip("compiles the product once for each mutant; to run it: SAGALOG_MUTANTS=1 go test ./internal/sim/model -run Mutants -v")
	}
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	for _, m := range mutants {
		t.Run(m.rule, func(t *testing.T) { m.run(t, root) })
	}
}

func (m *mutant) run(t *testing.T, root string) {
	file := filepath.Join(root, m.file)
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), m.was), "%s does not have this text once:\n%s", m.file, m.was)
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(source), m.was, m.is, 1)), 0o600))
	list, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, list, 0o600))
	cmd := exec.Command("go", "test", "-vet=off", "-overlay="+overlay, "-timeout=10m", "./internal/sim/model", "-run=TestModelHolds", "-args", "-model.cap=150000", "-model.only="+m.search)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "nothing breaks without the rule:\n%s", out)
	found := regexp.MustCompile(`breaks after (\d+) steps: (.*)`).FindSubmatch(out)
	require.NotNil(t, found, "%s", out)
	require.Regexp(t, m.breaks, string(found[2]), "%s", out)
	t.Logf("caught after %s steps: %s", found[1], found[2])
}
