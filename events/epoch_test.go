package events_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A step of a log is "claim <id> after <prev>" or a fact "<n>-<id>/<sequence>".
type landing struct {
	claim, prev string
	at          string
	fate        events.Fate
}

func claims(id, prev string, fate events.Fate) landing {
	return landing{claim: id, prev: prev, fate: fate}
}

func lands(at string, fate events.Fate) landing { return landing{at: at, fate: fate} }

// TestOnlyTheNextFactOfTheCurrentEpochCounts checks which records are facts (docs/protocol.md, "Facts"), with sequences that would break a weaker
// rule.
func TestOnlyTheNextFactOfTheCurrentEpochCounts(t *testing.T) {
	t.Parallel()
	const ok, void = events.FateAccepted, events.FateVoid
	for name, log := range map[string][]landing{
		"nothing is accepted before the first claim": {lands("1-a/0", void), claims("a", "", ok), lands("1-a/0", ok)},
		"a claim that lands twice is void the second time, and so is what its owner then sends": {
			claims("a", "", ok), claims("b", "a", ok), lands("2-b/0", ok), claims("a", "", void), lands("1-a/0", void), lands("2-b/1", ok),
		},
		"of two claims with one predecessor the first in the log wins": {
			claims("a", "", ok), claims("b", "", void), lands("2-b/0", void), lands("1-b/0", void), lands("1-a/0", ok),
		},
		"a fact that overtakes another breaks the epoch": {
			claims("a", "", ok), lands("1-a/1", void), lands("1-a/0", void), lands("1-a/1", void), claims("b", "a", ok), lands("2-b/0", ok),
		},
		"nothing after a gap is accepted": {
			claims("a", "", ok), lands("1-a/0", ok), lands("1-a/2", void), lands("1-a/1", void), lands("1-a/3", void),
		},
		"a doubled fact is void and breaks nothing": {
			claims("a", "", ok), lands("1-a/0", ok), lands("1-a/0", void), lands("1-a/1", ok), lands("1-a/0", void), lands("1-a/2", ok),
		},
		"the ordinal alone is not the epoch": {
			claims("a", "", ok), claims("b", "a", ok), lands("2-c/0", void), lands("2-a/0", void), lands("2-b/0", ok), lands("1-b/1", void),
		},
		"a deposed owner's facts are void": {
			claims("a", "", ok), lands("1-a/0", ok), claims("b", "a", ok), lands("1-a/1", void), lands("2-b/0", ok), lands("1-a/2", void),
		},
		"facts of a later epoch are void and break nothing": {
			claims("a", "", ok), lands("2-b/0", void), lands("1-a/0", ok), claims("b", "a", ok), lands("2-b/0", ok),
		},
		"a claim that names an ended epoch is void": {
			claims("a", "", ok), claims("b", "a", ok), claims("c", "a", void), claims("c", "b", ok), lands("3-c/0", ok),
		},
		"a claim without an identifier, and one that names itself, are void": {
			claims("", "", void), claims("a", "", ok), claims("a", "a", void), lands("1-a/0", ok),
		},
		"a broken epoch ends with the next claim, even by the same node": {
			claims("a", "", ok), lands("1-a/5", void), claims("a2", "a", ok), lands("2-a2/0", ok),
		},
		"an identifier may hold dashes and slashes": {
			claims("6f-1/2-c", "", ok), lands("1-6f-1/2-c/0", ok), lands("1-6f-1/2-c/1", ok),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newScribe(t)
			for _, l := range log {
				if l.at == "" {
					w.put(w.claiming(l.claim, l.prev), l.fate)
					continue
				}
				p, err := events.ParsePosition(l.at)
				require.NoError(t, err)
				w.put(&events.Fact{Epoch: p.Epoch, Sequence: p.Sequence, Time: w.now, Body: &events.InputsPassed{}}, l.fate)
			}
		})
	}
}

