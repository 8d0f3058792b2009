package verify_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

// A log of the simulator that is cut at a carry, and damaged. The fold and the hash in CarryEnded find most of this too; here each has to be found by
// the rule that says what is wrong.

// cutLog is such a log. Its partition begins with the carry, which ends at the index end.
type cutLog struct {
	*harmed
	part, end int
}

// cutCorruption is a way to damage it. do returns what the finding must name, and false if the log has no place for it.
type cutCorruption struct {
	name, check, kind string
	do                func(l *cutLog) (want string, ok bool)
}

func (l *cutLog) records() []events.Record { return l.topics["sim.events"][l.part] }

func (l *cutLog) at(i int) found { return found{&l.records()[i], "sim.events", l.part, i} }

// find returns the first fact between two indexes that fits.
func (l *cutLog) find(from, to int, fits func(f found) bool) (found, bool) {
	for i := from; i < to && i < len(l.records()); i++ {
		if f := l.at(i); fits(f) {
			return f, true
		}
	}
	return found{}, false
}

// row finds the carried head of a task that fits.
func (l *cutLog) row(fits func(f found, task map[string]any) bool) (found, bool) {
	return l.find(1, l.end, func(f found) bool {
		if nameOf(*f.Record) != events.NameEntityCarried || f.text("kind") != string(events.KindTask) {
			return false
		}
		task, ok := f.body()["encoding"].(map[string]any)
		return ok && fits(f, task)
	})
}

// before finds a fact about the task of a row between the beginning of the log and the row. A rerun is not between them: what was before it does not
// show in the row.
func (l *cutLog) before(row found, fits func(f found) bool) (found, bool) {
	of := func(f found) bool {
		return string(f.Key) == string(row.Key) && nameOf(*f.Record) != events.NameEntityCarried
	}
	return l.find(1, row.index, func(f found) bool {
		if !of(f) || !fits(f) {
			return false
		}
		_, again := l.find(f.index+1, row.index, func(x found) bool { return of(x) && is(events.NameTaskRerun, events.NameRunBegun)(x) })
		return !again
	})
}

func is(names ...events.Name) func(f found) bool {
	return func(f found) bool { return slices.Contains(names, nameOf(*f.Record)) }
}

// harmless finds a fact that may be replaced by a forged one: one of another task or of none, since the carry ended or before a row.
func (l *cutLog) harmless(from, to int, task string) (found, bool) {
	return l.find(from, to, func(f found) bool {
		n := nameOf(*f.Record)
		return string(f.Key) != task && n != events.NameEntityCarried && n != events.NameCarryEnded && n != events.NameCarryBegun && n != events.NamePartitionClaimed && n != events.NameVersionBarrier
	})
}

// over replaces a harmless fact between two indexes by a forged one.
func (l *cutLog) over(from, to int, name events.Name, task string, body any) (found, bool) {
	into, ok := l.harmless(from, to, task)
	if !ok {
		return into, false
	}
	l.nothing(into.Record)
	return l.forge(into, name, task, body), true
}

// steps returns the steps in the head of a task.
func stepsIn(task map[string]any) (list []map[string]any) {
	steps, _ := task["steps"].([]any)
	for _, s := range steps {
		list = append(list, s.(map[string]any))
	}
	return list
}

// eachCut calls try with damaged copies of cut logs until it has found a place.
func eachCut(t *testing.T, logs []*cutLog, try func(l *cutLog) bool) bool {
	for _, base := range logs {
		if h := harm(t, base.recorded, 1); try(&cutLog{h, base.part, base.end}) {
			return true
		}
	}
	return false
}

// cutLogs returns logs that are cut, of several seeds.
func cutLogs(t *testing.T, seeds uint64) (list []*cutLog) {
	for seed := uint64(1); seed <= seeds; seed++ {
		run := sim.Record(seed, sim.Options{NoItems: true}) // tasks with items have several rows
		if run.Report.Violation != "" {
			continue
		}
		whole := &memory{run.Topics}
		cfg := verify.Config{Log: whole, Topics: topicsOf("sim"), Now: events.Instant(1_900_000_000_000), MaxLevel: sim.MaxLevel}
		cuts := completeCarries(&cfg)
		_, err := verify.Run(t.Context(), cfg)
		require.NoError(t, err)
		for p, offsets := range cuts {
			for _, offset := range offsets {
				l := &cutLog{&harmed{recorded: &recorded{memory: *whole.cut(p, offset, false)}, t: t, rng: rand.New(rand.NewPCG(seed, 1))}, int(p), 0}
				l.end = slices.IndexFunc(l.records(), func(r events.Record) bool { return nameOf(r) == events.NameCarryEnded })
				list = append(list, l)
			}
		}
	}
	return list
}

func TestCorruptionsOfACarryAreRefuted(t *testing.T) {
	t.Parallel()
	logs := cutLogs(t, 8)
	for _, c := range slices.Concat(rowCorruptions, windowCorruptions, behindCorruptions) {
		t.Run(c.check+"/"+c.kind+"/"+c.name, func(t *testing.T) {
			made := eachCut(t, logs, func(l *cutLog) bool {
				want, ok := c.do(l)
				if !ok {
					return false
				}
				r, err := verify.Run(t.Context(), verify.Config{Log: &l.memory, Topics: topicsOf("sim"), Now: events.Instant(1_900_000_000_000), MaxLevel: sim.MaxLevel, Show: 1000})
				require.NoError(t, err)
				require.Equal(t, verify.Refuted, r.Verdict)
				require.True(t, slices.ContainsFunc(r.Findings, func(f verify.Finding) bool { return f.Check == c.check && f.Kind == c.kind && names(f, want) }),
					"nothing names %s: %s", want, strings.Join(real(r), "\n"))
				return true
			})
			require.True(t, made, "no log has a place for it")
		})
	}
}

// head alters the head of a task in a row.
func head(key string, v any) func(f found) string {
	return func(f found) string {
		f.alter("encoding."+key, v)
		return f.place()
	}
}

func raw(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}

// placed is the place of what was found, if it was.
func placed(f found, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	return f.place(), true
}

// taskOf is its task.
func taskOf(f found, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	return string(f.Key), true
}
