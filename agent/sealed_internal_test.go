package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sealing/sealingtest"
	"github.com/stretchr/testify/require"
)

func TestWhatComesOfASealedRequestIsSealed(t *testing.T) {
	keys := sealingtest.Keys(t)
	sealed, err := keys.Seal(t.Context(), "c-17", []byte(`{"secret":"in"}`))
	require.NoError(t, err)
	q := &request{work: events.Work{Input: sealed, Output: json.RawMessage(`"clear"`)}}
	require.Nil(t, q.unseal(keys))
	require.Equal(t, `{"secret":"in"}`, string(q.work.Input))
	require.Equal(t, `"clear"`, string(q.work.Output))
	open := func(value []byte) string {
		require.True(t, events.IsSealed(value), string(value))
		out, err := keys.Open(value)
		require.NoError(t, err)
		return string(out)
	}
	done := q.seal(keys, try{output: json.RawMessage(`"out"`), doubt: true})
	require.Equal(t, `"out"`, open(done.output))
	require.True(t, done.doubt)
	longest := strings.Repeat("x", q.sealedRoom(events.MaxProgress)-2)
	longestSealed, err := keys.SealLike(q.like, []byte(`"`+longest+`"`))
	require.NoError(t, err)
	require.LessOrEqual(t, len(longestSealed), events.MaxProgress)

	failed := q.seal(keys, try{failure: &Failure{Class: events.ClassPermanent, Effect: events.EffectNone, Code: "http_422", Detail: json.RawMessage(`{"a":1}`), Err: errors.New("no such patient: Ada")}})
	report := failed.failure.report()
	require.Equal(t, events.ClassPermanent, report.Class)
	require.Equal(t, "http_422", report.Code)
	require.NotContains(t, report.Message, "Ada")
	require.JSONEq(t, `{"message":"no such patient: Ada","detail":{"a":1}}`, open(report.Detail))

	_, err = keys.Topic().Erase(t.Context(), "c-17", events.At(time.Now()))
	require.NoError(t, err)
	gone := &request{work: events.Work{Input: sealed}}
	f := gone.unseal(keys)
	require.Equal(t, events.ClassPermanent, f.Class)
	require.Equal(t, events.EffectNone, f.Effect)
	require.ErrorContains(t, f, "the content was erased on ")
	require.Contains(t, string(q.seal(keys, try{output: json.RawMessage(`"out"`)}).output), `{"$erased":"`, "erased while the attempt ran")
}

// A function may panic with what it was given.
func TestTheLogHasNoTextOfAPanicOnASealedRequest(t *testing.T) {
	for like, want := range map[string]string{"": "of ada", `{"$sealed":"k1..AAAA"}`: "*errors.errorString; its text may hold sealed content"} {
		var log bytes.Buffer
		q := &request{work: events.Work{Task: "t"}}
		if like != "" {
			q.like, q.secret = json.RawMessage(like), true
		}
		x := &executor{log: slog.New(slog.NewTextHandler(&log, nil))}
		_, f := x.invoke(context.WithValue(t.Context(), attemptKey{}, q), onceArgs{work: &q.work, fn: func(context.Context, *events.Work, int) (json.RawMessage, error) {
			panic(errors.New("the amount of ada"))
		}})
		require.ErrorContains(t, f, "the amount of ada", "it is reported, and sealed there")
		require.Contains(t, log.String(), want)
		require.Equal(t, like == "", strings.Contains(log.String(), "ada"), log.String())
	}
}

func TestAnAgentWithoutAKeyRefusesSealedRequestsAndServesOthers(t *testing.T) {
	keys := sealingtest.Keys(t)
	sealed, err := keys.Seal(t.Context(), "", []byte(`1`))
	require.NoError(t, err)
	f := (&request{work: events.Work{Input: sealed}}).unseal(nil)
	require.Equal(t, events.ClassUnavailable, f.Class)
	require.ErrorContains(t, f, "--seal-key-file")
	clear := &request{work: events.Work{Input: json.RawMessage(`1`)}}
	require.Nil(t, clear.unseal(nil))
	require.Equal(t, `2`, string(clear.seal(nil, try{output: json.RawMessage(`2`)}).output))
}

// brokenKeys do not answer.
type brokenKeys struct{ blocks chan struct{} }

func (k brokenKeys) Open([]byte) ([]byte, error) {
	<-k.blocks
	return []byte(`1`), nil
}

func (k brokenKeys) SealLike(_, value []byte) ([]byte, error) { return value, nil }

// Keys that do not answer leave it unknown what a request holds: the agent refuses it, and does not hang. What is missing is announced for a minute.
func TestBrokenKeysRefuseARequest(t *testing.T) {
	keys := sealingtest.Keys(t)
	sealed, err := keys.Seal(t.Context(), "", []byte(`1`))
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		refused := func(k Keys) *Failure {
			f := (&request{work: events.Work{Input: sealed}}).unseal(k)
			require.Equal(t, events.ClassUnavailable, f.Class)
			require.Equal(t, events.EffectNone, f.Effect)
			require.Equal(t, events.CodeNoKey, f.Code)
			return f
		}
		blocks := make(chan struct{})
		began := time.Now()
		require.ErrorContains(t, refused(brokenKeys{blocks}), "the keys did not answer within 10s")
		require.Equal(t, keyPatience, time.Since(began))
		for range mostUnanswered - 1 {
			refused(brokenKeys{blocks})
		}
		began = time.Now()
		require.ErrorContains(t, refused(brokenKeys{blocks}), "earlier calls of the keys have not returned")
		require.Zero(t, time.Since(began))
		close(blocks)
		synctest.Wait()
		require.Nil(t, (&request{work: events.Work{Input: sealed}}).unseal(keys))

		var m missedKeys
		require.False(t, m.note(nil, time.Now()))
		require.False(t, m.note(&Failure{Code: "http_503", Err: errors.New("busy")}, time.Now()))
		require.Empty(t, m.list(time.Now()))
		require.True(t, m.note(&Failure{Code: events.CodeNoKey, Err: &events.NoKeyError{Missing: "k1", Reason: "x"}}, time.Now()))
		m.note(refused(nil), time.Now())
		require.Equal(t, []string{events.NoKeys, "k1"}, m.list(time.Now()))
		require.Empty(t, m.list(time.Now().Add(missedFor+1)))
	})
}
