package verify_test

import (
	"testing"

	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

// A damaged store refutes with a message about the store. If no store was compared, the check does not claim
// to have compared one.
func TestADamagedStoreAndNone(t *testing.T) {
	h := harm(t, recording(t), 1)
	require.Equal(t, "the log folds, and every recorded and stored state is its fold", h.verify(t).Checks[0].What)
	r := h.verify(t, func(c *verify.Config) { c.Stored = []verify.Stored{{Where: "x", Damaged: "x/000007.sst is damaged"}} })
	require.Equal(t, verify.Refuted, r.Verdict)
	require.Equal(t, "fold: x/000007.sst is damaged", r.Findings[0].String())
	r = h.verify(t, func(c *verify.Config) { c.Stored = nil })
	require.Equal(t, verify.Proved, r.Verdict)
	require.Contains(t, r.Checks[0].What, "no store was compared")
}

// A file without a line is not evidence, and the verdict says so.
func TestNoAcknowledgements(t *testing.T) {
	h := harm(t, recording(t), 1)
	r := h.verify(t, func(c *verify.Config) { c.Acknowledged = []verify.Acknowledged{} })
	require.Equal(t, verify.Proved, r.Verdict)
	require.Equal(t, "no_acknowledgements", r.Warnings[len(r.Warnings)-1].Kind)
}
