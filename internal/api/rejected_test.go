package api_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// within fails the test if the answer takes nearly as long as the wait that the request asks for.
func (w *world) within(path string) reply {
	w.t.Helper()
	begun := time.Now()
	r := w.do("GET", path, "")
	require.Less(w.t, time.Since(begun), soon)
	return r
}

func TestAWaitForARejectedTaskSaysWhyAndAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	home := events.Home("typo", 4)
	w.engine.Bury(events.Submissions, events.Record{Partition: home, Key: []byte("typo"), Value: []byte(`{"workflow":"ordr"}`)}, events.RejectUnknownWorkflow)
	w.engine.Bury(events.Reports, events.Record{Partition: home, Key: []byte("typo"), Value: []byte(`{}`)}, events.RejectRefused)
	w.engine.Bury(events.Submissions, events.Record{Partition: home, Key: []byte("other"), Value: []byte(`{}`)}, events.RejectUnreadable)
	r := w.within("/v1/tasks/typo?wait=60s")
	require.Equal(t, 404, r.status, r.body)
	p := r.problem(t)
	require.Equal(t, "not-found", p.Code())
	require.Equal(t, []string{events.RejectUnknownWorkflow, "submissions-" + string('0'+rune(home)) + "-0"}, []string{p.Reason, p.Letter})
	require.Regexp(t, `its submission was rejected as unknown_workflow at \S+: because\. GET /v1/dead-letters/submissions-\d-0 shows it`, p.Detail)
	require.Equal(t, 200, w.do("GET", "/v1/dead-letters/"+p.Letter, "").status)
}

// Whoever has dealt with the dead letter may have submitted the task again, so the whole time is waited.
func TestAWaitForATaskWhoseDeadLetterIsDealtWithGoesOn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	home := events.Home("x", 4)
	w.engine.Bury(events.Submissions, events.Record{Partition: home, Key: []byte("x"), Value: []byte(`{}`)}, events.RejectUnreadable)
	letter := "/v1/dead-letters/submissions-" + string('0'+rune(home)) + "-0"
	require.Equal(t, 200, w.do("POST", letter+"/dismiss", "").status)
	begun := time.Now()
	r := w.do("GET", "/v1/tasks/x?wait=1s", "")
	require.Equal(t, 404, r.status)
	require.GreaterOrEqual(t, time.Since(begun), time.Second)
	require.Contains(t, r.problem(t).Detail, "The dead letter is dismissed.")
	got := make(chan reply)
	go func() { got <- w.do("GET", "/v1/tasks/x?wait=60s", "") }()
	w.do("PUT", "/v1/tasks/x", good)
	w.engine.Finish("x")
	require.Equal(t, "processed", (<-got).json(t)["state"])
}

// The submission that is not judged yet may be accepted, whatever became of earlier ones.
func TestAWaitDoesNotGiveUpOnASubmissionThatIsNotJudged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.Bury(events.Submissions, events.Record{Partition: events.Home("x", 4), Key: []byte("x"), Value: []byte(`{}`)}, events.RejectUnreadable)
	w.engine.Manual = true
	require.Equal(t, 202, w.do("PUT", "/v1/tasks/x", good).status)
	got := make(chan reply, 1)
	go func() { got <- w.do("GET", "/v1/tasks/x?wait=60s", "") }()
	time.AfterFunc(100*time.Millisecond, func() { w.engine.Judge(); w.engine.Finish("x") })
	require.Equal(t, "processed", (<-got).json(t)["state"])
}

func TestAWaitWithTheTokenOfARejectedInputEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.Manual = true
	w.do("PUT", "/v1/tasks/x", good)
	other := w.do("PUT", "/v1/tasks/x", `{"workflow":"order","input":{"item":"desk"}}`)
	w.engine.Judge()
	r := w.within("/v1/tasks/x?wait=60s&token=" + other.json(t)["token"].(string))
	require.Equal(t, 409, r.status, r.body)
	require.Equal(t, "conflict", r.problem(t).Reason)
}

func TestAWaitForAnUnknownTaskIsAnsweredWithoutBrokers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Equal(t, "No task with this ID is known.", w.do("GET", "/v1/tasks/none?wait=10ms", "").problem(t).Detail)
	// A signal or a cancel that was rejected is not a submission.
	w.engine.Bury(events.Submissions, events.Record{Partition: events.Home("none", 4), Key: []byte("none"), Value: []byte(`{}`), Headers: []events.Header{{Key: events.HeaderType, Value: []byte(events.RequestSignal.Type())}}}, events.RejectExpired)
	require.Equal(t, "No task with this ID is known.", w.do("GET", "/v1/tasks/none?wait=1s", "").problem(t).Detail)
	w.engine.Silence(api.ErrNoAnswer)
	require.Equal(t, "No task with this ID is known.", w.do("GET", "/v1/tasks/none?wait=10ms", "").problem(t).Detail)
}
