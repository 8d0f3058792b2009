package callback_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/callback"
)

const (
	secret  = "0123456789abcdef0123456789abcdef"
	another = "fedcba9876543210fedcba9876543210"
)

var aTicket = callback.Ticket{
	Task: "Lieferung ü/1\n\"", Run: 2, Step: "pack[17]", Operation: events.Undo, Attempt: 3, Incarnation: "2-9f0c/3", StartedAt: 1_000, Again: true,
}

const namespace = "6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a11"

func keys(t *testing.T, secrets string) *callback.Keys {
	t.Helper()
	k, err := callback.NewKeys(secrets)
	require.NoError(t, err)
	return k
}

func sign(t *testing.T, k *callback.Keys, ticket callback.Ticket) string {
	t.Helper()
	text, err := k.Sign(ticket, ticket.Key(uuid.MustParse(namespace)))
	require.NoError(t, err)
	return text
}

func TestATicketIsReadAsItWasSigned(t *testing.T) {
	t.Parallel()
	text := sign(t, keys(t, secret), aTicket)
	require.Regexp(t, `^[A-Za-z0-9_-]+$`, text)
	got, ok := keys(t, secret+"\n").Open(namespace, text)
	require.True(t, ok)
	require.Equal(t, aTicket, got)
}

func TestATicketOfAnotherSecretOrNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	text := sign(t, keys(t, secret), aTicket)
	for _, id := range []string{"6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a12", uuid.Nil.String(), "", "sagalog"} {
		_, ok := keys(t, secret).Open(id, text)
		require.False(t, ok, id)
	}
	_, ok := keys(t, another).Open(namespace, text)
	require.False(t, ok)
}

func TestAChangedTicketIsRefused(t *testing.T) {
	t.Parallel()
	k := keys(t, secret)
	text := sign(t, k, aTicket)
	for i := range text { // each bit of each character
		for bit := range 7 {
			changed := text[:i] + string(rune(text[i]^1<<bit)) + text[i+1:]
			_, ok := k.Open(namespace, changed)
			require.False(t, ok, "character %d, bit %d", i, bit)
		}
		_, ok := k.Open(namespace, text[:i])
		require.False(t, ok, "%d characters", i)
	}
	for _, s := range []string{"", text + "A", text + "=", " " + text, text + "\n", text[:9] + "\r\n" + text[9:], strings.Repeat("A", callback.MaxTicket+1), base64.RawURLEncoding.EncodeToString([]byte(`{"t":"x"}`))} {
		_, ok := k.Open(namespace, s)
		require.False(t, ok)
	}
}

// While a secret is replaced, tickets of both are taken: nodes and agents get the new file one after the other.
func TestASecretCanBeReplaced(t *testing.T) {
	t.Parallel()
	before, both, after := keys(t, secret), keys(t, another+"\n"+secret), keys(t, another)
	old, young := sign(t, before, aTicket), sign(t, both, aTicket)
	for name, c := range map[string]struct {
		keys *callback.Keys
		text string
		want bool
	}{
		"old, both": {both, old, true}, "new, both": {both, young, true}, "new, after": {after, young, true}, "old, after": {after, old, false}, "new, before": {before, young, false},
	} {
		_, ok := c.keys.Open(namespace, c.text)
		require.Equal(t, c.want, ok, name)
	}
}

func TestABadSecretIsRefusedWithoutShowingIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "is empty", "  \n ": "is empty", "hunter22hunter22": "line 1", secret + "\nhunter22": "line 2", secret + "\n\n" + secret: "line 2",
		strings.Repeat(secret+"\n", 9): "more than 8 lines",
	} {
		_, err := callback.NewKeys(text)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter")
		require.NotContains(t, err.Error(), secret)
	}
}

func TestTheLongestNamesFitATicket(t *testing.T) {
	t.Parallel()
	k := keys(t, secret)
	long := aTicket
	long.Task, long.Step, long.Incarnation = strings.Repeat("\"", events.MaxTaskID), strings.Repeat("s", 255), strings.Repeat("9", 64)
	require.NotEmpty(t, sign(t, k, long))
	long.Task = strings.Repeat("x", callback.MaxTicket)
	_, err := k.Sign(long, "")
	require.ErrorContains(t, err, fmt.Sprintf("%d are allowed", callback.MaxTicket))
}

func FuzzOpen(f *testing.F) {
	k, err := callback.NewKeys(secret)
	require.NoError(f, err)
	text, err := k.Sign(aTicket, aTicket.Key(uuid.MustParse(namespace)))
	require.NoError(f, err)
	f.Add(text)
	f.Add("")
	f.Add(text[:42] + "\r" + text[42:])
	f.Fuzz(func(t *testing.T, s string) {
		if _, ok := k.Open(namespace, s); ok {
			require.Equal(t, text, s)
		}
	})
}
