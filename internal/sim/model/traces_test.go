package model

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/supervisor"
)

// trace is a scenario of docs/protocol.md, "What breaks without each rule": the shortest path to the fault that a rule
// prevents, played with the real owner and fold. The script lists the actions of the environment in order; the owners
// decide for themselves. Where an owner without the rule would do the wrong thing, the script states what must happen
// instead.
type trace struct {
	name   string
	config Config
	// script has a line for each action, in the words of World.Do ("A claims and owns" stands for three: A reads its log, its claim
	// lands, and it reads its log), and lines that look at the latest action:
	//
	//	=> text      it brought about a line that contains the text
	//	without text it brought about none
	//	not: action  no action of this name can happen now
	//	has: text    the way so far has a line that contains the text
	//	on: action   is done only where the rules hold, off: action only where the rule is switched off
	//	* name       calls one of the test's own functions, of by
	script string
	by     map[string]func(w *World) error
	// stale says that a node keeps a state folded from a log that is gone, so it must not own the partition again.
	stale bool
	// comes lists texts that the path to rest must contain, and never lists texts that no line of the whole path may
	// contain.
	comes, never []string
	// rule is switched off in a second run, if the product has a switch for it. breaks is the beginning of the
	// violation that this run must find.
	rule   supervisor.Rule
	breaks string
}

// Some scenarios simplify what a broker or a later version could do:
//
//   - A broker that acknowledges what it does not store is left out: no protocol on one log survives that.
//   - Nothing of ours deletes inputs yet. Two scenarios show why the log decides what may be deleted: the next owner asks
//     again for the inputs of all effects above the watermark.
//   - No owner is given an offset of a consumer group. The scenarios show what it resumes from.
//   - An input that cannot be read stands for any input that nothing identifies.
//   - A report is never rejected because of the task's state: it is passed without a fact. A conflict or a request is
//     rejected, and each has its scenario.
//   - All partitions agree where an input belongs, so a misplaced forward is put back by hand.
//   - An alert stands for any effect that has no deadline.

// TestEachTraceIsHarmless plays each trace with the rule on, and again with it off if the product has a switch for it.
func TestEachTraceIsHarmless(t *testing.T) {
	t.Parallel()
	for _, c := range traces() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.holds(t)
			if c.rule != 0 {
				c.breaksWithout(t)
			}
		})
	}
}

// TestTheProtocolNamesEachTrace shows that docs/protocol.md cites each scenario. (internal/archtest shows that it cites
// no scenario that does not exist.)
func TestTheProtocolNamesEachTrace(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../docs/protocol.md")
	require.NoError(t, err)
	protocol := strings.Join(strings.Fields(string(b)), " ")
	names := map[string]bool{}
	for _, c := range traces() {
		require.False(t, names[c.name], "two scenarios have the name %s", c.name)
		names[c.name] = true
		assert.Contains(t, protocol, strconv.Quote(c.name))
	}
	require.Equal(t, 73, len(names))
}

func traces() []trace {
	return slices.Concat(claimTraces, epochTraces, resumeTraces, effectTraces, watermarkTraces, forwardTraces, sweepTraces, heldTraces, timerTraces)
}

// holds plays the trace with all rules on.
func (c *trace) holds(t *testing.T) {
	t.Helper()
	w := New(c.config)
	path := func() string { return strings.Join(w.Path(), "\n") }
	for _, line := range lines(c.script) {
		if strings.HasPrefix(line, "off: ") {
			continue
		}
		require.NoError(t, c.line(w, strings.TrimPrefix(line, "on: ")), "%s\n%s", line, path())
		require.Empty(t, w.Violation(), path())
	}
	script, end := len(w.Path()), &World{sp: w.sp, s: decode(w.s.encode(nil)), path: slices.Clone(w.Path())}
	require.NoError(t, toRest(w), path())
	require.Empty(t, w.Violation(), path())
	require.Empty(t, w.Rest(), path())
	for _, text := range c.comes {
		require.True(t, contains(w.Path()[script:], text), "%q did not happen\n%s", text, path())
	}
	for _, text := range c.never {
		require.False(t, contains(w.Path(), text), "%q happened\n%s", text, path())
	}
	if !c.stale && !c.config.UnknownByTick { // with ticks, a claim may also randomly stay without an answer any number of times
		c.wander(t, end)
	}
}

// orders is how many random paths are tried after the end of a script, and length how many actions each of them takes
// before it is brought to rest.
const (
	orders = 6
	length = 60
)

// more are the faults from which wander draws the extra ones.
var more = []Budget{
	Reassigns, StaleClaims, Crashes, LostAppends, Doubles, Reorders, Splits, Unknowns, LateAppends, LateEffects, SlowAcks, Passes, Failures,
	Repeats,
}

