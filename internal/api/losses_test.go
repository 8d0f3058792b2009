package api_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

var lost = &api.Loss{Input: events.Submissions, Partition: 1, From: 12, To: 40, Acceptable: true, What: "x.submissions partition 1 begins at offset 40"}

func TestALossIsShownAndAccepted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.JSONEq(t, `{"losses":[]}`, string(w.do("GET", "/v1/losses", "").body))
	w.engine.Lose(lost)
	require.JSONEq(t, `{"losses":[{"input":"submissions","partition":1,"from":12,"to":40,"acceptable":true,"what":"x.submissions partition 1 begins at offset 40"}]}`,
		string(w.do("GET", "/v1/losses", "").body))
	r := w.do("POST", "/v1/accepted-losses", `{"input":"submissions","partition":1,"from":12,"to":40,"reason":"retention","by":"ada"}`)
	require.Equal(t, 200, r.status, string(r.body))
	require.JSONEq(t, `{"input":"submissions","partition":1,"from":12,"to":40,"offset":1}`, string(r.body))
	require.Equal(t, []events.AcceptedLoss{{Input: events.Submissions, Partition: 1, From: 12, To: 40, Reason: "retention", By: "ada"}}, w.engine.Accepted())
}

// Whoever names another range learns the right command, and nothing is given up.
func TestWhatIsNotLostIsNotGivenUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.Lose(lost)
	for _, body := range []string{
		`{"input":"submissions","partition":1,"from":12,"to":41}`, `{"input":"submissions","partition":1,"from":0,"to":40}`,
		`{"input":"reports","partition":1,"from":12,"to":40}`,
	} {
		r := w.do("POST", "/v1/accepted-losses", body)
		require.Equal(t, 409, r.status, body)
		require.Contains(t, string(r.body), "sagalog namespace accept-loss --input submissions --partition 1 --from 12 --to 40", body)
	}
	r := w.do("POST", "/v1/accepted-losses", `{"input":"submissions","partition":0,"from":12,"to":40}`)
	require.Equal(t, 409, r.status)
	require.Contains(t, string(r.body), "all its inputs that are still to be judged exist")
	w.engine.Lose(&api.Loss{Input: events.Submissions, Partition: 1, From: 12, To: 0, What: "x.submissions partition 1 ends at offset 3"})
	r = w.do("POST", "/v1/accepted-losses", `{"input":"submissions","partition":1,"from":12,"to":12}`)
	require.Equal(t, 409, r.status)
	require.Contains(t, string(r.body), "accept-loss cannot give this up")
	require.False(t, api.Covers([]*api.Loss{{Input: events.Submissions, From: 3, To: 1}}, &events.AcceptedLoss{Input: events.Submissions, From: 3, To: 1}), "it is not acceptable")
	for _, body := range []string{
		`{}`, `[]`, `{"input":"submissions","partition":1,"from":12}`, `{"input":"events","partition":1,"from":12,"to":40}`,
		`{"input":"submissions","partition":99,"from":12,"to":40}`, `{"input":"submissions","partition":-1,"from":12,"to":40}`,
		`{"input":"submissions","partition":1,"from":12,"to":11}`, `{"input":"submissions","partition":1,"from":-1,"to":11}`,
		`{"input":"submissions","partition":1,"from":12,"to":40,"reason":null}`, `{"input":"submissions","partition":1,"from":12,"to":40,"why":"x"}`,
		`{"input":"submissions","partition":1.5,"from":12,"to":40}`, `{"input":"submissions","partition":"1","from":12,"to":40}`,
	} {
		require.Equal(t, 422, w.do("POST", "/v1/accepted-losses", body).status, body)
	}
	require.Empty(t, w.engine.Accepted())
}
