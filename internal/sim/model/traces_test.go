package model

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/supervisor"
)

// trace is one shortest counterexample of reading/traces.md, told on the world that runs the real owner and fold. What
// the environment does comes in the order of the trace; what the owners decide follows by itself. Where the broken rule
// did the wrong thing, the script says what must happen instead.
type trace struct {
	// name begins with that of the trace.
	name   string
	config Config
	// script has a line for each action, in the words of World.Do, and lines that look at the latest action:
	//
	//	=> text      it brought about a line that contains the text
	//	without text it brought about none
	//	not: action  no action of this name can happen now
	//	has: text    the way so far has a line that contains the text
	//	on: action   is done only where the rules hold, off: action only where the rule is switched off
	//	* name       calls one of the test's own functions, of by
	script string
	by     map[string]func(w *World) error
	// unmended says that a node keeps a state of a log that is gone, so that it must not own the partition again.
	unmended bool
	// comes is what the way to rest must contain, and never what no line of the whole way may contain.
	comes, never []string
	// rule is switched off in a second run, where the product has a switch for what the trace leaves out; breaks is the
	// beginning of what is then found.
	rule   supervisor.Rule
	breaks string
}

// What cannot be told, or not as it stands there, since the product is built in another way:
//
//   - m1, a broker that acknowledges what it does not store: an owner that finds its facts acknowledged at contiguous
//     offsets has nothing else to ask. No protocol on one log can mend that (DESIGN 4).
//   - Cm5 and Am5 delete inputs. Nothing of ours does that by itself yet. What is told is why it would be wrong: the next
//     owner asks for the bytes again, of effects that the log does not know as settled.
//   - h1, h2 and h3 resume from offsets of the group. No owner is ever told these; told is what it must resume from.
//   - g2, h2s have signals, which are no inputs yet. What cannot be read is as good: nothing in it identifies it.
//   - l4, l5 reject a report because of the state. Such a report is passed without a fact; what is rejected because of
//     the state is a conflict, or a request, and each has a scenario beside that of the report.
//   - d2 has a timer in flight together with the start of its step. A timer fires from the store, so its step is durable
//     by then; the second fact in flight is another one.
//   - Am3 goes round since the partitions do not agree on whose an input is. They compute it alike, so the forward is put
//     back by hand.
//   - Em3 extends an attempt by progress, which is no input yet; a result ends it. B3 has a reply, which is no effect yet;
//     an alert is one.
//   - Bm5, Dm5 and E1 need a question that was asked before anything was due. Only an owner that has to send work again
//     asks so early.

// TestEachTraceIsHarmless tells every trace with the rule, and where the product has a switch for it, without.
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

func TestNoTraceIsLeftOut(t *testing.T) {
	t.Parallel()
	names, told := map[string]bool{}, map[string]bool{}
	for _, c := range traces() {
		require.False(t, names[c.name], "two are named %s", c.name)
		name, _, _ := strings.Cut(c.name, " ")
		names[c.name], told[name] = true, true
	}
	for _, name := range strings.Fields(`
		a1 b1 b2 c1 d1 d2 d3 e1 f1 f2 g1 g2 h1 h2 h2s h3 h4 h5 i1 j1 j2 k1 k3 l1 l4 l5 m2
		Cm1 Cm2 Cm3 Cm4 Cm5 Am1 Am2 Am3 Am4 Am5 Bm1 Bm2 Bm3 Bm4 Bm5 Dm1 Dm2 Dm3 Dm4 Dm5 Em1 Em2 Em3 Fm1 Fm2 Fm3
		A2 A5 A7 B1 B2 B3 B7 D1 E1`) {
		require.True(t, told[name], "no scenario tells %s", name)
	}
}

func traces() []trace {
	return slices.Concat(claimTraces, epochTraces, resumeTraces, effectTraces, settledTraces, forwardTraces, sweepTraces, heldTraces, timerTraces, writtenTraces)
}

// holds tells the trace with all rules on.
func (c *trace) holds(t *testing.T) {
	t.Helper()
	w := New(c.config)
	told := func() string { return strings.Join(w.Path(), "\n") }
	for _, line := range lines(c.script) {
		if strings.HasPrefix(line, "off: ") {
			continue
		}
		require.NoError(t, c.line(w, strings.TrimPrefix(line, "on: ")), "%s\n%s", line, told())
		require.Empty(t, w.Violation(), told())
	}
	script, end := len(w.Path()), &World{sp: w.sp, s: decode(w.s.encode(nil)), path: slices.Clone(w.Path())}
	require.NoError(t, toRest(w), told())
	require.Empty(t, w.Violation(), told())
	require.Empty(t, w.Rest(), told())
	for _, text := range c.comes {
		require.True(t, contains(w.Path()[script:], text), "%q did not happen\n%s", text, told())
	}
	for _, text := range c.never {
		require.False(t, contains(w.Path(), text), "%q happened\n%s", text, told())
	}
	if !c.unmended && !c.config.UnknownByTick { // by ticks a claim, too, may stay without an answer as often as chance has it
		c.wander(t, end)
	}
}

// orders is how many ways are tried from where a script ends, and length how far each goes before it comes to rest.
const (
	orders = 6
	length = 60
)

// more are the faults of which some come on top.
var more = []Budget{
	Reassigns, StaleClaims, Crashes, LostAppends, Doubles, Reorders, Splits, Unknowns, LateAppends, LateEffects, SlowAcks, Passes, Failures,
	Repeats,
}

// wander goes on from where the script ended in any order, and with four more faults: what a script leaves behind
// is where a second fault hurts.
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
		err, told := toRest(w), func() string { return strings.Join(w.Path(), "\n") }
		require.Empty(t, w.Violation(), told())
		require.NoError(t, err, told())
		require.Empty(t, w.Rest(), told())
	}
}

// breaksWithout tells it with the rule switched off. What the rule would have prevented happens, so that later lines may
// not be possible any more.
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
	require.NotEmpty(t, broken, "nothing breaks without the rule\n%s", strings.Join(w.Path(), "\n"))
	require.True(t, strings.HasPrefix(broken, c.breaks), "%s\n%s", broken, strings.Join(w.Path(), "\n"))
}

func lines(script string) (list []string) {
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// looks says whether a line only looks at what happened.
func looks(line string) bool {
	for _, p := range []string{"=> ", "without ", "not: ", "has: "} {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	return false
}

// line does what a line of a script says.
func (c *trace) line(w *World, line string) error {
	word, text, _ := strings.Cut(line, " ")
	switch word {
	case "=>":
		if !contains(latest(w), text) {
			return fmt.Errorf("%q did not come of it", text)
		}
	case "without":
		if contains(latest(w), text) {
			return fmt.Errorf("%q came of it", text)
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

// latest is what the latest action brought about.
func latest(w *World) []string {
	path := w.Path()
	for i := len(path) - 1; i >= 0; i-- {
		if !strings.HasPrefix(path[i], "    ") {
			return path[i+1:]
		}
	}
	return nil
}

// contains says whether a line has all parts of the text that stand between "..", in their order.
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

// maxRest bounds the actions that a world needs to come to rest.
const maxRest = 300

// toRest has everything happen that is under way.
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

// budget is what may go wrong in a trace.
type budget = map[Budget]int

// submits is a client that submits a task before the world begins.
func submits(task string) Client { return Client{Kind: Submit, Task: task, AtStart: true} }

// soon is an input that comes while a trace is told.
func soon(kind Kind, task string) Client { return Client{Kind: kind, Task: task, Times: 1} }

// garbage cannot be read, and is there before the world begins.
func garbage() Client { return Client{Kind: Garbage, AtStart: true} }