// wander continues after the end of the script, in random order and with four more faults. A second fault does most
// harm in the situation that a script leaves behind.
func (c *trace) wander(t *testing.T, from *World) {
	t.Helper()
	begin := from.s.encode(nil)
	from.sp.cfg.Outcomes = []Outcome{Failed, FailedNone, FailedForGood}
	for seed := range uint64(orders) {
		r := rand.New(rand.NewPCG(seed, uint64(crc32.ChecksumIEEE([]byte(c.name)))))
		from.sp.cfg.Budgets = budget{}
		for _, i := range r.Perm(len(more))[:4] {
			from.sp.cfg.Budgets[more[i]] = 1
		}
		w := &World{sp: from.sp, s: decode(begin), noting: true, path: slices.Clone(from.path)}
		clear(w.s.used[:])
		for range length {
			list := w.Enabled()
			if len(list) == 0 {
				break
			}
			w.Step(list[r.IntN(len(list))])
		}
		require.Greater(t, len(w.Path()), len(from.Path()), "nothing happened")
		err, path := toRest(w), func() string { return strings.Join(w.Path(), "\n") }
		require.Empty(t, w.Violation(), path())
		require.NoError(t, err, path())
		require.Empty(t, w.Rest(), path())
	}
}

// breaksWithout plays the trace with the rule switched off. The fault that the rule prevents then happens, so later
// lines of the script may be impossible.
func (c *trace) breaksWithout(t *testing.T) {
	t.Helper()
	cfg := c.config
	cfg.Off = c.rule
	w := New(cfg)
	for _, line := range lines(c.script) {
		if w.Violation() != "" || looks(line) || strings.HasPrefix(line, "on: ") {
			continue
		}
		if err := c.line(w, strings.TrimPrefix(line, "off: ")); err != nil {
			require.False(t, strings.HasPrefix(line, "off: "), "%v\n%s", err, strings.Join(w.Path(), "\n"))
		}
	}
	broken := w.Violation()
	if broken == "" {
		if err := toRest(w); err != nil {
			broken = err.Error()
		} else if broken = w.Violation(); broken == "" {
			broken = w.Rest()
		}
	}
	require.NotEmpty(t, broken, "no property is violated without the rule\n%s", strings.Join(w.Path(), "\n"))
	require.True(t, strings.HasPrefix(broken, c.breaks), "%s\n%s", broken, strings.Join(w.Path(), "\n"))
}

func lines(script string) (list []string) {
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if node, claims := strings.CutSuffix(line, " claims and owns"); claims {
			list = append(list, node+" reads its log", node+"'s claim lands", node+" reads its log")
		} else if line != "" {
			list = append(list, line)
		}
	}
	return list
}

// looks says whether a line only checks what happened.
func looks(line string) bool {
	for _, p := range []string{"=> ", "without ", "not: ", "has: "} {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	return false
}

// line executes a line of a script.
func (c *trace) line(w *World, line string) error {
	word, text, _ := strings.Cut(line, " ")
	switch word {
	case "=>":
		if !contains(latest(w), text) {
			return fmt.Errorf("the latest action did not cause %q", text)
		}
	case "without":
		if contains(latest(w), text) {
			return fmt.Errorf("the latest action caused %q", text)
		}
	case "has:":
		if !contains(w.Path(), text) {
			return fmt.Errorf("%q did not happen", text)
		}
	case "not:":
		for _, a := range w.Enabled() {
			if strings.HasPrefix(w.Name(a), text) {
				return fmt.Errorf("%q can happen", w.Name(a))
			}
		}
	case "*":
		f := c.by[text]
		if f == nil {
			return fmt.Errorf("there is no function %q", text)
		}
		return f(w)
	default:
		return w.Do(line)
	}
	return nil
}

// latest returns the lines that the latest action added to the path.
func latest(w *World) []string {
	path := w.Path()
	for i := len(path) - 1; i >= 0; i-- {
		if !strings.HasPrefix(path[i], "    ") {
			return path[i+1:]
		}
	}
	return nil
}

// contains says whether a line contains all parts of the text, which are separated by "..", in
// order.
func contains(list []string, text string) bool {
	for _, line := range list {
		rest, found := line, true
		for _, part := range strings.Split(text, "..") {
			_, after, ok := strings.Cut(rest, strings.TrimSpace(part))
			rest, found = after, found && ok
		}
		if found {
			return true
		}
	}
	return false
}

// maxRest bounds the number of actions in which a world must come to rest.
const maxRest = 300

// toRest completes everything that is under way.
func toRest(w *World) error {
	for range maxRest {
		i := -1
		list := w.Enabled()
		for k := range list {
			if list[k].Progress {
				i = k
				break
			}
		}
		if i < 0 {
			return nil
		}
		w.Step(list[i])
	}
	return fmt.Errorf("the world does not come to rest")
}

// budget bounds the faults that may happen in a trace.
type budget = map[Budget]int

// submits is a client that submits a task before the world begins.
func submits(task string) Client { return Client{Kind: Submit, Task: task, AtStart: true} }

// soon is an input that arrives in the middle of a trace.
func soon(kind Kind, task string) Client { return Client{Kind: kind, Task: task, Times: 1} }

// garbage is an unreadable input that exists before the world begins.
func garbage() Client { return Client{Kind: Garbage, AtStart: true} }