// A void record changes nothing but the offset, whatever its content, even if this version cannot read it.
func TestVoidRecordsChangeNothing(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	before, voids := w.hash(), w.state.Void
	stale := events.Epoch{N: 9, ID: "z"}
	for _, b := range []events.Body{
		&events.Submitted{Workflow: "w"}, &events.TasksSwept{Tasks: []string{"t"}}, &events.VersionBarrier{Reader: 99},
		&events.StateHash{}, &events.TaskParked{}, &events.RequestHeld{}, &events.SettingsAdopted{},
	} {
		w.put(&events.Fact{Epoch: stale, Time: w.now.Add(1e12), Task: "t", Body: b, Cause: "s/3/900", Watermark: events.Position{Epoch: stale, Sequence: 7}}, events.FateVoid)
	}
	future := w.log[1].record
	future.Headers = append(append([]events.Header(nil), future.Headers...),
		events.Header{Key: events.HeaderType, Value: []byte("sagalog.JobOpened")}, events.Header{Key: events.HeaderID, Value: []byte("3/9-z/0")})
	future.Offset = w.state.Next
	f, err := events.DecodeFact(&future)
	require.NoError(t, err)
	w.put(f, events.FateVoid)
	require.Equal(t, before, w.hash())
	require.Equal(t, voids+8, w.state.Void)
}

// An accepted record that this version cannot read stops the partition.
func TestUnreadableFactsStopThePartition(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	good := w.log[1].record
	with := func(key, value string) events.Record {
		r := good
		r.Headers = append(append([]events.Header(nil), good.Headers...), events.Header{Key: key, Value: []byte(value)})
		return r
	}
	garbage := good
	garbage.Value = []byte("{")
	for name, r := range map[string]events.Record{
		"a reserved fact": with(events.HeaderType, "sagalog.JobOpened"),
		"a later fact":    with(events.HeaderType, "sagalog.StepAccepted"),
		"bad JSON":        garbage,
		"no time":         with(events.HeaderTime, "yesterday"),
		"bad watermark":   with(events.HeaderWatermark, "1"),
	} {
		s := events.NewState(testPartition, nil)
		_, err := s.Apply(w.log[0].fact, 0)
		require.NoError(t, err)
		f, err := events.DecodeFact(&r)
		require.NoError(t, err, name)
		_, err = s.Apply(f, 1)
		require.Error(t, err, name)
		if f.Body.Name() != events.NameSubmitted {
			require.ErrorIs(t, err, events.ErrUnknownFact, name)
		}
	}
	for name, r := range map[string]events.Record{
		"not a fact":          with(events.HeaderType, events.TypeReport[:4]),
		"no ID":               with(events.HeaderID, ""),
		"no epoch":            with(events.HeaderID, "3"),
		"an epoch of zero":    with(events.HeaderID, "3/0-a/7"),
		"no sequence":         with(events.HeaderID, "3/1-a/x"),
		"an unreadable claim": func() events.Record { r := w.log[0].record; r.Value = []byte("{"); return r }(),
	} {
		_, err := events.DecodeFact(&r)
		require.Error(t, err, name)
	}
}

// An offset is folded once: continuing at a wrong offset is detected.
func TestOffsetsRise(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	_, err := w.state.Apply(w.log[1].fact, 1)
	require.ErrorIs(t, err, events.ErrImpossible)
}

// A barrier stops an older reader at its position, and again when the reader opens a state that a newer one stored.
func TestABarrierStopsOlderReaders(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.write("", &events.VersionBarrier{Reader: events.FormatVersion})
	_, err := w.state.Apply(w.fact("", &events.VersionBarrier{Reader: events.FormatVersion + 1}), w.state.Next)
	require.ErrorIs(t, err, events.ErrReaderTooOld)

	newer := events.PartRow{Kind: events.KindPartition, Encoding: []byte(`{"partition":3,"reader":` + strconv.Itoa(events.FormatVersion+1) + `}`)}
	_, err = events.OpenState(testPartition, events.Snapshot{Parts: []events.PartRow{newer}}, nil)
	require.ErrorIs(t, err, events.ErrReaderTooOld)
	_, err = events.OpenState(testPartition+1, events.Snapshot{Parts: []events.PartRow{{Kind: events.KindPartition, Encoding: []byte(`{"partition":3}`)}}}, nil)
	require.ErrorIs(t, err, events.ErrImpossible)
	_, err = events.OpenState(testPartition, events.Snapshot{Parts: []events.PartRow{{Kind: "child"}}}, nil)
	require.ErrorIs(t, err, events.ErrUnknownFact)
}

// Time never goes back in a partition, whatever time a fact has.
func TestTimeIsMonotonic(t *testing.T) {
	t.Parallel()
	w := owned(t)
	w.submit("t")
	high := w.now
	w.now = testStart - 5000
	w.start("t", "a", 1)
	require.Equal(t, high, w.state.Partition.Time)
	require.Equal(t, high, w.task("t").UpdatedAt)
	w.claim("b", "a0")
	require.Equal(t, high, w.state.Partition.Since)
}
