package events_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

// The sum modulo 2^128 agrees with big.Int.
func TestHashArithmetic(t *testing.T) {
	t.Parallel()
	mod := new(big.Int).Lsh(big.NewInt(1), 128)
	number := func(h events.Hash) *big.Int {
		n, _ := new(big.Int).SetString(h.String(), 16)
		return n
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) events.Hash {
			return events.Hash{Hi: rapid.Uint64().Draw(t, name+" hi"), Lo: rapid.Uint64().Draw(t, name+" lo")}
		}
		a, b := draw("a"), draw("b")
		sum := new(big.Int).Add(number(a), number(b))
		require.Zero(t, sum.Mod(sum, mod).Cmp(number(a.Add(b))))
		require.Equal(t, a, a.Add(b).Sub(b))
		text, err := a.MarshalText()
		require.NoError(t, err)
		var got events.Hash
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, a, got)
	})
	var h events.Hash
	for _, bad := range []string{"", "00", "zz000000000000000000000000000000", "000000000000000000000000000000000"} {
		require.Error(t, h.UnmarshalText([]byte(bad)))
	}
}

func TestTheInputHashCoversKeyAndValue(t *testing.T) {
	t.Parallel()
	hash := func(key, value string) string {
		return events.HashInput(&events.Record{Key: []byte(key), Value: []byte(value)})
	}
	require.Equal(t, "96afc4986608172d", hash("delivery-42", `{"workflow":"w"}`))
	require.NotEqual(t, hash("ab", "c"), hash("a", "bc"))
}

func TestAHashOfAnotherLengthIsRefused(t *testing.T) {
	t.Parallel()
	var h events.Hash
	require.Error(t, h.UnmarshalText([]byte("00")))
	require.Error(t, h.UnmarshalText([]byte(strings.Repeat("0", 34))))
}
