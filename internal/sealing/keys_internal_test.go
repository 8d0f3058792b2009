package sealing

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// clocked returns two processes with the same keys whose clocks the test sets.
func clocked(t *testing.T) (one, other *Keys, said *strings.Builder) {
	c := kafkatest.Start(t)
	kafkatest.Create(t, c, kafka.Topics{Namespace: "ns"}.KeysSpec())
	path := filepath.Join(t.TempDir(), "seal.key")
	require.NoError(t, os.WriteFile(path, []byte(NewKey()), 0o600))
	said = &strings.Builder{}
	log := slog.New(slog.NewTextHandler(said, nil))
	open := func() *Keys {
		file, err := OpenKeyFile(path, log)
		require.NoError(t, err)
		k, err := Open(t.Context(), c, "ns", file, log)
		require.NoError(t, err)
		require.NoError(t, k.Bind(t.Context(), "6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a11"))
		t.Cleanup(k.topic.Close)
		return k
	}
	return open(), open(), said
}

// A process that is cut off from the topic does not learn of erasures, so after a while it opens nothing; it says so, and goes on by itself.
func TestAProcessThatCannotReadTheKeysOpensNothing(t *testing.T) {
	k, _, said := clocked(t)
	sealed, err := k.Seal(t.Context(), "c-17", []byte(`1`))
	require.NoError(t, err)
	now := time.Now()
	k.now = func() time.Time { return now }
	require.True(t, k.read(t.Context()))
	k.topic.turn <- struct{}{} // a read that hangs
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.False(t, k.read(soon))
	now = now.Add(openWithin)
	require.False(t, k.read(soon))
	_, err = k.Open(sealed)
	require.NoError(t, err)
	require.NoError(t, k.Stale())
	now = now.Add(time.Second)
	_, err = k.Open(sealed)
	var passes *events.NoKeyError
	require.ErrorAs(t, err, &passes)
	require.Empty(t, passes.Missing)
	require.ErrorContains(t, k.Stale(), "could not be read for 1m1s")
	require.Equal(t, openWithin+time.Second, k.ReadAge())
	output, err := k.SealLike(sealed, []byte(`2`))
	require.NoError(t, err, "what is sealed cannot be opened either, if it was erased")
	require.True(t, events.IsSealed(output))
	require.Equal(t, 1, strings.Count(said.String(), "cannot be read"), said.String())
	<-k.topic.turn
	now = now.Add(failingFor)
	_, err = k.Open(sealed)
	require.NoError(t, err, "it reads when it is asked")
	require.NoError(t, k.Stale())
	require.Contains(t, said.String(), "can be read again")
}

// The clock of a process that rotates a key may be behind that of the process that made the first one.
func TestClocksDoNotDecideWhichKeyIsTheLatest(t *testing.T) {
	one, other, _ := clocked(t)
	first, err := one.Rotate(t.Context(), "c-17")
	require.NoError(t, err)
	other.now = func() time.Time { return time.Now().Add(-time.Hour) }
	later, err := other.Rotate(t.Context(), "c-17")
	require.NoError(t, err)
	require.NotEqual(t, first, later)
	sealed, err := one.Seal(t.Context(), "c-17", []byte(`1`))
	require.NoError(t, err)
	require.NoError(t, one.topic.Read(t.Context()))
	require.Equal(t, first, one.topic.ring.first("c-17").id)
	require.Equal(t, later, one.topic.ring.last("c-17").id)
	_, err = other.Open(sealed)
	require.NoError(t, err)
}

func TestTheFirstKeysOfManySubjectsAreWrittenTogether(t *testing.T) {
	one, other, _ := clocked(t)
	var subjects []string
	for i := range 100 {
		subjects = append(subjects, fmt.Sprint("c-", i%50))
	}
	require.NoError(t, one.Prepare(t.Context(), subjects...))
	writer := one.topic.writer
	require.NoError(t, other.Prepare(t.Context(), subjects...))
	require.Len(t, other.topic.List(), 50)
	require.NoError(t, one.Prepare(t.Context(), "c-new"))
	require.Same(t, writer, one.topic.writer, "the producer is kept")
}

// A process holds few keys opened, whatever the number of subjects.
func TestTheOpenedKeysAreBounded(t *testing.T) {
	r := newRing("id")
	keys := make([]*dataKey, mostOpened+2)
	for i := range keys {
		keys[i] = &dataKey{id: fmt.Sprint(i), keyRecord: keyRecord{Subject: "c"}, opened: &openedKey{}}
		r.used(keys[i])
		r.used(keys[0])
	}
	require.Equal(t, mostOpened, r.opened.Len())
	require.NotNil(t, keys[0].opened, "it was used last")
	require.Nil(t, keys[1].opened)
	require.NotNil(t, keys[3].opened)
	r.all["0"], r.live["c"] = keys[0], []*dataKey{keys[0]}
	r.erase("0", erasedRecord{Subject: "c", Erased: 1})
	require.Empty(t, r.all)
	require.Equal(t, mostOpened-1, r.opened.Len())
}

// A signal for a task that this node did not know is sealed for the namespace; the owner seals it for the task.
func TestAValueSealedForAnotherSubjectIsSealedForTheTask(t *testing.T) {
	one, other, _ := clocked(t)
	input, err := one.Seal(t.Context(), "c-17", []byte(`"in"`))
	require.NoError(t, err)
	payload, err := one.Seal(t.Context(), "", []byte(`"go"`))
	require.NoError(t, err)
	_, err = one.Rotate(t.Context(), "c-17")
	require.NoError(t, err)
	own, err := one.Seal(t.Context(), "c-17", []byte(`"out"`))
	require.NoError(t, err)
	like, err := other.SealLike(input, payload)
	require.NoError(t, err)
	s, _ := events.ParseSealed(like)
	require.NoError(t, other.topic.Read(t.Context()))
	require.Equal(t, "c-17", other.topic.ring.all[s.Key].Subject)
	opened, err := one.Open(like)
	require.NoError(t, err)
	require.Equal(t, `"go"`, string(opened))
	like, err = other.SealLike(input, own)
	require.NoError(t, err)
	require.Equal(t, string(own), string(like), "another key of the same subject will do")
}
