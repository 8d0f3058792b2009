package cli_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

func TestALossIsAccepted(t *testing.T) {
	t.Parallel()
	e := setup(t)
	lost := &api.Loss{Input: events.Submissions, Partition: 1, From: 12, To: 40, Acceptable: true, What: "x.submissions partition 1 begins at offset 40"}
	e.Lose(lost)
	call := []string{"namespace", "accept-loss", "--input", "submissions", "--partition", "1", "--from", "12"}

	r := e.run(append(call, "--to", "41", "--yes")...)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "nothing is given up")
	require.Contains(t, r.err, lost.Command())
	r = e.run(append(call, "--to", "40")...)
	require.Equal(t, 2, r.code, "nobody can be asked")
	require.Contains(t, r.err, "The 28 records of submissions partition 1 from offset 12 to 39 are given up")
	require.Contains(t, r.err, "add --yes")
	r = e.run(call...)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "--to is missing")
	require.Empty(t, e.Accepted())

	r = e.run(append(call, "--to", "40", "--reason", "retention", "--by", "ada", "--yes")...)
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `submissions +1 +12 +40 +1`, r.out)
	require.Equal(t, []events.AcceptedLoss{{Input: events.Submissions, Partition: 1, From: 12, To: 40, Reason: "retention", By: "ada"}}, e.Accepted())
}
